"""What a policy of lerobot sees of an annotated dataset (`goalreel check DATASET --policy`)."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from support.cli import fails, invoke, results
from support.faults import info
from support.places import ROOT
from support.policies import TINY_PI05, checkpoint, flags, tiny, train
from support.recordings import make_dataset
from support.tiny import tiny_smolvlm, tokenizer

from goalreel.annotator.policy import COUNTED, SPARE, VIEWS, WORDLESS

GOAL, PAD = "observation.images.subgoal", "subgoal_is_pad"
FRONT, WRIST = "observation.images.front", "observation.images.wrist"
NULL = "--policy.input_features=null"


@pytest.fixture(scope="module")
def goals(video_dataset, annotated, tmp_path_factory) -> Path:
    """Cameras front, wrist and the sub-goal's."""
    return annotated(video_dataset, tmp_path_factory.mktemp("out") / "out", {0: {}, 1: {}})


def seen(dataset: Path, policy: object) -> tuple[dict, list[tuple[str, str]], int]:
    """(what it sees, its issues as (level, text), exit status)."""
    result = invoke("check", dataset, "--policy", policy, "--json")
    report = json.loads(result.stdout)
    issues = [(i["level"], i["text"]) for i in report["issues"] if i["kind"] == "policy"]
    return report["policy"], issues, result.exit_code


CHECKPOINTS = [
    # type, its inputs, arguments, what the broken line says, cameras that it will not see
    ("act", ("front", "wrist", "subgoal"), "", "", ()),
    ("act", ("front", "wrist"), NULL, "will not see the sub-goal", ()),
    ("act", ("front",), NULL, "will not see the sub-goal", ()),
    ("act", ("front", "wrist", "top"), {"subgoal": "top"}, "will not see the sub-goal", ()),
    ("act", ("front", "wrist", "a", "b"), NULL, "will not see the sub-goal", ()),
    ("diffusion", ("front", "wrist"), "", "train a new one, --policy.type=diffusion", (GOAL,)),
    ("smolvla", ("camera1", "camera2", "camera3"),
     {"front": "camera1", "wrist": "camera2", "subgoal": "camera3"},
     "will not see the sub-goal", ()),
    ("smolvla", ("camera1", "camera2"), {"front": "camera1", "subgoal": "camera2"},
     "will not see the sub-goal", (WRIST,)),
    ("pi05", ("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb"),
     {"front": "base_0_rgb", "wrist": "left_wrist_0_rgb", "subgoal": "right_wrist_0_rgb"},
     "will not see the sub-goal", ()),
    ("xvla", ("front", "wrist", "image3", "image4"), {"subgoal": "image3"}, "will not see the sub-goal", ()),
    ("evo1", ("front", "wrist"), NULL, "will not see the sub-goal", ()),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "cameras", "arguments", "says", "unseen"), CHECKPOINTS)
def test_a_checkpoint(goals, tmp_path, kind, cameras, arguments, says, unseen):
    found, issues, status = seen(goals, checkpoint(tmp_path / "trained", kind, cameras))
    if isinstance(arguments, dict):
        (word,) = [w for w in shlex.split(found["arguments"]) if w.startswith("--rename_map=")]
        renamed = {
            f"observation.images.{key}": f"observation.images.{slot}" for key, slot in arguments.items()
        }
        assert json.loads(word.partition("=")[2]) == renamed
        assert all(found["inputs"][slot] == key for key, slot in renamed.items())
    else:
        assert found["arguments"] == arguments
    assert [
        text for level, text in issues if level == "broken" and says in text and found["arguments"] in text
    ] or not says
    assert status == (1 if says else 0)
    assert tuple(found["unseen"]) == unseen


@pytest.fixture(scope="module")
def one(tmp_path_factory) -> Path:
    """Cameras front and the sub-goal's, as far as meta/info.json goes."""
    root = make_dataset(tmp_path_factory.mktemp("one") / "one", (6,), cameras=("front",), size=96)
    mask = {"dtype": "bool", "shape": [1], "names": None}
    info(lambda i: i["features"].update({GOAL: dict(i["features"][FRONT]), PAD: mask}))(root)
    return root


def test_free_inputs_that_stay_empty(one, tmp_path):
    """SmolVLA was trained on three pictures: lerobot fills in an empty one where it is told to."""
    three = checkpoint(tmp_path / "trained", "smolvla", ("camera1", "camera2", "camera3"))
    found, issues, _ = seen(one, three)
    assert found["arguments"].endswith("--policy.empty_cameras=1")
    assert ("note", f"{three}: no camera fills observation.images.camera3") in issues


def test_one_that_was_trained_with_a_rename_map(goals, tmp_path):
    """Neither lerobot-train nor lerobot-rollout remembers it."""
    trained = checkpoint(tmp_path / "t", "act", ("front", "wrist", "top"), subgoal="observation.images.top")
    found, ((level, text),), status = seen(goals, trained)
    assert (level, status, found["inputs"]["observation.images.top"]) == ("warning", 0, GOAL)
    assert f"add --rename_map='{json.dumps({GOAL: 'observation.images.top'})}'" in text


@pytest.mark.parametrize(
    ("kind", "level", "says"),
    [
        ("act", "", ""),
        ("vqbet", "broken", "You must provide only one image"),
        ("tdmpc", "broken", "at most one image"),
        ("fastwam", "broken", "FastWAM action feature shape must be"),
        ("lingbot_va", "broken", "Add --policy.obs_cam_keys="),
        ("vla_jepa", "warning", "its world model leaves out the cameras after the second"),
        ("groot", "warning", "its base checkpoint names"),
        ("evo1", "", ""),
        ("gaussian_actor", "", ""),
    ],
)
def test_a_new_policy(goals, kind, level, says):
    found, issues, status = seen(goals, kind)
    assert [lvl for lvl, text in issues if says in text] == [level] * bool(level)
    assert status == (level == "broken")
    assert found["words"].startswith("no words" if kind in WORDLESS else "each frame's task")


def test_pictures_that_do_not_fit(one, tmp_path):
    """One policy takes a picture alone; another divides one among the cameras, and wants seven numbers."""
    assert "annotate with --subgoal-form beside" in seen(one, "vqbet")[1][0][1]
    seven = make_dataset(tmp_path / "seven", (6,), states=[np.zeros((6, 7))], names=list("abcdefg"))
    assert "its 2 cameras share one picture, so each has 224x224" in seen(seven, "fastwam")[1][0][1]


def test_what_is_no_policy(goals, tmp_path):
    assert "nor one of its types: act, diffusion" in fails("check", goals, "--policy", tmp_path)
    for name in ("acts", tmp_path / "absent"):  # no names of the Hub, which is not asked
        assert f"{name}: is neither a checkpoint" in (said := fails("check", goals, "--policy", name))
        assert "(no such folder)" in said


def test_a_dataset_without_goals(video_dataset):
    (issue,) = (
        i for i in results("check", video_dataset, "--policy", "act")["issues"] if i["kind"] == "policy"
    )
    assert (issue["level"], issue["text"].split()[-2:]) == ("note", ["goalreel", "annotate"])


SOURCES = {
    "evo1": ("modeling_evo1", r"len\(config.image_features\) > config.max_views"),
    "fastwam": ("configuration_fastwam", r"total_width // len\(image_keys\)"),
    "groot": ("processor_groot", r'"video_modality_keys": self.video_modality_keys'),
    "lingbot_va": ("modeling_lingbot_va", r"for k in self.config.obs_cam_keys"),
    "molmoact2": ("processor_molmoact2", r'"image_keys": list\(self.image_keys\)'),
    **{kind: (f"modeling_{kind}", r"(num_images|self\.num_cameras)$") for kind in COUNTED},
    **{kind: (f"modeling_{kind}", r"videos\[:, :num_views\]") for kind in VIEWS},
    **{
        kind: (f"modeling_{kind}", r"key for key in self.config.image_features if key in batch")
        for kind in SPARE
    },
}
"""Where lerobot's source says what its configuration classes do not."""


def test_lerobots_source_says_what_is_said_of_it():
    import lerobot.policies
    from lerobot.configs import PreTrainedConfig

    policies = Path(lerobot.policies.__file__).parent
    kinds = set(PreTrainedConfig.get_known_choices())
    assert len(kinds) == 19, "a policy more: read what it sees"
    text = {kind: "".join(f.read_text() for f in sorted((policies / kind).rglob("*.py"))) for kind in kinds}
    told = re.compile(r"TokenizerProcessorStep|[\"']task[\"']")
    assert {kind for kind in kinds if not told.search(text[kind])} == WORDLESS
    assert [kind for kind in kinds if re.search("language_persistent|RenderMessages", text[kind])] == []
    for kind, (module, pattern) in SOURCES.items():
        assert re.search(pattern, (policies / kind / f"{module}.py").read_text(), re.MULTILINE), kind
    present = re.compile(r"for key in self\.config\.image_features if key in batch")
    assert {kind for kind in kinds if present.search(text[kind])} == SPARE


def test_the_table_in_the_docs(tmp_path):
    """Each row says what lerobot's configuration class and the sets above say."""
    import lerobot.policies
    from lerobot.configs import PreTrainedConfig

    page = (ROOT / "docs/how-to/train-a-policy.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line
    ]
    table = {kind: row[1:] for row in rows for kind in re.findall(r"`(\w+)`", row[0])}
    assert lerobot.policies
    assert set(table) == set(PreTrainedConfig.get_known_choices()) - {"gaussian_actor"}, "it trains by itself"
    numbers = {n: make_dataset(tmp_path / str(n), (4,), cameras=list("abcd"[:n]), size=96) for n in (2, 4)}
    for kind, (words, cameras) in table.items():
        assert (words == "none") == (kind in WORDLESS), kind
        assert ("weights are for" in cameras) == (kind in COUNTED), kind
        assert ("may stay empty" in cameras) == (kind in SPARE), kind
        assert ("the world model" in cameras) == (kind in VIEWS), kind
        if kind in ("eo1", "fastwam"):  # the one needs the Hub, the other 8 numbers of state and 7 of action
            continue
        refused = [n for n, root in numbers.items() if "broken" in dict(seen(root, kind)[1])]
        assert refused == {"one:": [2, 4], "three": [4]}.get(cameras.split()[0], []), kind


@pytest.mark.slow
@pytest.mark.process
def test_fine_tuning_without_and_with_the_line(video_dataset, goals, tmp_path):
    """lerobot-train with the checkpoint of the recorded dataset goes to the end and never sees the goal."""
    act, dataset = flags(tiny("act")), "--dataset.repo_id=local/x"
    recorded, wide, on = (tmp_path / n for n in ("recorded", "wide", "on"))
    third = make_dataset(tmp_path / "third", (12,), cameras=("front", "wrist", "top"))
    last = "checkpoints/last/pretrained_model"
    train(
        [*act, dataset, f"--dataset.root={video_dataset}", f"--output_dir={recorded}"],
        [*act, dataset, f"--dataset.root={third}", f"--output_dir={wide}"],
        [f"--policy.path={recorded / last}", dataset, f"--dataset.root={goals}", f"--output_dir={on}"],
    )
    assert GOAL not in json.loads((on / last / "config.json").read_text())["input_features"]
    runs = []
    for name, policy in (("again", recorded / last), ("renamed", wide / last)):
        found, ((level, _),), status = seen(goals, policy)
        assert (level, status) == ("broken", 1)
        more = shlex.split(found["arguments"])
        runs.append(
            [
                f"--policy.path={policy}",
                dataset,
                f"--dataset.root={goals}",
                f"--output_dir={tmp_path / name}",
                *more,
            ]
        )
    train(*runs)
    assert GOAL in json.loads((tmp_path / "again" / last / "config.json").read_text())["input_features"]
    found, ((level, _),), status = seen(goals, tmp_path / "renamed" / last)
    assert (found["inputs"]["observation.images.top"], level, status) == (GOAL, "warning", 0)


@pytest.mark.slow
@pytest.mark.process
def test_stock_policies_train_on_the_result(goals, tmp_path):
    vlm = tiny_smolvlm(tmp_path / "vlm")
    tokenizer(image="").save_pretrained(tmp_path / "google/paligemma-3b-pt-224")  # pi0.5's
    runs = [flags(tiny(kind, vlm)) for kind in ("act", "diffusion", "smolvla", "pi05")]
    common = ["--dataset.repo_id=local/x", f"--dataset.root={goals}"]
    outs = ([*run, *common, f"--output_dir={tmp_path / str(i)}"] for i, run in enumerate(runs))
    train(*outs, before=TINY_PI05, cwd=tmp_path)
    for i in range(len(runs)):
        saved = json.loads((tmp_path / str(i) / "checkpoints/last/pretrained_model/config.json").read_text())
        assert GOAL in saved["input_features"]
