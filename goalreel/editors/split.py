"""One model draws the first picture from text, another edits all that follow."""

from collections.abc import Sequence

from goalreel.image import Image
from goalreel.types import Edit, Editor, Failure


class SplitEditor:
    """Sends edits without a source to `draw`, and the others to `edit`."""

    def __init__(self, draw: Editor, edit: Editor) -> None:
        self._draw = draw
        self._edit = edit

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i belongs to edit i, from either model."""
        answers: dict[int, Image | Failure] = {}
        for model, from_text in ((self._draw, True), (self._edit, False)):
            numbers = [i for i, e in enumerate(edits) if (e.image is None) == from_text]
            if numbers:
                answers |= zip(numbers, model.edit([edits[i] for i in numbers]), strict=True)
        return [answers[i] for i in range(len(edits))]
