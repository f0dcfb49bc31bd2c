"""The entities and the layout of goalreel's Rerun recordings, of datasets, storyboards and the ROS node.

All texts are plain: models wrote them, and Markdown could make the viewer fetch addresses in them.
"""

from collections.abc import Sequence

import rerun as rr
import rerun.blueprint as rrb

from goalreel.annotator.report.cards import attempt_card, when
from goalreel.annotator.report.claim_text import claim_lines
from goalreel.annotator.report.pictures import SHOWN, jpeg
from goalreel.image import Image
from goalreel.types import Attempt, StoryboardStep

APPLICATION = "goalreel"
"""The viewer has one layout for all recordings of an application."""
GOAL, WORDS = "subgoal/goal", "subgoal/words"
LANES, STEP, PHASE = "lanes", "lanes/step", "lanes/phase"
CURVES, LOG, CRITIC = "curves", "log", "log/critic"
LEVELS = {"accepted": "INFO", "rejected": "WARN", "failed": "ERROR"}


def camera_entity(name: str) -> str:
    """Name the entity of a camera, by its name in a dataset or in ROS."""
    return f"camera/{rr.escape_entity_path_part(name.removeprefix('observation.images.'))}"


def picture(image: Image) -> rr.EncodedImage:
    """Encode a picture in the size that the report shows."""
    return rr.EncodedImage(contents=jpeg(image, SHOWN), media_type="image/jpeg")


def log(stream: rr.RecordingStream, entity: str, what: rr.AsComponents, *, static: bool = False) -> None:
    """Log to a stream; raise our errors, where Rerun would warn and drop the data."""
    stream.log(entity, what, static=static, strict=True)


def log_subgoal(stream: rr.RecordingStream, name: str, text: str, goal: rr.EncodedImage | None) -> None:
    """Log the sub-goal that holds from the stream's present time on; an empty `name` is none."""
    log(stream, STEP, rr.StateChange(state=name))
    log(stream, WORDS, rr.TextDocument(text))
    log(stream, GOAL, rr.Clear(recursive=False) if goal is None else goal)


def log_verdict(stream: rr.RecordingStream, text: str, outcome: str) -> None:
    """Log the Critic's text; `outcome` is accepted, rejected or failed."""
    log(stream, CRITIC, rr.TextLog(text, level=LEVELS[outcome]))


def step_text(number: int, step: StoryboardStep, fps: float) -> str:
    """Write the full text of a step and of the Critic on it, which the log cuts; `number` is from 1."""
    label = f"{number}. {step.step.name}"
    doubts = "\n".join(f"The words may be untrue: {doubt}." for doubt in step.step.doubts)
    claims = "\n".join(claim_lines(step.claims))
    details = "\n".join(step.step.details.lines()) if step.step.details else ""
    lines = (
        label,
        step.step.instruction,
        when(step, fps),
        step.step.auxiliary_text,
        step.status,
        claims,
        details,
        doubts,
    )
    attempts = (attempt_text(at, attempt, label)[0] for at, attempt in enumerate(step.attempts, start=1))
    return "\n\n".join(line for line in (*lines, *attempts) if line)


def attempt_text(number: int, attempt: Attempt, label: str) -> tuple[str, str]:
    """Write the full text of an attempt, and its outcome; `number` counts from 1."""
    card = attempt_card(number, attempt, label, pictured=False)
    scores = f" ({card.scores})" if card.scores else ""
    refined = f"Next prompt: {card.refined}" if card.refined else ""
    parts = (
        f"{label}, attempt {number}: {card.outcome}{scores}",
        card.text,
        f"Prompt: {card.prompt}",
        refined,
    )
    return "\n".join(filter(None, parts)), card.outcome


def blueprint(cameras: Sequence[str], timeline: str, *, curves: bool = True) -> rrb.Blueprint:
    """Cameras, sub-goals and curves on the left; the goal, its text and the Critic's on the right."""
    below = [rrb.StateTimelineView(origin=LANES, name="Sub-goals")]
    below += [rrb.TimeSeriesView(origin=CURVES, name="Curves")] if curves else []
    views = (rrb.Spatial2DView(origin=entity, name=entity.rpartition("/")[2]) for entity in cameras)
    pictures = rrb.Vertical(rrb.Grid(*views), *below, row_shares=[5, 1.5, 2][: 1 + len(below)])
    texts = rrb.Vertical(
        rrb.Spatial2DView(origin=GOAL, name="Goal image"),
        rrb.TextDocumentView(origin=WORDS, name="Sub-goal"),
        rrb.TextLogView(
            origin=LOG, name="Log", columns=rrb.TextLogColumns(text_log_columns=["loglevel", "body"])
        ),
        row_shares=[4, 3, 3],
    )
    return rrb.Blueprint(
        rrb.Horizontal(pictures, texts, column_shares=[3, 2]),
        rrb.TimePanel(timeline=timeline, state="collapsed"),
        rrb.SelectionPanel(state="hidden"),
    )
