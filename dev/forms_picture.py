"""Make docs/images/forms.png: one goal image in the four forms of the sub-goal camera, beside the live view.

.venv/bin/python dev/forms_picture.py docs/images/forms.png
"""

import io
from pathlib import Path
from typing import Final, get_args

import PIL.Image
import typer

from goalreel.annotator.report.sheet import INK, Cell, Line, lay_out
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.subgoal_camera import SubGoalForm, in_form
from goalreel.tabletop.env import Tabletop, teleport
from goalreel.tabletop.grammar import sample_episode

SEED: Final = 900252
"""The scene of the README."""
SIZE: Final = 320


def sheet() -> Image:
    """Lay out the live view and the first step's goal image in each form."""
    episode = sample_episode(SEED)
    with Tabletop(episode.scene) as env:
        live = env.render(episode.scene.camera, SIZE).copy()
        teleport(env, episode.goals[0])
        goal = env.render(episode.scene.camera, SIZE).copy()
    pictures = {"the live view": live, **{form: in_form(form, goal, live) for form in get_args(SubGoalForm)}}
    cells = [Cell(Image(pixels), (Line(name, 22, INK, 1),)) for name, pixels in pictures.items()]
    return lay_out((), cells, width=1360, cell=240)


def main(out: Path) -> None:
    """Write the picture."""
    data = io.BytesIO()
    PIL.Image.fromarray(sheet().pixels).save(data, "PNG", optimize=True)
    write_bytes(out, data.getvalue())


if __name__ == "__main__":
    typer.run(main)
