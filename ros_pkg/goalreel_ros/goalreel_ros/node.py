"""The lifecycle node `goalreel`."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate

from rcl_interfaces.msg import SetParametersResult
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter

from goalreel.errors import UserError
from goalreel.models.load import Trio
from goalreel.models.presets import Preset
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.engine import Engine
from goalreel.streaming.frames import FrameSlot
from goalreel_ros import parameters
from goalreel_ros.cameras import CameraSlot
from goalreel_ros.node_entities import Parts
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import decode
from goalreel_ros.requests import Refused

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


def new_slot() -> CameraSlot:
    """Make a slot for the newest camera frame, which decodes it when it is looked at."""
    return FrameSlot(decode)


def told[**P](
    transition: Callable[Concatenate["GoalreelNode", P], TransitionCallbackReturn],
) -> Callable[Concatenate["GoalreelNode", P], TransitionCallbackReturn]:
    """Log what a transition raises, as rclpy does not. What a person can mend is a FAILURE, no ERROR."""

    name = transition.__name__.removeprefix("on_").replace("_", " ")

    @wraps(transition)
    def wrapper(self: "GoalreelNode", *args: P.args, **kwargs: P.kwargs) -> TransitionCallbackReturn:
        try:
            return transition(self, *args, **kwargs)
        except UserError as e:
            self.get_logger().error(f"cannot {name}: {e}")
            return FAILURE
        except Exception as e:
            self.get_logger().error(f"cannot {name}: {type(e).__name__}: {e}")
            raise

    return wrapper


class GoalreelNode(LifecycleNode):
    """Declares its parameters when made; everything else exists from configure to cleanup only.

    `build` makes the models of the preset that the parameters name, `new_slot` what holds the newest camera
    frame; `options` are those of any lifecycle node.

    Raises:
        rclpy.exceptions.ParameterException: an override of the wrong type or out of range.
    """

    def __init__(
        self,
        build: Callable[[Preset], Trio],
        new_slot: Callable[[], CameraSlot] = new_slot,
        **options: Any,
    ) -> None:
        self._build, self._new_slot = build, new_slot
        self._parts: Parts | None = None
        self._is_active = False
        super().__init__("goalreel", **options)
        parameters.declare(self)
        self.add_on_set_parameters_callback(self._check)
        self.add_post_set_parameters_callback(self._apply)

    @property
    def options(self) -> NodeOptions:
        """The parameters that concern ROS alone.

        Raises:
            InputError: one of them is wrong.
        """
        return parameters.read_node_options(self)

    def close(self) -> None:
        """Leave as the process ends, from whatever state: the policy is told to stop before the topics go."""
        self._is_active = False
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.stop()
            parts.outputs.finish()
            parts.outputs.delivered(0.3)
            parts.destroy()

    # -- transitions

    @told
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Check the parameters, create every entity."""
        settings = parameters.read_engine_settings(self)
        self._parts = Parts(
            self, settings, self.options, self._active, build=self._build, slot=self._new_slot()
        )
        self.get_logger().info("configured")
        return SUCCESS

    @told
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take requests. Models load in the background."""
        self._configured.engine.start()
        self._is_active = True
        self.get_logger().info("active; the models load in the background")
        return super().on_activate(state)

    @told
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the task under way as PREEMPTED, free the models."""
        self._is_active = False
        self._configured.stop()
        self.get_logger().info("inactive")
        return super().on_deactivate(state)

    @told
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Destroy every entity, so that configure works again."""
        self.close()
        return SUCCESS

    @told
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take everything away, from any state."""
        self.close()
        return SUCCESS

    @told
    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Take everything away, so that the node is unconfigured again."""
        self.close()
        return SUCCESS

    # -- inside

    @property
    def _configured(self) -> Parts:
        if self._parts is None:
            raise RuntimeError("the node is not configured")
        return self._parts

    def _active(self) -> Engine:
        if not self._is_active:
            raise Refused(ErrorCode.NOT_ACTIVE, "the node is not active: activate it first")
        return self._configured.engine

    def _check(self, changed: list[Parameter]) -> SetParametersResult:
        return parameters.check(self, changed)

    def _apply(self, _: list[Parameter]) -> None:
        if self._parts is not None:
            self._parts.configure(parameters.read_engine_settings(self), self.options)
