"""Runs that DeepSpeed or FSDP shards: what they cannot save is refused at the start."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from goalreel.datasets.corpora.critic_rows import CRITIQUES, CritiqueRow
from goalreel.datasets.corpora.write import Corpus, write_corpus
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.tabletop.truth import held_out_split
from goalreel.training.config import GrpoConfig, SftConfig
from goalreel.types import Edit, Failure

REFUSED = r"\Aadapters cannot be merged under DeepSpeed or FSDP: set method to full, or shard nothing\Z"


@pytest.fixture(scope="module")
def training():
    """Trainers import for seconds, and only for these tests."""
    pytest.importorskip("trl", reason="needs trl: pip install 'goalreel[train]'")
    from goalreel.training import grpo
    from goalreel.training import run as results
    from goalreel.training import sft as language

    return SimpleNamespace(grpo=grpo.train, language=language.train, check_savable=results.check_savable)


class Unasked:
    def edit(self, edits: list[Edit]) -> list[Image | Failure]:
        raise AssertionError

    def score(self, candidates: list) -> list:
        raise AssertionError


def critiques(folder: Path) -> Path:
    picture = Image(np.zeros((8, 8, 3), np.uint8))
    words = {"instruction": "it lies there", "first_prompt": "Put it there.", "prompt": "Put it there."}
    said = {"drawn": False, "success": False, "semantics": 2, "quality": 8}
    row = CritiqueRow(task_id="e", step=0, attempt=0, source=picture, candidate=picture, **words, **said)
    write_corpus(
        Corpus(CRITIQUES, "train", {"train-00000": range(1)}, lambda part: [row], {"test": 1}, "test"),
        folder,
        text=False,
    )
    return folder


@pytest.fixture(params=["deepspeed", "fsdp", "fsdp as launched"])
def launched(request, monkeypatch, training):
    from accelerate.utils import DistributedType

    kind = {"deepspeed": DistributedType.DEEPSPEED, "fsdp": DistributedType.FSDP}.get(request.param)
    if kind is None:
        monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    state = SimpleNamespace(distributed_type=kind or DistributedType.MULTI_GPU)
    monkeypatch.setattr("goalreel.training.run.processes", lambda: state)


def test_adapters_of_a_supervised_run_are_refused(launched, training, tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text(
        '[{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]'
    )
    config = SftConfig(
        role="critic", model=str(tmp_path / "none"), corpus=(rows,), max_steps=1, method="lora"
    )
    with pytest.raises(InputError, match=REFUSED):
        training.language(config, tmp_path / "out", False)
    assert not (tmp_path / "out").exists()


def test_adapters_of_a_reinforced_run_are_refused(launched, training, tmp_path):
    config = GrpoConfig(
        model=str(tmp_path / "none"),
        corpus=(critiques(tmp_path / "rl"),),
        max_steps=1,
        num_generations=2,
        per_device_train_batch_size=2,
        method="lora",
    )
    with pytest.raises(InputError, match=REFUSED):
        models = {"editor": Unasked(), "scorer": Unasked(), "local": True}
        training.grpo(config, tmp_path / "out", False, held_out=held_out_split, **models)
    assert not (tmp_path / "out").exists()


def test_all_weights_are_saved_from_shards(launched, training):
    training.check_savable(SftConfig(role="critic", model="some", max_steps=1))


def test_adapters_of_an_unsharded_run_are_merged(monkeypatch, training):
    from accelerate.utils import DistributedType

    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    state = SimpleNamespace(distributed_type=DistributedType.NO)
    monkeypatch.setattr("goalreel.training.run.processes", lambda: state)
    training.check_savable(SftConfig(role="critic", model="some", max_steps=1, method="lora"))
