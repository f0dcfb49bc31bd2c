"""A rule that tells from the places that a small Critic sees whether a step or a whole task is done.

The replies of such a Critic begin with each thing's place in both pictures, in columns from the left and rows
from the back: `red block c3 r5 -> c9 r4 in blue bowl; blue bowl c9 r4 stays.` It sees places well, and has
learned of one step what they mean. So its acceptance of a step counts where the places agree, and its own
conclusion about several steps is not used.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from goalreel.chat.conversation import ChatRequest, Message, NoReply, TokenReply
from goalreel.chat.verdict import verdict_reply
from goalreel.loop import TASK
from goalreel.types import Verdict

_STATES = re.compile(rf"(?<=Wanted state: )(.*?)({re.escape(TASK)}.*)?$", re.MULTILINE)
_ACCEPTED = '"previous_step_success": true'
_BESIDE = {"to the left of": (-1, 0), "to the right of": (1, 0), "behind": (0, -1), "in front of": (0, 1)}
"""Columns and rows from a thing to its neighbour on that side."""
_NEAREST, _FARTHEST, _ASIDE = 2, 6, 1
"""A neighbour is so many cells of 3 cm away, and at most one to a side."""
_THING, _SUPPORT = "[a-z]+ (?:block|bowl)", "(?: (?:in|on) ([a-z]+ (?:block|bowl)))?"
_STATE = re.compile(rf"the ({_THING}) is (in|on top of|out of|{'|'.join(_BESIDE)}) the ({_THING})")
_ENTRY = re.compile(rf"({_THING})( c\d+ r\d+{_SUPPORT} ->)? c(\d+) r(\d+){_SUPPORT}(?: stays)?")


def answered(
    answer: Callable[[Sequence[ChatRequest]], list[TokenReply | NoReply]], requests: Sequence[ChatRequest]
) -> list[TokenReply | NoReply]:
    """Have requests answered, and conclude from the places in each reply.

    An accepted step that the places deny is rejected. A task that they deny is asked about once more, with
    its states in reverse order: what was misread is often read rightly then.
    """
    replies = answer(requests)
    for i, request in enumerate(requests):
        parts = [part for message in request.conversation for part in message.parts if isinstance(part, str)]
        states, reply = _STATES.search(" ".join(parts)), replies[i]
        if states is None or isinstance(reply, NoReply):
            continue
        if None in (wanted := _wanted(states[1])) and len(wanted) == 1:
            continue  # other words than the lessons': the Critic's own conclusion stands
        task, is_task = states[2] or "", states[2] is not None
        verdict = concluded(states[1], reply.text, task)
        if is_task and not verdict.success:
            (second,) = answer([replace(request, conversation=tuple(map(_turned, request.conversation)))])
            look = concluded(states[1], second.text if isinstance(second, TokenReply) else "", task)
            verdict = look if look.success else verdict
        if is_task or (_ACCEPTED in reply.text and not verdict.success):
            replies[i] = TokenReply(verdict_reply(verdict), usage=reply.usage)
    return replies


def concluded(states: str, reply: str, task: str = "") -> Verdict:
    """Conclude from the places in a reply whether a step or a whole task is done.

    It is done where its states hold, no other thing has moved and all things can be seen. A state does not
    count whose block or target a later one moves. A thing that `task` names is in one of them.
    """
    wanted, listed = _wanted(states), reply.removeprefix("<think>").partition(".")[0]
    entries = [_ENTRY.fullmatch(entry) for entry in listed.split("; ")]
    places = {entry[1]: entry for entry in entries if entry}
    clear = [state for state in wanted if state]
    lasting = [
        state
        for i, state in enumerate(clear)
        if not any(later[1] in (state[1], state[3]) for later in clear[i + 1 :])
    ]
    holds = {state[0]: _holds(places, state) for state in lasting}
    said = [text if is_so else text.replace(" is ", " is not ") for text, is_so in holds.items()]
    moving = {state[1] for state in clear}
    faults = [f"The {name} was moved." for name, entry in places.items() if entry[2] and name not in moving]
    faults += [f"No step is about the {name}." for name in places if name in task and name not in states]
    if len(clear) < len(wanted):
        faults.append("Not all states are in words of its lessons.")
    if not all(entries) or "The arm is not away." in reply:
        faults.append("It cannot be told where everything is.")
    text = " ".join([f"{listed}.", *(f"T{words[1:]}." for words in said), *faults])
    return Verdict(success=all(holds.values()) and not faults, reasoning=text)


def _wanted(states: str) -> list[re.Match[str] | None]:
    return [_STATE.fullmatch(state.casefold().strip(" .")) for state in states.split("; ")]


def _holds(places: Mapping[str, re.Match[str]], state: re.Match[str]) -> bool:
    block, relation, target = state.groups()
    if block not in places or target not in places:
        return False
    *here, support = map(places[block].group, (4, 5, 6))
    if relation not in _BESIDE:
        return (support == target) == (relation != "out of")
    (x, y), there = _BESIDE[relation], map(places[target].group, (4, 5))
    columns, rows = (int(a) - int(b) for a, b in zip(here, there, strict=True))
    near = _NEAREST <= columns * x + rows * y <= _FARTHEST and abs(columns * y + rows * x) <= _ASIDE
    return near and support is None


def _turned(message: Message) -> Message:
    """The turn with the states of a task in reverse order."""
    parts = (
        _STATES.sub(lambda found: "; ".join(found[1].split("; ")[::-1]) + (found[2] or ""), part)
        if isinstance(part, str)
        else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))
