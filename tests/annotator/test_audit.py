"""`goalreel check --audit`: spoiled labels are found among those that a dataset has."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from support.cli import goalreel, invoke
from support.faults import DATA, TASKS, both, column, info, table
from support.recordings import make_dataset
from support.robots import cuts, pick_and_place

import goalreel as api
from goalreel.datasets.episode import episode_id
from goalreel.types import Verdict

SPEEDS = (8, 10, 12, 9, 11, 10) * 3
LABELS = ("reach for the cup", "put the cup in the box", "go home")
COLOURS = ("red", "blue", "green", "grey", "black", "white", "brown", "pink")


def states(fps, seed):
    return pick_and_place(np.random.default_rng(seed), fps)[:, :4]


@pytest.fixture(scope="module")
def cups(tmp_path_factory):
    """Eighteen episodes of one instruction, without labels."""
    root = tmp_path_factory.mktemp("audit") / "cups"
    made, task = list(map(states, SPEEDS, range(18))), "move the cup into the box"
    return make_dataset(root, states=made, cameras=("front",), task=task)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """Eight episodes of two sub-tasks, each of an instruction of its own, and not two of words alike."""
    root = tmp_path_factory.mktemp("audit") / "blocks"
    twice = [np.vstack([states(n, seed), states(n, seed + 8)]) for seed, n in enumerate(SPEEDS[:8])]
    make_dataset(root, states=twice, cameras=("front",))
    tasks = [", then ".join(steps) for steps in map(asked, range(8))]
    counted = column(DATA, "task_index", lambda _: [i for i, rows in enumerate(twice) for _ in rows])
    named = table(TASKS, lambda _: pa.table({"task_index": range(8), "task": tasks}))
    both(both(counted, named), info(lambda i: i.update(total_tasks=8)))(root)
    return root


def asked(episode):
    first, second = COLOURS[episode], COLOURS[(episode + 3) % 8]
    return f"put the {first} block in the {second} bowl", f"put the {second} block on the {first} plate"


def write(root, labels):
    """Write labels as lerobot's annotation tool does: episode -> (name, start, end) in frames."""
    spans = {
        str(e): {"subtasks": [{"label": n, "start": a / 10, "end": b / 10} for n, a, b in steps]}
        for e, steps in labels.items()
    }
    (root / "meta/lerobot_annotations.json").write_text(json.dumps({"episodes": spans}))


def of_cups():
    return {
        e: [(name, *span) for name, span in zip(LABELS, pairwise([0, *cuts(fps)]), strict=True)]
        for e, fps in enumerate(SPEEDS)
    }


def audited(root, tmp_path, labels):
    copy = shutil.copytree(root, tmp_path / "data")
    write(copy, labels)
    result = invoke("check", copy, "--audit", "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["audit"]


FAULTS = ("wrong object", "swapped", "cut shifted", "merged", "split", "invented")


def spoil(steps, fault):
    (a, start, end), (b, _, last), *rest = steps
    spoiled = {
        "wrong object": [(a, start, end), ("put the pan in the box", end, last)],
        "swapped": [(b, start, end), (a, end, last)],
        "cut shifted": [(a, start, end + 15), (b, end + 15, last)],
        "merged": [(a, start, last)],
        "split": [(a, start, end), (b, end, end + 12), (b, end + 12, last)],
        "invented": [(a, start, end - 8), ("wipe the table", end - 8, end), (b, end, last)],
    }
    steps[:] = spoiled[fault] + rest


def test_each_spoiled_label_is_found_among_those_of_its_instruction(cups, tmp_path):
    labels = of_cups()
    for episode, fault in enumerate(FAULTS, 3):
        spoil(labels[episode], fault)
    del labels[0]
    audit = audited(cups, tmp_path, labels)
    assert {(f["episode"], f["fault"]) for f in audit["findings"]} == set(enumerate(FAULTS, 3))
    assert (audit["episodes"], audit["labels"], audit["faults"]["swapped"]) == (17, 52, 2)


def test_true_labels_are_silent(cups, tmp_path):
    audit = audited(cups, tmp_path, of_cups())
    assert (audit["labels"], audit["findings"], audit["faults"]) == (54, [], {})


@pytest.mark.parametrize("faults", [{1: "swapped", 5: "merged", 6: "split"}, {3: "cut shifted"}])
def test_a_label_is_compared_with_its_instruction_and_the_hand(faults, blocks, tmp_path):
    labels = {}
    for e, fps in enumerate(SPEEDS[:8]):
        middle, end = cuts(fps)[2], 2 * cuts(fps)[2]
        labels[e] = [(asked(e)[0], 0, middle), (asked(e)[1], middle, end)]
    for episode, fault in faults.items():
        spoil(labels[episode], fault)
    audit = audited(blocks, tmp_path, labels)
    assert {f["episode"]: f["fault"] for f in audit["findings"]} == faults


def test_three_episodes_are_too_few_to_compare(blocks, tmp_path):
    """Each label says "put", and two instructions of three: no reason to suspect the third one's."""
    texts = [", then ".join(asked(e)) for e in range(8)]
    texts[0] = texts[0].replace("put", "drop")
    root, labels = shutil.copytree(blocks, tmp_path / "few"), {}
    table(TASKS, lambda _: pa.table({"task_index": range(8), "task": texts}))(root)
    for e, fps in enumerate(SPEEDS[:3]):
        edges = pairwise([0, cuts(fps)[0], cuts(fps)[2], cuts(fps)[2] + cuts(fps)[0], 2 * cuts(fps)[2]])
        names = [name for step in asked(e) for name in (f"pick up {step[4:17]}", step)]
        labels[e] = [(name, *span) for name, span in zip(names, edges, strict=True)]
    audit = audited(root, tmp_path, labels)
    assert (audit["labels"], audit["findings"]) == (12, [])
    few = (
        "3 of 3 labelled episodes are of tasks with 3 or fewer, too few to compare: label 4 or more of a task"
    )
    assert audit["unread"] == [few]


def test_the_table_names_each_label_and_what_cannot_be_read(cups, tmp_path):
    root, labels = shutil.copytree(cups, tmp_path / "data"), of_cups()
    assert "no episode has sub-task labels" in goalreel("check", root, "--audit")
    spoil(labels[2], "split")
    labels[4][1] = (labels[4][1][0], 5, labels[4][1][2])
    write(root, labels)
    said = " ".join(goalreel("check", root, "--audit").split())
    assert "52 in 17 episodes, 1 of them may be wrong: split 1" in said
    assert 'episode 2, step 3 "put the cup in the box", 3.7-5.8 s: split: ' in said
    assert "episode 4: the sub-tasks" in said
    report = api.check(root, audit=True)
    assert report.audit is not None
    assert [found.fault for found in report.audit.findings] == ["split"]
    assert api.check(root).audit is None


class Doubter:
    """A Critic that refuses one step, and nothing else."""

    def judge(self, candidates):
        return [
            Verdict(success=(c.task_id, c.step) != (episode_id(7), 1), reasoning="An empty box.")
            for c in candidates
        ]


def test_what_a_critic_refused_is_a_finding_with_how_right_it_is(cups, tmp_path):
    write(shutil.copytree(cups, tmp_path / "data"), of_cups())
    api.annotate(tmp_path / "data", tmp_path / "out", planner="rows", critic=Doubter())
    audit = api.check(tmp_path / "out", audit=True).audit
    assert audit is not None
    (found,) = audit.findings
    assert (found.episode, found.step, found.fault, found.sure) == (7, 1, "refused", 0.0)
    assert found.why == "the critic says: An empty box."
    assert "control questions" in audit.critic
