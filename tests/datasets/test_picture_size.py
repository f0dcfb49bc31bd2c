"""Sizes come from pictures: what info.json says of a camera may be wrong, and lerobot loads it anyway."""

import json
import shutil

import pytest

from goalreel.datasets.health.inspect import inspect
from goalreel.datasets.source import Source, declared_size, declares
from goalreel.errors import DatasetError

FRONT, SUBGOAL = "observation.images.front", "observation.images.subgoal"
HWC = ["height", "width", "channels"]


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset"])
@pytest.mark.parametrize(
    ("shape", "names"),
    [
        ([480, 640, 3], HWC),
        ([3, 32, 48], None),
        ([3, 48, 48], None),
        ([32, 3, 48], ["c", "h", "w"]),
        ([3, 64, 96], ["rgb", "height", "width"]),
    ],
)
def test_the_subgoal_camera_has_the_size_in_which_the_camera_loads(
    kind, shape, names, annotated, tmp_path, request
):
    root = shutil.copytree(request.getfixturevalue(kind), tmp_path / "in")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][FRONT] |= {"shape": shape, "names": names}
    (root / "meta/info.json").write_text(json.dumps(info))
    source = Source.open(root)
    assert source.picture_size(FRONT) == (48, 48)
    issues = [issue for issue in inspect(source, source.indices) if issue.kind == "camera_size"]
    assert len(issues) == 1
    assert "frames of observation.images.front are 48x48, and" in issues[0].text
    out = annotated(root, tmp_path / "out", {0: {"drawn": (1,)}})
    feature = Source.open(out).features[SUBGOAL]
    assert (feature["shape"], feature["names"]) == ([48, 48, 3], HWC)
    assert Source.open(out).episode(0).frames(SUBGOAL, [0])[0].size == (48, 48)


@pytest.mark.parametrize(
    ("shape", "names", "size", "right"),
    [
        ([47, 63, 3], HWC, (63, 47), True),
        ([47, 63, 3], ["height", "width", "channel"], (63, 47), True),
        ([3, 48, 64], ["channels", "height", "width"], (64, 48), True),
        ([3, 48, 64], ["c", "h", "w"], (64, 48), True),
        ([3, 48, 64], ["rgb", "height", "width"], (64, 48), True),
        ([3, 48, 64], None, (64, 48), False),
        ([48, 64, 3], None, (64, 48), False),
        ([48, 64, 3], ["height", "width", "rgb"], (64, 48), False),
    ],
)
def test_shapes_are_read_as_lerobot_reads_them(shape, names, size, right):
    feature = {"shape": shape, "names": names}
    assert declared_size(feature) == size
    assert declares(feature, size) == right


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset"])
def test_a_thin_camera_is_refused(kind, request, monkeypatch):
    monkeypatch.setattr("goalreel.image.MAX_ASPECT", 0.9)
    with pytest.raises(
        DatasetError, match=r"episode 0: .*front.* an image of 48x48 pixels is too thin: crop"
    ):
        Source.open(request.getfixturevalue(kind)).episode(0).frames(FRONT, [0])
