"""The command line: one module a command, which imports what it needs when it runs."""

import atexit
import gc
import os
import signal
import sys

# Imports take most of the time of a short command. Else pydantic looks through every installed distribution
# for plugins, at its first model; and Python's own thresholds, 700 and 10, take a seventh of that time.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
gc.set_threshold(10_000, 50)
if sys.argv[1:2] in (["annotate"], ["check"]):
    # A recording's matrices are small: OpenBLAS's threads would only spin, and take the decoders' processors.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
atexit.register(gc.freeze)  # else Python looks through all that the imports made once more, to free nothing

if sys.argv[1:2] == ["node"]:
    # A launch file may end a node while it still imports. Nothing has begun then: it ends as it does later.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
