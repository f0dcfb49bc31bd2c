"""Links of a dataset: those into the Hub's cache are followed, and none to what is private."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import invoke

from goalreel.datasets.corrections import corrections_path
from goalreel.datasets.health.repair import repair
from goalreel.datasets.info_file import check_links
from goalreel.datasets.records import FOLDER, Records
from goalreel.errors import DatasetError

FRONT = "observation.images.front"
VIDEO = Path("videos") / FRONT / "chunk-000/file-000.mp4"


@pytest.fixture
def private(tmp_path) -> Path:
    """A file that nobody wants to publish."""
    path = tmp_path / "home" / "id_rsa"
    path.parent.mkdir()
    path.write_text("secret")
    return path


def relink(path: Path, target: Path) -> None:
    """Replace a file or a folder with a link to `target`, where it now lies."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    path.symlink_to(target)


def behind_another(root: Path, private: Path) -> None:
    (root / ".cache/x").symlink_to(private)
    (root / "extra").symlink_to(root / ".cache")


def in_no_cache(root: Path, private: Path) -> None:
    relink(root / "meta/stats.json", private.parent / "blobs/abc")
    (root / "meta/stats.json").rename(root / "meta/x")


PLANTED: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "a relative link": ("meta/x", lambda root, _: (root / "meta/x").symlink_to("../../home/id_rsa")),
    "by way of another": (
        "meta/a",
        lambda root, private: [(root / "meta/b").symlink_to("a"), (root / "meta/a").symlink_to(private)],
    ),
    "a video": (str(VIDEO), lambda root, private: relink(root / VIDEO, private.parent / "v.mp4")),
    "the data": ("data", lambda root, private: relink(root / "data", private.parent / "data")),
    "behind a folder that is left out": (".cache/x", behind_another),
    "a cache that is none": ("meta/x", in_no_cache),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_link_out_of_a_dataset_is_refused(planted, root, private, annotated, tmp_path):
    where, plant = PLANTED[planted]
    (root / ".cache").mkdir()
    plant(root, private)
    with pytest.raises(DatasetError, match=f"{where} is a link out of the dataset, to .*home.*--follow"):
        annotated(root, tmp_path / "out", {0: {}})
    assert [p for p in (tmp_path / "out").rglob("*") if p.is_file() and "goalreel" not in p.parts] == []


def test_the_command_refuses_before_it_asks_anybody_and_follows_when_told(root, private, tmp_path, caplog):
    relink(root / "videos", private.parent / "videos")
    arguments = ("annotate", root, "--out", tmp_path / "out", "--layout", "closed=low")
    refused = invoke(*arguments)
    assert refused.exit_code == 1
    assert "goalreel: " in refused.stderr
    assert "videos is a link out of the dataset" in refused.stderr
    assert not (tmp_path / "out").exists()
    done = invoke(*arguments, "--follow-links")
    assert done.exit_code == 0, done.output
    assert "videos is a link to" in caplog.text
    assert not any(p.is_symlink() for p in (tmp_path / "out").rglob("*"))
    assert (tmp_path / "out" / VIDEO).read_bytes() == (root / VIDEO).read_bytes()


def test_check_lists_every_link_out_of_a_dataset(root, private):
    (root / "notes.txt").symlink_to(private)
    (root / "meta" / "x").symlink_to(private)
    done = invoke("check", root, "--json")
    assert done.exit_code == 0
    texts = [issue["text"] for issue in json.loads(done.stdout)["issues"] if issue["kind"] == "link"]
    for link, text in zip(("meta/x", "notes.txt"), texts, strict=True):
        assert text.startswith(f"{link} is a link out of the dataset, to {private}: ")


def test_a_mended_copy_refuses_a_link_out_of_its_dataset(root, private, tmp_path):
    (root / "notes.txt").symlink_to(private)
    with pytest.raises(DatasetError, match=r"notes.txt is a link out of the dataset"):
        repair(root, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def hub(root: Path, cache: Path) -> Path:
    """The dataset as huggingface_hub keeps it."""
    repository = cache / "datasets--me--arm"
    snapshot = repository / "snapshots" / "0123abcd"
    for count, path in enumerate(sorted(p for p in root.rglob("*") if p.is_file())):
        blob, link = repository / "blobs" / f"{count:064x}", snapshot / path.relative_to(root)
        for folder in (blob.parent, link.parent):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


def test_a_snapshot_of_the_hub_is_taken_whole_even_by_a_link(root, annotated, tmp_path):
    (tmp_path / "by-link").symlink_to(hub(root, tmp_path / "cache"))
    out = annotated(tmp_path / "by-link", tmp_path / "out", {0: {}})
    assert (out / VIDEO).read_bytes() == (root / VIDEO).read_bytes()
    assert not any(p.is_symlink() for p in out.rglob("*"))


def test_links_inside_the_dataset_and_into_nothing_are_no_matter(root, tmp_path):
    (root / "latest").symlink_to("videos")
    (root / "gone").symlink_to(tmp_path / "nowhere")
    (root / "itself").symlink_to("itself")
    check_links(root)


def test_corrections_that_are_a_link_out_are_refused(root, annotated, private, tmp_path):
    out = annotated(root, tmp_path / "out", {0: {}})
    path = corrections_path(out / FOLDER, 0)
    path.parent.mkdir(parents=True)
    private.write_text("secret\n")
    path.symlink_to(private)
    with pytest.raises(DatasetError, match="id_rsa: put a copy in its place"):
        Records(out / FOLDER).outline(0)
