"""The lifecycle node `goalreel`."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate

from rcl_interfaces.msg import SetParametersResult
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter

from goalreel.errors import UserError
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.camera import FrameSlot
from goalreel.streaming.engine import Engine
from goalreel_ros import parameters
from goalreel_ros.cameras import CameraSlot
from goalreel_ros.convert import RequestRefusedError
from goalreel_ros.node_entities import NodeEntities
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import decode

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


def new_slot() -> CameraSlot:
    """Make a slot for the newest camera frame, which is decoded when it is read."""
    return FrameSlot(decode)


def log_failures[**P](
    transition: Callable[Concatenate["GoalreelNode", P], TransitionCallbackReturn],
) -> Callable[Concatenate["GoalreelNode", P], TransitionCallbackReturn]:
    """Log what a transition raises, which rclpy does not. A UserError makes it a FAILURE, not an ERROR."""

    name = transition.__name__.removeprefix("on_").replace("_", " ")

    @wraps(transition)
    def wrapper(self: "GoalreelNode", *args: P.args, **kwargs: P.kwargs) -> TransitionCallbackReturn:
        try:
            return transition(self, *args, **kwargs)
        except UserError as e:
            if not self.closed:
                self.get_logger().error(f"cannot {name}: {e}")
            return FAILURE
        except Exception as e:
            if not self.closed:
                self.get_logger().error(f"cannot {name}: {type(e).__name__}: {e}")
            raise

    return wrapper


class GoalreelNode(LifecycleNodeMixin, Node):
    """Declares its parameters when created. Everything else exists from configure to cleanup only.

    Configuring takes as long as the models load. Meanwhile the executor's other threads answer for the state.

    `build` makes the models of the preset that the parameters name, and `new_slot` the slot for the newest
    camera frame. `options` are those of any lifecycle node.

    Raises:
        InputError: an override has a name that is nearly a parameter's.
        rclpy.exceptions.ParameterException: an override has the wrong type or is out of range.
    """

    def __init__(
        self,
        build: Callable[[Preset], ModelSet],
        new_slot: Callable[[], CameraSlot] = new_slot,
        **options: Any,
    ) -> None:
        self._build, self._new_slot = build, new_slot
        self._entities: NodeEntities | None = None
        self._is_active = False
        self.closed = False
        """The process is about to end."""
        self._creation = threading.Lock()
        Node.__init__(self, "goalreel", **options)
        LifecycleNodeMixin.__init__(self, callback_group=ReentrantCallbackGroup())
        parameters.declare(self)
        for name in parameters.check_names(self._parameter_overrides, self._parameters):
            self.get_logger().warning(f"there is no parameter {name}: it is ignored")
        self.add_on_set_parameters_callback(self._check)
        self.add_post_set_parameters_callback(self._apply)

    @property
    def options(self) -> NodeOptions:
        """The parameters that concern ROS alone.

        Raises:
            InputError: a value is not valid.
        """
        return parameters.read_node_options(self)

    def close(self) -> None:
        """Stop the policy, and remove every entity for good. Works in any state, and ends any transition."""
        self.closed = True
        self._remove_entities()

    # -- transitions

    @log_failures
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Check the parameters, create every entity and load the models."""
        settings = parameters.read_engine_settings(self)
        with self._creation:
            if self.closed:
                return FAILURE
            self._entities = entities = NodeEntities(
                self, settings, self.options, self._active_engine, build=self._build, slot=self._new_slot()
            )
        try:
            loaded = entities.engine.load()
        except UserError:
            entities.publish_diagnostics()
            self._remove_entities()
            raise
        if not loaded:
            return FAILURE
        self.get_logger().info("configured; the models are loaded")
        return SUCCESS

    @log_failures
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Make sure that the models' servers answer, and accept requests."""
        entities = self._require_entities()
        if not entities.probe(self.options.server_timeout):
            return FAILURE
        entities.engine.start()
        self._is_active = True
        self.get_logger().info("active; ready for tasks")
        return super().on_activate(state)

    @log_failures
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the task under way as PREEMPTED. The models stay loaded."""
        self._is_active = False
        self._require_entities().end_task()
        self.get_logger().info("inactive")
        return super().on_deactivate(state)

    @log_failures
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Destroy every entity and release the models, so that configure works again."""
        self._remove_entities()
        return SUCCESS

    @log_failures
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Remove every entity, from any state."""
        self._remove_entities()
        return SUCCESS

    @log_failures
    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Remove every entity, so that the node is unconfigured again."""
        self._remove_entities()
        return SUCCESS

    # -- internals

    def _remove_entities(self) -> None:
        self._is_active = False
        with self._creation:
            entities, self._entities = self._entities, None
        if entities is not None:
            entities.stop()
            entities.outputs.finish()
            entities.outputs.wait_for_delivery(0.3)
            entities.destroy()

    def _require_entities(self) -> NodeEntities:
        if self._entities is None:
            raise RuntimeError("the node is not configured")
        return self._entities

    def _active_engine(self) -> Engine:
        if not self._is_active:
            raise RequestRefusedError(ErrorCode.NOT_ACTIVE, "the node is not active: activate it first")
        return self._require_entities().engine

    def _check(self, changed: list[Parameter]) -> SetParametersResult:
        return parameters.check(self, changed, self._entities is not None)

    def _apply(self, _: list[Parameter]) -> None:
        if self._entities is not None:
            self._entities.configure(parameters.read_engine_settings(self), self.options)
