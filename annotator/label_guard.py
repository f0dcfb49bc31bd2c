"""Sub-task rows that a dataset has already: nobody's labels are replaced unasked."""

from collections.abc import Sequence

from goalreel.datasets.labels import subtask_labels
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError, InputError
from goalreel.models.provenance import class_name
from goalreel.planners.recorded.rows import RowsPlanner

_KEEPING = ("rows", class_name(RowsPlanner({})))
"""The planner by its name, and as a Python object that has none."""


def check_rows(source: Source, episodes: Sequence[int], planner: str, replace: bool) -> None:
    """See that the planner fits the sub-task rows which `episodes` have.

    Raises:
        InputError: the planner would replace them, and `replace` is not asked for; or it is, of the planner
            that keeps them.
    """
    keeps = planner in _KEEPING
    if keeps and replace:
        raise InputError("--planner rows keeps the subtask rows: leave --replace-rows out")
    if keeps or replace or "language_persistent" not in source.features:
        return
    selected = set(episodes)
    for path in dict.fromkeys(map(source.data_path, episodes)):
        try:
            labelled = selected & subtask_labels(path).keys()
        except DatasetError:
            continue  # its episodes are told so one by one
        if labelled:
            raise InputError(
                f"{source.root}: episode {min(labelled)} has subtask rows already: --planner rows keeps them "
                "and adds goal images to them; --replace-rows has new ones written in their place"
            )
