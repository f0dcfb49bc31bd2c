"""`python -m goalreel_ros.look --out picture.png`: what a node shows right now, as a picture; works over ssh.

Above, the contact sheet as an image viewer shows it; below, the markers as RViz draws them.
"""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import PIL.Image
import rclpy
import typer
from sensor_msgs.msg import Image as RawImage
from visualization_msgs.msg import MarkerArray

from goalreel.image import Image
from goalreel_ros.marker_rules import MarkerRules
from goalreel_ros.marker_view import MarkerScene
from goalreel_ros.pictures import decode
from goalreel_ros.qos import LATCHED

type LatchedMessages = dict[str, RawImage | MarkerArray]


def receive(node: str, timeout: float) -> LatchedMessages:
    """Listen for what the node latched on its two topics, `timeout` seconds at most; by topic."""
    topics = {f"{node}/storyboard/image": RawImage, f"{node}/markers": MarkerArray}
    seen: LatchedMessages = {}
    with rclpy.init():
        listener = rclpy.create_node("goalreel_look")
        for topic, kind in topics.items():
            listener.create_subscription(kind, topic, partial(seen.__setitem__, topic), LATCHED)
        end = time.monotonic() + timeout
        while len(seen) < len(topics) and time.monotonic() < end:
            rclpy.spin_once(listener, timeout_sec=0.1)
        listener.destroy_node()
    return seen


def picture_of(seen: LatchedMessages, width: int) -> Image:
    """Draw the pictures one above the other, `width` pixels wide.

    Raises:
        ValueError: the node's image is no picture.
    """
    parts: list[Image] = []
    for message in seen.values():
        if isinstance(message, RawImage):
            parts.insert(0, _scaled(decode(message), width))
        else:
            scene = MarkerScene()
            scene.apply(message)
            parts.append(scene.render(width))
    return Image(np.concatenate([part.pixels for part in parts]))


def _scaled(image: Image, width: int) -> Image:
    if image.size[0] == width:
        return image
    size = width, max(1, round(image.size[1] * width / image.size[0]))
    return Image(np.array(PIL.Image.fromarray(image.pixels).resize(size, PIL.Image.Resampling.LANCZOS)))


def look(
    out: Annotated[Path, typer.Option(help="The picture to write: .png or .jpg.")],
    node: Annotated[str, typer.Option(help="Full name of the node, with its namespace.")] = "/goalreel",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for it.")] = 10.0,
    width: Annotated[int, typer.Option(min=160, max=8192, help="Of the picture, in pixels.")] = 1280,
) -> None:
    """Write what a node shows right now, its contact sheet and its markers, as one picture."""
    seen = receive(node.rstrip("/"), timeout)
    if not seen:
        _fail(f"nothing from {node} within {timeout:g} s: is it active, in this ROS_DOMAIN_ID?")
    for message in seen.values():
        if isinstance(message, MarkerArray):
            for problem in MarkerRules().problems(message):
                typer.echo(f"markers: {problem}", err=True)
    for topic in ("storyboard/image", "markers"):
        if not any(t.endswith(f"/{topic}") for t in seen):
            typer.echo(f"nothing on {node}/{topic}: left out", err=True)
    try:
        picture = picture_of(seen, width)
        PIL.Image.fromarray(picture.pixels).save(out)
    except (ValueError, OSError) as e:
        _fail(f"{out}: {e}")
    typer.echo(f"{out}: {picture.size[0]}x{picture.size[1]}")


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(look)
