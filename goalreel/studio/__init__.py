"""Storyboards on disk that people change while models work on them, over HTTP, and the page for it."""
