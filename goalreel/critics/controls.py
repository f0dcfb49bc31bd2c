"""Control questions: candidates whose true verdict is known, made of a run's own pictures and words.

Each "no" is certain or is not asked. Pictures: the one that is offered lacks what the step changed, wherever
that changed. Words: they are those of a step that is not done yet, or say another thing of the same place.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.critics.difference import DifferenceCritic
from goalreel.image import Image
from goalreel.terms import ControlKind
from goalreel.types import Candidate, Step

type Mask = NDArray[np.bool_]
_SIDE = 256  # the longer side at which pictures are compared
_LACKS = 0.8  # share of a changed region that looks unlike the goal where a picture lacks the change
_LARGEST = 0.5  # share of the picture that changes from which on the camera has moved
_PLACED = re.compile(r"\b(in|into|inside|on|onto|at|to|beside|behind|between|under|next to|front of)\b", re.I)
_REMOVED = re.compile(r"\b(out|off|away|empty|clear\w*|remov\w*|wip\w*|clean\w*|from|gone|no)\b", re.I)
_OPPOSITES: Sequence[tuple[str, str]] = (
    ("open", "closed"), ("opened", "closed"), ("left", "right"), ("in front of", "behind"), ("full", "empty"),
    ("inside", "outside"), ("above", "below"), ("upright", "upside down"), ("switched on", "switched off"),
    ("turned on", "turned off"),
)  # fmt: skip
_VERBS = (("open", "close"), ("push", "pull"), ("switch on", "switch off"))
_NO_SIDE = re.compile(r"\b(left|right) (in|on|at|inside|next|behind|under|where|there)\b", re.I)
"""Words such as "the cup is left on the table", whose opposite says the same."""
_SHARED = re.compile(r"(?i)\b(left|right|front|behind|beside|between|next|near|above|below|under|table)\b")
"""Places that a thing may have besides another one, as those that it has left (`_REMOVED`)."""


@dataclass(frozen=True)
class Control:
    """A question with a known answer: yes for `true`, else no."""

    kind: ControlKind
    candidate: Candidate

    @cached_property
    def key(self) -> str:
        """Digest of what is asked, whichever task it stands in."""
        return key_of(self.candidate, self.kind)


def key_of(candidate: Candidate, *more: str) -> str:
    """Digest of a candidate's words, of a grid of its pictures' pixels, and of `more`."""
    words = "\0".join((candidate.instruction, candidate.prompt, *more))
    digest = hashlib.blake2b(words.encode(), digest_size=8)
    for image in (candidate.source, candidate.image):
        if image is not None:
            every = max(1, max(image.size) // _SIDE)
            digest.update(f"{image.size}".encode() + image.pixels[::every, ::every].tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Story:
    """An accepted candidate, the task's others so far by step, and its plan if anybody saw it."""

    candidate: Candidate
    accepted: Mapping[int, Candidate]
    steps: Sequence[Step] = ()

    def controls(self, kind: ControlKind) -> Iterator[Control]:
        """Make the questions of a kind that are certain; mostly none or one."""
        return (Control(kind, candidate) for candidate in _MAKERS[kind](self))


def _with(candidate: Candidate, **changes: Any) -> Candidate:
    return candidate.model_copy(update=changes)


def _blank(story: Story) -> Iterator[Candidate]:
    yield _with(story.candidate, image=Image(np.full_like(story.candidate.image.pixels, 127)))


def _unchanged(story: Story) -> Iterator[Candidate]:
    source = story.candidate.source
    if source is not None and _region(story.candidate) is not None:
        yield _with(story.candidate, image=source)


def _earlier_goal(story: Story) -> Iterator[Candidate]:
    for earlier in sorted(story.accepted, reverse=True):
        image = story.accepted[earlier].image
        if earlier <= story.candidate.step - 2 and _lacks(image, story.candidate):
            yield _with(story.candidate, image=image)


def _later_words(story: Story) -> Iterator[Candidate]:
    later = story.candidate
    for number, earlier in story.accepted.items():
        differ = earlier.instruction.strip().lower() != later.instruction.strip().lower()
        if number < later.step and differ and _lacks(earlier.image, later):
            words = {"instruction": later.instruction, "prompt": later.prompt}
            yield _with(earlier, **words, first_prompt=later.first_prompt)


def _opposite_words(story: Story) -> Iterator[Candidate]:
    candidate = story.candidate
    swapped = _swapped(candidate.instruction, _OPPOSITES)
    if swapped is not None and swapped not in _all_words(story):
        prompt = _swapped(candidate.prompt, (*_OPPOSITES, *_VERBS)) or swapped
        yield _with(candidate, instruction=swapped, prompt=prompt, first_prompt=None)


def _swapped(text: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    """The text with one word replaced by its opposite; None unless exactly one of them is in it."""
    opposites = {a: b for pair in pairs for a, b in (pair, pair[::-1])}
    found = re.findall(rf"\b({'|'.join(opposites)})\b", text, re.I)
    if len(found) != 1 or _NO_SIDE.search(text):
        return None
    return re.sub(rf"\b{found[0]}\b", opposites[found[0].lower()], text)


def _other_thing(story: Story) -> Iterator[Candidate]:
    """Say of the step what another step of the same pattern says in one place, where both differ in two.

    "the red block is in the bowl" and "the green block is on the plate": nobody put red on the plate.
    """
    candidate = story.candidate
    words, taken = candidate.instruction.split(), _all_words(story)
    for step in story.steps:
        others = step.instruction.split()
        places = [i for i, (a, b) in enumerate(zip(words, others, strict=False)) if a != b]
        if len(words) != len(others) or len(places) < 2 or len({words[i] for i in places}) < 2:
            continue
        place = places[-1]  # the thing stays and its place is another one
        text = " ".join((*words[:place], others[place], *words[place + 1 :]))
        old, new = words[place].strip(".,;"), others[place].strip(".,;")
        if old.lower() in re.findall(r"\w+", step.instruction.lower()):
            continue  # what lies on the one may be said to lie on what that lies on
        if _SHARED.search(f"{old} {text}") or _REMOVED.search(f"{old} {text}"):
            continue
        exact = len(re.findall(rf"\b{re.escape(old)}\b", candidate.prompt, re.I)) == 1
        prompt = re.sub(rf"\b{re.escape(old)}\b", new, candidate.prompt, flags=re.I) if exact else text
        named = [word.strip(".,;").lower() for word in text.split()]
        if text not in taken and old.lower() not in named and named.count(new.lower()) == 1:
            yield _with(candidate, instruction=text, prompt=prompt, first_prompt=None)


def _other_change(story: Story) -> Iterator[Candidate]:
    """Show what another step changed, or undo it, in place of what this one did."""
    for candidate, other in _pairs(story):
        assert candidate.source is not None
        yield _with(candidate, image=_changed_as(candidate.source, candidate, other))


def _damaged(story: Story) -> Iterator[Candidate]:
    """Let what the step put somewhere vanish, or change another thing besides."""
    candidate, pictures = story.candidate, list[Callable[[], Image]]()
    text, region = candidate.instruction, _region(candidate)
    if candidate.source is None or region is None or candidate.image.recorded:
        return
    is_put = _PLACED.search(text) and not _REMOVED.search(text)
    if is_put and (new := _appeared(candidate, region)) is not None:
        pictures.append(partial(_blend, candidate.image, candidate.source, new))
    pictures += [partial(_changed_as, c.image, c, other) for c, other in _pairs(story) if c is candidate]
    if pictures:
        yield _with(candidate, image=pictures[int(key_of(candidate), 16) % len(pictures)]())


_MAKERS: Mapping[ControlKind, Callable[[Story], Iterator[Candidate]]] = {
    "blank": _blank,
    "unchanged": _unchanged,
    "earlier_goal": _earlier_goal,
    "later_words": _later_words,
    "opposite_words": _opposite_words,
    "other_thing": _other_thing,
    "other_change": _other_change,
    "damaged": _damaged,
}


def _pairs(story: Story) -> Iterator[tuple[Candidate, Candidate]]:
    """Yield this and another step, whose changes lie apart; the first is to be shown the other's change."""
    this = story.candidate
    for other in story.accepted.values():
        for candidate, change in ((this, other), (other, this)):
            a, b = _region(candidate), _region(change)
            if a is None or b is None or candidate.image.recorded or change.image.recorded:
                continue
            if a.shape == b.shape and not (_grown(a, 6) & _grown(b, 6)).any():
                yield candidate, change


def _changed_as(image: Image, candidate: Candidate, other: Candidate) -> Image:
    """The picture with what another step changed: done where that comes later, else undone."""
    region = _region(other)
    assert region is not None
    assert other.source is not None
    return _blend(image, other.image if other.step > candidate.step else other.source, region)


def _all_words(story: Story) -> set[str]:
    return {step.instruction for step in story.steps} | {c.instruction for c in story.accepted.values()}


def _small(image: Image, size: tuple[int, int] | None = None) -> Image:
    return image.within(_SIDE) if size is None else image.within(_SIDE).resized(size)


def _region(candidate: Candidate) -> Mask | None:
    """Mark what a step changed, at the small size; None if that is nothing or nearly everything."""
    if candidate.source is None:
        return None
    image, critic = _small(candidate.image), DifferenceCritic()
    pictures = _small(candidate.source, image.size).pixels, image.pixels
    region = critic.changed(*pictures)
    return region if critic.shows_change(*pictures) and region.mean() <= _LARGEST else None


def _lacks(image: Image, candidate: Candidate) -> bool:
    """Tell whether a picture lacks what the candidate's step changed."""
    region = _region(candidate)
    if region is None:
        return False
    goal = _small(candidate.image)
    unlike = DifferenceCritic().changed(goal.pixels, _small(image, goal.size).pixels)
    return float(unlike[region].mean()) >= _LACKS


def _appeared(candidate: Candidate, region: Mask) -> Mask | None:
    """The parts of the region where something came, with more edges; None unless another part lost some."""
    assert candidate.source is not None
    image = _small(candidate.image)
    before, after = (
        np.abs(cv2.Laplacian(cv2.cvtColor(p.pixels, cv2.COLOR_RGB2GRAY), cv2.CV_64F))
        for p in (_small(candidate.source, image.size), image)
    )
    _, labels = cv2.connectedComponents(_grown(region, 2).astype(np.uint8))
    new, gone = np.zeros_like(region), False
    for label in range(1, int(labels.max()) + 1):
        part = labels == label
        if part.sum() < region.sum() / 8:
            continue
        ratio = after[part].mean() / max(1e-6, before[part].mean())
        new |= part & (ratio > 1.25)
        gone |= ratio < 0.8
    return new if new.any() and gone else None


def _grown(region: Mask, pixels: int) -> Mask:
    return cv2.dilate(region.astype(np.uint8), np.ones((2 * pixels + 1,) * 2, np.uint8)).astype(bool)


def _blend(image: Image, other: Image, region: Mask) -> Image:
    """The picture with a region of another one, with soft edges."""
    soft = cv2.GaussianBlur(_grown(region, 4).astype(np.float32), (0, 0), 1.0)
    share = cv2.resize(soft, image.size, interpolation=cv2.INTER_LINEAR)
    where, pixels = share > 0, image.pixels.copy()
    weight = share[where][:, None]
    mixed = pixels[where] * (1 - weight) + other.resized(image.size).pixels[where] * weight
    pixels[where] = np.round(mixed).astype(np.uint8)
    return Image(pixels)
