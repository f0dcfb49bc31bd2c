"""An image editor of your own in the loop: here one that keeps another editor out of all but a part.

Robot frames hold much that no edit should touch. `Within` lets an editor draw only inside a box and puts the
source's own pixels back everywhere else, before the Critic sees the picture.

goalreel tabletop scene --seed 900301 --out scene.png
python examples/own_editor.py scene.png "first place the purple block into the yellow bowl, \
then empty the red bowl" tidied
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import goalreel
from goalreel import Edit, Editor, Failure, Image


class Within:
    """Renders with `inner`, but only inside `part`: left, top, right, bottom as shares of the picture."""

    def __init__(self, inner: Editor, part: tuple[float, float, float, float]) -> None:
        self._inner = inner
        self._part = part

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i belongs to edit i; a Failure of the inner editor stays one."""
        answers = self._inner.edit(edits)
        return [self._kept(edit, answer) for edit, answer in zip(edits, answers, strict=True)]

    def _kept(self, edit: Edit, answer: Image | Failure) -> Image | Failure:
        if edit.image is None or isinstance(answer, Failure):
            return answer
        width, height = edit.image.size
        left, top, right, bottom = self._part
        rows = slice(round(top * height), round(bottom * height))
        columns = slice(round(left * width), round(right * width))
        pixels = edit.image.pixels.copy()
        pixels[rows, columns] = answer.pixels[rows, columns]
        return Image(pixels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("frame", type=Path)
    parser.add_argument("instruction")
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", default="nano")
    arguments = parser.parse_args()

    models = goalreel.load_models(arguments.preset)
    editor = Within(models.editor, (0.05, 0.2, 0.95, 1))
    model_set = goalreel.ModelSet(models.planner, editor, models.critic)
    board = goalreel.plan(arguments.frame, arguments.instruction, arguments.out, model_set)
    for step in board.steps:
        print(f"{step.status:>10}  {step.step.name}")
    print(f"Look at {arguments.out / 'index.html'}")


if __name__ == "__main__":
    main()
