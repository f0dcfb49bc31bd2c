"""The CameraInfo of a goal picture, from that of the camera whose view it shows."""

import numpy as np
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import Header


def scaled(info: CameraInfo | None, size: tuple[int, int], at: Header) -> CameraInfo:
    """Make the CameraInfo of a picture of the camera's whole view in `size` (width, height).

    It scales K and P as image_proc's resize does. Binning and region of interest are in them, and not in
    fields of their own. K is zero, which means uncalibrated, where the camera's own is not known.
    """
    width, height = size
    message = CameraInfo(header=at, width=width, height=height)
    if info is None or not (info.width and info.height):
        return message
    roi = info.roi
    x, y = width / (roi.width or info.width), height / (roi.height or info.height)
    scale = np.array([[x, 0, -x * roi.x_offset], [0, y, -y * roi.y_offset], [0, 0, 1]])
    message.distortion_model, message.d, message.r = info.distortion_model, info.d, info.r
    message.k = (scale @ np.reshape(info.k, (3, 3))).ravel()
    message.p = (scale @ np.reshape(info.p, (3, 4))).ravel()
    return message
