"""From a watching model's reply to segments, or to a Problem that the model can be told.

As with plans (`agents.parsing`), form is forgiven and meaning never guessed: segments that leave
frames out or overlap are a Problem, and so is one that contradicts the instruction without saying how.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from goalreel.planners.agents.json_reply import Problem, clean, read_answer
from goalreel.planners.agents.parsing import MAX_STEPS
from goalreel.planners.kinematic.proposals import Proposal
from goalreel.planners.watch.contact_sheet import CONTACTS
from goalreel.types import Plan, Segment, Step, Text


def _cleaned(value: object) -> object:
    return clean(value).strip() if isinstance(value, str) else value


def _speaks(text: str) -> bool:
    """Whether there is a letter or a digit; there is none in the dots of the form that the model is shown."""
    return any(map(str.isalnum, text))


def _spoken(text: str) -> str:
    if not _speaks(text):
        raise ValueError("it holds no words")
    return text


def _nothing(value: object) -> object:
    """A word for nothing is None."""
    value = _cleaned(value)
    empty = isinstance(value, str) and (value.casefold() in ("none", "null", "n/a") or not _speaks(value))
    return None if empty else value


_Said = Annotated[Text, BeforeValidator(_cleaned), AfterValidator(_spoken)]
_Frame = Annotated[int, Field(ge=0, lt=10**9)]


class _Watched(BaseModel):
    model_config = ConfigDict(extra="ignore")

    start: _Frame
    end: _Frame
    name: _Said
    state: _Said
    outcome: Literal["done", "failed"] = "done"
    agrees: bool = True
    seen: Annotated[Text | None, BeforeValidator(_nothing)] = None


class _Reply(BaseModel):
    segments: Annotated[list[_Watched], Field(min_length=1, max_length=MAX_STEPS)]


_FIELDS = frozenset({*_Reply.model_fields, *_Watched.model_fields})


def watched_schema() -> dict[str, Any]:
    """The JSON schema of a watching model's answer, for back ends that can enforce one."""
    schema = _Reply.model_json_schema(mode="serialization")
    for part in (schema, *schema["$defs"].values()):
        part["additionalProperties"] = False
        part["required"] = list(part["properties"])
        for value in part["properties"].values():
            value.pop("default", None)
    return schema


def parse_watched(reply: str, span: Segment, instruction: str) -> Plan | Problem:
    """Read what happened in the frames `span`: a plan whose segments cover them without a gap.

    A step that contradicts the instruction says what was seen in its `auxiliary_text`.
    """
    answer = read_answer(reply, "segments", _FIELDS)
    if isinstance(answer, Problem):
        return answer
    try:
        said = _Reply.model_validate(answer.value).segments
    except ValidationError as e:
        fault = e.errors(include_input=False, include_url=False, include_context=False)[0]
        return Problem(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")
    edges = _edges(said, span)
    if isinstance(edges, Problem):
        return edges
    for number, one in enumerate(said):
        if not one.agrees and one.seen is None:
            return Problem(f'segments.{number}: "agrees" is false, but "seen" does not say what was seen')
        if not one.agrees and one.name.casefold().strip(". ") == instruction.casefold().strip(". "):
            return Problem(
                f"segments.{number}: the name repeats the instruction that the pictures contradict"
            )
    segments = tuple(Segment(start=a, end=b) for a, b in pairwise(edges))
    return Plan(steps=tuple(map(_step, said)), segments=segments)


def _edges(said: Sequence[_Watched], span: Segment) -> list[int] | Problem:
    """The frames at which segments begin, and the end. An end may be the segment's own last frame."""
    edges = [span.start]
    for number, one in enumerate(said):
        following = said[number + 1].start if number + 1 < len(said) else span.end
        if number == 0 and one.start != span.start:
            return Problem(f"segments.0: it starts at frame {one.start}, not at {span.start}")
        if following - one.end not in (0, 1):
            return Problem(
                f"segments.{number}: it ends at frame {one.end}, but what follows starts at {following}: "
                "cover every frame, and none twice"
            )
        if following <= edges[-1]:
            return Problem(f"segments.{number}: it holds no frame")
        edges.append(following)
    return edges


def _step(said: _Watched) -> Step:
    """The prompt is for an editor that renders the state, where no frame of the recording is taken for it."""
    order, state = said.name.rstrip(". "), said.state.rstrip(". ")
    return Step(
        name=said.name,
        instruction=said.state,
        prompt=f"{order[:1].upper()}{order[1:]}, so that: {state}. Keep everything else unchanged.",
        auxiliary_text=None if said.agrees else f"not as instructed: {said.seen}",
        outcome=said.outcome,
    )


def snapped(plan: Plan, span: Segment, proposals: Sequence[Proposal], reach: float) -> Plan:
    """Move each inner boundary to a proposal at most `reach` frames away, to a contact rather than a rest.

    A boundary at a proposal stays. One that would meet another boundary stays too.
    """
    segments = plan.segments or ()
    cuts = [segment.start for segment in segments] + [span.end]
    known = {proposal.frame for proposal in proposals}
    for i in range(1, len(cuts) - 1):
        near = [p for p in proposals if abs(p.frame - cuts[i]) <= reach]
        near = [p for p in near if cuts[i - 1] < p.frame < cuts[i + 1]]
        if near and cuts[i] not in known:
            cuts[i] = min(near, key=lambda p: (p.cue not in CONTACTS, abs(p.frame - cuts[i]))).frame
    spans = tuple(Segment(start=a, end=b) for a, b in pairwise(cuts))
    return plan.model_copy(update={"segments": spans})
