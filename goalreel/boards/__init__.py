"""Storyboards that people edit: an append-only log, its replay with undo and redo, and conflicts."""
