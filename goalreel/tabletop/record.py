"""Records the expert as a LeRobot v3.0 dataset with its ground truth.

Beside the cameras, `observation.state` (12) and `action` (5), every frame has
- `subgoal` (1, int64): the sub-goal being worked on, counted from 0;
- `phase` (1, int64): index into expert.PHASES (also in `meta/tabletop.json`);
- `predicates` (7, float32, 0 or 1): `holds_0` .. `holds_4` say which of the episode's sub-goals hold in this
  frame (0 where the episode has fewer), `grasped` that both fingers touch the current sub-goal's block,
  `still` that no block moves.

All of it describes the moment the pictures were taken, before the frame's action.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from av.logging import ERROR, set_libav_level
from datasets.utils.logging import disable_progress_bar as disable_progress_bars
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from goalreel.datasets.writing import language, video
from goalreel.errors import InputError
from goalreel.files import atomic_folder
from goalreel.progress import OnCount
from goalreel.tabletop import mjcf, splits
from goalreel.tabletop.env import ACTION_NAMES, CONTROL_HZ, STATE_NAMES, Tabletop
from goalreel.tabletop.expert import PHASES, ControlStep, rollout
from goalreel.tabletop.grammar import MAX_GOALS, TabletopEpisode, sample_episode
from goalreel.tabletop.truth import TrueEpisode, TrueSegment, Truth, write_truth

MAX_SIZE = 1024
PREDICATE_NAMES = (*(f"holds_{i}" for i in range(MAX_GOALS)), "grasped", "still")


def record(
    out: Path,
    seeds: Sequence[int],
    *,
    cameras: Sequence[str] = ("front", "wrist"),
    size: int = 128,
    progress: OnCount = lambda done, total: None,
) -> Truth:
    """Write the episodes of `seeds` to `out`, at CONTROL_HZ frames a second; `progress` counts episodes.

    State and actions depend on nothing but the seed. The dataset appears at `out` only when complete.

    Raises:
        InputError: `out` is there and not empty, no seeds, an unknown camera or one named twice, an odd size.
        DatasetError: another run is at it, or the disk is full.
    """
    check_request(seeds, cameras, size)
    with atomic_folder(out) as workshop:
        root = workshop / "dataset"  # lerobot makes it
        dataset = LeRobotDataset.create(
            f"goalreel/{out.name}",
            fps=CONTROL_HZ,
            features=_features(cameras, size),
            root=root,
            robot_type="simulated_panda",
            rgb_encoder=video.recording_encoder().lerobot_config(),
            image_writer_threads=2,
        )
        episodes = []
        try:
            for seed in seeds:
                episodes.append(_record_episode(dataset, sample_episode(seed), cameras, size))
                progress(len(episodes), len(seeds))
        finally:
            dataset.finalize()  # else its destructor would write again after the workshop is gone
        language.put_rows(root, {i: list(_rows(e.segments)) for i, e in enumerate(episodes)})
        truth = Truth(phases=PHASES, episodes=tuple(episodes))
        write_truth(root, truth)
        for path in root.iterdir():
            path.rename(workshop / path.name)
        root.rmdir()
    return truth


def quiet() -> None:
    """Silence what lerobot's writers report on stderr."""
    set_libav_level(ERROR)
    disable_progress_bars()


def check_request(seeds: Sequence[int], cameras: Sequence[str], size: int) -> None:
    """Raise what `record` would, before anything is made."""
    if not seeds:
        raise InputError("no seeds: ask for at least one episode")
    if unknown := [c for c in cameras if c not in mjcf.CAMERAS]:
        raise InputError(f"no camera {unknown[0]!r}: choose from {', '.join(mjcf.CAMERAS)}")
    if not cameras or len(set(cameras)) < len(cameras):
        raise InputError("name at least one camera, and each only once")
    if size % 2 or not 16 <= size <= MAX_SIZE:
        raise InputError(f"size must be even and within 16 .. {MAX_SIZE} for the video encoder, got {size}")
    for seed in seeds:
        splits.split_of(seed)


def _features(cameras: Sequence[str], size: int) -> dict[str, dict[str, Any]]:
    image = {"dtype": "video", "shape": (size, size, 3), "names": ["height", "width", "channels"]}
    return {f"observation.images.{camera}": dict(image) for camera in cameras} | {
        "observation.state": _numbers("float32", STATE_NAMES),
        "action": _numbers("float32", ACTION_NAMES),
        "subgoal": _numbers("int64", ("subgoal",)),
        "phase": _numbers("int64", ("phase",)),
        "predicates": _numbers("float32", PREDICATE_NAMES),
    }


def _numbers(dtype: str, names: Sequence[str]) -> dict[str, Any]:
    return {"dtype": dtype, "shape": (len(names),), "names": list(names)}


def _record_episode(
    dataset: LeRobotDataset, episode: TabletopEpisode, cameras: Sequence[str], size: int
) -> TrueEpisode:
    ticks: list[ControlStep] = []
    held_after: list[bool] = []
    with Tabletop(episode.scene) as env:
        for tick in rollout(env, episode.goals):
            if ticks and ticks[-1].goal != tick.goal:
                held_after.append(env.holds(episode.goals[ticks[-1].goal]))
            ticks.append(tick)
            pictures = {f"observation.images.{c}": env.render(c, size) for c in cameras}
            dataset.add_frame(pictures | _frame(env, episode, tick))
        held_after.append(env.holds(episode.goals[-1]))
        success = all(env.holds(goal) for goal in episode.goals)
    dataset.save_episode(parallel_encoding=False)  # forks otherwise, with a GL context and threads alive
    return _truth(episode, [t.goal for t in ticks], held_after, success)


def _frame(env: Tabletop, episode: TabletopEpisode, tick: ControlStep) -> dict[str, Any]:
    goals = episode.goals
    holds = [env.holds(goal) for goal in goals] + [False] * (MAX_GOALS - len(goals))
    grasped = env.grasped(goals[tick.goal].object)
    return {
        "observation.state": env.observation(),
        "action": tick.action,
        "subgoal": np.array([tick.goal], np.int64),
        "phase": np.array([PHASES.index(tick.phase)], np.int64),
        "predicates": np.array([*holds, grasped, all(map(env.still, env.blocks))], np.float32),
        "task": episode.instruction,
    }


def _truth(episode: TabletopEpisode, owners: list[int], held_after: list[bool], success: bool) -> TrueEpisode:
    missions = [m for m, mission in enumerate(episode.missions) for _ in mission.goals]
    segments = []
    for i, (goal, held, mission) in enumerate(zip(episode.goals, held_after, missions, strict=True)):
        words: dict[str, Any] = asdict(goal) | {"text": goal.text}
        start, end = owners.index(i), owners.index(i) + owners.count(i)
        segments.append(TrueSegment(**words, start=start, end=end, success=held, mission=mission))
    return TrueEpisode(
        seed=episode.seed,
        split=splits.split_of(episode.seed),
        instruction=episode.instruction,
        missions=tuple(m.kind for m in episode.missions),
        segments=tuple(segments),
        success=success,
    )


def _rows(segments: Sequence[TrueSegment]) -> Iterator[language.RecordedRow]:
    """Make a row for each sub-task; as lerobot-annotate does, the plan is what is still to do at each."""
    for i, segment in enumerate(segments):
        yield segment.start, "plan", language.plan_text([s.text for s in segments[i:]])
        yield segment.start, "subtask", segment.text
