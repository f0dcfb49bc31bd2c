"""Numbers of things in the sentences that give reasons."""


def episodes_text(number: int) -> str:
    """Such as `1 episode` or `13 episodes`."""
    return "1 episode" if number == 1 else f"{number} episodes"


def times_text(number: int) -> str:
    """Such as `once` or `3 times`."""
    return "once" if number == 1 else f"{number} times"
