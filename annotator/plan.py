"""Plan one task: a storyboard nobody has filmed, written into a folder.

OUT/storyboard.json     the complete record; pictures by their relative path
OUT/images/             the first frame and every attempt
OUT/index.html          a page to look at, and sheets/ with the contact sheet
OUT/preview.gif         the goal images one after the other
OUT/answers/            what the models said, so that a killed run goes on where it stopped
"""

from pathlib import Path

from goalreel.annotator.report.model import EpisodeView
from goalreel.annotator.report.write import write_report
from goalreel.batch import Limits, Observer, run
from goalreel.files import exclusive, write_bytes
from goalreel.image import Image
from goalreel.loop import OnUnverified
from goalreel.models.journal import Journal
from goalreel.models.kept import Names, kept
from goalreel.models.load import build_trio
from goalreel.models.presets import Preset
from goalreel.types import Storyboard, Task

PREVIEW_SIDE = 480
PREVIEW_MS = 1200


def plan(
    instruction: str,
    image: Image | None,
    out: Path,
    preset: Preset,
    *,
    seed: int = 0,
    on_unverified: OnUnverified = "continue",
    observe: Observer | None = None,
) -> Storyboard:
    """Plan, render and judge one task with the models of `preset`, and write everything into `out`.

    Raises:
        ValueError: the preset needs a recording, or names no such model; an empty instruction.
        DatasetError: another run is writing there, or the disk is full.
    """
    if not preset.predictive:
        raise ValueError("this preset only reads recordings: use goalreel annotate, or another --preset")
    with exclusive(out / "answers", out):
        task = Task(id="task", instruction=instruction, image=image, seed=seed)
        models = kept(build_trio(preset), Journal(out / "answers"), Names.of(preset))
        board = next(
            run(
                [task],
                planner=models.planner,
                editor=models.editor,
                critic=models.critic,
                max_attempts=preset.max_attempts,
                on_unverified=on_unverified,
                limits=Limits(1, 1),
                observe=observe,
            )
        )
        save(board, out)
        view = EpisodeView(0, "Storyboard", instruction, storyboard=board)
        names = {"planner": preset.planner, "editor": preset.editor, "critic": preset.critic}
        write_report([view], out, title=instruction, summary=names)
        _preview(board, out / "preview.gif")
    return board


def save(board: Storyboard, out: Path) -> None:
    """Write `storyboard.json` and `images/`; the file appears last, so it never points at nothing."""
    names = _names(board)
    for picture, name in names.items():
        write_bytes(out / name, picture.png())
    text = board.model_dump_json(indent=1, context={"put_image": names.__getitem__})
    write_bytes(out / "storyboard.json", text.encode())


def load(out: Path) -> Storyboard:
    """Read what `save` wrote.

    Raises:
        ValueError: not a storyboard, or a picture outside `out` or missing.
    """

    def get(name: str) -> Image:
        path = (out / name).resolve()
        if not path.is_relative_to(out.resolve()) or not path.is_file():
            raise ValueError(f"no picture {name!r} in {out}")
        return Image.decode(path.read_bytes())

    data = (out / "storyboard.json").read_bytes()
    return Storyboard.model_validate_json(data, context={"get_image": get})


def _names(board: Storyboard) -> dict[Image, str]:
    """A file name for each different picture, by where it is first seen."""
    names: dict[Image, str] = {}
    if board.task.image is not None:
        names[board.task.image] = "images/first.png"
    for i, step in enumerate(board.steps, start=1):
        for j, attempt in enumerate(step.attempts, start=1):
            if attempt.image is not None:
                names.setdefault(attempt.image, f"images/step_{i:02d}_attempt_{j}.png")
    return names


def _preview(board: Storyboard, path: Path) -> None:
    import PIL.Image

    pictures = [board.task.image, *(s.goal_image for s in board.steps)]
    frames = [PIL.Image.fromarray(p.pixels) for p in pictures if p is not None]
    if not frames:
        return
    for frame in frames:
        frame.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    # One canvas: a GIF's frames share a size, and a text-to-image start may differ from its edits.
    fitted = [frame if frame.size == frames[0].size else frame.resize(frames[0].size) for frame in frames]
    fitted[0].save(path, save_all=True, append_images=fitted[1:], duration=PREVIEW_MS, loop=0)
