"""Python's garbage collector in a process of ours."""

import gc

SELDOM = 10_000
"""New objects before it runs. At Python's 700 it runs a thousand times while torch, transformers and
diffusers are imported, a seventh of the time that takes, and what they make is kept.
See dev/LOG.md, 2026-11-26."""


def collect_seldom() -> None:
    """Let the collector run seldom in this process; call it before what is large is imported."""
    gc.set_threshold(SELDOM)
