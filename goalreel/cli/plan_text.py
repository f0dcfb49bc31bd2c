"""Plans in replies that are being written."""

import re

from goalreel.progress import OnText

_STEPS = re.compile(r"""["'](?:execution_plan|segments)["']\s*:""")
_NAME = re.compile(r"""["'](?:step_)?name["']\s*:\s*(["'])(.+?)\1\s*[,}]""")


def step_names(text: str) -> list[str]:
    """The names of the steps, or of the segments of a recording, in a reply that may not be whole."""
    plan = _STEPS.split(text.rpartition("</think>")[2])
    return [name for _, name in _NAME.findall(plan[-1])] if len(plan) > 1 else []


class PlanDrafts:
    """The plans of a batch while they are written: `begin` is for `reply_listener`."""

    def __init__(self) -> None:
        self._replies: dict[int, list[str]] = {}
        self._is_heard = False

    def begin(self) -> OnText:
        """Listen to a reply. One that begins after others were heard is of another batch."""
        if self._is_heard:
            self._replies, self._is_heard = {}, False
        pieces: list[str] = []

        def hear(text: str) -> None:
            pieces.append(text)
            self._replies[id(pieces)] = pieces
            self._is_heard = True

        return hear

    def __str__(self) -> str:
        """The last step of the longest plan that is not whole; empty where none is being written."""
        texts = ["".join(pieces) for pieces in list(self._replies.values())]
        plans = [step_names(text) for text in texts if not text.rstrip().endswith(("]}", "</answer>", "```"))]
        names = max(plans, key=len, default=[])
        return f"{len(names)}. {names[-1]}" if names else ""
