"""Acts on many episodes of an instruction: carry labelled steps over, accept what is sure, undo, redo.

Each is a line in the log of each episode, so it can be taken back, as a whole too. An act that was broken off
goes on where it stopped when it is asked for again.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import batched
from threading import Lock
from typing import Literal

from goalreel.annotator.examples import LABELS, as_example, by_task, reviewed_label, to_label
from goalreel.annotator.review.queue import OfAct, QueueRow
from goalreel.annotator.review.session import Json, ReviewSession
from goalreel.boards.log import ConflictError
from goalreel.boards.step import RedoChange, UndoChange
from goalreel.claims import CARRIED
from goalreel.datasets.corrections.events import CarrySteps, Correction, GiveVerdict, TakenStep
from goalreel.errors import InputError
from goalreel.planners.examples.carry import TOLERANCE_S, Example, Measurement, digest_of
from goalreel.planners.examples.hand_cues import cues_of
from goalreel.planners.examples.planner import MOST, ExamplesPlanner
from goalreel.types import Failure, Plan, Task

type Act = Literal["carry", "accept", "undo", "redo"]
_CHUNK = 16
"""Episodes that are planned and saved together."""
SHOWN = 8
"""Instructions that are listed: those with something to do first, then those of most episodes."""


class Acts:
    """One at a time; `tasks` says what there is to do."""

    def __init__(self, session: ReviewSession) -> None:
        self._session, self._queue = session, session.queue
        self._lock = Lock()
        self._planner = lru_cache(1)(self._make_planner)
        self._order = lru_cache(SHOWN)(lambda rows: to_label(session.source, [("", rows)], 2 * LABELS))
        """The episodes from which most others can be labelled, in order."""

    def tasks(self) -> list[Json]:
        """Describe the tasks of several episodes: labels, what they measure, and what can be done."""
        with self._lock:
            several = [item for item in by_task(self._by_instruction().items()) if len(item[1]) > 1]
            several.sort(key=lambda item: (not any(row.open for row in item[1]), -len(item[1])))
            return [self._task(text, rows) for text, rows in several[:SHOWN]]

    def do(self, act: Act, instruction: str, by: str, anyway: bool = False) -> str:
        """Act on the task of that name, or of that instruction, and tell what was done.

        Raises:
            InputError: there is nothing to do, or too few boundaries are found again to carry steps over and
                it is not to be done `anyway`.
            DatasetError: an episode cannot be read, or the disk is full.
        """
        with self._lock:
            tasks = by_task(self._by_instruction().items())
            rows = next((of for name, of in tasks if instruction in (name, *(r.instruction for r in of))), [])
            if act == "carry":
                return self._carry([row for row in rows if row.open], by, anyway=anyway)
            return self._accept(rows, by) if act == "accept" else self._turn(rows, by, back=act == "undo")

    def _by_instruction(self) -> dict[str, list[QueueRow]]:
        rows = defaultdict[str, list[QueueRow]](list)
        for row in self._queue.rows():
            rows[row.instruction].append(row)
        return rows

    def _task(self, text: str, rows: list[QueueRow]) -> Json:
        labelled = [row.episode for row in rows if row.labelled]
        measured = self._examples().measurement(rows[0].instruction)
        acts, backs = [row.act for row in rows], [row.undone for row in rows]
        last, undone = _last_act(acts), _last_act(backs)
        few = len(labelled) < LABELS or (measured is not None and not measured.enough)
        ordered = self._order(tuple(row.episode for row in rows)).get("", ()) if few else ()
        return {
            "instruction": text,
            "episodes": len(rows),
            "labelled": len(labelled),
            "open": sum(row.open for row in rows),
            "sure": sum(row.sure for row in rows),
            "told": self._told(measured, rows),
            "enough": measured.enough if measured else None,
            "next": [e for e in ordered if e not in labelled][: max(1, LABELS - len(labelled))],
            "last": last,
            "last_count": _size(last, acts),
            "undone": undone,
            "undone_count": _size(undone, backs),
        }

    def _told(self, measured: Measurement | None, rows: list[QueueRow]) -> str | None:
        if measured is None:
            return None
        told = str(measured).removeprefix(f'"{measured.instruction}": ')
        if moved := [frames for row in rows for frames in row.moved]:
            stayed = sum(frames <= TOLERANCE_S * self._session.source.fps for frames in moved)
            near = f"{stayed} stayed within {TOLERANCE_S:g} s"
            told += f"; of {len(moved)} that were carried over and that you looked at, {near}"
        return told

    def _examples(self) -> ExamplesPlanner:
        """The planner of the episodes that are labelled now."""
        chosen: list[tuple[int, int]] = []
        for rows in self._by_instruction().values():
            labelled = [row for row in rows if row.labelled]
            # What was carried over itself comes last.
            labelled.sort(key=lambda row: (bool(row.moved), row.episode))
            chosen += [(row.episode, row.revision) for row in labelled[:MOST]]
        return self._planner(tuple(sorted(chosen)))

    def _make_planner(self, labelled: tuple[tuple[int, int], ...]) -> ExamplesPlanner:
        examples: list[Example] = []
        for index, _ in labelled:
            if label := reviewed_label(self._session.look(index).review):
                episode = self._session.episode(index)
                examples.append(as_example(episode, *label, str(episode.root), apart=False))
        cues = cues_of(self._session.layout)
        planner = ExamplesPlanner(lambda name: self._session.episode(int(name)), examples, cues=cues)
        self._act = f"carry {digest_of(examples)}"
        return planner

    def _carry(self, rows: list[QueueRow], by: str, *, anyway: bool) -> str:
        planner = self._examples()
        measured = planner.measurement(rows[0].instruction) if rows else None
        if measured is None:
            raise InputError("there is nothing to carry over: label an episode of this task first")
        if not (measured.enough or anyway):
            raise InputError(f"{measured}: too few to carry over; label more episodes of it")
        done: dict[int, CarrySteps] = {}
        for chunk in batched(rows, _CHUNK):  # what is done is saved, should it be broken off
            tasks = [Task(id=str(row.episode), instruction=row.instruction) for row in chunk]
            for row, plan in zip(chunk, planner.plan(tasks), strict=True):
                change = self._change(row, plan)
                if self._add(row, by, change):
                    done[row.episode] = change
        self._queue.weigh(row.episode for row in rows)
        reasons = {e: change.refused for e, change in done.items() if change.refused}
        told = f"Steps carried over to {_count(len(done) - len(reasons))}"
        doubted = sum(e not in reasons and not self._queue[e].sure for e in done)
        if doubted:
            told += f", {doubted} of them in doubt"
        if reasons:
            first = "; ".join(f"episode {e}: {why}" for e, why in list(reasons.items())[:3])
            told += f". Left as they were: {len(reasons)} ({first})"
        return f"{told}. What is in doubt comes first."

    def _change(self, row: QueueRow, plan: Plan | Failure) -> CarrySteps:
        if isinstance(plan, Failure):
            return CarrySteps(act=self._act, refused=plan.message.removeprefix(f"{row.episode}: "))
        steps = (
            TakenStep(step=step.model_copy(update={"by": CARRIED}), segment=segment)
            for step, segment in zip(plan.steps, plan.segments or (), strict=True)
        )
        return CarrySteps(act=self._act, steps=tuple(steps))

    def _add(self, row: QueueRow, by: str, change: Correction) -> bool:
        """Make a change; False where somebody has changed the episode meanwhile, so that it stays theirs."""
        done = self._session.look(row.episode).replay.done
        if done and done[-1].change == change and not isinstance(change, UndoChange):
            return True  # before the act was broken off
        try:
            self._session.change(row.episode, row.revision, by, change)
        except ConflictError:
            return False
        return True

    def _accept(self, rows: list[QueueRow], by: str) -> str:
        name = f"accept {sum(row.revision for row in rows)}"  # which every act makes larger
        verdict = GiveVerdict(verdict="accept", unseen=True, act=name)
        done = [row.episode for row in rows if row.sure and self._add(row, by, verdict)]
        self._queue.weigh(row.episode for row in rows)
        if not done:
            raise InputError("no episode is sure: look at those that are in doubt")
        return f"Accepted without looking: {_count(len(done))}. Their steps stay unchecked."

    def _turn(self, rows: list[QueueRow], by: str, *, back: bool) -> str:
        acts = {row.episode: row.act if back else row.undone for row in rows}
        act = _last_act(one for one in acts.values() if one and one.by == by)
        if act is None:
            raise InputError(f"there is no act of yours to {'take back' if back else 'redo'}")
        ours = [row for row in rows if (one := acts[row.episode]) and one.name == act]
        done = [row for row in ours if self._add(row, by, UndoChange() if back else RedoChange())]
        self._queue.weigh(row.episode for row in ours)
        count = _count(_size(act, [acts[row.episode] for row in done]))
        what = "accepted without looking" if act.startswith("accept") else "carried over"
        if not back:
            return f"Redone: {what}, {count}."
        return f"Taken back: what was {what}, in {count}. What you changed since stays."


def _last_act(acts: Iterable[OfAct | None]) -> str | None:
    """The newest of the acts."""
    last = max(filter(None, acts), key=lambda act: act.at, default=None)
    return last.name if last else None


def _size(name: str | None, acts: Iterable[OfAct | None]) -> int:
    return sum(act is not None and act.name == name and not act.refused for act in acts)


def _count(episodes: int) -> str:
    return f"{episodes} episode{'' if episodes == 1 else 's'}"
