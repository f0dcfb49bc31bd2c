"""The whole plan as pictures for people: contact sheet and markers."""

from collections.abc import Callable
from typing import Any

from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.publisher import Publisher
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as RawImage
from visualization_msgs.msg import MarkerArray

from goalreel.streaming.board import Board
from goalreel_ros.contact_sheet import compose
from goalreel_ros.convert import header
from goalreel_ros.markers import MarkerBoard
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import Jpegs, raw


class Overview:
    """Draws boards. Each takes about 100 ms, so run it in a thread of its own."""

    def __init__(
        self,
        options: NodeOptions,
        create: Callable[[type[Any], str], Publisher],
        log: RcutilsLogger,
        now: Callable[[], int],
    ) -> None:
        self._log, self._now = log, now
        self._sheet = create(RawImage, "~/storyboard/image")
        self._compressed = create(CompressedImage, "~/storyboard/image/compressed")
        self._markers = create(MarkerArray, "~/markers") if options.publish_markers else None
        self._options = options
        self._marker_board = MarkerBoard(film_strip=options.film_strip)

    def configure(self, options: NodeOptions) -> None:
        """Use new options from the next board on."""
        if options.film_strip != self._options.film_strip:
            self._marker_board = MarkerBoard(film_strip=options.film_strip)
        self._options = options

    def draw(self, board: Board) -> None:
        """Publish the contact sheet and the markers of a board."""
        sheet = compose(board, self._options.contact_sheet_width)
        at = header(board.stamp or self._now(), board.frame_id)
        self._sheet.publish(raw(sheet, at))
        self._compressed.publish(Jpegs(self._options.jpeg_quality).message(sheet, at))
        if self._markers is not None:
            self._publish_markers(self._markers, board)

    def _publish_markers(self, publisher: Publisher, board: Board) -> None:
        frame_id = board.frame_id or self._options.frame_id
        if board.steps and not frame_id:
            self._log.warning(
                "no ~/markers: the camera's messages have no frame_id; set the parameter frame_id", once=True
            )
            return
        markers = self._marker_board.update(board, frame_id)
        if markers is not None:
            publisher.publish(markers)
