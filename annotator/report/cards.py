"""Convert an EpisodeView to the values that the templates print: round numbers, encode pictures."""

import base64
import io
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import PIL.Image

from goalreel.claims import (
    CARRIED,
    NOBODY,
    OPERATOR,
    PERSON,
    PICTURE_CHECKS,
    RECORDING,
    ROWS,
    RULE,
    TITLES,
    Claim,
    Claims,
)
from goalreel.critics.examination import Examination, word, worst_word
from goalreel.image import Image
from goalreel.models.names import ModelName
from goalreel.types import Attempt, Segment, Storyboard, StoryboardStep, Word
from goalreel.wording import attempt_text, reader_text, rounded

_MAKERS = {
    RULE: "by a rule",
    ROWS: "from the dataset’s labels",
    CARRIED: "carried over from labelled episodes",
    RECORDING: "from the recording",
    PERSON: "by a person",
    OPERATOR: "by the operator",
}
_CHECKERS = {PERSON: "checked by a person", OPERATOR: "checked by the operator", NOBODY: "not checked"}
SHOWN, THUMBNAIL = 768, 256
"""Longest side, in pixels, of a picture in a page, and of one in the list of episodes."""
HUES = 6
"""Step colours in report.css: `.hue0` ... `.hue5`."""


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """One annotated episode, or a storyboard of its own."""

    index: int
    """The episode's number in its dataset; unique within a report."""
    title: str
    instruction: str
    storyboard: Storyboard
    fps: float = 1.0
    """Frames a second of the recording."""
    length: int = 0
    """Frames in the recording; 0 for a storyboard that was planned and never recorded."""
    end_frames: tuple[Image | None, ...] = ()
    """The real frame at the end of each step's segment, one a step; empty when there is none at all."""
    examination: Examination | None = None

    @property
    def seconds(self) -> str | None:
        """The recording's length in words; None without one."""
        return f"{self.length / self.fps:.1f} s" if self.length else None

    @property
    def message(self) -> str | None:
        """The failure of its plan to show, if any."""
        failure = self.storyboard.failure
        return None if failure is None else f"{failure.stage}: {failure.message}"

    @property
    def word(self) -> Word:
        """The least that a step of it is worth."""
        return worst_word(self.storyboard, self.examination)

    @property
    def tally(self) -> str:
        """Count its steps by what they are worth, what is in doubt first; empty without steps."""
        counts = Counter(word(step, self.examination) for step in self.storyboard.steps)
        pictured = counts.total() - counts["text"]
        parts = [f"{counts['in doubt']} of {counts.total()} steps in doubt"] if counts["in doubt"] else []
        known: tuple[Word, ...] = ("observed", "accepted", "verified")
        parts += [f"{counts[one]} of {pictured} steps {one}" for one in known if counts[one]]
        if pictured and not parts:
            parts = [f"0 of {pictured} steps accepted"]
        if counts["text"]:
            parts.append(f"{counts['text']} in words alone")
        return ", ".join([*parts, "the end in doubt"] if self.storyboard.end_doubt else parts)


def display_name(model: str) -> str:
    """The name of a model without kind, folder, address and options, and without a note in brackets.

    >>> display_name("hf:/models/some-planner?dtype=float32 (its own prompt)")
    'some-planner'
    """
    name = model.partition(" (")[0]
    return ModelName.parse(ModelName.parse(name).identity()).brief() or name


def claim_line(claim: Claim) -> str:
    """Maker and checker of one claim, and whether it is in doubt.

    >>> claim_line(Claim(by="rule")), claim_line(Claim(by="model hf:a/b?top_p=1", checked="person"))
    ('by a rule, not checked', 'by b, checked by a person')
    """

    def who(name: str) -> str:
        model = name.removeprefix("model ")
        return name if model == name else display_name(model)

    maker = _MAKERS.get(claim.by) or f"by {who(claim.by)}"
    check = _CHECKERS.get(claim.checked) or f"checked by {who(claim.checked)}"
    if claim.checked == PICTURE_CHECKS:
        check = "refused by picture checks" if claim.doubts else "passed picture checks"
    return f"{maker}, {check}{', in doubt' if claim.doubts else ''}"


def claim_lines(claims: Claims) -> list[str]:
    """The claims of a step; those of one maker and one checker, in doubt or not, share a line."""
    titles: dict[str, list[str]] = {}
    for name, claim in claims.items():
        titles.setdefault(claim_line(claim), []).append(TITLES[name])
    return [f"{', '.join(names).capitalize()}: {line}" for line, names in titles.items()]


def jpeg(image: Image, side: int) -> bytes:
    """Encode as JPEG, the longest side at most `side` pixels.

    Small pictures get full colour resolution: there every pixel shows.
    """
    picture = PIL.Image.fromarray(image.pixels)
    picture.thumbnail((side, side), PIL.Image.Resampling.LANCZOS, reducing_gap=3.0)
    data = io.BytesIO()
    small = max(picture.size) <= THUMBNAIL
    picture.save(data, "JPEG", quality=92 if small else 85, subsampling=0 if small else 2)
    return data.getvalue()


class Picture(NamedTuple):
    """An encoded picture with the text that stands for it."""

    uri: str
    alt: str
    width: int
    height: int
    source: str | None
    """Camera and frame of a recorded picture."""


class Bar(NamedTuple):
    """A step on the time line; `left` and `width` in percent of the episode."""

    number: int
    hue: int
    left: float
    width: float
    word: Word
    text: str


class AttemptCard(NamedTuple):
    """One attempt, and what is said of it."""

    number: int
    recorded: Attempt
    picture: Picture | None
    text: str
    reply: str | None
    """Reply of the model word for word, where the page says it in another way."""
    scores: str
    """The Critic's numbers, in words; empty without any."""


class StepCard(NamedTuple):
    """One step with its encoded pictures."""

    number: int
    hue: int
    recorded: StoryboardStep
    word: Word
    goal: Picture | None
    """The frame of the recording; None where pictures were drawn, which are in `attempts`."""
    end: Picture | None
    """The real frame at the end, beside pictures that were drawn, or in the place of a missing goal image."""
    attempts: tuple[AttemptCard, ...]
    note: str
    """The picture checks' reason against the frame; empty without any."""


def span(segment: Segment, fps: float) -> str:
    """A segment in seconds, e.g. `1.2–3.4 s`."""
    return f"{segment.start / fps:.1f}–{segment.end / fps:.1f} s"


def told(step: StoryboardStep, examination: Examination | None) -> str:
    """A step's worth, with a note if it failed in the recording."""
    return f"{word(step, examination)}{', failed attempt' if step.step.outcome == 'failed' else ''}"


def when(step: StoryboardStep, fps: float) -> str | None:
    """The place of a step in the recording, or the reason why it has none."""
    alignment = step.alignment
    if alignment is not None and alignment.reason is not None:
        return f"Not found in the recording: {alignment.reason}"
    if step.segment is None:
        return None
    off = "" if alignment is None or alignment.cost is None else f" · differs at end by {alignment.cost:.2f}"
    failed = " · failed attempt" if step.step.outcome == "failed" else ""
    return f"{span(step.segment, fps)}{off}{failed}"


def late(step: StoryboardStep, fps: float) -> str | None:
    """Say how long after a step's end its goal image was recorded; None where it was not."""
    goal, cut = step.goal_image, step.segment
    number = ((goal and goal.frame) or "").rpartition("#")[2]
    over = int(number) + 1 - cut.end if cut and number.isdecimal() else 0
    return f"{over / fps:.1f} s after the step ends, when what it claims has come true" if over > 0 else None


def ticks(seconds: float, max_ticks: int = 6) -> Iterator[tuple[float, str]]:
    """(percent, label) at round times from 0 on, at most `max_ticks` of them after the first."""
    rough = seconds / max_ticks
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * n for n in (1, 2, 5, 10) if unit * n >= rough)
    for i in range(math.floor(seconds / step + 1e-9) + 1):
        yield 100 * i * step / seconds, f"{i * step:g} s"


def bars(view: EpisodeView) -> Iterator[Bar]:
    """The time line's segments; a step without one is left out."""
    for i, step in enumerate(view.storyboard.steps):
        if (cut := step.segment) is not None:
            yield Bar(
                number=i + 1,
                hue=i % HUES,
                left=100 * cut.start / view.length,
                width=100 * (cut.end - cut.start) / view.length,
                word=word(step, view.examination),
                text=f"{step.step.name} · {span(cut, view.fps)} · {told(step, view.examination)}",
            )


def encoded(image: Image | None, alt: str) -> Picture | None:
    """Encode a picture for a page; `alt` stands for it."""
    if image is None:
        return None
    scale = min(1.0, SHOWN / max(image.size))
    width, height = (max(1, round(side * scale)) for side in image.size)
    source = image.frame
    if source is not None and "#" in source:  # LeRobot's own prefix says nothing here
        camera, _, index = source.removeprefix("observation.images.").rpartition("#")
        source = f"{camera} · frame {index}"
    uri = "data:image/jpeg;base64," + base64.b64encode(jpeg(image, SHOWN)).decode()
    return Picture(uri, alt, width, height, source)


def attempt_card(number: int, attempt: Attempt, step: str, *, pictured: bool) -> AttemptCard:
    """One attempt at a step, which `step` names, without its picture unless `pictured`."""
    verdict, alt = attempt.verdict, f"{step}: attempt {number}, {attempt.outcome}"
    scores, reply = list[str](), attempt.failure.reply if attempt.failure else None
    if verdict is not None:
        if reader_text(verdict.reasoning) != verdict.reasoning:
            reply = verdict.reasoning
        if verdict.probability is not None:
            scores.append(f"probability of success {verdict.probability:.2f}")
        for name, score in (("semantics", verdict.semantics), ("quality", verdict.quality)):
            scores += [] if score is None else [f"{name} {rounded(score)}/10"]
    picture = encoded(attempt.image, alt) if pictured else None
    return AttemptCard(number, attempt, picture, attempt_text(attempt), reply, " · ".join(scores))


def step_cards(view: EpisodeView) -> Iterator[StepCard]:
    """The steps of an episode with their pictures."""
    goals = view.storyboard.goal_images()
    for i, (step, goal) in enumerate(zip(view.storyboard.steps, goals, strict=True)):
        label, worth = f"Step {i + 1}, {step.step.name}", word(step, view.examination)
        observed = step.status == "observed" or any(a.image and a.image.recorded for a in step.attempts)
        cards = [attempt_card(n, a, label, pictured=not observed) for n, a in enumerate(step.attempts, 1)]
        chosen = cards[-1 if step.chosen is None else step.chosen] if cards else None
        end = view.end_frames[i] if view.end_frames and not (observed and goal) else None
        yield StepCard(
            number=i + 1,
            hue=i % HUES,
            recorded=step,
            word=worth,
            goal=encoded(goal, f"{label}: goal image, {worth}") if observed else None,
            end=encoded(end, f"{label}: real end frame"),
            attempts=() if observed else tuple(cards),
            note=chosen.text if observed and chosen and not step.accepted else "",
        )
