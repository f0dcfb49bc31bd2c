"""Labelled episodes: from an annotated dataset, from one with labels of its own, or from a table."""

import itertools
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from goalreel.claims import CARRIED, PERSON, ROWS, RULE, UNKNOWN
from goalreel.datasets import hub, parquet
from goalreel.datasets.episode import Episode
from goalreel.datasets.health.issues import spell
from goalreel.datasets.labels import find_labels
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import read_file
from goalreel.models.model_set import Lazy, ModelSet
from goalreel.planners.examples.carry import Example, Measurement, choose, numbers_of
from goalreel.planners.examples.slots import join_alike
from goalreel.planners.rows import RowsPlanner, labelled_step
from goalreel.types import Failure, Segment, Step, Storyboard, Task

if TYPE_CHECKING:
    from goalreel.datasets.corrections.state import Review

log = logging.getLogger(__name__)

LABELS = 3
"""Episodes of an instruction that are worth labelling."""
_COMPARED = 100
"""Instructions of so few episodes that are compared with each other."""
_CANDIDATES, _SECONDS = 12, 360
"""Episodes of an instruction among which those to label are chosen: fewer where they are longer together."""

ROUNDED_S = 0.1
"""Seconds by which a table may end a step after its episode, as people write 23.8 for 23.77 s."""

type _Piece = tuple[Step, Segment]
type Label = tuple[str, list[_Piece], str]
"""The instruction of an episode, its steps, and their maker."""
TABLES = (".csv", ".parquet")
_UNCHECKED = frozenset((RULE, CARRIED, UNKNOWN))
"""Makers whose steps are no labels as long as no person has looked at them."""


def read_examples(labelled: Path, source: Source) -> tuple[Example, ...]:
    """Read the labelled episodes in `labelled` for the planners of `source`.

    Args:
        labelled: an annotated dataset, of which the episodes are taken that people accepted or corrected, or
            else those whose steps are from labels or a model; any other dataset with sub-task labels, such as
            `source` itself; or a table of steps of `source`, with the columns of `goalreel.export`.
        source: the dataset to annotate. Its `numbers` are read from the others too.

    Raises:
        DatasetError: no labelled episode, one of another robot, or labels that overlap or lie outside.
        InputError: as `DatasetError`, for what a person has to do first.
    """
    if labelled.suffix.lower() in TABLES:
        examples = [*_of_table(labelled, source)]
    else:
        labelled, dataset = hub.local_folder(labelled), source
        if labelled.resolve() != source.root.resolve():
            dataset = Source.open(labelled)
            dataset.read_numbers(source.numbers.state, source.numbers.action)
        read = _of_annotated if (labelled / FOLDER).is_dir() else _of_labels
        examples = [*read(dataset, apart=dataset is not source)]
    for episode in itertools.islice(readable(source, source.indices), 1):
        own = episode.state.shape[1], episode.action.shape[1]
        for example in examples:
            if own != (other := (example.state.shape[1], example.action.shape[1])):
                raise DatasetError(
                    f"{labelled}: {example.id} has {other} numbers of state and action, and {source.root} "
                    f"{own}: labelled episodes are of the same robot"
                )
    return tuple(examples)


def readable(source: Source, indices: Iterable[int]) -> Iterator[Episode]:
    for index in indices:
        try:
            yield source.episode(index)
        except DatasetError:
            continue


def _of_annotated(dataset: Source, *, apart: bool, records: Records | None = None) -> Iterator[Example]:
    from goalreel.datasets.corrections.reviews import Reviews

    records = records or Records(dataset.root / FOLDER, source="")
    found = {e: label for e in Reviews(records).episodes() if (label := reviewed_label(records.review(e)))}
    reviewed = frozenset(found)
    for index in sorted(records.recorded() - reviewed):
        if records.is_corrected(index) or not (label := _made(records.original(index))):
            continue
        if not reviewed or label[2] == PERSON:  # as people wrote it in a table
            found[index] = label
    if not found:
        raise InputError(
            f"{dataset.root}: nobody has accepted or corrected an episode, and its steps are from rules: "
            f"review some episodes first, goalreel review {dataset.root}"
        )
    for index, (text, pieces, maker) in found.items():
        yield as_example(dataset.episode(index), text, pieces, maker, str(dataset.root), apart=apart)


def reviewed_label(review: "Review") -> Label | None:
    """The steps that a person accepted or corrected; None where something is still wrong with the episode."""
    if not review.labelled:
        return None
    pieces = [(s.step.model_copy(update={"doubts": ()}), s.placed) for s in review.steps]
    return review.task.instruction, pieces, PERSON


def _made(board: Storyboard) -> Label | None:
    """The steps of an episode that nobody has looked at; None where rules made them, or are in doubt."""
    makers = [c.by for s in board.steps for name, c in s.claims.items() if name in ("when", "what")]
    pieces = [(s.step, s.segment) for s in board.steps if s.segment is not None and not s.step.doubts]
    if not pieces or len(pieces) < len(board.steps) or not _UNCHECKED.isdisjoint(makers):
        return None
    return board.task.instruction, pieces, makers[0]


def _of_labels(dataset: Source, *, apart: bool) -> Iterator[Example]:
    labelled = sorted({i for indices in find_labels(dataset, dataset.indices).values() for i in indices})
    if not labelled:
        raise DatasetError(
            f"{dataset.root}: no episode has sub-task labels, and goalreel has not annotated it"
        )
    for index in labelled:
        yield label_example(dataset, index, apart=apart)


def label_example(dataset: Source, index: int, *, apart: bool = False) -> Example:
    """The episode with the sub-task labels that it has; `apart` as for `as_example`."""
    episode = dataset.episode(index)
    task = Task(id=episode.id, instruction=episode.instruction)
    (plan,) = RowsPlanner({episode.id: episode}).plan([task])
    if isinstance(plan, Failure):
        raise DatasetError(f"{dataset.root}: {plan.message}")
    pieces = list(zip(plan.steps, plan.segments or (), strict=True))
    return as_example(episode, episode.instruction, pieces, ROWS, str(dataset.root), apart=apart)


def _of_table(path: Path, source: Source) -> Iterator[Example]:
    unchecked: list[int] = []
    labels = _labels_of(path, source)
    for index, rows in labels.items():
        makers = {row.get("what_by") or PERSON for row in rows if row.get("what_checked") != PERSON}
        placed = {row.get("when_by") for row in rows if row.get("when_checked") != PERSON}
        if not _UNCHECKED.isdisjoint(makers) or placed == {CARRIED}:
            unchecked.append(index)
            continue
        episode = source.episode(index)
        where = f"{path}: episode {index}"
        text = rows[0].get("instruction") or episode.instruction
        if text != episode.instruction:
            raise DatasetError(
                f'{where} is "{text}" there and "{episode.instruction}" in {source.root}: '
                "a table holds episodes of the dataset to annotate"
            )
        pieces = [_piece(row, episode, where) for row in rows]
        yield as_example(episode, text, pieces, min(makers, default=PERSON), str(path), apart=False)
    if unchecked:
        which = (
            f"{path}: {spell(unchecked)}: by rules or carried over, and nobody has looked at them: review "
            "some episodes first, or leave out the column what_by where people wrote them"
        )
        if len(unchecked) == len(labels):
            raise InputError(which)
        log.warning("%s", which)


def _labels_of(path: Path, source: Source) -> Mapping[int, list[dict[str, Any]]]:
    """Episode -> its rows with a name."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    is_csv = path.suffix.lower() == ".csv"
    try:
        table = _read_csv(path) if is_csv else parquet.read_table(path)
    except (pa.ArrowException, OSError) as e:
        raise DatasetError(f"{path}: cannot be read as a table ({first_line(e)})") from e
    if not any(
        {"episode", "name", f"start_{u}", f"end_{u}"} <= {*table.column_names} for u in ("frame", "s")
    ):
        raise DatasetError(
            f"{path}: a table of steps has the columns episode, name, start_s and end_s "
            "(or start_frame and end_frame)"
        )
    from goalreel.annotator.exports import plain

    labels = defaultdict[int, list[dict[str, Any]]](list)
    try:
        for row in table.to_pylist():
            if is_csv:  # as `goalreel export` quotes what would be a formula
                row |= {key: plain(value) for key, value in row.items()}
            if name := str(row["name"] or "").strip():
                if (episode := int(row["episode"])) != float(row["episode"]):
                    raise ValueError("not whole")
                labels[episode].append({**row, "name": name})
        source.select(labels)
    except (DatasetError, TypeError, ValueError, OverflowError) as e:
        raise DatasetError(
            f"{path}: a row names no episode "
            f"({first_line(e) if isinstance(e, DatasetError) else 'an episode is a whole number'})"
        ) from e
    if not labels:
        raise DatasetError(f"{path}: no row has a name")
    return labels


def _read_csv(path: Path) -> pa.Table:
    """Read a CSV file; one with semicolons, as spreadsheets write where a comma is in a number, too."""
    content = read_file(path)
    try:
        head = content.decode().partition("\n")[0]
    except UnicodeDecodeError as e:  # Excel's "Unicode text", or a name with an umlaut in Latin-1
        raise DatasetError(f"{path}: is not UTF-8: save the table as CSV UTF-8") from e
    delimiter = max(",;\t", key=head.count)
    parse = csv.ParseOptions(delimiter=delimiter)
    convert = csv.ConvertOptions(decimal_point="," if delimiter == ";" else ".")
    return csv.read_csv(pa.BufferReader(content), parse_options=parse, convert_options=convert)


def _piece(row: Mapping[str, Any], episode: Episode, where: str) -> _Piece:
    """The step of a row, and its frames."""
    name = row["name"]
    fields = {"instruction": row.get("sub_goal"), "prompt": row.get("prompt"), "outcome": row.get("outcome")}
    try:
        start, end = (_frame(row, edge, episode.fps) for edge in ("start", "end"))
        if 0 < end - len(episode) <= ROUNDED_S * episode.fps:
            end = len(episode)
        given = {key: text for key, text in fields.items() if text}
        return Step.model_validate({**dict(labelled_step(name)), **given}), Segment(start=start, end=end)
    except (ValueError, TypeError, LookupError, ArithmeticError) as e:  # a cell that is empty, or infinite
        raise DatasetError(f"{where}: {name!r} has no frames, or a field of it is wrong: correct it") from e


def _frame(row: Mapping[str, Any], edge: str, fps: float) -> int:
    frame = row.get(f"{edge}_frame")
    return round(float(row[f"{edge}_s"]) * fps) if frame is None else int(frame)


def as_example(
    episode: Episode, instruction: str, pieces: Sequence[_Piece], by: str, where: str, *, apart: bool
) -> Example:
    """The episode with its labels in order. Where it is `apart`, in another dataset, its name says so."""
    pieces = sorted(pieces, key=lambda piece: piece[1].start)
    starts = [*(segment.start for _, segment in pieces[1:]), len(episode)]
    for (step, segment), start in zip(pieces, starts, strict=False):
        start = min(start, len(episode))
        if segment.end > start:
            edge = "the next step's start" if start < len(episode) else "the episode's end"
            raise DatasetError(
                f"{where}: episode {episode.index}: {step.name!r} ends at {segment.end / episode.fps:g} s, "
                f"after {edge} at {start / episode.fps:g} s: correct it"
            )
    return Example(
        id=f"episode {episode.index}" + (f" of {episode.root.name}" if apart else ""),
        numbers=numbers_of(episode),
        instruction=instruction,
        fps=episode.fps,
        timestamps=episode.timestamps.astype(np.float64),
        state=episode.state.astype(np.float64),
        action=episode.action.astype(np.float64),
        steps=tuple(step.model_copy(update={"by": None}) for step, _ in pieces),
        segments=tuple(segment for _, segment in pieces),
        by=by,
        state_names=episode.state_names,
        action_names=episode.action_names,
    )


def measure(
    models: ModelSet,
    examples: Sequence[Example],
    source: Source,
    selected: Sequence[int],
    *,
    anyway: bool = False,
) -> tuple[Measurement, ...]:
    """Say how many boundaries of the labelled episodes that serve the `selected` ones are found again.

    Nothing is said of other planners. Too few are refused, unless the run is to go on `anyway`.
    """
    if models.provenance.preset.planner != "examples":
        return ()
    from goalreel.planners.examples.planner import ExamplesPlanner

    if not any(e.state.size + e.action.size for e in examples):
        raise InputError(
            "--examples are carried over by state and action, and the labelled episodes hold neither"
        )
    planner = models.planner.model if isinstance(models.planner, Lazy) else models.planner
    assert isinstance(planner, ExamplesPlanner), "the planner of this name"
    known = by_instruction(source, selected)
    # Those of several tasks: only their frames say which one.
    unknown = sorted(set(selected).difference(*(indices for _, indices in known)))
    texts = [*(text for text, _ in known), *(e.instruction for e in readable(source, unknown))]
    by_text = {text: planner.measurement(text) for text in dict.fromkeys(texts)}
    measured = tuple(dict.fromkeys(filter(None, by_text.values())))
    without = [text for text, one in by_text.items() if one is None]
    if by_text and not measured:
        raise InputError(f'no labelled episode has an instruction such as "{without[0]}": label some of it')
    if without:
        log.warning(
            '%d instruction(s) without a labelled episode are left to rules: "%s"', len(without), without[0]
        )
    for one in measured:
        log.log(logging.WARNING if anyway and not one.enough else logging.INFO, "%s", one)
    if few := [one for one in measured if not one.enough and not anyway]:
        ids = next_to_label(source, few[0].instruction, examples)
        which = f", first {' and '.join(map(str, ids[:2]))}" if ids else ""
        raise InputError(
            f"{few[0]}: too few to carry over; label more episodes of it{which}, "
            "or go on with --examples-anyway"
        )
    return measured


def measure_reviewed(source: Source, records: Records) -> list[Measurement]:
    """Measure anew where people carried steps over or added labels; other measurements stay as they are."""
    from goalreel.datasets.corrections.reviews import Reviews
    from goalreel.planners.examples.planner import ExamplesPlanner

    measured = {one.instruction: one for one in records.measured}
    reviews = [records.review(episode) for episode in Reviews(records).episodes()]
    carried = {review.task.instruction for review in reviews if review.taken == "carry"}
    if any(map(reviewed_label, reviews)) and (texts := carried | measured.keys()):
        planner = ExamplesPlanner({}, [*_of_annotated(source, apart=False, records=records)])
        for one in filter(None, map(planner.measurement, sorted(texts))):
            if one.examples >= measured.get(one.instruction, one).examples:
                measured[one.instruction] = one
    return [*measured.values()]


def next_to_label(source: Source, text: str, examples: Sequence[Example]) -> list[int]:
    """List the episodes of an instruction's task to label next to the `examples`, the best one first."""
    of_each = by_instruction(source, source.indices)
    own = dict(of_each).get(text, ())
    indices = next((of for _, of in by_task(of_each) if own and own[0] in of), [])
    order = to_label(source, [(text, indices)], LABELS + len(examples)).get(text, ())
    known = {example.numbers for example in examples}
    return [index for index in order if numbers_of(source.episode(index)) not in known]


def by_instruction(
    source: Source, selected: Sequence[int], read: Collection[Episode] = ()
) -> list[tuple[str, list[int]]]:
    """Each instruction of the selected episodes, of most first; those of several tasks may be missing.

    Instructions of episodes that are `read` already need no look at the metadata.
    """
    texts = {episode.index: episode.instruction for episode in read}
    for index, tasks in zip(source.indices, source.rows.column("tasks"), strict=True):
        if tasks and len(tasks) == 1:
            texts.setdefault(index, str(tasks[0]).strip())
    episodes = defaultdict[str, list[int]](list)
    for index in selected:
        if text := texts.get(index):
            episodes[text].append(index)
    return sorted(episodes.items(), key=lambda item: -len(item[1]))


def by_task[T](instructions: Collection[tuple[str, Sequence[T]]]) -> list[tuple[str, list[T]]]:
    """Join instructions of LABELS episodes or fewer that differ in a few words; the tasks of most first.

    Labels of some serve the others. A task has the name of the first one, and says how many are like it.
    """
    few = (text for text, of in instructions if len(of) <= LABELS)
    firsts = join_alike(tuple(itertools.islice(few, _COMPARED)))
    joined, tasks = Counter(firsts.values()), defaultdict[str, list[T]](list)
    for text, of in instructions:
        first = firsts.get(text, text)
        tasks[f"{first} (and {joined[first] - 1} like it)" if joined[first] > 1 else first] += of
    return sorted(tasks.items(), key=lambda task: -len(task[1]))


def to_label(
    source: Source, instructions: Iterable[tuple[str, Sequence[int]]], count: int = LABELS
) -> dict[str, tuple[int, ...]]:
    """Task -> the episodes to label, in order; only for those of more than LABELS episodes."""
    chosen: dict[str, tuple[int, ...]] = {}
    for text, indices in instructions:
        if len(indices) <= LABELS:
            continue
        seconds = source.rows.of(indices[0])["length"] / source.fps
        most = min(_CANDIDATES, max(LABELS + 1, int(_SECONDS / seconds)))
        episodes = list(readable(source, indices[:: -(-len(indices) // most)]))
        if len(episodes) > LABELS and episodes[0].state.size + episodes[0].action.size:
            places = choose(episodes, count)
            chosen[text] = tuple(episodes[place].index for place in places)
    return chosen
