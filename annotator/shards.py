"""What `annotate` left in several processes, put together: the dataset from all records."""

from collections.abc import Sequence
from pathlib import Path

from goalreel.annotator.annotate import write_dataset
from goalreel.annotator.options import Options
from goalreel.datasets.health.inspect import refuse_broken
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.datasets.stored_files import check_links
from goalreel.datasets.writing.files import MARKS, check_apart
from goalreel.errors import DatasetError
from goalreel.files import copy, files_below
from goalreel.models.journal import Journal
from goalreel.progress import OnProgress


def build_records(
    out: Path,
    source: Path | None = None,
    gathered: Sequence[Path] = (),
    progress: OnProgress = lambda stage, done, total: None,
    *,
    overwrite: bool = False,
) -> list[int]:
    """Write the dataset `out` from the recorded episodes in it, as `annotate` does at its end.

    Args:
        out: the folder that the shards wrote to; where they wrote to several, a new one.
        source: the dataset annotated; None: where it was when the shards ran.
        gathered: folders of other shards, on no file system in common, whose records are copied into `out`.
        progress: told as files are written.
        overwrite: write files anew that somebody changed in `out` by hand.

    Returns:
        The episodes without a record, in order. They are in the dataset, without goal images.

    Raises:
        DatasetError: no records, records of different settings, no `source`, one whose copy lerobot could not
            read, a run is still writing, or `out` was changed by hand.
    """
    settings, root = {}, source
    for folder in (out, *gathered):
        noted = Records(folder / FOLDER, source="")
        if (noted.folder / "settings.json").is_file():
            settings, root = settings or noted.settings(), root or noted.source_root()
        elif folder != out or not gathered:
            raise DatasetError(f"{folder}: no records there: run goalreel annotate --shard first")
    if "camera" not in settings:
        raise DatasetError(f"{out}: its records were not written by goalreel annotate")
    if root is None:
        raise DatasetError(f"{out}: the path of the annotated dataset is not known: name it with --source")
    dataset = Source.open(root)
    check_apart(root, out)
    fingerprint = dataset.fingerprint()
    with Records.open(out, settings, fingerprint) as records:
        for folder in gathered:
            with Records.open(folder, settings, fingerprint):
                _gather(folder / FOLDER, records.folder)
        records.remember(root)
        records.drop_unused_images()
        done = records.done(corrected=True)
        missing = sorted(set(dataset.indices) - done)
        refuse_broken(dataset, sorted(done))
        options = Options.of(settings)
        write_dataset(dataset, out, records, options, settings["camera"], done, overwrite, progress)
    if not missing:
        Journal(records.answers).remove()
    return missing


def _gather(folder: Path, into: Path) -> None:
    """Pictures first: a record is there only with all that it names."""
    check_links(folder)
    for path in sorted(files_below(folder), key=lambda path: path.suffix == ".json"):
        if path.name != "settings.json" and not path.is_relative_to(folder / MARKS.name):
            copy(path, into / path.relative_to(folder))
