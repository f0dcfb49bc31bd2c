"""How a storyboard's loop runs and how its critic is asked: the part of a preset that is no model's name."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from goalreel.settings import READ_ONLY, Panel, Settings
from goalreel.terms import Background, Keep, Mode, References

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
        Mode,
        Field(
            description="Which of its two prompts the critic gets: strict suits "
            "Critic-8B, fast suits Critic-SFT-8B.",
            json_schema_extra=READ_ONLY,
        ),
        CRITIC,
    ] = "strict"
    """The dialect `interleavethinker` asks both alike."""
    critic_scores: Annotated[
        bool,
        Field(description="Also ask the critic for scores from 0 to 10.", json_schema_extra=READ_ONLY),
        CRITIC,
    ] = False
    """They choose the best of rejected attempts. No published checkpoint was trained to give them."""
    critic_threshold: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            description="Accept a picture from this probability of success on, "
            "instead of by the critic's yes or no.",
            json_schema_extra=READ_ONLY,
        ),
        CRITIC,
    ] = None
    """None takes the critic's word."""
    critic_live: Annotated[
        Literal["candidate", "observed"],
        Field(
            description="How the critic is asked about live frames. candidate: in the words for an editor's "
            "pictures, which nano needs. observed: in those for a camera's, which suit other chat models.",
            json_schema_extra=READ_ONLY,
        ),
        LIVE,
    ] = "candidate"
    """No threshold applies to `observed`."""
    confirm: Annotated[
        bool,
        Field(
            description="Ask the critic at the end, on live frames, whether the whole task is done. Where it "
            "does not confirm, the task ends as UNVERIFIED, not SUCCEEDED."
        ),
        LIVE,
    ] = True
    confirm_steps: Annotated[
        int | None,
        Field(
            ge=1,
            le=1000,
            description="Most steps of a task that the critic can judge as a whole. A longer "
            "task is not judged, and ends as UNVERIFIED.",
        ),
        LIVE,
    ] = None
    """None for a critic that can judge a task of any length; nano's knows single steps alone."""
    max_attempts: Annotated[int, Field(ge=1, le=1000, description="Most pictures to draw for a step.")]
    """The paper's T."""
    keep: Annotated[
        Keep,
        Field(
            description="Which picture to keep where all of a step were rejected: the best "
            "(by score, else by probability), or the last."
        ),
        CRITIC,
    ] = "best"
    references: Annotated[
        References,
        Field(
            description="What the editor sees beside the picture that it edits: nothing, the first frame, or "
            "all earlier pictures (of the task and of finished steps).",
            json_schema_extra=READ_ONLY,
        ),
        EDITOR,
    ] = "none"
    background: Annotated[
        Background,
        Field(
            description="When an edit moves or scales the background: correct it (a little is warped back, "
            "a lot is rejected), only measure it, or ignore it.",
            json_schema_extra=READ_ONLY,
        ),
        EDITOR,
    ] = "correct"
    max_steps: Annotated[
        int,
        Field(
            ge=1,
            le=1000,
            description="Most steps of a plan. A planner that writes more is asked again.",
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
