"""Tells whether the publisher of a topic is alive, and whether it always was."""

import threading

from rclpy.event_handler import QoSLivelinessChangedInfo, SubscriptionEventCallbacks


class PublisherLiveliness:
    """Tracks the liveliness events of a subscription with QoS `WATCHED`.

    `changed` is notified of each event. A publisher that came back has a higher count of `losses` than one
    that never left.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.alive = False
        self.losses = 0
        """How often a publisher ended or fell silent."""
        self.events = SubscriptionEventCallbacks(liveliness=self._on_liveliness)
        """Callbacks to create the subscription with."""

    @property
    def gone(self) -> bool:
        """Whether there was a publisher, and there is none now."""
        return self.losses > 0 and not self.alive

    def _on_liveliness(self, event: QoSLivelinessChangedInfo) -> None:
        with self.changed:
            self.alive = event.alive_count > 0
            # The second condition: one publisher was killed while its successor is already there.
            self.losses += event.alive_count_change < 0 or event.not_alive_count_change > 0
            self.changed.notify_all()
