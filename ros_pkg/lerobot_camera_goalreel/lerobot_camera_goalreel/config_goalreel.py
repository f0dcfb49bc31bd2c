"""The camera's settings, as lerobot's command lines take them."""

from dataclasses import dataclass

from lerobot.cameras.configs import CameraConfig, ColorMode

IMAGE = "/image/compressed"


@CameraConfig.register_subclass("goalreel")
@dataclass(kw_only=True)
class GoalreelCameraConfig(CameraConfig):
    """Settings of a GoalreelCamera. `width` and `height` are those that the policy was trained with.

    Raises:
        ValueError: a value is not valid.
    """

    topic: str = "/goalreel/subgoal/image/compressed"
    fps: int | None = 30
    """Rate at which an unchanged goal counts as a new frame, for `read` and `async_read`."""
    color_mode: ColorMode = ColorMode.RGB
    timeout_s: float = 5.0
    """Seconds that `connect` waits for the node."""
    warmup_s: float = 1.0
    """Seconds that `connect` waits for a first goal; without one the picture is black."""
    require_verified: bool = False
    """Show no goal image that a critic has not accepted: black in its place."""
    refuse_degraded: bool = False
    """Show no goal of a plan that lost a model: black in its place."""
    heartbeat: str = ""
    """The node's `~/progress`, where it is not beside `~/subgoal` of the topic."""

    def __post_init__(self) -> None:
        self.color_mode = ColorMode(self.color_mode)
        self.checked_size()
        self.checked_rate()
        if not self.topic:
            raise ValueError("`topic` cannot be empty.")
        if self.goal_topic == self.topic:
            raise ValueError(
                f"`require_verified` and `refuse_degraded` need a topic in {IMAGE}: got {self.topic}"
            )
        if self.timeout_s < 0 or self.warmup_s < 0:
            raise ValueError(
                f"`timeout_s` and `warmup_s` cannot be negative: got {self.timeout_s}, {self.warmup_s}"
            )

    @property
    def goal_topic(self) -> str:
        """The topic of the whole sub-goal, where its status counts; empty where any goal is shown."""
        return self.topic.removesuffix(IMAGE) if self.require_verified or self.refuse_degraded else ""

    def checked_size(self) -> tuple[int, int]:
        """Give width and height, which are optional in lerobot's own class.

        Raises:
            ValueError: one is missing or not positive.
        """
        if not self.width or not self.height or self.width < 0 or self.height < 0:
            raise ValueError(
                "`width` and `height` must be given, as the policy was trained: "
                f"got {self.width}x{self.height}"
            )
        return self.width, self.height

    def checked_rate(self) -> int:
        """Give `fps`, which is optional in lerobot's own class.

        Raises:
            ValueError: it is missing or not positive.
        """
        if not self.fps or self.fps < 0:
            raise ValueError(f"`fps` must be positive, but {self.fps} is provided.")
        return self.fps
