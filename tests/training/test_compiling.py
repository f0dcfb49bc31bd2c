"""Parts of models are compiled where there is a compiler, and trained as they are elsewhere."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[train]'")

import torch
from torch._inductor import config as inductor

from goalreel.training.loading import compile_parts


@pytest.fixture
def told(monkeypatch) -> list[tuple[torch.nn.Module, dict[str, object]]]:
    """What was to be compiled."""
    told = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda part, **how: told.append((part, how)))
    return told


def test_without_a_compiler_parts_stay_as_they_are_and_it_is_said(told, caplog):
    with inductor.patch({"cpp.cxx": (None, "no-such-compiler")}):
        compile_parts([torch.nn.Linear(2, 2)])
    assert not told
    assert "no-such-compiler is missing" in caplog.text
    assert "install it" in caplog.text


def test_with_one_all_of_them_are_compiled(told, caplog):
    parts = [torch.nn.Linear(2, 2), torch.nn.ReLU()]
    with inductor.patch({"cpp.cxx": (None, "sh")}):
        compile_parts(iter(parts), dynamic=True)
    assert told == [(part, {"dynamic": True}) for part in parts]
    assert not caplog.text
