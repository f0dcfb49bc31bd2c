"""What lerobot's own tools make of an annotated dataset, and its records brought along."""

import json
import shutil

import pytest
from support.killing import tree
from support.recordings import load

from goalreel.annotator.annotate import build_records
from goalreel.annotator.show import read_storyboards, show
from goalreel.datasets.carry_over import carry_over
from goalreel.datasets.corrections.events import GiveVerdict, RenameStep
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError

KEY = "observation.images.subgoal"
NAMES = [(f"reach {i}", f"grasp {i}", f"put {i}") for i in range(4)]


@pytest.fixture(scope="module")
def out(sharded_dataset, annotated, tmp_path_factory):
    """Episode 2 of four has no record; one picture of episode 3 is drawn."""
    episodes = {i: {"names": NAMES[i], "drawn": (1,) if i == 3 else ()} for i in (0, 1, 3)}
    return annotated(sharded_dataset, tmp_path_factory.mktemp("carry_over") / "out", episodes)


def told(root):
    """Episode -> (id, names of its steps), with all pictures read."""
    return {i: (b.task.id, tuple(s.step.name for s in b.steps)) for i, b in read_storyboards(root)}


def test_records_follow_deleted_episodes(out, tmp_path):
    from lerobot.datasets.dataset_tools import delete_episodes

    rest = delete_episodes(load(out), [1], output_dir=tmp_path / "rest", repo_id="local/rest").root
    assert not (rest / FOLDER).exists(), "lerobot drops them"
    with pytest.raises(DatasetError, match="or goalreel carry-over where lerobot's tools made it"):
        show(rest, tmp_path / "none")
    (rest / FOLDER).mkdir()  # all that a call left which was killed at once
    found = carry_over(rest, [out])
    assert (found.recorded, found.unrecorded) == (2, (1,))
    assert told(rest) == {0: ("episode_000000", NAMES[0]), 2: ("episode_000002", NAMES[3])}
    assert show(rest, tmp_path / "report").is_file()
    before = tree(rest)
    (rest / FOLDER / "episodes/chunk-000/.goalreel-tmp-8dd27238-episode_000000.json").touch()
    carry_over(rest, [out])
    assert tree(rest) == before
    path = rest / FOLDER / "settings.json"
    stored = json.loads(path.read_bytes())
    stored["settings"]["camera"] = KEY
    path.write_text(json.dumps(stored))
    with pytest.raises(DatasetError, match="correct and build what it was made from"):
        build_records(rest)


def test_corrections_follow_their_records(out, tmp_path):
    from lerobot.datasets.dataset_tools import delete_episodes

    mine = shutil.copytree(out, tmp_path / "mine")
    reviews, length = Reviews(Records(mine / FOLDER, "")), len(Source.open(mine).episode(3))
    revision = reviews.change(3, length, 0, "ann", RenameStep(step="0", name="named by ann")).revision
    reviews.change(3, length, revision, "ann", GiveVerdict(verdict="accept"))
    rest = delete_episodes(load(mine), [0, 1], output_dir=tmp_path / "rest", repo_id="local/rest").root
    carry_over(rest, [mine])
    theirs = Reviews(Records(rest / FOLDER, "")).look(1, length).review
    assert (theirs.verdict, theirs.steps[0].step.name) == ("accept", "named by ann")
    assert told(rest) == {1: ("episode_000001", ("named by ann", *NAMES[3][1:]))}
    again = Reviews(Records(rest / FOLDER, ""))
    seen = again.look(1, length).revision
    again.change(1, length, seen, "bob", GiveVerdict(verdict="reject"))
    before = tree(rest)
    carry_over(rest, [mine])
    assert tree(rest) == before, "what was corrected since then stays"
    revision = reviews.look(3, length).revision
    reviews.change(3, length, revision, "ann", RenameStep(step="1", name="renamed by ann"))
    with pytest.raises(
        DatasetError, match=r"episode 1 was corrected here and in .*mine: edit the dataset anew"
    ):
        carry_over(rest, [mine])
    assert tree(rest) == before


@pytest.mark.long
def test_records_follow_a_split_and_a_merge(out, tmp_path):
    from lerobot.datasets.dataset_tools import merge_datasets, split_dataset

    parts = split_dataset(load(out), {"a": [0, 2], "b": [1, 3]}, output_dir=tmp_path / "parts")
    for part in parts.values():
        carry_over(part.root, [out])
    assert [told(parts[name].root) for name in "ab"] == [
        {0: ("episode_000000", NAMES[0])},
        {0: ("episode_000000", NAMES[1]), 1: ("episode_000001", NAMES[3])},
    ]
    both = [parts["b"], parts["a"]]
    merged = merge_datasets(both, output_repo_id="local/m", output_dir=tmp_path / "m").root
    with pytest.raises(DatasetError, match="episode 2 is in no dataset that --from names"):
        carry_over(merged, [parts["b"].root])
    carry_over(merged, [part.root for part in both])
    assert told(merged) == {
        0: ("episode_000000", NAMES[1]),
        1: ("episode_000001", NAMES[3]),
        2: ("episode_000002", NAMES[0]),
    }
    item = load(merged)[0]
    assert not item["subgoal_is_pad"]
    assert item["language_persistent"][0]["content"].startswith("1. reach 1")


@pytest.mark.long
def test_a_removed_feature(out, tmp_path):
    """Without the action an episode is known by its state; without the camera its record shows nothing."""
    from lerobot.datasets.dataset_tools import remove_feature

    poor = remove_feature(load(out), "action", output_dir=tmp_path / "poor", repo_id="local/poor").root
    assert carry_over(poor, [out]).recorded == 3
    front = "observation.images.front"
    blind = remove_feature(load(out), front, output_dir=tmp_path / "blind", repo_id="local/blind").root
    with pytest.raises(DatasetError, match=f"has no camera {front}, which the record of episode 0 shows"):
        carry_over(blind, [out])
    assert not (blind / FOLDER).exists()


def test_what_cannot_be_carried_over_is_refused(out, sharded_dataset, tmp_path):
    with pytest.raises(DatasetError, match="has no records: name what goalreel annotate wrote"):
        carry_over(out, [sharded_dataset])
    with pytest.raises(DatasetError, match="has records already"):
        carry_over(out, [out])
    bare = shutil.copytree(out, tmp_path / "bare")
    shutil.rmtree(bare / FOLDER)
    other = shutil.copytree(out, tmp_path / "other")
    record = other / FOLDER / "episodes/chunk-000/episode_000001.json"
    record.write_text(json.dumps(json.loads(record.read_bytes())))
    with pytest.raises(DatasetError, match="episode 1 has the same data as 2 episodes, whose records differ"):
        carry_over(bare, [out, other])
