"""The command line: one module a command, which imports what it needs when it runs."""

import gc

gc.set_threshold(10_000)  # at Python's 700 it takes a seventh of the time that a command's imports take
