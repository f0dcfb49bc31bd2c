"""A path that is no dataset: one line says what it is, and the step or converter that fits."""

import pytest
from support.cli import fails, invoke
from support.recordings import make_dataset

from goalreel import check

FOLDERS = {
    "": "the folder is empty",
    "demo_0.hdf5": "a folder of HDF5: any4lerobot converts LIBERO's",
    "1.0.0/droid-train.tfrecord-00000-of-00031": "a folder of RLDS: any4lerobot's",
    "data/chunk-000/file-000.parquet": "copy the dataset again, with its folder meta",
    "cam0/episode_0.MP4": "a folder of videos or pictures: states and actions are needed",
    "run/run_0.mcap": "goalreel bag2lerobot",
    "notes.txt": "no meta/info.json there",
}


@pytest.mark.parametrize(("file", "line"), FOLDERS.items())
def test_a_folder_of_something_else(file, line, tmp_path):
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"x")
    said = fails("show", tmp_path)
    assert said.startswith(f"goalreel: {tmp_path}: ")
    assert line in said
    (issue,) = check(tmp_path).issues
    assert issue.text == said.removeprefix("goalreel: ")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("nowhere", "nowhere: no such folder"),
        ("lerobot/pusht", "lerobot/pusht: no such folder, not in the cache of the Hugging Face Hub"),
        ("https://example.com/x.zip", "https://example.com/x.zip: an address of no dataset on the Hub"),
    ],
)
def test_what_is_not_there(path, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert line in fails("annotate", path, "--out", "out")
    said = invoke("check", path)
    assert line in " ".join((said.stdout + said.stderr).split())


def test_a_folder_of_datasets_and_a_file(tmp_path):
    make_dataset(tmp_path / "one", (6,))
    said = fails("show", tmp_path)
    assert f"holds datasets, and is none itself: name one, such as {tmp_path / 'one'}" in said
    (tmp_path / "demo.hdf5").write_bytes(b"x")
    for words in (("show",), ("annotate", "--out", tmp_path / "out")):
        said = fails(*words, tmp_path / "demo.hdf5")
        assert "demo.hdf5: is a file, and a LeRobot dataset is a folder" in said
        assert "any4lerobot" in said
