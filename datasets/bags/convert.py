"""From bags to a LeRobot v3.0 dataset, through lerobot's own writer; it appears whole or not at all.

The sub-goals that a node streamed are written into another one beside it, as `annotate` writes its own.
"""

import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalreel import __version__, subgoal_camera
from goalreel.datasets.bags import TopicRequest, require_bags, streamed, topics
from goalreel.datasets.bags.excerpts import Cut, cut
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.files import content_digest
from goalreel.datasets.writing.pipeline import build
from goalreel.datasets.writing.video import recording_encoder
from goalreel.errors import DatasetError, InputError
from goalreel.files import digest, disk, exclusive, find, read_json
from goalreel.image import Image
from goalreel.progress import OnCount
from goalreel.types import Storyboard, Task

if TYPE_CHECKING:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

log = logging.getLogger(__name__)

PROVENANCE = Path("meta") / "bag.json"
"""In the dataset: which bags, topics and episodes it was made from."""


def read_bags(path: Path, request: TopicRequest) -> dict[Path, Cut]:
    """Read the bag at `path`, or every bag in that folder, and cut it into episodes.

    Raises:
        DatasetError: no bag there, or see `cut`; bags that do not go into one dataset.
    """
    cuts: dict[Path, Cut] = {}
    for each in require_bags(path):
        with topics.Bag.open(each) as bag:
            cuts[each] = cut(bag, request)
        for file in topics.unlisted(each):
            log.warning("%s is not read: metadata.yaml does not list it (`ros2 bag reindex` does)", file)
        origin, first = next(iter(cuts.items()))
        cuts[each] = cuts[each].in_order_of(first)
        ours, theirs = (
            {"cameras": list(c.choice.cameras), "fps": c.fps, "state and action": c.names}
            for c in (cuts[each], first)
        )
        if what := next((name for name in ours if ours[name] != theirs[name]), None):
            raise DatasetError(
                f"{each}: {what} {ours[what]}, but {theirs[what]} in {origin}: convert them apart"
            )
    return cuts


def convert(
    cuts: dict[Path, Cut], request: TopicRequest, out: Path, progress: OnCount = lambda done, total: None
) -> None:
    """Write the episodes of `cuts` to `out`, without goals. An `out` made from the same is left alone.

    `progress` counts frames. All work happens in a hidden folder beside `out`, which a killed run leaves and
    the next one clears.

    Raises:
        DatasetError: `out` holds something else, another run is at it, a picture cannot be read, or the disk
            is full.
    """
    made_from = _provenance(cuts, request)
    workshop = out.parent / f".{out.name}.unfinished"
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        _agree(out, made_from)
        if workshop.exists():  # of a run that was killed once `out` was in place
            with exclusive(workshop, out):
                shutil.rmtree(workshop)
        return
    with exclusive(workshop, out), disk(out):
        root = workshop / "dataset"
        shutil.rmtree(root, ignore_errors=True)
        _write(cuts, root, progress)
        text = json.dumps(made_from, indent=2, sort_keys=True) + "\n"
        (root / PROVENANCE).write_text(text, encoding="utf-8")
        root.rename(out)
        shutil.rmtree(workshop)


def _provenance(cuts: dict[Path, Cut], request: TopicRequest) -> dict[str, Any]:
    """List everything that decides the result, without times of the clock and paths."""
    episodes = [
        {
            "bag": bag.name,
            "start_ns": int(excerpt.moments[0]),
            "frames": len(excerpt.moments),
            "task": excerpt.task,
            "models": sorted({m for s in excerpt.spans if (m := each.storyboards.models(s))}),
        }
        for bag, each in cuts.items()
        for excerpt in each.excerpts
    ]
    files = (path for bag in cuts for path in (find(bag) if bag.is_dir() else [bag]) if path.is_file())
    content = {
        "goalreel": __version__,
        "bags": digest(*(f"{path.name} {content_digest(path)}" for path in files)),
        "request": request.model_dump(),
        "fps": next(iter(cuts.values())).fps,
        "episodes": episodes,
    }
    return json.loads(json.dumps(content))


def _agree(out: Path, made_from: dict[str, Any]) -> None:
    try:
        previous = read_json(out / PROVENANCE)
    except (OSError, ValueError) as e:
        raise DatasetError(f"{out}: holds files that goalreel did not write: choose another --out") from e
    if previous != made_from:
        changed = ", ".join(sorted(k for k in made_from | previous if made_from.get(k) != previous.get(k)))
        raise DatasetError(
            f"{out}: made from another bag or with other settings ({changed}): "
            "remove it, or choose another --out"
        )


def _write(cuts: dict[Path, Cut], root: Path, progress: OnCount) -> None:
    total, done = sum(len(e.moments) for each in cuts.values() for e in each.excerpts), 0
    with ExitStack() as stack:
        dataset: LeRobotDataset | None = None
        for path, each in cuts.items():
            shown = _pictures(path, each)
            for excerpt in each.excerpts:
                for i in range(len(excerpt.moments)):
                    if (pictures := next(shown, None)) is None:
                        raise DatasetError(f"{path}: changed while it was read: convert it again")
                    if dataset is None:
                        dataset = _create(root, each, pictures)
                        stack.callback(dataset.finalize)
                    _check(path, each, pictures, dataset)
                    keyed = {f"observation.images.{name}": image.pixels for name, image in pictures.items()}
                    rows = {feature: values[i] for feature, values in excerpt.rows.items()}
                    dataset.add_frame({**keyed, **rows, "task": excerpt.task})
                    done += 1
                    writer = dataset.writer and dataset.writer.image_writer
                    if writer and done % 64 == 0:  # its queue of pictures has no bound
                        writer.wait_until_done()
                    progress(done, total)
                if dataset is not None:
                    dataset.save_episode(parallel_encoding=False)


def _create(root: Path, each: Cut, pictures: dict[str, Image]) -> "LeRobotDataset":
    from av.logging import ERROR, set_libav_level
    from datasets.utils.logging import disable_progress_bar
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    set_libav_level(ERROR)
    disable_progress_bar()
    names = ["height", "width", "channels"]
    features: dict[str, dict[str, Any]] = {
        f"observation.images.{name}": {"dtype": "video", "shape": image.pixels.shape, "names": names}
        for name, image in pictures.items()
    }
    for feature, dims in each.names.items():
        features[feature] = {"dtype": "float32", "shape": (len(dims),), "names": list(dims)}
    return LeRobotDataset.create(
        "goalreel/bag",
        fps=each.fps,
        features=features,
        root=root,
        rgb_encoder=recording_encoder().lerobot_config(),
        image_writer_threads=2,
    )


def _check(path: Path, each: Cut, pictures: dict[str, Image], dataset: "LeRobotDataset") -> None:
    """Check that a camera keeps its size and that its sides are even, as the video encoder requires."""
    for name, image in pictures.items():
        height, width, _ = dataset.features[f"observation.images.{name}"]["shape"]
        where = f"{path}: {each.choice.cameras[name]}: pictures of {width}x{height}"
        if image.size != (width, height):
            size = "x".join(map(str, image.size))
            raise DatasetError(f"{where} and of {size}: cut the bag where the camera changed")
        if width % 2 or height % 2:
            raise DatasetError(f"{where}: the video encoder wants even sides")


def _pictures(path: Path, each: Cut) -> Iterator[dict[str, Image]]:
    """Yield one picture a camera for every frame of every episode, decoded in one pass over the bag."""
    cameras = each.choice.cameras
    frames = [
        {name: int(excerpt.pictures[name][i]) for name in cameras}
        for excerpt in each.excerpts
        for i in range(len(excerpt.moments))
    ]
    uses = Counter(place for frame in frames for place in frame.items())
    used = Counter(name for name, _ in uses)
    decoders = {name: _Decoder(f"{path}: {topic}", used[name]) for name, topic in cameras.items()}
    of = {topic: name for name, topic in cameras.items()}
    counts, decoded, at = Counter[str](), dict[tuple[str, int], Image](), 0
    with topics.Bag.open(path) as bag:
        for topic, _, message in bag.messages(cameras.values()):
            name, place = of[topic], counts[topic]
            counts[topic] += 1
            if (name, place) in uses:
                decoded |= {(name, p): image for p, image in decoders[name].decode(place, message)}
            while at < len(frames) and all(each_use in decoded for each_use in frames[at].items()):
                if at == len(frames) - 1:
                    for decoder in decoders.values():
                        decoder.warn()
                yield {name: decoded[name, place] for name, place in frames[at].items()}
                for used_up in frames[at].items():
                    uses[used_up] -= 1
                    if not uses[used_up]:
                        del decoded[used_up]
                at += 1
            if at == len(frames):
                return


class _Decoder:
    """Decodes a camera's pictures; in place of a broken one it gives the one before, or else the next."""

    def __init__(self, where: str, pictures: int) -> None:
        self._where, self._pictures = where, pictures
        self._last: Image | None = None
        self._broken: list[int] = []
        self._reason = ""

    def decode(self, place: int, message: Any) -> list[tuple[int, Image]]:
        """The picture of message `place`, and of those before that waited for it.

        Raises DatasetError where more than a tenth are broken.
        """
        try:
            image = topics.picture(message)
            if self._last is not None and image.size != self._last.size:
                sizes = " and of ".join(f"{w}x{h}" for w, h in (self._last.size, image.size))
                raise InputError(f"pictures of {sizes}: cut the bag where the camera changed")
        except ValueError as e:
            self._broken.append(place)
            self._reason = self._reason or f"message {place}: {e}"
            if len(self._broken) > self._pictures / 10:
                more = f" (and {len(self._broken) - 1} more)" if len(self._broken) > 1 else ""
                raise DatasetError(f"{self._where}: {self._reason}{more}") from e
            return [] if self._last is None else [(place, self._last)]
        waiting = self._broken if self._last is None else []
        self._last = image
        return [(at, image) for at in (*waiting, place)]

    def warn(self) -> None:
        """Say how many pictures were replaced."""
        if self._broken:
            text = "%s: %d of %d pictures cannot be used (%s); the picture before or after is used instead"
            log.warning(text, self._where, len(self._broken), self._pictures, self._reason)


def has_goals(cuts: dict[Path, Cut]) -> bool:
    """Tell if a node showed any sub-goal while the bags were recorded."""
    return any(excerpt.spans for each in cuts.values() for excerpt in each.excerpts)


def write_goals(
    recorded: Path,
    out: Path,
    cuts: dict[Path, Cut],
    request: TopicRequest,
    *,
    use_rejected: bool = False,
    form: subgoal_camera.SubGoalForm = subgoal_camera.DEFAULT_FORM,
    progress: OnCount = lambda done, total: None,
) -> list[Storyboard]:
    """Make `out` from the dataset `recorded`, which `convert` made from the same `cuts`. Resumes.

    Its sub-goal camera shows the goals in `form`, whatever the node showed.

    Raises:
        DatasetError: as `build`; a goal image that cannot be read.
    """
    camera = f"observation.images.{next(iter(next(iter(cuts.values())).choice.cameras))}"
    source = Source.open(recorded)
    provenance = {"use_rejected": use_rejected, "subgoal_form": form, "goalreel": __version__}
    settings = {**request.model_dump(), **provenance}
    boards = []
    with Records.open(out, settings, source.fingerprint()) as records:
        done = records.done()
        everything = ((path, e, each.storyboards) for path, each in cuts.items() for e in each.excerpts)
        for index, (path, excerpt, storyboards) in enumerate(everything):
            first = source.episode(index).frames(camera, [0])[0]
            task = Task(id=f"episode_{index:06d}", instruction=excerpt.task, image=first)
            try:
                boards.append(streamed.board(excerpt.spans, excerpt.moments, storyboards, task))
            except ValueError as e:
                raise DatasetError(f"{path}: a goal image of episode {index}: {e}") from e
            if index not in done:
                records.commit(index, boards[-1])
        build(source, out, records, camera=camera, use_rejected=use_rejected, form=form, progress=progress)
    return boards
