"""The command line: one module a command, which imports what it needs when it runs."""

import atexit
import gc
import os
import signal
import sys

from goalreel.program import prepare_process

prepare_process()
atexit.register(gc.freeze)  # else Python looks through all that the imports made once more, to free nothing

if sys.argv[1:2] == ["node"]:
    # A launch file may end a node while it still imports. Nothing has begun then: it ends as it does later.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
