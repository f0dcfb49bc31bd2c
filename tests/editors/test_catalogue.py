"""The catalogue of editors: its entries, the names, and the page that shows it."""

import inspect

import diffusers
import numpy as np
import pytest

from goalreel.editors.catalogue import Entry, catalogue, find, like, stored
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.load import build_editor
from goalreel.types import Edit, Failure


@pytest.mark.parametrize("name", catalogue())
def test_the_call_fits_the_class(name):
    entry = find(name)
    accepted = inspect.signature(getattr(diffusers, entry.pipeline).__call__).parameters
    assert set(entry.arguments) | set(entry.guidance) | {"num_inference_steps"} <= set(accepted)
    assert ("image" in accepted) == ("edit" in entry.kinds)
    assert all(side % entry.multiple == 0 for side in entry.size)
    assert entry.licence
    assert entry.weights_gb


def test_a_name_is_an_entry_from_its_repository_or_a_folder():
    entry = find("qwen-image-edit-lightning@/models/edit")
    assert entry == find("qwen-image-edit-lightning").model_copy(update={"repository": "/models/edit"})
    with pytest.raises(InputError, match=r"no editor called 'klein': .*flux2-klein-4b"):
        find("klein")


def test_a_checkpoint_keeps_its_own_entry(tmp_path):
    entry = Entry(kinds=("edit",), steps=1, size=(128, 128), guidance={"guidance_scale": 1.0})
    assert stored(tmp_path) is None
    entry.save(tmp_path)
    assert stored(tmp_path) == entry
    (tmp_path / "goalreel.json").write_text('{"kinds": ["paint"]}')
    with pytest.raises(InputError, match=r"goalreel\.json is not an editor's settings: kinds\.0"):
        stored(tmp_path)


def test_a_plain_folder_is_called_like_the_catalogue_model_of_its_class():
    assert like("Flux2KleinPipeline").name == "flux2-klein-4b"
    assert like("QwenImagePipeline").lora is None
    assert like("KolorsPipeline") is None


def test_one_model_draws_and_another_edits(monkeypatch):
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def edit(self, edits):
            return [Failure(stage="edit", message=f"{self.name} {e.task_id}") for e in edits]

    monkeypatch.setattr(DiffusersEditor, "from_catalogue", Named)
    editor = build_editor("qwen-image+qwen-image-edit")
    image = Image(np.zeros((8, 8, 3), np.uint8))
    sources = (image, None, None, image)
    asked = {"step": 0, "attempt": 0, "prompt": "p", "seed": 0}
    said = [
        a.message
        for a in editor.edit([Edit(task_id=str(i), image=s, **asked) for i, s in enumerate(sources)])
    ]
    assert said == ["qwen-image-edit 0", "qwen-image 1", "qwen-image 2", "qwen-image-edit 3"]
    assert editor.edit([]) == []
