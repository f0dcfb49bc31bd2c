"""Refusals of the nano models: of pictures of the tabletop, and of anything else.

    python lab/benchmarks/nano_world.py --json
    python lab/benchmarks/nano_world.py --write --episodes 800

Foreign pictures are every seventh frame of the recordings in ../shared/data, the pictures that matplotlib
ships (and others in folders, with --photos), and scenes of the tabletop made grey, shuffled by pixel or by
tiles, and with colours swapped. `--write` measures the world on the training split, its limits on
validation, and stores both with the checkpoints.

Keys of --json: `split`, `episodes`, `limit`, and `rows`, each with
    kind            `own_VIEW` are of the model's world, as `own_words`; all others are not
    number          pictures, or instructions (count)
    refused         by the Planner, 0-1
    refused_critic  by the Critic, 0-1
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import av
import cv2
import matplotlib
import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import SHARED, argument_parser, parse, report

from goalreel.chat.conversation import Conversation, Message
from goalreel.chat.world import FILE, World, colour, features, words_of
from goalreel.checkpoints import NANO
from goalreel.image import Image
from goalreel.loop import KEEP_STILL
from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.expert import pick_and_place
from goalreel.tabletop.grammar import STATES, sample_episode
from goalreel.tabletop.scene import KINDS, SubGoal
from goalreel.tabletop.splits import Split, seeds
from goalreel_lab.corpora.grounding import warnings_for
from goalreel_lab.corpora.live import live_rows, whole_rows
from goalreel_lab.corpora.plans import continuation_rows, plan_rows
from goalreel_lab.corpora.prompts import NAMES, TERSE, explicit
from goalreel_lab.corpora.rows import plan_lesson, verdict_lesson
from goalreel_lab.corpora.verdicts import verdict_rows
from goalreel_lab.variety import View, seen

VIEWS = [View(look, camera) for camera in ("front", "corner") for look in ("plain", "varied")]
"""Those that training shows."""
WAYS, FLOOR = 12, 0.006
"""Ways in which all cells of a view vary together, and the least spread of a cell."""
MARGIN = 2.0
"""The Planner's limit over the largest distance on validation: the nano editor's own pictures stay below 1.8
times, and shuffled scenes begin at 2.3 times."""
WORK = (12, 25, 38)
"""Control steps at which the arm is over the table."""
FOREIGN = ("bake a cake and call my mother", "x y", "open the drawer", "fold the towel in half", "12")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--split", default="test")
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--photos", type=Path, nargs="*", default=[], help="folders of more photos")
    parser.add_argument("--write", action="store_true", help="store the world with the checkpoints")
    args = parse(parser, argv, split="validation", episodes=8)
    if args.write:
        write(args.episodes)
        return
    worlds = [world for role in ("planner", "critic") if (world := World.of(NANO / role))]
    rows = []
    for kind, asked in kinds(args.split, args.episodes, args.photos):
        shares = [float(np.mean([world.refusal(a) is not None for a in asked])) for world in worlds]
        row = {"kind": kind, "number": len(asked), "refused": shares[0], "refused_critic": shares[1]}
        rows.append(row)
    result = {"split": args.split, "episodes": args.episodes, "limit": worlds[0].limit, "rows": rows}
    report(result, args.json)


def kinds(
    split: Split, episodes: int, photos: Sequence[Path]
) -> Iterator[tuple[str, Sequence[Conversation]]]:
    """Yield each kind of picture, or of words, as questions that are in order otherwise."""
    own = {view: [] for view in VIEWS}
    for view, picture, at_home in scenes(split, episodes):
        if at_home:
            own[view].append(picture.pixels)
    for view, pictures in own.items():
        yield f"own_{view.look}_{view.camera}", list(map(shown, pictures))
    orders = [sample_episode(seed).instruction for seed in seeds(split, episodes)]
    for kind, texts in (("own_words", orders), ("words", FOREIGN)):
        yield kind, [(Message("user", (text,)),) for text in texts]
    for kind, change in CHANGES.items():
        yield kind, [shown(change(p)) for pictures in own.values() for p in pictures]
    for file in sorted(SHARED.glob("*/videos/*/*/*.mp4")):
        yield f"{file.parts[-5]}_{file.parts[-3].rpartition('.')[2]}", [shown(p) for p in frames(file)]
    folders = [Path(matplotlib.get_data_path()) / "sample_data", *photos]
    files = [f for d in folders for f in sorted(d.rglob("*")) if f.suffix in (".png", ".jpg", ".jpeg")]
    yield "photos", [shown(Image.of(file).pixels) for file in files]


def shown(pixels: np.ndarray) -> Conversation:
    return (Message("user", (Image(np.ascontiguousarray(pixels)), "put the red block in the blue bowl")),)


def frames(file: Path) -> Iterator[np.ndarray]:
    with av.open(str(file)) as video:
        for number, frame in enumerate(video.decode(video=0)):
            if number % 7 == 0:
                yield frame.to_ndarray(format="rgb24")


def tiles(pixels: np.ndarray, side: int) -> np.ndarray:
    """Shuffle the tiles of a picture."""
    n = len(pixels) // side
    cut = pixels.reshape(n, side, n, side, 3).swapaxes(1, 2).reshape(-1, side, side, 3)
    cut = np.random.default_rng(0).permutation(cut).reshape(n, n, side, side, 3)
    return cut.swapaxes(1, 2).reshape(pixels.shape)


CHANGES = {
    "grey": lambda p: np.repeat(cv2.cvtColor(p, cv2.COLOR_RGB2GRAY)[..., None], 3, 2),
    "shuffled_pixels": lambda p: tiles(p, 1),
    "shuffled_8": lambda p: tiles(p, 8),
    "shuffled_32": lambda p: tiles(p, 32),
    "swapped_colours": lambda p: p[..., ::-1],
}


def scenes(split: Split, episodes: int) -> Iterator[tuple[View, Image, bool]]:
    """Yield pictures before and after the first sub-goal, and, of a third of the episodes, on the way."""
    for number, seed in enumerate(seeds(split, episodes)):
        view = VIEWS[number % len(VIEWS)]
        episode = seen(sample_episode(seed), view)
        with Tabletop(episode.scene) as env:
            look = partial(env.render, view.camera, 128)
            yield view, Image(look().copy()), True
            if number % 3 == 0:
                for step, (action, _) in enumerate(pick_and_place(env, episode.goals[0])):
                    env.step(action)
                    if step in WORK:
                        yield view, Image(look().copy()), False
                yield view, Image(look().copy()), True


def write(episodes: int) -> None:
    """Measure the world, and store it with the Planner and the Critic."""
    train = list(scenes("train", episodes))
    arrays: dict[str, Any] = {}
    for camera in ("front", "corner"):
        home = [features(p) for view, p, at_home in train if at_home and view.camera == camera]
        arrays |= {f"{camera}.{name}": v.astype(np.float16) for name, v in view_of(np.stack(home)).items()}
    arrays["name"] = np.array("goalreel's simulated tabletop")
    arrays["things"] = np.array("block blocks bowl bowls")
    arrays["colour"] = np.array(0.75 * min(colour(p) for _, p, at_home in train if at_home))
    some, orders = seeds("train", 60), [sample_episode(seed).instruction for seed in seeds("train", 3000)]
    plans = [plan_lesson(row) for row in plan_rows(some)] + [row.lesson for row in continuation_rows(some)]
    rows = [r for made in (verdict_rows(some), live_rows(some[:20]), whole_rows(some[:20])) for r in made]
    orders += [*wordings(), *(row.verdict.refined_prompt or KEEP_STILL for row in rows)]
    tried = list(scenes("validation", episodes // 2))
    for role, lessons in (("planner", plans), ("critic", map(verdict_lesson, rows))):
        said = [p for lesson in lessons for m in lesson[0][1:] for p in m.parts if isinstance(p, str)]
        arrays["words"] = np.array(" ".join(sorted(set(words_of(" ".join(said + orders))))))
        arrays["limit"] = np.array(np.inf)
        np.savez_compressed(NANO / role / FILE, **arrays)
        world = World.of(NANO / role)
        assert world is not None
        home, away = ([world.distance(p) for _, p, is_home in tried if is_home == it] for it in (True, False))
        # A Critic is also asked with the arm at work in the first picture.
        limit = MARGIN * max(home) if role == "planner" else np.quantile(away, 0.99)
        np.savez_compressed(NANO / role / FILE, **arrays | {"limit": np.array(limit)})


def wordings() -> Iterator[str]:
    """Yield sentences with all words of orders and states, of which few lessons have the rare ones."""
    templates = [*STATES.values(), *NAMES.values(), *(text for texts in TERSE.values() for text in texts)]
    yield from (text.format(object="red block", target="blue bowl") for text in templates)
    spots = [np.array([x, y, 0.025]) for x in (0.4, 0.5, 0.65) for y in (-0.25, -0.1, 0.0, 0.1, 0.25)]
    for kind, spot in product(KINDS, spots):
        goal, start = SubGoal(kind, "red block", "blue bowl"), {"red block": spot, "blue bowl": spot}
        yield explicit(goal, start, start)
        yield explicit(goal, start, start | {"red block": spots[0]})
        yield from warnings_for(goal, ["green block"], spot)


def view_of(pictures: np.ndarray) -> dict[str, np.ndarray]:
    """Measure a view on the `features` of many pictures, (n, cells)."""
    mean = pictures.mean(0)
    _, sizes, ways = np.linalg.svd(pictures - mean, full_matrices=False)
    ways, spread = ways[:WAYS], sizes[:WAYS] / np.sqrt(len(pictures))
    rest = pictures - mean - (pictures - mean) @ ways.T @ ways
    return {"mean": mean, "ways": ways, "spread": spread, "noise": np.sqrt((rest**2).mean(0)) + FLOOR}


if __name__ == "__main__":
    main()
