"""The part of a dataset that a LeRobot policy sees: cameras that fill its inputs, and words that it reads.

lerobot's own configuration classes and checks answer, as `lerobot-train` calls them. What they do not say is
in the sets below, which tests/annotator/test_policy.py compares with lerobot's source.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from goalreel.datasets import info_file, labels
from goalreel.datasets.health.issues import HealthIssue, broken, note, warning
from goalreel.datasets.source import Source, on_wrist
from goalreel.datasets.writing.plan import FORM
from goalreel.errors import DatasetError, InputError
from goalreel.files import check_folder, read_json

if TYPE_CHECKING:
    from lerobot.configs import PreTrainedConfig
    from lerobot.configs.types import PolicyFeature

WORDLESS = frozenset(("act", "diffusion", "gaussian_actor", "tdmpc", "vqbet"))
"""Policies that read no task. No policy of lerobot 0.6 reads language rows."""
SPARE = frozenset(("pi0", "pi05", "pi0_fast", "smolvla", "wall_x", "xvla"))
"""Policies that train although no camera fills one of their inputs."""
COUNTED = frozenset(("diffusion", "multi_task_dit"))
"""Policies whose weights have the number of cameras in their shapes."""
VIEWS = frozenset(("vla_jepa",))
"""Policies that leave out cameras in a part of their loss, the world model."""
_KEYS = ("video_modality_keys", "image_keys")
"""Lists of the cameras that GR00T and MolmoAct2 read, in a step of the checkpoint's preprocessor."""
_STEPS = "policy_preprocessor.json"
_IMAGES = "observation.images."


class PolicyInputs(BaseModel, frozen=True):
    """The part of a dataset that a policy sees."""

    policy: str
    inputs: dict[str, str | None]
    """Input for pictures -> the camera that fills it, with `arguments`; None where none does."""
    unseen: tuple[str, ...] = ()
    """Cameras that reach no input, with `arguments`."""
    arguments: str = ""
    """Added to `lerobot-train`, so that the policy sees the sub-goal."""
    words: str = ""


def policy_inputs(source: Source, policy: str) -> tuple[PolicyInputs, list[HealthIssue]]:
    """Tell what a checkpoint (a folder, or a name on the Hub) or a new policy of a type sees of a dataset."""
    config, features = _configuration(policy), _features(source)
    goals = goal_cameras(source.features)
    words = _words(config.type, source)
    cameras = [key for key, feature in features.items() if feature.type.value == "VISUAL"]
    found, issues = (
        _from_checkpoint(config, policy, features, cameras, goals)
        if config.input_features
        else _from_scratch(config, features, source, goals)
    )
    if not goals:
        issues.append(note("policy", f"{policy}: the dataset has no sub-goal camera yet: goalreel annotate"))
    return found.model_copy(update={"words": words}), issues


def goal_cameras(features: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The cameras that show sub-goals: they have a form, and a mask beside them."""
    marked = [key for key, feature in features.items() if FORM in (feature.get("info") or {})]
    return marked or [
        key for key in features if key.startswith(_IMAGES) and f"{key.rpartition('.')[2]}_is_pad" in features
    ]


def _configuration(policy: str) -> "PreTrainedConfig":
    import lerobot.policies
    from lerobot.configs import PreTrainedConfig

    assert lerobot.policies  # it registers them
    types = PreTrainedConfig.get_known_choices()
    if policy in types and not Path(policy).is_dir():
        try:
            config = PreTrainedConfig.get_choice_class(policy)(device="cpu")
        except (OSError, ImportError, ValueError) as e:
            raise InputError(f"{policy}: lerobot cannot make it here: {' '.join(str(e).split())}") from e
        config.input_features, config.output_features = {}, {}
        return config
    try:
        if not (Path(policy).is_dir() or info_file.HUB_NAME.fullmatch(policy)):
            raise InputError("no such folder")
        return PreTrainedConfig.from_pretrained(check_folder(Path(policy)))
    except Exception as e:  # whatever draccus and the Hub raise of a configuration
        raise InputError(
            f"{policy}: is neither a checkpoint (a folder with config.json) that lerobot reads "
            f"({' '.join(str(e).split())}), nor one of its types: {', '.join(sorted(types))}"
        ) from e


def _features(source: Source) -> "dict[str, PolicyFeature]":
    from lerobot.utils.feature_utils import dataset_to_policy_features

    try:
        return dataset_to_policy_features(source.features)
    except (TypeError, IndexError, ValueError) as e:
        raise DatasetError(f"{source.root}: lerobot cannot tell the shape of a camera: {e}") from e


def _refusal(check: Callable[[], object]) -> str:
    """lerobot's refusal in a line; empty where it has none."""
    try:
        check()
    except ValueError as e:
        return " ".join(str(e).split())
    return ""


def _taken(config: "PreTrainedConfig", features: "dict[str, PolicyFeature]", source: Source | None) -> str:
    """Give the configuration the dataset's features, as lerobot's `make_policy` does; return its refusal."""
    config.output_features = {key: f for key, f in features.items() if f.type.value == "ACTION"}
    config.input_features = {key: f for key, f in features.items() if key not in config.output_features}

    def validate() -> None:
        # Not every class has it (FastWAM has).
        if source is not None and (tell := getattr(config, "set_dataset_feature_metadata", None)):
            tell(source.features)
        config.validate_features()

    if refusal := _refusal(validate):
        return refusal
    most = getattr(config, "max_views", None)  # EVO1, whose model refuses what its configuration accepts
    if most is not None and len(config.image_features) > most:
        return f"at most {most} cameras, got {len(config.image_features)}"
    return ""


def _from_scratch(
    config: "PreTrainedConfig", features: "dict[str, PolicyFeature]", source: Source, goals: Sequence[str]
) -> tuple[PolicyInputs, list[HealthIssue]]:
    """A new policy has the dataset's cameras as inputs."""
    sizes = {key: f.shape for key, f in features.items() if f.type.value == "VISUAL"}
    kind = config.type
    if refusal := _taken(config, features, source):
        text = f'{kind}: lerobot refuses this dataset: "{refusal}"'
        others = {key: feature for key, feature in features.items() if key not in goals}
        if goals and not _taken(config, others, None):
            text += (
                ". Without the sub-goal camera it would not; or annotate with --subgoal-form beside, "
                "which shows live view and goal in one, and remove the camera that it repeats"
            )
        return PolicyInputs(policy=kind, inputs={}, unseen=tuple(sizes)), [broken("policy", text)]
    read = list(getattr(config, "obs_cam_keys", None) or config.image_features)  # LingBot-VA
    unseen = tuple(key for key in sizes if key not in read)
    if lost := [goal for goal in goals if goal in unseen]:
        keys = [key for key in sizes if key not in lost][: max(1, len(read) - len(lost))] + lost
        arguments = f"--policy.obs_cam_keys={shlex.quote(json.dumps(keys))}"
        text = f"{kind} will not see the sub-goal: it reads {', '.join(read)} alone. Add {arguments}"
        found = PolicyInputs(policy=kind, inputs={key: key for key in keys}, arguments=arguments)
        return found, [broken("policy", text)]
    inputs = {key: key if key in sizes else None for key in read}
    return PolicyInputs(policy=kind, inputs=inputs, unseen=unseen), _doubts(config, sizes)


def _doubts(config: "PreTrainedConfig", sizes: Mapping[str, Sequence[int]]) -> list[HealthIssue]:
    """Doubts about one camera more, though lerobot accepts it."""
    kind, cameras, doubts = config.type, len(sizes), list[str]()
    if kind == "fastwam" and cameras > 1:
        height, width = vars(config)["image_size"]
        if any(tuple(size[1:]) != (height, width // cameras) for size in sizes.values()):
            doubts.append(f"its {cameras} cameras share one picture, so each has {width // cameras}x{height}")
    if kind in VIEWS and cameras > 2:
        doubts.append("its world model leaves out the cameras after the second")
    if kind in ("groot", "molmoact2"):
        doubts.append("it reads the cameras that its base checkpoint names, if it names any: check that one")
    return [warning("policy", f"{kind}: {text}") for text in doubts]


def _from_checkpoint(
    config: "PreTrainedConfig",
    policy: str,
    features: "dict[str, PolicyFeature]",
    cameras: Sequence[str],
    goals: Sequence[str],
) -> tuple[PolicyInputs, list[HealthIssue]]:
    """A checkpoint keeps its inputs; lerobot leaves out other cameras, and says nothing."""
    from lerobot.policies.utils import validate_visual_features_consistency

    renamed, named = _preprocessor(policy)
    slots = [key for key in config.image_features if key in named or not named]
    renamed = {key: slot for key, slot in renamed.items() if key in cameras and slot in slots}
    trained = bool(renamed) and set(goals) <= {*renamed, *slots}
    if not trained:
        renamed = _rename(slots, cameras, goals)
    filled = {slot: slot if slot in cameras else None for slot in slots}
    filled |= {slot: key for key, slot in renamed.items()}
    unseen = tuple(key for key in cameras if key not in filled.values())
    empty = [slot for slot, key in filled.items() if key is None]
    arguments = f"--rename_map={shlex.quote(json.dumps(renamed))}" if renamed else ""
    if goals and (set(goals) & set(unseen) or (empty and config.type not in SPARE)):
        return _widened(config, policy, features, fixed=bool(named))
    if arguments and empty and config.type == "smolvla":
        arguments += f" --policy.empty_cameras={len(empty)}"
    issues = list[HealthIssue]()
    if trained:
        issues.append(
            warning(
                "policy",
                f"{policy} was trained with a rename_map, which lerobot-train and lerobot-rollout do not "
                f"remember: add {arguments}",
            )
        )
    elif arguments and goals:
        issues.append(
            broken(
                "policy",
                f"{policy} will not see the sub-goal: its inputs are {', '.join(slots)}. Add {arguments}",
            )
        )
    elif refusal := _refusal(partial(validate_visual_features_consistency, config, features)):
        issues.append(broken("policy", f"{policy}: {refusal}. Add {arguments}"))
    issues += [warning("policy", f"{policy} will not see {', '.join(unseen)}")] if unseen else []
    issues += [note("policy", f"{policy}: no camera fills {', '.join(empty)}")] if empty else []
    return PolicyInputs(policy=config.type, inputs=filled, unseen=unseen, arguments=arguments), issues


def _widened(
    config: "PreTrainedConfig", policy: str, features: "dict[str, PolicyFeature]", *, fixed: bool
) -> tuple[PolicyInputs, list[HealthIssue]]:
    """The checkpoint has no input for the sub-goal: the dataset's features take the place of its inputs."""
    kind, slots = config.type, list(config.image_features)
    text = f"{policy} will not see the sub-goal: its inputs are {', '.join(slots)}"
    cameras = [key for key, feature in features.items() if feature.type.value == "VISUAL"]
    refusal = _taken(config, features, None)
    if fixed or kind in COUNTED:
        refusal = "its weights are for as many cameras" if kind in COUNTED else "its preprocessor names them"
    if refusal:
        inputs = {slot: slot if slot in features else None for slot in slots}
        found = PolicyInputs(policy=kind, inputs=inputs, unseen=tuple(k for k in cameras if k not in inputs))
        return found, [broken("policy", f"{text}, and {refusal}: train a new one, --policy.type={kind}")]
    arguments = "--policy.input_features=null"
    found = PolicyInputs(policy=kind, inputs={key: key for key in cameras}, arguments=arguments)
    return found, [broken("policy", f"{text}. Add {arguments}: its inputs become those of the dataset")]


def _rename(slots: Sequence[str], cameras: Sequence[str], goals: Sequence[str]) -> dict[str, str]:
    """Fill the inputs that no camera has the name of: wrists with wrists, the sub-goal last."""
    free = sorted((slot for slot in slots if slot not in cameras), key=on_wrist)
    live = sorted((key for key in cameras if key not in slots and key not in goals), key=on_wrist)
    lost = [goal for goal in goals if goal not in slots]
    return dict(zip([*live[: max(0, len(free) - len(lost))], *lost], free, strict=False))


def _preprocessor(policy: str) -> tuple[dict[str, str], set[str]]:
    """The rename_map of a checkpoint's preprocessor, and the cameras that one of its steps reads."""
    from huggingface_hub import hf_hub_download

    renamed, named = dict[str, str](), set[str]()
    with suppress(OSError, ValueError, AttributeError, TypeError):
        is_folder = Path(policy).is_dir()
        content = read_json(Path(policy, _STEPS) if is_folder else Path(hf_hub_download(policy, _STEPS)))
        for step in content["steps"]:
            config = step.get("config") or {}
            renamed |= config.get("rename_map") or {}
            for key in (key for name in _KEYS for key in config.get(name) or ()):
                named.add(key if key.startswith("observation.") else _IMAGES + key)
    return renamed, named


def _words(kind: str, source: Source) -> str:
    if kind in WORDLESS:
        return "no words: what it is told is in its cameras"
    if labels.has_sub_tasks(source.features):
        return "each frame's task, which is its sub-task; no language rows"
    return "each frame's task, the whole instruction (--task-per-frame: the sub-task); no language rows"
