"""The command line: one module a command, which imports what it needs when it runs."""
