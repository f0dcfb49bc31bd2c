"""What tuning on annotated recordings is worth to the nano editor, on tasks that it was not tuned on.

    python benchmarks/tuned_editor.py --out out/tuned --json

Recordings of experts are annotated, by their own sub-task labels on the tabletop and by `kinematic` on
Meta-World. `goalreel corpus from-storyboards` makes rows of them, on which the nano editor is tuned by the
preset `nano-editor-own`. Then both editors draw the goal images of held-out tasks, once each, from true
pictures. The same command goes on after a stop.

On the tabletop the camera is `left`, which the nano editor never saw, and tasks are scenes of the test split:
in the recordings' words, in the bench's explicit words, and in these through the camera of its training.
Some of these scenes are recorded too: there the arm is on its way when a step ends, as in what it learned.
On Meta-World the tasks of the split develop are recorded for tuning, and those of report are held out.

Keys of --json: `tabletop` and `metaworld`, each with `rows` (to tune on), `steps` (of training) and the
conditions: words, explicit, front, recorded and seen (rows that it was tuned on) on the tabletop; held_out
and seen on Meta-World. A condition has `pictures`, and by [value, low, high], 95 % over tasks:
- right_before, right_after: share of the pictures that show the goal reached and all else untouched;
- right_gain: the difference, in points;
- closeness_before, closeness_after: 1 - D / D0, over all pictures together. D is the share of the picture
  that differs from the true goal frame, D0 that of the frame before the step. 1 is the goal, 0 that frame;
- closeness_gain: the difference;
- closeness_vae: of the true goal frame after the editor's VAE, which no tuning changes;
- drawable_before, drawable_after, drawable_gain: closeness where both frames went through the VAE first;
- nearer_before, nearer_after, nearer_vae: share of the pictures nearer to the goal than the frame before.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import torch
from common import argument_parser, parse, report
from parts.tuned_domains import (
    Conditions,
    HeldOutStep,
    metaworld_rows,
    metaworld_steps,
    stored_steps,
    tabletop_rows,
    tabletop_steps,
)

from goalreel.cli.console import progress_bars
from goalreel.evaluation.statistics import Measurement, Sums, points, share, with_interval
from goalreel.files import exclusive
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.progress import OnProgress
from goalreel.streaming.closeness import changed_share
from goalreel.tabletop.bench.asking import in_batches
from goalreel.tabletop.nano.editor import NanoEditor, latent_means
from goalreel.tabletop.nano.editor_config import EditorConfig
from goalreel.tabletop.nano.editor_training import train
from goalreel.training.config import read_config
from goalreel.training.editor_lora import read_edits
from goalreel.types import Edit, Failure

DOMAINS = ("tabletop", "metaworld")
UNTUNED = "nano-editor"
SEEN = 60
"""Rows that it was tuned on, to measure on."""


def tune(edits: Path, out: Path, steps: int, batch: int, progress: OnProgress) -> Path:
    """Tune the shipped editor on a corpus; the folder of the result."""
    result = out / "editor"
    if not (result / "README.md").exists():  # the card, which is written last
        config = read_config("nano-editor-own", EditorConfig, data=edits, model=UNTUNED)
        schedule = config.denoiser.model_copy(update={"steps": steps, "batch": batch})
        train(config.model_copy(update={"denoiser": schedule}), out, resume=True, progress=progress)
    return result


def draw(
    editor: str, steps: Sequence[HeldOutStep], journal: Journal, progress: OnProgress
) -> list[Image | Failure]:
    """Draw each goal image once. The answers are kept in `journal`."""
    preset = presets.load("nano", editor=f"diffusers:{editor}")
    trio = load(preset, roles={"editor"}).with_journal(journal)
    edits = [
        Edit(task_id=f"step-{i}", step=0, attempt=0, image=s.source, prompt=s.prompt, seed=i)
        for i, s in enumerate(steps)
    ]
    return in_batches(trio.editor.edit, edits, "draw", progress)


@torch.no_grad()
def after_vae(pictures: Sequence[Image]) -> list[Image]:
    """Draw pictures as the editor's VAE keeps them."""
    editor = NanoEditor.load(read_config("nano-editor-own", EditorConfig, model=UNTUNED))
    size, images = editor.config.shape.size, list[Image]()
    for picture in pictures:
        pixels = torch.from_numpy(picture.resized((size, size)).pixels.copy()).permute(2, 0, 1)[None]
        codes = latent_means(editor.vae, pixels)
        decoded = editor.vae.decode(codes, return_dict=False)[0][0].clamp(-1, 1)
        images.append(Image(((decoded + 1) * 127.5).round().byte().permute(1, 2, 0).numpy()))
    return images


def measure(
    steps: Sequence[HeldOutStep], before: Sequence[Image | Failure], after: Sequence[Image | Failure]
) -> dict[str, object]:
    """Compare pictures of both editors with the truth; a picture that never came is the frame before."""
    tasks = [step.task for step in steps]
    sources, targets = [step.source for step in steps], [step.target for step in steps]
    old, new = ([*map(_picture, steps, pictures)] for pictures in (before, after))
    vae = after_vae(targets)
    starts = _distances(targets, sources)
    result: dict[str, object] = {"pictures": len(steps)}
    for name, pictures in (("before", old), ("after", new), ("vae", vae)):
        distances = _distances(targets, pictures)
        result[f"closeness_{name}"] = _over(tasks, closeness, distances, starts)
        nearer = [float(d < start) for d, start in zip(distances, starts, strict=True)]
        result[f"nearer_{name}"] = _over(tasks, share, nearer, [1.0] * len(steps))
    gain = partial(_over, tasks, closeness_gain)
    result["closeness_gain"] = gain(_distances(targets, old), _distances(targets, new), starts)
    drawable = _distances(vae, after_vae(sources))
    for name, pictures in (("before", old), ("after", new)):
        result[f"drawable_{name}"] = _over(tasks, closeness, _distances(vae, pictures), drawable)
    result["drawable_gain"] = gain(_distances(vae, old), _distances(vae, new), drawable)
    if all(step.right for step in steps):
        was, now = ([*map(_is_right, steps, pictures)] for pictures in (before, after))
        ones = [1.0] * len(steps)
        result["right_before"] = _over(tasks, share, was, ones)
        result["right_after"] = _over(tasks, share, now, ones)
        result["right_gain"] = _over(tasks, points, now, was, ones)
    return result


def closeness(sums: Sums) -> Sums:
    """1 - column 0 over 1."""
    return 1 - share(sums)


def closeness_gain(sums: Sums) -> Sums:
    """(column 0 - column 1) over 2."""
    return points(sums) / 100


def _picture(step: HeldOutStep, answer: Image | Failure) -> Image:
    return answer if isinstance(answer, Image) else step.source


def _distances(goals: Sequence[Image], pictures: Sequence[Image]) -> list[float]:
    return [changed_share(goal, picture) for goal, picture in zip(goals, pictures, strict=True)]


def _is_right(step: HeldOutStep, picture: Image | Failure) -> float:
    return float(step.right is not None and step.right(picture))


def _over(
    tasks: Sequence[int], statistic: Callable[[Sums], Sums], *columns: Sequence[float]
) -> list[float | None]:
    """The statistic of the columns' sums, with its interval over tasks."""
    rows: dict[int, list[float]] = {}
    for task, *values in zip(tasks, *columns, strict=True):
        row = rows.setdefault(task, [0.0] * len(values))
        row[:] = [a + b for a, b in zip(row, values, strict=True)]
    m: Measurement = with_interval(list(rows.values()), statistic)
    return [None if x is None else round(x, 4) for x in (m.value, m.low, m.high)]


def run(
    out: Path,
    rows: Callable[[OnProgress], Path],
    conditions: Callable[[OnProgress], Conditions],
    steps: int,
    batch: int,
    progress: OnProgress,
) -> dict[str, object]:
    """Make rows, tune on them, draw and measure."""
    with exclusive(out, out):
        edits = rows(progress)
        tuned = tune(edits, out / "run", steps, batch, progress)
        result: dict[str, object] = {"rows": len(read_edits(edits)), "steps": steps}
        for name, cases in (conditions(progress) | {"seen": stored_steps(edits, SEEN)}).items():
            before, after = (
                draw(editor, cases, Journal(out / "answers" / name), progress)
                for editor in (UNTUNED, str(tuned))
            )
            result[name] = measure(cases, before, after)
    return result


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--domain", choices=[*DOMAINS, "both"], default="both")
    parser.add_argument("--out", type=Path, help="where all is kept [default: nowhere]")
    parser.add_argument("--episodes", type=int, default=40, help="of the tabletop, to tune on")
    parser.add_argument("--test-episodes", type=int, default=30, help="of the tabletop, to measure on")
    parser.add_argument("--recorded", type=int, default=12, help="of these, recorded too")
    parser.add_argument(
        "--tasks", type=int, default=30, help="of Meta-World, to tune on and at most to measure on"
    )
    parser.add_argument("--seeds", type=int, default=2, help="recordings of each of these tasks")
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--batch", type=int, default=16, help="rows a step")
    smoke = {"episodes": 1, "test_episodes": 1, "recorded": 1, "tasks": 1, "seeds": 1, "steps": 1, "batch": 2}
    options = parse(parser, argv, **smoke)
    folder = nullcontext(options.out) if options.out else tempfile.TemporaryDirectory()
    with folder as name, progress_bars() as progress:
        home = Path(name)
        calls: dict[str, tuple[Callable[[OnProgress], Path], Callable[[OnProgress], Conditions]]] = {
            "tabletop": (
                lambda progress: tabletop_rows(home / "tabletop", options.episodes, progress),
                partial(tabletop_steps, home / "tabletop", options.test_episodes, options.recorded),
            ),
            "metaworld": (
                lambda progress: metaworld_rows(
                    home / "metaworld", "develop", options.tasks, options.seeds, progress
                ),
                lambda progress: {
                    "held_out": metaworld_steps(home / "metaworld", options.tasks, options.seeds, progress)
                },
            ),
        }
        chosen = DOMAINS if options.domain == "both" else (options.domain,)
        result = {
            name: run(home / name, *calls[name], options.steps, options.batch, progress) for name in chosen
        }
    report(result, options.json)


if __name__ == "__main__":
    main()
