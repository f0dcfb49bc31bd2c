"""Where training computes in bf16."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[gpu]'")

import torch

from goalreel.training import precision


@pytest.mark.parametrize(
    ("gpu", "cpu", "wanted"),
    [
        (True, {}, True),
        (False, {"avx512_bf16": True, "amx_bf16": True}, True),
        (False, {"avx512_bf16": True, "amx_bf16": False}, False),
        (False, {"avx2": True}, False),
    ],
)
def test_bf16_is_for_gpus_and_for_cpus_with_amx(gpu, cpu, wanted, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: cpu, raising=False)
    assert precision.computes_bf16() is wanted


def test_a_torch_that_does_not_tell_computes_in_float32(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not precision.computes_bf16()
