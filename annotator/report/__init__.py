"""A report to be looked at: HTML pages that need no network, and a contact sheet per episode.

Start at `write.write_report`. Imports nothing here, so that a command line stays quick.
"""
