"""Words that a dataset brings along: its owner's labels, and steps that people corrected before."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from goalreel.datasets.episode import episode_id
from goalreel.datasets.fingerprint import same_frames
from goalreel.datasets.health.issues import spell
from goalreel.datasets.labels import LABEL_FORMS, find_labels
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.errors import InputError
from goalreel.models.model_set import class_name
from goalreel.planners.examples.carry import numbers_of
from goalreel.planners.rows import RowsPlanner
from goalreel.terms import LabelForm
from goalreel.types import Plan

log = logging.getLogger(__name__)

_KEEPING = ("rows", class_name(RowsPlanner({})))
"""The planner by its name, and as a Python object that has none."""


def check_labels(
    source: Source,
    episodes: Sequence[int],
    planner: str,
    *,
    replace: bool,
    form: LabelForm | None = None,
    kept: Collection[str] = (),
) -> dict[LabelForm, int]:
    """See that the planner fits the sub-task labels which `episodes` have.

    Those of the recordings `kept` (`numbers_of`) are examples, which stay as they are. Returns the number of
    episodes whose labels the planner takes, by their form.
    """
    keeps = planner in _KEEPING
    if form and not keeps:
        raise InputError("--labels says which labels --planner rows takes: give both, or neither")
    if keeps and replace and form in (None, "rows"):
        raise InputError("--planner rows keeps the subtask rows: leave --replace-rows out")
    if replace and not keeps:
        return {}
    label_forms = find_labels(source, episodes)
    if keeps:
        return _choose(source, label_forms, form, replace)
    for name, labelled in label_forms.items():
        for index in labelled:
            if kept and numbers_of(source.episode(index)) in kept:
                continue
            raise InputError(
                f"{source.root}: episode {index} has {LABEL_FORMS[name]} already: --planner rows keeps them "
                "and adds goal images to them; --replace-rows has new ones written "
                f"{'in their place' if name == 'rows' else 'beside them'}"
            )
    return {}


def _choose(
    source: Source, label_forms: Mapping[LabelForm, tuple[int, ...]], form: LabelForm | None, replace: bool
) -> dict[LabelForm, int]:
    listed = "; ".join(f"{name} ({LABEL_FORMS[name]}) of {spell(label_forms[name])}" for name in label_forms)
    if form and form not in label_forms:
        raise InputError(f"{source.root}: no {LABEL_FORMS[form]}; its labels: {listed or 'none'}")
    both = set(label_forms.get("rows", ())) & set(label_forms[form]) if form and form != "rows" else ()
    if both and not replace:
        raise InputError(
            f"{source.root}: episode {min(both)} has {LABEL_FORMS['rows']} too: --replace-rows writes the "
            f"labels of --labels {form} in their place"
        )
    if len(label_forms) > 1:
        choice = form or f"the first of {', '.join(label_forms)} that an episode has"
        log.warning("%s has labels as %s. Taken: %s; --labels chooses", source.root, listed, choice)
    taken: dict[int, LabelForm] = {}
    for name in (form,) if form else label_forms:
        taken |= {index: name for index in label_forms[name] if index not in taken}
    return dict(Counter(taken.values()))


def corrected_plans(records: Records, source: Source, episodes: Iterable[int]) -> dict[str, Plan]:
    """Read the plan that a person made of each episode (its id) whose recording is still the one they saw.

    Where its instruction has changed since, their steps stay.
    """
    plans: dict[str, Plan] = {}
    for episode in episodes:
        if not records.is_corrected(episode):
            continue
        from goalreel.datasets.corrections.board import plan

        review = records.corrections(episode).read().replay.state
        recording = (records.recordings or {}).get(episode, review.recording)
        if not same_frames(review.recording, recording):
            log.warning("episode %d: its recording has changed, so its corrections are not used", episode)
            continue
        if review.recording != recording:
            review = review.with_instruction(source.episode(episode).instruction)
        if (corrected := plan(review)) is not None:
            plans[episode_id(episode)] = corrected
    return plans
