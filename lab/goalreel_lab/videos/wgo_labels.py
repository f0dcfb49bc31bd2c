"""WGO-Bench's two questions to a chat model: what a segment shows, and whether two labels agree.

The benchmark has a language model judge labels; neither its prompt nor its model's version is published with
the data. Both prompts here are goalreel's own words, so label figures depend on the judge that is chosen.
"""

import re

import numpy as np

from goalreel.chat.conversation import Message
from goalreel.planners.watch.contact_sheet import TILES, contact_sheet
from goalreel_lab.published.benchmark import Inquiry, JudgeFacts
from goalreel_lab.videos.recording import CAMERA, VideoRecording

JUDGE = JudgeFacts("a language model", temperature=0.0, max_tokens=1024, official_prompts=False)
LABELLER = JudgeFacts("the model that labels", temperature=0.0, max_tokens=1024, official_prompts=False)
LONGEST = 200
"""Letters of a label."""
_LABEL = (
    "The pictures are frames of one segment of a longer video, in order, each under its number and its time. "
    "The task of the whole video: {instruction}\n"
    "Say which one manipulation was completed in this segment. Name the thing that was handled and, if it "
    "was brought somewhere, where to. Answer with one short imperative sentence, such as: put the red cup on "
    "the tray."
)
_JUDGE = (
    "Two people described the same moment of a video of a robot or of hands at work.\n"
    "A: {gold}\nB: {label}\n"
    "Do both describe the same completed manipulation: the same action on the same thing, with the same "
    "result? Other words, more or less detail and small differences of colour names do not matter. Answer "
    "with one word, SAME or DIFFERENT."
)


def label_inquiry(recording: VideoRecording, start_s: float, end_s: float) -> Inquiry:
    """Ask what a segment of a video shows, on a sheet of at most TILES frames.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    first, last = np.searchsorted(recording.timestamps, (start_s, end_s))
    last = max(int(last) - 1, int(first))
    count = len(recording.timestamps)
    frames = np.linspace(min(first, count - 1), min(last, count - 1), TILES).round().astype(int)
    sheet = contact_sheet(recording, (CAMERA,), sorted(set(frames.tolist())))
    text = _LABEL.format(instruction=recording.instruction)
    return Inquiry("label", (Message("user", (text, sheet)),), read_label)


def judge_inquiry(gold: str, label: str) -> Inquiry:
    """Ask whether two labels agree."""
    return Inquiry("same", (Message("user", (_JUDGE.format(gold=gold, label=label),)),), read_same)


def read_label(reply: str) -> str | None:
    """Read the sentence of a reply: its last line with words; None where there is none, or a long one.

    >>> read_label("I see a cup.\\n\\n**Put the cup on the tray.**")
    'Put the cup on the tray'
    """
    lines = [line.strip(" \t*`\"'.-") for line in reply.splitlines()]
    words = next((line for line in reversed(lines) if re.search(r"\w", line)), "")
    return words if 0 < len(words) <= LONGEST else None


def read_same(reply: str) -> bool | None:
    """Read the last of the two words that a reply says; None where it says none.

    >>> read_same("Not quite the same thing.\\nDIFFERENT")
    False
    """
    words = re.findall(r"\b(SAME|DIFFERENT)\b", reply)
    return words[-1] == "SAME" if words else None
