"""The sub-goal camera in each of its forms, as lerobot and goalreel read it back."""

from pathlib import Path
from typing import get_args

import av
import numpy as np
import pytest

from goalreel.datasets.source import Source
from goalreel.datasets.writing.plan import FORM
from goalreel.errors import DatasetError
from goalreel.subgoal_camera import SubGoalForm, in_form

KEY, FRONT = "observation.images.subgoal", "observation.images.front"
FORMS = get_args(SubGoalForm)
BOARD = {"tail": 2, "drawn": (2,)}


@pytest.fixture(scope="module", params=FORMS)
def written(request, video_dataset, annotated, tmp_path_factory) -> tuple[str, Path]:
    """A form, and a dataset in it: its first two episodes are annotated."""
    out = tmp_path_factory.mktemp(request.param) / "out"
    return request.param, annotated(video_dataset, out, {0: BOARD, 1: {}}, form=request.param)


def test_every_frame_shows_its_goal_in_that_form(written, board):
    form, out = written
    episode = Source.open(out).episode(0)
    live, shown = ([i.pixels for i in episode.frames(key, range(len(episode)))] for key in (FRONT, KEY))
    for step in board(len(episode), **BOARD).steps:
        image, span = step.goal_image, step.segment
        goal = live[span.end - 1] if image.frame else image.pixels
        for frame in range(span.start, span.end):
            wanted = {name: in_form(name, goal, live[frame]).astype(int) for name in FORMS}
            errors = {name: np.abs(shown[frame] - w).mean() for name, w in wanted.items()}
            assert min(errors, key=errors.get) == form, (frame, errors)
            assert errors[form] < 6
    assert all(picture.max() < 8 for picture in shown[-2:]), "without a goal it is black in every form"


def test_every_episode_begins_with_a_keyframe_and_made_again_it_has_the_same_bytes(
    written, video_dataset, annotated, tmp_path
):
    form, out = written
    (path,) = (out / "videos" / KEY).rglob("*.mp4")
    with av.open(str(path)) as container:
        keys = [frame.key_frame for frame in container.decode(video=0)]
    assert [keys[at] for at in (0, 12, 21)] == [True] * 3
    again = annotated(video_dataset, tmp_path / "out", {0: BOARD, 1: {}}, form=form)
    assert (again / path.relative_to(out)).read_bytes() == path.read_bytes()


def test_another_pass_keeps_to_the_form_that_is_there(written, annotated, tmp_path):
    form, out = written
    other = "plain" if form != "plain" else "beside"
    with pytest.raises(
        DatasetError, match=f"in the form '{form}', not '{other}': take --subgoal-form {form}"
    ):
        annotated(out, tmp_path / "other", {2: {}}, form=other)
    more = Source.open(annotated(out, tmp_path / "more", {2: {}}, form=form))
    assert more.features[KEY]["info"][FORM] == form
    (shown,) = more.episode(2).frames(KEY, [0])
    assert shown.pixels.max() > 8
