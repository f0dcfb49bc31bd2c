"""How a storyboard's loop runs and how its critic is asked: the part of a preset that is no model's name."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from goalreel.settings import READ_ONLY, Panel, Settings
from goalreel.terms import Background, Keep, References

if TYPE_CHECKING:
    from goalreel.loop import LoopArguments

CRITIC = Panel("The critic")
EDITOR = Panel("The editor")
PLANNER = Panel("The planner")
LIVE = Panel("While a robot acts")
"""Fields that concern nothing but a running task."""


class LoopOptions(Settings):
    """The options of the loop. Commands, node parameters and servers take them from here."""

    critic_mode: Annotated[
        Literal["strict", "fast"],
        Field(
            description="How the critic is asked: strict for one trained by reinforcement (Critic-8B), fast "
            "for one that was only fine-tuned (Critic-SFT-8B).",
            json_schema_extra=READ_ONLY,
        ),
        CRITIC,
    ] = "strict"
    """The dialect `interleavethinker` asks both alike."""
    critic_scores: Annotated[
        bool,
        Field(description="Ask the critic for scores from 0 to 10 too.", json_schema_extra=READ_ONLY),
        CRITIC,
    ] = False
    """They choose the best of rejected attempts. No published checkpoint was trained to give them."""
    critic_threshold: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            description="Accept from this probability of success on, not by the critic's word.",
            json_schema_extra=READ_ONLY,
        ),
        CRITIC,
    ] = None
    """None takes the critic's word."""
    critic_live: Annotated[
        Literal["candidate", "observed"],
        Field(
            description="How the critic is asked about live frames: in the words for an editor's pictures, "
            "as nano learns them, or in those for a camera's, which suit other chat models.",
            json_schema_extra=READ_ONLY,
        ),
        LIVE,
    ] = "candidate"
    """No threshold applies to `observed`."""
    confirm: Annotated[
        bool,
        Field(
            description="Ask the critic at the end, on live frames, whether the task as a whole is done. "
            "What it does not confirm ends as UNVERIFIED, not as SUCCEEDED."
        ),
        LIVE,
    ] = True
    confirm_steps: Annotated[
        int | None,
        Field(
            ge=1,
            le=1000,
            description="Steps of a task that the critic can judge as a whole, at most. A longer one is not "
            "asked about, and ends as UNVERIFIED.",
        ),
        LIVE,
    ] = None
    """None for a critic that can judge a task of any length; nano's knows single steps alone."""
    max_attempts: Annotated[int, Field(ge=1, le=1000, description="Pictures a step, at most.")]
    """The paper's T."""
    keep: Annotated[
        Keep,
        Field(
            description="Which picture stays where all of a step were rejected: the best by the critic's "
            "scores, or else by its probability, or without either the last; or always the last."
        ),
        CRITIC,
    ] = "best"
    references: Annotated[
        References,
        Field(
            description="What the editor is shown beside the picture that it edits: nothing more, the first "
            "frame, or all pictures before it (those of the task and of finished steps).",
            json_schema_extra=READ_ONLY,
        ),
        EDITOR,
    ] = "none"
    background: Annotated[
        Background,
        Field(
            description="What is done where an edit moves or scales the background: correct warps a little "
            "back and rejects a lot before the critic looks; measure only records it; ignore does nothing.",
            json_schema_extra=READ_ONLY,
        ),
        EDITOR,
    ] = "correct"
    max_steps: Annotated[
        int,
        Field(
            ge=1,
            le=1000,
            description="Steps of a plan, at most. The planner is told of a longer plan and asked again.",
            json_schema_extra=READ_ONLY,
        ),
        PLANNER,
    ] = 40

    @property
    def loop_arguments(self) -> "LoopArguments":
        """The keywords of the loop."""
        return {
            "max_attempts": self.max_attempts,
            "keep": self.keep,
            "references": self.references,
            "background": self.background,
        }
