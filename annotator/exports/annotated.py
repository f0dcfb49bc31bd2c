"""The input of an export, an annotated dataset, and its summary."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from goalreel.annotator.robot import stored_layout
from goalreel.datasets.info_file import check_links
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.files import check_apart
from goalreel.datasets.writing.goals import Goals, read_goals
from goalreel.errors import DatasetError
from goalreel.files import atomic_folder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Exported:
    """The size of an export."""

    episodes: int
    named: int
    """Episodes with a sub-task that a policy may be told."""


@dataclass(frozen=True)
class Annotated:
    """A written dataset, and the goals from its records that a policy may be told."""

    source: Source
    goals: Mapping[int, Goals]
    missing: Mapping[int, Path]
    """Episode that is not exported -> a file that it lacks, as in a partial download."""

    @classmethod
    def open(cls, dataset: Path) -> Self:
        """Read the metadata and the records of `dataset`, and which features are its state and action.

        Raises:
            DatasetError: goalreel did not annotate it, it is not written yet, or it is damaged.
        """
        records = Records(dataset / FOLDER, source="")
        if records.folder.is_dir() and not (dataset / "meta" / "info.json").is_file():
            raise DatasetError(f"{dataset}: not written yet: finish its `goalreel annotate` first")
        source = Source.open(dataset)
        stored_layout(source, records.settings())
        missing, total = source.missing_files(), len(source.rows)
        if missing:
            path = next(iter(missing.values()))
            text = f"{dataset}: {total - len(missing)} of {total} episodes are whole; {path} is missing"
            if len(missing) == total:
                raise DatasetError(f"{text}: copy the dataset again")
            log.warning("%s: only the complete episodes are exported", text)
        lengths = dict(zip(source.indices, source.rows.column("length"), strict=True))
        done = sorted(e for e in records.done() if e in lengths and e not in missing)
        if not done:
            raise DatasetError(f"{dataset}: no annotated episode: run goalreel annotate first")
        use_rejected = bool(records.settings().get("use_rejected"))
        return cls(source, read_goals(records, done, lengths, use_rejected), missing)

    @contextmanager
    def folder(self, out: Path) -> Iterator[Path]:
        """Make an empty folder that becomes `out` on a clean exit: see `atomic_folder`."""
        check_apart(self.source.root, out)
        check_links(self.source.root)
        with atomic_folder(out) as part:
            yield part

    @property
    def exported(self) -> Exported:
        whole = len(self.source.rows) - len(self.missing)
        return Exported(whole, sum(bool(goals.names) for goals in self.goals.values()))
