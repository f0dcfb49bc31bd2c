"""Demonstrations as key poses: walks of random sub-goals over random scenes, without moving the arm.

A sub-goal gives one sample: what stands where before and after it, the two key poses, the words. Chains are
drawn as instructions are, one to three sub-goals each.
"""

import io
from collections.abc import Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from goalreel.files import write_bytes
from goalreel.progress import OnProgress
from goalreel.tabletop.env import Tabletop, teleport
from goalreel.tabletop.grammar import Mission, sample_missions
from goalreel.tabletop.scene import COLOURS, HALF, SubGoal, sample_scene
from goalreel_lab.policy.policy_tasks import LONGEST_TRAINED, key_poses, sub_task, trained

WALK = 12
"""Sub-goals in a scene."""
PART = 50
"""Scenes in a file."""
CHAINS = 20
"""Chains tried in a scene."""
THINGS = (*(f"{c} block" for c in COLOURS), *(f"{c} bowl" for c in COLOURS))
POSE = 6
"""State of a thing: 1 where there is one, x, y, z (m), cos and sin of four times its turn."""


@dataclass(frozen=True)
class Demos:
    """N samples over P states of the table."""

    poses: NDArray[np.float32]
    """(P, len(THINGS), POSE): what stands where in each state."""
    live: NDArray[np.int64]
    """(N,): which state is before the sub-goal."""
    goal: NDArray[np.int64]
    """(N,): which one is after it."""
    actions: NDArray[np.float32]
    """(N, 2, 6), as lab/goalreel_lab/policy/policy_tasks.py has them."""
    sub_tasks: NDArray[np.float32]
    """(N, WORDS)."""

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Join demonstrations of several scenes."""
        first = np.cumsum([0, *(len(p.poses) for p in parts)])
        shifted = zip(parts, first, strict=False)
        live, goal = zip(*((p.live + n, p.goal + n) for p, n in shifted), strict=True)
        return cls(
            poses=np.concatenate([p.poses for p in parts]),
            live=np.concatenate(live),
            goal=np.concatenate(goal),
            actions=np.concatenate([p.actions for p in parts]),
            sub_tasks=np.concatenate([p.sub_tasks for p in parts]),
        )


def demonstrate(seed: int) -> Demos | None:
    """Walk through the scene of a seed; None where it offers nothing to do."""
    rng = np.random.default_rng(seed)
    scene = None
    while scene is None:
        scene = sample_scene(rng, int(rng.integers(3, 7)), bowls=int(rng.integers(1, 4)))
    with Tabletop(scene) as env:
        walk = _Walk(env)
        for _ in range(CHAINS):
            if len(walk.live) >= WALK:
                break
            missions = _chain(rng, env)
            for goal in [g for m in missions for g in m.goals]:
                if not walk.go(goal):
                    break
                _turn(rng, env)
                walk.look()
        return walk.demos()


def _chain(rng: np.random.Generator, env: Tabletop) -> list[Mission]:
    count = int(rng.integers(1, LONGEST_TRAINED + 1))
    missions = sample_missions(rng, env.scene, env.layout(), count) or []
    return missions if trained([g for m in missions for g in m.goals]) else []


def _turn(rng: np.random.Generator, env: Tabletop) -> None:
    """Turn the blocks that stand alone on the table: whatever the expert sets down is square to the table."""
    layout = env.layout()
    for block in env.blocks:
        pose = layout[block]
        near = (float(np.linalg.norm(p[:2] - pose[:2])) for name, p in layout.items() if name != block)
        if abs(pose[2] - HALF) < 0.002 and min(near, default=1.0) > 2 * HALF:
            env.place(block, pose, float(rng.uniform(-0.7, 0.7)))
    env.settle(0.1)


class _Walk:
    def __init__(self, env: Tabletop) -> None:
        self._env = env
        self._poses: list[NDArray[np.float32]] = []
        self.live: list[int] = []
        self._goal: list[int] = []
        self._actions: list[NDArray[np.float32]] = []
        self._words: list[NDArray[np.float32]] = []
        self.look()

    def look(self) -> None:
        self._poses.append(poses_of(self._env))

    def go(self, goal: SubGoal) -> bool:
        actions, first = key_poses(self._env, goal), len(self._poses) - 1
        try:
            teleport(self._env, goal)
        except ValueError:
            return False
        self.look()
        self.live.append(first)
        self._goal.append(first + 1)
        self._actions.append(actions)
        self._words.append(sub_task(goal))
        return True

    def demos(self) -> Demos | None:
        if not self.live:
            return None
        return Demos(
            poses=np.stack(self._poses),
            live=np.array(self.live),
            goal=np.array(self._goal),
            actions=np.stack(self._actions),
            sub_tasks=np.stack(self._words),
        )


def poses_of(env: Tabletop) -> NDArray[np.float32]:
    """Read what stands where, (len(THINGS), POSE)."""
    poses = np.zeros((len(THINGS), POSE), np.float32)
    for name, at in env.layout().items():
        turn = 4 * env.block_yaw(name) if name in env.blocks else 0.0
        poses[THINGS.index(name)] = [1, *at, np.cos(turn), np.sin(turn)]
    return poses


def make(out: Path, scenes: Sequence[int], pool: Executor, progress: OnProgress) -> list[Path]:
    """Write the demonstrations of `scenes` (seeds), PART scenes a file; what is there already stays."""
    parts = [scenes[i : i + PART] for i in range(0, len(scenes), PART)]
    paths = [out / f"{part[0]:06d}.npz" for part in parts]
    todo = [(path, tuple(part)) for path, part in zip(paths, parts, strict=True) if not path.exists()]
    futures = [pool.submit(_write, path, part) for path, part in todo]
    for done, part in enumerate(as_completed(futures), 1 + len(paths) - len(todo)):
        part.result()
        progress("demonstrations", done, len(paths))
    return paths


def _write(path: Path, seeds: tuple[int, ...]) -> None:
    demos = Demos.join([d for d in map(demonstrate, seeds) if d is not None])
    packed = io.BytesIO()
    np.savez(packed, **{f.name: getattr(demos, f.name) for f in fields(demos)})
    write_bytes(path, packed.getvalue())


def read(paths: Sequence[Path]) -> Demos:
    """Read what `make` wrote."""
    parts = []
    for path in paths:
        with np.load(path) as arrays:
            parts.append(Demos(**{f.name: arrays[f.name] for f in fields(Demos)}))
    return Demos.join(parts)
