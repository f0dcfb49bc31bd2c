"""The command line: one module a command, which imports what it needs when it runs."""

import atexit
import gc

gc.set_threshold(10_000)  # at Python's 700 it takes a seventh of the time that a command's imports take
atexit.register(gc.freeze)  # else Python looks through all that the imports made once more, to free nothing
