"""Conversations of many forms, and the classes of checkpoints that answer them in tests of HfChat."""

import numpy as np

from goalreel.chat.conversation import Message
from goalreel.image import Image
from support import tiny

BUILDERS = {"qwen3-vl": tiny.tiny_vlm, "idefics3": tiny.tiny_idefics3, "llava": tiny.tiny_llava}


def picture(width: int, height: int, seed: int = 0) -> Image:
    return Image(np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8))


def user(*parts):
    return (Message("user", parts),)


CONVERSATIONS = (
    (Message("system", ("be brief",)), *user("look at", picture(64, 48), "and put the block in the bowl")),
    user("no picture, and a rather longer text about the red bowl, the drawer and the gripper above them"),
    user(picture(96, 96, 1), "then", picture(40, 130, 2), "then", picture(33, 35, 3), "which is closest?"),
    (
        *user("a"),
        Message("assistant", ("{'step_number'",)),
        *user("not JSON; once more: ", picture(150, 70, 4)),
    ),
    user("lift it"),
)
