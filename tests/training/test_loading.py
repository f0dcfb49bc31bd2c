"""How a model is computed on this machine: in bf16 where it gains, compiled where there is a compiler."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[train]'")

import torch

from goalreel.training import loading
from goalreel.training.loading import compile_parts


@pytest.mark.parametrize(
    ("compiler", "compiles", "said"),
    [("no-such-compiler", False, "no-such-compiler is missing"), ("sh", True, "")],
)
def test_parts_are_compiled_where_there_is_a_compiler(compiler, compiles, said, monkeypatch, caplog):
    told = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda part, **how: told.append((part, how)))
    monkeypatch.setenv("CXX", compiler)
    parts = [torch.nn.Linear(2, 2), torch.nn.ReLU()]
    compile_parts(iter(parts), dynamic=True)
    assert told == [(part, {"dynamic": True}) for part in parts if compiles]
    assert said in caplog.text
    assert bool(caplog.text) is not compiles


@pytest.mark.parametrize(
    ("gpu", "bf16", "wanted"),
    [(True, 9.0, True), (False, 0.5, True), (False, 0.9, False), (False, 9.0, False)],
)
def test_bf16_is_for_gpus_and_for_cpus_that_gain_by_it_measured_once(gpu, bf16, wanted, monkeypatch):
    measured = []
    seconds = {torch.bfloat16: bf16, torch.float32: 1.0}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(loading, "product_seconds", lambda dtype: measured.append(dtype) or seconds[dtype])
    loading._gains.cache_clear()
    assert [loading.computes_bf16() for _ in range(2)] == [wanted] * 2
    assert measured == [] if gpu else list(seconds)
    loading._gains.cache_clear()
