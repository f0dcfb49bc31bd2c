"""Parse a watching model's reply to segments, or to a Problem that the model can correct.

As with plans (`goalreel.chat.plan`), faults of form are tolerated and no meaning is guessed: segments that
leave frames out or overlap are a Problem, and so is one that contradicts the instruction without saying how,
or does not say whether it was done and whether it agrees.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from goalreel.chat.json_reply import Problem, clean, read_model
from goalreel.chat.plan import MAX_STEPS
from goalreel.planners.kinematic.description import Proposal
from goalreel.planners.watch.contact_sheet import CONTACTS
from goalreel.types import Plan, Segment, Step, Text


def _clean(value: object) -> object:
    return clean(value).strip() if isinstance(value, str) else value


def _has_words(text: str) -> bool:
    """Whether there is a letter or a digit; the dots of the example in the prompt have none."""
    return any(map(str.isalnum, text))


def _require_words(text: str) -> str:
    if not _has_words(text):
        raise ValueError("it holds no words")
    return text


def nullable(value: object) -> object:
    """Clean a text; None for a word such as "none" or "n/a"."""
    value = _clean(value)
    empty = isinstance(value, str) and (value.casefold() in ("none", "null", "n/a") or not _has_words(value))
    return None if empty else value


_Words = Annotated[Text, BeforeValidator(_clean), AfterValidator(_require_words)]
_Frame = Annotated[int, Field(ge=0, lt=10**9)]


class _Segment(BaseModel):
    model_config = ConfigDict(extra="ignore")

    start: _Frame
    end: _Frame
    name: _Words
    state: _Words
    outcome: Literal["done", "failed"]
    agrees: bool
    seen: Annotated[Text | None, BeforeValidator(nullable)] = None


class _Reply(BaseModel):
    segments: Annotated[list[_Segment], Field(min_length=1, max_length=MAX_STEPS)]


_FIELDS = frozenset({*_Reply.model_fields, *_Segment.model_fields})


def watch_schema() -> dict[str, Any]:
    """The JSON schema of a watching model's answer, for back ends that can enforce one."""
    schema = _Reply.model_json_schema(mode="serialization")
    for part in (schema, *schema["$defs"].values()):
        part["additionalProperties"] = False
        part["required"] = list(part["properties"])
        for value in part["properties"].values():
            value.pop("default", None)
    return schema


def parse_watch_reply(reply: str, span: Segment, instruction: str) -> Plan | Problem:
    """Read the events in the frames `span`: a plan whose segments cover them without a gap.

    The `auxiliary_text` of a step that contradicts the instruction says what the pictures show.
    """
    answer = read_model(_Reply, reply, "segments", _FIELDS)
    if isinstance(answer, Problem):
        return answer
    replies = answer[0].segments
    edges = _edges(replies, span)
    if isinstance(edges, Problem):
        return edges
    for number, reply_segment in enumerate(replies):
        if not reply_segment.agrees and reply_segment.seen is None:
            return Problem(f'segments.{number}: "agrees" is false, but "seen" does not say what was seen')
        if reply_segment.agrees and reply_segment.seen is not None:
            return Problem(f'segments.{number}: "agrees" is true, but "seen" says what was seen instead')
        name = reply_segment.name.casefold().strip(". ")
        if not reply_segment.agrees and name == instruction.casefold().strip(". "):
            return Problem(
                f"segments.{number}: the name repeats the instruction that the pictures contradict"
            )
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
        prompt=f"{order[:1].upper()}{order[1:]}, so that: {state}. Keep everything else unchanged.",
        auxiliary_text=None if segment.agrees else f"not as instructed: {segment.seen}",
        outcome=segment.outcome,
    )


def snap(plan: Plan, span: Segment, proposals: Sequence[Proposal], reach: float) -> Plan:
    """Move each inner boundary to a proposal at most `reach` frames away, preferably a contact.

    A boundary at a proposal stays, and so does one that would meet another boundary.
    """
    segments = plan.segments or ()
    cuts = [segment.start for segment in segments] + [span.end]
    proposed_frames = {proposal.frame for proposal in proposals}
    for i in range(1, len(cuts) - 1):
        near = [p for p in proposals if abs(p.frame - cuts[i]) <= reach]
        near = [p for p in near if cuts[i - 1] < p.frame < cuts[i + 1]]
        if near and cuts[i] not in proposed_frames:
            cuts[i] = min(near, key=lambda p: (p.cue not in CONTACTS, abs(p.frame - cuts[i]))).frame
    spans = tuple(Segment(start=a, end=b) for a, b in pairwise(cuts))
    return plan.model_copy(update={"segments": spans})
