"""A small model on a CPU computes with one thread, and leaves torch as it was."""

import pytest
import torch
from support.serving_models import picture
from torch import nn

from goalreel import torch_support as torch_threads
from goalreel.chat.conversation import Message
from goalreel.chat.hf import HfChat
from goalreel.checkpoints import NANO
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.torch_support import threads_for
from goalreel.types import Edit


@pytest.fixture(autouse=True)
def three(monkeypatch):
    """Three torch_threads, which nobody asked for."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def taken(*models: nn.Module) -> int:
    with threads_for(models):
        return torch.get_num_threads()


def watched(model: nn.Module) -> list[int]:
    """The threads at each call of a model, as they come."""
    seen: list[int] = []
    model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    return seen


def test_large_models_models_elsewhere_and_a_wish_leave_torch_alone(monkeypatch):
    with pytest.raises(RuntimeError), threads_for([nn.Linear(2, 2)]):
        assert torch.get_num_threads() == 1
        raise RuntimeError
    assert taken(nn.Linear(2, 2), nn.Linear(2, 2, device="meta")) == 3
    monkeypatch.setattr(torch_threads, "SMALL", 16 + 16)
    model = nn.Linear(3, 4)
    assert (taken(model, model), taken(model, model, nn.Linear(1, 1))) == (1, 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert taken(nn.Linear(2, 2)) == 3


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_model_that_begins_beside_a_small_one_leaves_the_threads_as_they_were(device):
    small, other = threads_for([nn.Linear(2, 2)]), threads_for([nn.Linear(2, 2, device=device)])
    with small:
        other.__enter__()
    other.__exit__(None, None, None)
    assert torch.get_num_threads() == 3


def test_a_chat_model_and_an_editor_compute_so():
    chat = HfChat.load(NANO / "planner", device="cpu", max_new_tokens=2)
    editor = DiffusersEditor.load(NANO / "editor", device="cpu")
    seen = watched(chat.model), watched(editor.pipeline.unet)
    chat.complete([(Message("user", ("put the block in the bowl",)),)])
    shown = picture(size=(128, 128))
    editor.edit([Edit(task_id="t", step=0, attempt=0, image=shown, prompt="a bowl", seed=3)])
    assert [set(threads) for threads in seen] == [{1}, {1}]
    assert torch.get_num_threads() == 3
