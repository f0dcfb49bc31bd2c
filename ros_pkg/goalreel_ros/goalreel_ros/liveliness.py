"""Whether the publisher of a topic lives, and whether it always did."""

import threading

from rclpy.event_handler import QoSLivelinessChangedInfo, SubscriptionEventCallbacks


class Presence:
    """Keeps count of a subscription's liveliness events, as QoS `WATCHED` brings them.

    `changed` is notified of each. A node that came back differs in `losses` from one that never left.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.alive = False
        self.losses = 0
        """How often a publisher ended or fell silent."""
        self.events = SubscriptionEventCallbacks(liveliness=self._on_liveliness)
        """For the subscription."""

    @property
    def gone(self) -> bool:
        """Whether it was there, and is not any more."""
        return self.losses > 0 and not self.alive

    def _on_liveliness(self, event: QoSLivelinessChangedInfo) -> None:
        with self.changed:
            self.alive = event.alive_count > 0
            # The second: one was killed and its successor is there already.
            self.losses += event.alive_count_change < 0 or event.not_alive_count_change > 0
            self.changed.notify_all()
