# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""Subscribes to a latched topic of the node, and forgets what a node said that is gone or hangs."""

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.event_handler import (
    QoSLivelinessChangedInfo,
    SubscriptionEventCallbacks,
    UnsupportedEventTypeError,
)
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.subscription import MessageInfo

from goalreel_ros.qos import LATCHED, LEASE, alive


class LiveSubscription:
    """Gives the messages on a latched topic to `on_message`, and calls `on_loss` when a publisher is lost.

    It goes by the middleware's liveliness events, and until the first one comes by the node's heartbeat,
    `~/progress` beside `~/subgoal...`: rmw_zenoh refuses such events, or sends none (its pull request 934).

    After a loss, messages are requested anew from whoever is alive then: a node that only hung does not
    publish its goal again, and of two nodes only one may be lost. Both functions are called in the executor's
    thread, `on_loss` while `changed` is held. `changed` is notified of each change.

    Raises:
        RuntimeError: the middleware refuses liveliness events, and there is no heartbeat to go by.
    """

    def __init__(
        self,
        node: Node,
        kind: type[Any],
        topic: str,
        on_message: Callable[[Any], None],
        on_loss: Callable[[], None],
    ) -> None:
        self.changed = threading.Condition()
        self.alive = False
        self.losses = 0
        """Number of times that a publisher ended or fell silent."""
        self.last_sign = time.monotonic()
        """Time of the last sign of life of a publisher that is lost, in `time.monotonic`."""
        self._node, self._kind, self._topic = node, kind, topic
        self._on_message, self._on_loss = on_message, on_loss
        self._renewed: Any = None
        base, is_goal, _ = node.resolve_topic_name(topic).rpartition("/subgoal")
        self._heartbeat: _Heartbeat | None = None
        with suppress(ImportError):  # a policy's machine may not have the type
            from goalreel_interfaces.msg import StoryboardProgress

            if is_goal:
                self._heartbeat = _Heartbeat(node, StoryboardProgress, f"{base}/progress", self._update)
        try:
            events = SubscriptionEventCallbacks(liveliness=self._on_liveliness)
            node.create_subscription(kind, topic, self._on_first, alive(LEASE), event_callbacks=events)
        except UnsupportedEventTypeError:
            if self._heartbeat is None:
                raise RuntimeError(
                    f"this middleware does not tell whether the publisher of {topic} is alive: install "
                    "goalreel_interfaces, and keep the node's topic, ~/subgoal..."
                ) from None
            node.create_subscription(kind, topic, self._on_first, LATCHED)

    @property
    def gone(self) -> bool:
        """True if there was a publisher, and there is none now."""
        return self.losses > 0 and not self.alive

    def _on_first(self, message: Any) -> None:
        if not self.losses:
            self._on_message(message)
            if self._heartbeat is not None:
                self._heartbeat.expect()

    def _on_liveliness(self, event: QoSLivelinessChangedInfo) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        is_silent = event.not_alive_count_change > 0
        # Without the second condition: one publisher was killed while its successor is already there.
        was_away = event.alive_count_change < 0 or is_silent
        self._update(event.alive_count > 0, time.monotonic() - (LEASE if is_silent else 0), was_away=was_away)

    def _update(self, is_alive: bool, last_sign: float, *, was_away: bool) -> None:
        with self.changed:
            is_back = is_alive and not self.alive
            self.alive = is_alive
            if was_away:
                self.losses += 1
                self.last_sign = last_sign
                self._on_loss()
            # The first subscription stays for its events. Fast DDS counts no publisher as alive for a new
            # one that another of this process knows already.
            if self.losses and (was_away or is_back):
                if self._renewed is not None:
                    self._node.destroy_subscription(self._renewed)
                    self._renewed = None
                if is_alive:
                    create = self._node.create_subscription
                    self._renewed = create(self._kind, self._topic, self._on_message, LATCHED)
            self.changed.notify_all()


class _Heartbeat:
    """Watches a topic that living nodes publish a few times a second. Each publisher is told apart."""

    def __init__(self, node: Node, kind: type[Any], topic: str, update: Callable[..., None]) -> None:
        self._node, self._update = node, update
        self._last_signs: dict[Hashable, float] = {}
        self._subscription = node.create_subscription(
            kind, topic, self._on_beat, qos_profile_sensor_data, raw=True
        )
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still
        self._timer = node.create_timer(0.25, self._check, clock=steady)  # as often as it comes

    def stop(self) -> None:
        """Watch no more."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_subscription(self._subscription)
        self._last_signs.clear()

    def expect(self) -> None:
        """Count a node as lost of which nothing is heard from now on: it spoke, and then it died."""
        if not self._last_signs:
            self._last_signs[None] = time.monotonic()

    def _on_beat(self, _: bytes, info: MessageInfo) -> None:
        gid = (info.get("publisher_gid") or {}).get("data")
        self._last_signs.pop(None, None)
        is_new = not self._last_signs
        self._last_signs[bytes(gid or b"")] = now = time.monotonic()
        if is_new:
            self._update(True, now, was_away=False)

    def _check(self) -> None:
        now = time.monotonic()
        silent = {gid: at for gid, at in self._last_signs.items() if now - at > LEASE}
        for gid in silent:
            del self._last_signs[gid]
        if silent:
            self._update(bool(self._last_signs), max(silent.values()), was_away=True)
