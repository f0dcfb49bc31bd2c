"""Write the report of an annotated dataset: every record with its pictures, one episode at a time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import batched
from pathlib import Path

from goalreel.annotator.report.cards import EpisodeView, told
from goalreel.annotator.report.film import caption, film_name, page, write_film
from goalreel.annotator.report.sheet import MARKS, MUTED, Cell
from goalreel.annotator.report.write import write_report
from goalreel.critics.examination import read_examination, word
from goalreel.datasets.episode import Episode
from goalreel.datasets.hub import folder_name, local_folder
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.files import atomic
from goalreel.image import Image, recorded_frame
from goalreel.models.model_set import display_names
from goalreel.progress import OnProgress
from goalreel.types import ROLES, Storyboard

MOVIE_RATE, AT_ONCE = 10.0, 64
"""Frames a second of a film of an episode, about; frames decoded at a time for it."""


def show(
    dataset: Path,
    out: Path,
    *,
    source: Path | None = None,
    episodes: Sequence[int] | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> Path:
    """Write the report of an annotated dataset into `out`, and return the path of its index page.

    While the dataset is not written yet, frames come from the dataset that it is made from: `source`, or the
    one in its settings.

    Raises:
        DatasetError: the dataset was not annotated by goalreel, or is damaged.
    """
    records, done, recorded = open_annotated(dataset, source)
    selected, settings = select(dataset, done, episodes), records.settings()
    about: dict[str, str] = {}
    if all(isinstance(settings.get(role), str) for role in ROLES):
        about |= display_names({role: settings[role] for role in ROLES}, dict(settings.get("notes", ())))
    about |= {f"measured {n}": str(one) for n, one in enumerate(records.measured, start=1)}
    if examination := read_examination(records.examination):
        about["examination"] = examination.line

    def views() -> Iterator[EpisodeView]:
        for count, index in enumerate(selected, start=1):
            yield episode_view(recorded.episode(index), records)
            progress("report", count, len(selected))

    total = len(recorded.rows)
    summary = {"annotated": f"{len(done)} of {total}"} if len(done) < total else {}
    return write_report(views(), out, title=folder_name(dataset), summary=summary, about=about)


def write_movies(
    dataset: Path,
    out: Path,
    *,
    source: Path | None = None,
    episodes: Sequence[int] | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> list[Path]:
    """Write a film of each episode into `out`: the camera beside the sub-goal of the moment, and the step.

    Raises:
        DatasetError: the dataset was not annotated by goalreel, is damaged, or names no camera.
    """
    records, done, recorded = open_annotated(dataset, source)
    selected, paths = select(dataset, done, episodes), list[Path]()
    for count, index in enumerate(selected, start=1):
        episode = recorded.episode(index)
        view = episode_view(episode, records)
        image, every = view.storyboard.task.image, max(1, round(view.fps / MOVIE_RATE))
        if image is None or image.frame is None:
            raise DatasetError(f"{dataset}: episode {index}: no camera is known that shows its first frame")
        paths.append(out / f"episode_{index:06d}-{film_name(view.instruction)}.mp4")
        camera, indices = image.frame.rpartition("#")[0], range(0, len(episode), every)
        shown = (one for some in batched(indices, AT_ONCE) for one in episode.frames(camera, some))
        starts = [0, *(step.segment.start for step in view.storyboard.steps if step.segment)]
        height = max(_moment(view, start, image).size[1] for start in starts)
        pages = (_moment(view, i, one) for i, one in zip(indices, shown, strict=True))
        out.mkdir(parents=True, exist_ok=True)
        with atomic(paths[-1]) as part:
            write_film(pages, part, view.fps / every, height)
        progress("films", count, len(selected))
    return paths


def _moment(view: EpisodeView, index: int, image: Image) -> Image:
    goal = Cell(None, (caption("no sub-goal"),))
    for number, step in enumerate(view.storyboard.steps, 1):
        if step.segment is not None and step.segment.start <= index < step.segment.end:
            mark = MARKS[word(step, view.examination)]
            words = caption(told(step, view.examination), mark.colour)
            goal = Cell(step.goal_image, (caption(f"{number}. {step.step.name}"), words), mark)
    live = Cell(image, (caption("camera"), caption(f"{index / view.fps:.1f} s", MUTED)))
    return page(view.instruction, (live, goal))


def select(dataset: Path, done: Sequence[int], episodes: Sequence[int] | None = None) -> list[int]:
    """Select the episodes to show from those that are annotated, `done`; None selects all of them.

    Raises:
        DatasetError: one is not annotated, or none is.
    """
    selected = sorted(set(done if episodes is None else episodes))
    if missing := sorted(set(selected) - set(done)):
        raise DatasetError(f"{dataset}: episode {missing[0]} is not annotated")
    if not selected:
        raise DatasetError(f"{dataset}: no annotated episode: run goalreel annotate first")
    return selected


def open_annotated(dataset: Path, source: Path | None = None) -> tuple[Records, list[int], Source]:
    """Open an annotated dataset: its records, the episodes that are done, and the dataset with the frames.

    `dataset` and `source` are folders, or names on the Hub. Frames come from `source`, else from `dataset`
    once it is written, else from the one in its settings.

    Raises:
        DatasetError: the dataset was not annotated by goalreel, or is damaged.
    """
    dataset = local_folder(dataset)
    records = Records(dataset / FOLDER, source="")
    done = sorted(records.done())
    if source is not None:
        return records, done, Source.open(source)
    if (dataset / "meta" / "info.json").is_file():
        written = Source.open(dataset)
        if set(done) <= set(written.indices):
            return records, done, written
    if not records.folder.is_dir():
        return records, done, Source.open(dataset)  # which says what it is not
    remembered = records.source_root()
    if remembered is None or not remembered.is_dir():
        raise DatasetError(f"{dataset}: not written yet: name the dataset that it is made from, --source IN")
    return records, done, Source.open(remembered)


def read_storyboards(dataset: Path | str) -> Iterator[tuple[int, Storyboard]]:
    """Read (episode index, storyboard with all its pictures) of an annotated dataset, each when asked for.

    Raises:
        DatasetError: the dataset was not annotated by goalreel, has no annotated episode, or is damaged.
    """
    records, done, recorded = open_annotated(Path(dataset))
    indices = select(Path(dataset), done)
    return ((index, episode_view(recorded.episode(index), records).storyboard) for index in indices)


def episode_view(episode: Episode, records: Records) -> EpisodeView:
    """Read one episode with all its pictures; each camera's frames are decoded in one pass."""
    outline = records.outline(episode.index)
    ends = [s.segment.end - 1 if s.segment else None for s in outline.steps]
    images = [outline.task.image, *(a.image for s in outline.steps for a in s.attempts)]
    wanted = {frame for image in images if image and (frame := recorded_frame(image.frame))}
    first = recorded_frame(outline.task.image.frame) if outline.task.image else None
    if first:
        wanted |= {(first[0], end) for end in ends if end is not None}
    by_camera: defaultdict[str, list[int]] = defaultdict(list)
    for camera, index in wanted:
        by_camera[camera].append(index)
    frames = {
        f"{camera}#{i}": image
        for camera, indices in by_camera.items()
        for i, image in zip(indices, episode.frames(camera, indices), strict=True)
    }
    board = records.load(episode.index, frames.__getitem__)
    end_frames = (None if end is None or not first else frames[f"{first[0]}#{end}"] for end in ends)
    return EpisodeView(
        index=episode.index,
        title=f"Episode {episode.index}",
        instruction=board.task.instruction,
        fps=episode.fps,
        length=len(episode),
        storyboard=board,
        end_frames=tuple(end_frames),
        examination=read_examination(records.examination),
    )
