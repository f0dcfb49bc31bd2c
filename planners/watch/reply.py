"""Contact sheets for a watching model, and the reader of its replies: segments, and details of each step.

Faults of form are tolerated and a meaning is never guessed: segments that leave frames out or overlap are a
Problem that the model can correct, and so is one that contradicts the instruction without saying how, or does
not say whether it was done and whether it agrees.
"""

import json
import logging
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from goalreel.chat.conversation import THOUGHTFUL, Chat, Message, Question, ask, interleave, plain
from goalreel.chat.json_reply import OptionalText, Problem, ReplyModel, WrittenText, optional, read_model
from goalreel.chat.plan import MAX_STEPS
from goalreel.chat.prompts import render
from goalreel.claims import Detail, DetailName, Details, FailureDetail
from goalreel.errors import BackendError, DatasetError
from goalreel.image import Image
from goalreel.planners.kinematic.description import Proposal
from goalreel.terms import KEEP
from goalreel.types import Failure, Plan, Recording, Segment, Step

log = logging.getLogger(__name__)
FRAMES = 10  # frames of a segment that are shown, of each camera
_Frame = Annotated[int, Field(ge=0, lt=10**9)]
COLUMNS = 5
TILES = 20  # frames of each camera on one sheet: about 1.5 megapixels, which hosted models hardly shrink
_WIDE, _NARROW, _STRIP = 224, 96, 16
CONTACTS = ("closed", "opened")  # the cues at which the hand may have grasped or released an object


class _Segment(ReplyModel, strict=False):
    start: _Frame
    end: _Frame
    name: WrittenText
    state: WrittenText
    outcome: Literal["done", "failed"]
    agrees: bool
    seen: OptionalText = None


class _Reply(ReplyModel):
    segments: Annotated[list[_Segment], Field(min_length=1, max_length=MAX_STEPS)]


def watch_schema() -> dict[str, Any]:
    """The JSON schema of a watching model's answer, for back ends that can enforce one."""
    return _Reply.model_json_schema(mode="serialization")


def parse_watch_reply(reply: str, span: Segment, instruction: str) -> Plan | Problem:
    """Read the events in the frames `span`: a plan whose segments cover them without a gap.

    The `auxiliary_text` of a step that contradicts the instruction says what the pictures show.
    """
    answer = read_model(_Reply, reply, "segments")
    if isinstance(answer, Problem):
        return answer
    replies = answer[0].segments
    edges = _edges(replies, span)
    if isinstance(edges, Problem):
        return edges
    for number, said in enumerate(replies):
        where, name = f"segments.{number}", said.name.casefold().strip(". ")
        if said.agrees == (said.seen is not None):
            return Problem(f'{where}: "seen" says what was seen where "agrees" is false, and only there')
        if not said.agrees and name == instruction.casefold().strip(". "):
            return Problem(f"{where}: the name repeats the instruction that the pictures contradict")
    segments = tuple(Segment(start=a, end=b) for a, b in pairwise(edges))
    return Plan(steps=tuple(map(_step, replies)), segments=segments)


def _edges(segments: Sequence[_Segment], span: Segment) -> list[int] | Problem:
    """The first frame of each segment, and the end. A segment's end may be its own last frame."""
    edges = [span.start]
    for number, segment in enumerate(segments):
        following = segments[number + 1].start if number + 1 < len(segments) else span.end
        if number == 0 and segment.start != span.start:
            return Problem(f"segments.0: it starts at frame {segment.start}, not at {span.start}")
        if following - segment.end not in (0, 1):
            return Problem(
                f"segments.{number}: it ends at frame {segment.end}, but what follows starts at {following}: "
                "cover every frame, and none twice"
            )
        if following <= edges[-1]:
            return Problem(f"segments.{number}: it holds no frame")
        edges.append(following)
    return edges


def _step(segment: _Segment) -> Step:
    """The step of a segment. An editor that renders the goal, rather than take a frame, uses its prompt."""
    order, state = segment.name.rstrip(". "), segment.state.rstrip(". ")
    return Step(
        name=segment.name,
        instruction=segment.state,
        prompt=f"{order[:1].upper()}{order[1:]}, so that: {state}. {KEEP}",
        auxiliary_text=None if segment.agrees else f"not as instructed: {segment.seen}",
        outcome=segment.outcome,
    )


def snap(plan: Plan, span: Segment, proposals: Sequence[Proposal], reach: float) -> Plan:
    """Move each inner boundary to a proposal at most `reach` frames away, preferably a contact.

    A boundary at a proposal stays, and so does one that would meet another boundary.
    """
    cuts = [*(segment.start for segment in plan.segments or ()), span.end]
    for i in range(1, len(cuts) - 1):
        near = [p for p in proposals if cuts[i - 1] < p.frame < cuts[i + 1]]
        near = [p for p in near if abs(p.frame - cuts[i]) <= reach]
        if near and all(p.frame != cuts[i] for p in near):
            cuts[i] = min(near, key=lambda p: (p.cue not in CONTACTS, abs(p.frame - cuts[i]))).frame
    return plan.model_copy(update={"segments": tuple(Segment(start=a, end=b) for a, b in pairwise(cuts))})


_Text = Annotated[str | None, Field(max_length=2000), BeforeValidator(optional)]


class _DetailsReply(ReplyModel, strict=False):
    scene: _Text = None
    reasoning: _Text = None
    error_cause: _Text = None
    restorable: bool | None = None


type Watched = tuple[Recording, str, Plan]
"""A recording, its instruction, and the plan that was read off it."""


def describe(
    chat: Chat,
    watched: Sequence[Watched],
    cameras: Sequence[str],
    names: Collection[DetailName],
    replies: int,
) -> list[Plan]:
    """The plans with the details `names` of their steps, as far as the model tells them.

    A step about which it gives no usable answer stays without, and the log says so: no plan is lost.
    """
    steps = [list(plan.steps) for _, _, plan in watched]
    places = [
        (number, at, keys)
        for number, its in enumerate(steps)
        for at, step in enumerate(its)
        if (keys := tuple(_keys(step, names)))
    ]
    questions = [_question(watched[number], at, keys, cameras) for number, at, keys in places]
    for (number, at, _), answer in zip(places, _ask(chat, questions, replies), strict=True):
        if isinstance(answer, Failure):
            where = f"{watched[number][0].id}, step {at + 1}"
            log.warning("%s: the model gave no details: %s", where, answer.line)
        elif answer != Details():
            steps[number][at] = steps[number][at].model_copy(update={"details": answer})
    pairs = zip(watched, steps, strict=True)
    return [plan.model_copy(update={"steps": tuple(new)}) for (_, _, plan), new in pairs]


def _keys(step: Step, names: Collection[DetailName]) -> Iterator[str]:
    """The keys of the answer about a step."""
    yield from (name for name in ("scene", "reasoning") if name in names)
    if "failure" in names and step.outcome == "failed":
        yield from ("error_cause", "restorable")


def _ask(
    chat: Chat, questions: Sequence[Question[Details] | Failure], replies: int
) -> list[Details | Failure]:
    schema = _DetailsReply.model_json_schema(mode="serialization")
    try:
        return ask(chat, questions, stage="plan", replies=replies, schema=schema) if questions else []
    except BackendError as e:
        return [Failure(stage="plan", message=str(e))] * len(questions)


def _question(
    watched: Watched, at: int, keys: Sequence[str], cameras: Sequence[str]
) -> Question[Details] | Failure:
    recording, instruction, plan = watched
    step, segment = plan.steps[at], (plan.segments or ())[at]
    # The first frame, the last, and some evenly between.
    frames = np.unique(np.linspace(segment.start, segment.end - 1, FRAMES).round().astype(int)).tolist()
    try:
        sheet = contact_sheet(recording, cameras, frames)
    except DatasetError as e:
        return Failure(stage="plan", message=str(e))
    form = json.dumps({key: True if key == "restorable" else "..." for key in keys})
    values = {
        "keys": keys,
        "instruction": plain(instruction),
        "name": plain(step.name),
        "start": segment.start,
        "end": segment.end,
        "fps": f"{recording.fps:g}",
        "cameras": [camera.removeprefix("observation.images.") for camera in cameras],
        "form": form,
    }
    message = Message("user", interleave(render("watcher/details", values), [sheet]))
    return Question((message,), partial(parse_details_reply, keys=keys), THOUGHTFUL % form)


def parse_details_reply(reply: str, keys: Sequence[str]) -> Details | Problem:
    """Read the details from a reply that has these `keys`; only the cause of a failure may be null."""
    answer = read_model(_DetailsReply, reply, keys[0])
    if isinstance(answer, Problem):
        return answer
    values = answer[0]
    texts = {name: getattr(values, name) for name in ("scene", "reasoning") if name in keys}
    if missing := [name for name, text in texts.items() if text is None]:
        return Problem(f'"{missing[0]}" holds no words')
    cause = values.error_cause if "error_cause" in keys else None
    failure = FailureDetail(text=cause, restorable=values.restorable) if cause else None
    return Details(**{name: Detail(text=text) for name, text in texts.items()}, failure=failure)


def moments(length: int, fps: float, proposals: Sequence[Proposal]) -> tuple[int, ...]:
    """Pick the frames to show: the first, the last, those at proposals, and one a second between.

    At a contact the frame before it is shown too; where the arm only rests, both would look the same.
    """
    at = {p.frame for p in proposals} | {p.frame - 1 for p in proposals if p.cue in CONTACTS}
    fixed = np.array(sorted({0, length - 1, *at}))
    steady = np.arange(0, length, max(1.0, fps)).round().astype(int)
    far = [int(f) for f in steady if np.abs(fixed - f).min() > 0.3 * fps]
    return tuple(sorted({*fixed.tolist(), *far}))


def contact_sheet(recording: Recording, cameras: Sequence[str], frames: Sequence[int]) -> Image:
    """Draw `frames` in rows of COLUMNS, one row for each camera, each tile under `NUMBER  SECONDS`.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    start = recording.timestamps[0]
    labels = [f"{frame}  {recording.timestamps[frame] - start:.1f}s" for frame in frames]
    tiles = [
        [_tile(i.pixels, t) for i, t in zip(recording.frames(c, frames), labels, strict=True)]
        for c in cameras
    ]
    rows = [np.hstack(row[i : i + COLUMNS]) for i in range(0, len(frames), COLUMNS) for row in tiles]
    width = max(row.shape[1] for row in rows)
    return Image(np.vstack([np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in rows]))


def _tile(pixels: NDArray[np.uint8], label: str) -> NDArray[np.uint8]:
    import cv2

    height, width = pixels.shape[:2]
    tile_width = min(max(width, _NARROW), _WIDE)
    method = cv2.INTER_AREA if tile_width < width else cv2.INTER_NEAREST
    tile = np.zeros((_STRIP + max(1, round(height * tile_width / width)), tile_width, 3), np.uint8)
    tile[_STRIP:] = cv2.resize(pixels, (tile_width, tile.shape[0] - _STRIP), interpolation=method)
    cv2.putText(tile, label, (3, _STRIP - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (255, 255, 255), 1, cv2.LINE_AA)
    return tile
