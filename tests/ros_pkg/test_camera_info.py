"""The calibration of a picture that shows a camera's view in another size."""

import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo, RegionOfInterest
from std_msgs.msg import Header

from goalreel_ros.pictures import scaled

K = [500.0, 0, 320, 0, 500, 240, 0, 0, 1]
P = [500.0, 0, 320, -24, 0, 500, 240, 0, 0, 0, 1, 0]
AT = Header(frame_id="optical")


def camera(**fields) -> CameraInfo:
    return CameraInfo(width=640, height=480, k=K, p=P, d=[0.1, -0.2], distortion_model="plumb_bob", **fields)


def test_the_same_size_keeps_the_calibration():
    info = scaled(camera(), (640, 480), AT)
    assert (info.header, info.width, info.height) == (AT, 640, 480)
    assert (info.k.tolist(), info.p.tolist()) == (K, P)
    assert (list(info.d), info.distortion_model) == ([0.1, -0.2], "plumb_bob")


@pytest.mark.parametrize("roi", [None, RegionOfInterest(x_offset=100, y_offset=80, width=320, height=240)])
@pytest.mark.parametrize("binning", [0, 2])
def test_a_point_lies_where_the_picture_shows_it(roi, binning):
    """A pixel of the sensor, cut and scaled to the picture, is the pixel that the new matrices project to."""
    made = scaled(camera(roi=roi or RegionOfInterest(), binning_x=binning, binning_y=binning), (160, 120), AT)
    corner, share = ((100, 80), 0.5) if roi else ((0, 0), 0.25)
    point = np.array([0.1, -0.05, 2.0, 1.0])
    for given, new, shape in ((K, made.k, (3, 3)), (P, made.p, (3, 4))):
        x, y, z = np.reshape(given, shape) @ point[: shape[1]]
        wanted = (np.array([x, y]) / z - corner) * share
        x, y, z = np.reshape(new, shape) @ point[: shape[1]]
        assert np.allclose([x / z, y / z], wanted)
    assert (made.binning_x, made.roi) == (0, RegionOfInterest())


@pytest.mark.parametrize("info", [None, CameraInfo(), CameraInfo(width=640, height=480)])
def test_without_a_calibration_it_says_so(info):
    made = scaled(info, (160, 120), AT)
    assert (made.width, made.height, made.k[0]) == (160, 120, 0)
