"""Questions to a model whose answers are known: does it look at the pictures that it is sent?"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.chat.conversation import Chat, ChatRequest, Conversation, Message, TokenReply, least_tokens
from goalreel.critics.examiner import examine
from goalreel.image import Image
from goalreel.planners.watch.planner import WatchPlanner
from goalreel.types import Candidate, Critic, Failure, Plan, Task

SIDE = 512
INSTRUCTION = "put the red block in the blue bowl"
_START, _END = (110, 290), (310, 250)
"""Left and upper edge of the block on the table, and in the bowl."""
_FRAMES, _FPS = 60, 10.0


def drawn_scene(block: tuple[int, int] = _START) -> Image:
    """Draw a table with a red block and a blue bowl, SIDE x SIDE."""
    pixels = np.full((SIDE, SIDE, 3), (203, 196, 186), np.uint8)
    pixels[: SIDE // 3] = (228, 230, 232)
    cv2.ellipse(pixels, (350, 340), (90, 62), 0, 0, 360, (44, 84, 190), -1, cv2.LINE_AA)
    cv2.ellipse(pixels, (350, 322), (72, 36), 0, 0, 360, (26, 52, 128), -1, cv2.LINE_AA)
    left, top = block
    cv2.rectangle(pixels, block, (left + 80, top + 80), (196, 44, 40), -1)
    cv2.rectangle(pixels, block, (left + 80, top + 16), (224, 92, 86), -1)
    return Image(pixels)


def critic_sight(critic: Critic, chat: Chat | None, conversation: Conversation | None) -> tuple[str, bool]:
    """Ask a Critic control questions about a drawn scene; return what is found, and whether it looks.

    `conversation` is a question that `chat`, if it is one, was asked before.
    """
    candidate = Candidate(
        task_id="sight",
        step=0,
        source=drawn_scene(),
        image=drawn_scene(_END),
        instruction="The red block lies inside the blue bowl.",
        prompt=INSTRUCTION,
    )
    (first,) = critic.judge([candidate])
    if isinstance(first, Failure):  # refused as by a model that knows its world
        return f"no answer to a question with a known answer: {first.message}", first.refused
    if first.pictures_only:
        return "compares no words with pictures: what it accepts is not verified", True
    answers = examine(critic, "it", [candidate]).kinds
    counted = _counted(chat, conversation) if chat is not None and conversation is not None else ""
    yes = [kind for kind, answer in answers.items() if answer.yes and kind != "true"]
    if false := [counted] * bool(counted) + [f"it accepted {kind}" for kind in yes]:
        return f"it is blind: {'; '.join(false)}", False
    lost = sum(answer.none for answer in answers.values())
    said = "what is true, and nothing else" if first.success else "nothing: a drawing may not pass"
    without = f" ({lost} of {len(answers)} without a usable answer)" if lost else ""
    return f"accepted {said}{without}", True


def _counted(chat: Chat, conversation: Conversation) -> str:
    """Say that the server counts as many tokens with pictures as without; empty where it does not."""
    text = tuple(
        Message(m.role, tuple("" if isinstance(part, Image) else part for part in m.parts))
        for m in conversation
    )
    replies = chat.answer([ChatRequest(conversation), ChatRequest(text)])
    counts = [r.usage.prompt for r in replies if isinstance(r, TokenReply) and r.usage and r.usage.prompt]
    if len(counts) < 2 or counts[0] - counts[1] >= least_tokens(conversation) / 4:
        return ""
    return f"its server counts {counts[0]} tokens with the pictures and {counts[1]} without"


class _Film:
    """A drawn recording, whose block moves into the bowl if the pictures are in `order`."""

    instruction, fps = INSTRUCTION, _FPS
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    timestamps: NDArray[np.float32] = (np.arange(_FRAMES) / _FPS).astype(np.float32)
    state = action = np.zeros((_FRAMES, 0), np.float32)

    def __init__(self, id: str, order: Sequence[int]) -> None:
        self.id, self._order = id, order

    def frames(self, camera: str, indices: Sequence[int]) -> list[Image]:
        way = np.clip((np.asarray(self._order)[list(indices)] - 20) / 20, 0, 1)
        places = np.outer(1 - way, _START) + np.outer(way, _END) - np.outer(np.sin(np.pi * way), (0, 120))
        return [drawn_scene((round(x), round(y))) for x, y in places]


def watcher_sight(chat: Chat) -> tuple[str, bool]:
    """Ask a planner that watches about drawn frames in order, shuffled and frozen; as `critic_sight`."""
    orders = {
        "in order": list(range(_FRAMES)),
        "shuffled": np.random.default_rng(0).permutation(_FRAMES).tolist(),
        "frozen": [0] * _FRAMES,
    }
    films = {name: _Film(name, order) for name, order in orders.items()}
    planner = WatchPlanner(films, chat, ["front"])
    seen, *others = planner.plan([Task(id=name, instruction=INSTRUCTION) for name in films])
    if isinstance(seen, Failure):
        return f"no plan of drawn frames: {seen.message}", False
    same = [name for name, plan in zip(list(films)[1:], others, strict=True) if plan == seen]
    # One step for all that happens may be so in any order.
    if "frozen" in same or (same and len(seen.steps) > 1):
        return f"it is blind: the same steps for frames that are {' or '.join(same)}", False
    answers = sum(isinstance(plan, Plan) for plan in others)
    return f"frames that are shuffled or frozen gave other steps ({answers} of 2 answered)", answers > 0
