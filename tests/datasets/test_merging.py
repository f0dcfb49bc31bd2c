"""Datasets that lerobot does not merge: each difference is said, with the option that makes them alike."""

from collections.abc import Callable
from typing import Any

import pytest

from goalreel.annotator.check import check
from goalreel.datasets.health.issues import merge_issues
from goalreel.datasets.source import Source
from goalreel.datasets.writing.plan import TextOptions

OPTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "the same": ({}, ()),
    "other words": ({"text": TextOptions(replace_rows=True, task_aug=True)}, ()),
    "no language": ({"text": TextOptions(language=False)}, ("--no-language", "--no-language")),
    "a task per frame": ({"text": TextOptions(task_per_frame=True)}, ("--task-per-frame",)),
    "another form": ({"form": "bordered"}, ("--subgoal-form",)),
    "another key": ({"camera_key": "observation.images.goal"}, ("--subgoal-key",) * 4),
    "progress": ({"text": TextOptions(progress=True)}, ("--details progress",)),
}


@pytest.fixture(scope="module")
def plain(annotated, video_dataset, tmp_path_factory) -> Source:
    return Source.open(annotated(video_dataset, tmp_path_factory.mktemp("plain") / "out", {0: {}}))


@pytest.mark.parametrize("name", OPTIONS)
def test_every_difference_names_its_option(name, plain, annotated, video_dataset, tmp_path):
    from lerobot.datasets.feature_utils import features_equal_for_merge

    options, remedies = OPTIONS[name]
    other = Source.open(annotated(video_dataset, tmp_path / "other", {0: {}}, **options))
    issues = list(merge_issues(plain, other))
    assert len(issues) == len(remedies)
    for issue, remedy in zip(issues, remedies, strict=True):
        assert issue.text.startswith("lerobot cannot merge them: ")
        assert remedy in issue.text
    assert features_equal_for_merge(plain.features, other.features) == (not remedies)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "fps": (lambda i: i.update(fps=30), "fps is 10 and 30"),
    "robot": (lambda i: i.update(robot_type="so100"), "robot_type is koch_follower and so100"),
    "dims": (lambda i: i["features"]["action"].update(shape=[7]), "shape of action is [4] and [7]"),
    "extra": (lambda i: i["features"].update(reward=i["features"]["action"]), "remove_feature"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_no_option_mends_is_said_too(name, video_dataset):
    change, words = CHANGES[name]
    one, other = Source.open(video_dataset), Source.open(video_dataset)
    change(other.info)
    (issue,) = merge_issues(one, other)
    assert words in issue.text


def test_check_says_it(plain, video_dataset):
    report = check(plain, merge=video_dataset)
    texts = [issue.text for issue in report.issues if issue.kind == "merge"]
    assert len(texts) == 4
    assert any("only" in text and "--subgoal-key" in text for text in texts)
