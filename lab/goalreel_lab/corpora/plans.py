"""Episodes as a corpus needs them: one environment each, teleported sub-goal after sub-goal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.corpora.planner_rows import rest_lesson
from goalreel.image import Image
from goalreel.tabletop.env import Tabletop, TabletopState, teleport
from goalreel.tabletop.grammar import TabletopEpisode, sample_episode
from goalreel.tabletop.scene import SceneLayout, SubGoal, find_spot
from goalreel.types import Attempt, Plan, ReplanContext, Step, Storyboard, StoryboardStep, Task, Verdict
from goalreel_lab.corpora.composition import held_out, held_out_step, skipped
from goalreel_lab.corpora.grounding import in_order, place
from goalreel_lab.corpora.prompts import explicit, step_of, zones
from goalreel_lab.corpora.rows import ContinuationRow, Origin, PlanRow
from goalreel_lab.corpora.studio import Studio
from goalreel_lab.variety import Variety, View, seen, view_of


@dataclass(frozen=True)
class Done:
    """A sub-goal and its scene before and after. Whoever moves things in `env` need not put them back."""

    env: Tabletop
    goal: SubGoal
    origin: Origin
    before: TabletopState
    source: Image
    layout: SceneLayout
    """Before; `reached` is the layout after."""
    after: TabletopState
    target: Image
    reached: SceneLayout
    studio: Studio
    rng: np.random.Generator
    """Its own, from seed and sub-goal: rows do not depend on what was made of earlier ones."""


def walk(
    seeds: Iterable[int], size: int, stream: int, variety: Variety = 0.0, roomy: bool = False
) -> Iterator[Done]:
    """Teleport to every sub-goal of every episode, the arm at home.

    A training seed with a held-out composition is passed over. So is the rest of an episode, from a sub-goal
    on that cannot be teleported to.

    Args:
        stream: sets the random numbers of one corpus apart.
        variety: the share of episodes that look other than plain (`variety.view_of`), or the view of all.
        roomy: put a block that leaves its bowl where most room is, which a Planner can see. Else it goes to
            the first place that the expert finds.
    """
    with Studio(size) as studio:
        for seed in seeds:
            episode = sample_episode(seed)
            if not skipped(seed, episode.goals):
                view = view_of(seed, variety)
                yield from _episode(seen(episode, view), studio, stream, view, roomy)


def completed(steps: Iterable[Done]) -> Iterator[tuple[TabletopEpisode, list[Done]]]:
    """Yield each episode whose walk came to its end, with its steps."""
    for seed, group in groupby(steps, key=lambda done: done.origin.seed):
        walked, episode = list(group), sample_episode(seed)
        if len(walked) == len(episode.goals):
            yield episode, walked


def _episode(
    episode: TabletopEpisode, studio: Studio, stream: int, view: View, roomy: bool
) -> Iterator[Done]:
    env = Tabletop(episode.scene)
    source = studio.look(env)
    for number, goal in enumerate(episode.goals):
        origin = Origin(episode.seed, number, held_out_step(episode.goals, number), view)
        state_before, layout = env.get_state(), env.layout()
        place = _most_room(layout, episode.goals[number:]) if roomy and goal.kind == "out_of" else None
        try:
            after = teleport(env, goal, place)
        except ValueError:
            return
        rng = np.random.default_rng([episode.seed, number, stream])
        target, reached = studio.look(env), env.layout()
        yield Done(env, goal, origin, state_before, source, layout, after, target, reached, studio, rng)
        env.set_state(after)
        source = target


def _most_room(layout: SceneLayout, goals: Sequence[SubGoal]) -> NDArray[np.float64] | None:
    """Find most room for the first goal's block that leaves some for the goals after it; None if nowhere."""
    for first in zones(layout, goals[0]).values():
        after = layout | {goals[0].object: first}
        for goal in goals[1:]:
            spot, room = find_spot(after, goal)
            if room < 0:
                break
            after |= {goal.object: spot}
        else:
            return first
    return None


_STREAM = 1


def plan_rows(seeds: Iterable[int], size: int = 128, variety: float = 0.0) -> Iterator[PlanRow]:
    """Make one row for each episode.

    A training seed with a held-out composition gives none. Neither does an episode that cannot be teleported
    to its end.

    An order says from where to where its block goes, on the table that the orders before it leave behind.
    """
    for episode, walked in completed(walk(seeds, size, _STREAM, variety, roomy=True)):
        plan = Plan(steps=tuple(map(explicit_step, walked)))
        origin = Origin(episode.seed, 0, held_out(episode.goals), walked[0].origin.view)
        yield PlanRow(walked[0].source, episode.instruction, plan, thinking(walked), episode.goals, origin)


def thinking(walked: Sequence[Done]) -> str:
    """Write what the Planner says first: where everything stands, and where each step's block goes.

    Such as `red block c3 r5; blue block c9 r4 in red bowl; red bowl c9 r4. 2 steps: blue block -> c9 r9; red
    block -> c9 r9 on blue block.` Without the places the orders contradict each other, or the table.
    """
    layout = walked[0].layout
    places = "; ".join(f"{name} {place(layout, name)}" for name in in_order(layout))
    steps = "1 step" if len(walked) == 1 else f"{len(walked)} steps"
    moves = "; ".join(f"{d.goal.object} -> {place(d.reached, d.goal.object)}" for d in walked)
    return f"{places}. {steps}: {moves}."


def explicit_step(done: Done) -> Step:
    """Make the step of a sub-goal as a Planner says it."""
    layout_before = {name: done.layout[name] for name in in_order(done.layout)}
    return step_of(done.goal, explicit(done.goal, layout_before, done.reached))


_CONTINUATION_STREAM = 7


def continuation_rows(
    seeds: Iterable[int], size: int = 128, variety: Variety = 0.0
) -> Iterator[ContinuationRow]:
    """Make one row for each episode of two sub-goals or more, cut at a random one.

    A training seed with a held-out composition gives none. Neither does an episode that cannot be teleported
    to its end.
    """
    for episode, walked in completed(walk(seeds, size, _CONTINUATION_STREAM, variety, roomy=True)):
        if len(walked) > 1:
            yield _row(episode, walked)


def _row(episode: TabletopEpisode, walked: Sequence[Done]) -> ContinuationRow:
    rng = np.random.default_rng([episode.seed, _CONTINUATION_STREAM])
    cut, lists_open_steps = int(rng.integers(1, len(walked))), bool(rng.random() < 0.5)
    steps = list(map(explicit_step, walked))
    done_steps = [_behind(step, done.target) for step, done in zip(steps[:cut], walked[:cut], strict=True)]
    open_steps = [StoryboardStep(step=step) for step in steps[cut:]] if lists_open_steps else []
    goals = tuple(done.goal for done in walked)
    task = Task(id=str(episode.seed), instruction=episode.instruction, image=walked[0].source)
    progress = ReplanContext(Storyboard(task=task, steps=(*done_steps, *open_steps)), cut, walked[cut].source)
    lesson = rest_lesson(progress, Plan(steps=tuple(steps[cut:])), thinking(walked[cut:]))
    return ContinuationRow(lesson, goals, Origin(episode.seed, cut, held_out(goals), walked[0].origin.view))


def _behind(step: Step, picture: Image) -> StoryboardStep:
    attempt = Attempt(prompt=step.instruction, seed=0, image=picture, verdict=Verdict(success=True))
    return StoryboardStep(step=step, attempts=(attempt,), status="accepted", chosen=0)
