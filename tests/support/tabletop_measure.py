"""Numbers about the simulator itself: how often the expert succeeds, how well pictures read back."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from goalreel.tabletop.env import Tabletop, teleport
from goalreel.tabletop.expert import PHASES, Move, Policy, pick_and_place, rollout
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.readback import read_back, shown
from goalreel.tabletop.scene import KINDS, SubGoal, is_bowl, shows


@dataclass(frozen=True)
class Outcome:
    """One episode: which sub-goals hold at its end, and the actions every visit to a phase took."""

    seed: int
    held: tuple[bool, ...]
    visits: tuple[tuple[str, int], ...]

    @property
    def success(self) -> bool:
        return all(self.held)


def run(seed: int, policy: Policy = pick_and_place) -> Outcome:
    """Carry out the episode of a seed, without pictures."""
    episode = sample_episode(seed)
    with Tabletop(episode.scene) as env:
        actions = Counter((tick.goal, tick.phase) for tick in rollout(env, episode.goals, policy))
        held = tuple(env.holds(goal) for goal in episode.goals)
    return Outcome(seed, held, tuple((phase, count) for (_, phase), count in actions.items()))


def never_closing(env: Tabletop, goal: SubGoal) -> Iterator[Move]:
    """Control: the expert's motion with the gripper held open."""
    for action, phase in pick_and_place(env, goal):
        yield np.array([*action[:4], 1.0], np.float32), phase


def random_actions(seed: int) -> Policy:
    """Control: 50 random actions a sub-goal, about as many as the expert takes."""
    rng = np.random.default_rng(seed)

    def policy(env: Tabletop, goal: SubGoal) -> Iterator[Move]:
        limit = np.array([0.035, 0.035, 0.035, 0.3, 1.0])
        for _ in range(50):
            yield rng.uniform(-limit, limit).astype(np.float32), PHASES[0]

    return policy


@dataclass
class Reading:
    """Answers by what the right one was. `goals`: does the picture show the sub-goal, asked before (no) and
    after (yes) it is reached. `predicates`: every predicate of every pair of objects, borderline ones
    included. `errors`: m, a block."""

    goals: dict[bool, list[bool]] = field(default_factory=lambda: {True: [], False: []})
    predicates: dict[bool, list[bool]] = field(default_factory=lambda: {True: [], False: []})
    errors: list[float] = field(default_factory=list)
    missing: int = 0


def right(answers: dict[bool, list[bool]]) -> tuple[float, float]:
    """Compute the shares of right answers where yes is right, and where no is."""
    return float(np.mean(answers[True])), float(1 - np.mean(answers[False]))


def measure_reading(
    seeds: Iterable[int],
    size: int = 128,
    change: Callable[[np.ndarray], np.ndarray] = lambda picture: picture,
) -> Reading:
    """Teleport through every episode, read every state's picture back, compare with the layout itself.

    `change` alters a picture before it is read, as an encoder or an editor would.
    """
    reading = Reading()
    for seed in seeds:
        episode = sample_episode(seed)
        with Tabletop(episode.scene) as env:
            for goal in episode.goals:
                for reached in (False, True):
                    if reached:
                        teleport(env, goal)
                    found = read_back(change(env.render("front", size)), episode.scene)
                    reading.goals[reached].append(shown(found, goal))
                truth = env.layout()
                for asked in questions(truth):
                    reading.predicates[shows(truth, asked)].append(shown(found, asked))
                seen = [name for name in truth if name in found]
                reading.missing += len(truth) - len(seen)
                blocks = [name for name in seen if not is_bowl(name)]
                reading.errors += [float(np.linalg.norm(truth[n] - found[n])) for n in blocks]
    return reading


def questions(names: Iterable[str]) -> Iterator[SubGoal]:
    """Every predicate of every fitting pair of objects, `out_of` excepted (it is `inside` denied)."""
    everything = list(names)
    for block in (n for n in everything if not is_bowl(n)):
        for target in (n for n in everything if n != block):
            unfit = "on" if is_bowl(target) else "inside"
            yield from (SubGoal(kind, block, target) for kind in KINDS if kind not in ("out_of", unfit))
