"""Where training computes in bf16."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[gpu]'")

import torch

from goalreel.training import loading as precision


@pytest.fixture(autouse=True)
def not_measured_yet():
    precision._gains.cache_clear()
    yield
    precision._gains.cache_clear()


@pytest.mark.parametrize(
    ("gpu", "seconds", "wanted"),
    [
        (True, {torch.bfloat16: 9.0, torch.float32: 1.0}, True),
        (False, {torch.bfloat16: 0.5, torch.float32: 1.0}, True),
        (False, {torch.bfloat16: 0.9, torch.float32: 1.0}, False),
        (False, {torch.bfloat16: 9.0, torch.float32: 1.0}, False),
    ],
)
def test_bf16_is_for_gpus_and_for_cpus_that_gain_by_it(gpu, seconds, wanted, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(precision, "product_seconds", seconds.__getitem__)
    assert precision.computes_bf16() is wanted


def test_a_cpu_is_measured_once(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    measured = []
    monkeypatch.setattr(precision, "product_seconds", lambda dtype: measured.append(dtype) or 1.0)
    assert not precision.computes_bf16()
    assert not precision.computes_bf16()
    assert measured == [torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_product_takes_some_time(dtype):
    assert precision.product_seconds(dtype, side=16) > 0
