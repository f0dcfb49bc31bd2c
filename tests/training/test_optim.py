"""Muon where bf16 is only emulated."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[train]'")

import torch

from goalreel.training import optim


@pytest.mark.parametrize("shape", [(48, 32), (32, 48), (40, 40)])
@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_in_float32_goes_where_torchs_goes(shape, nesterov, monkeypatch):
    monkeypatch.setattr(optim, "computes_bf16", lambda: False)
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    settings = {"lr": 0.02, "weight_decay": 0.1, "nesterov": nesterov, "adjust_lr_fn": "original"}
    pair = [(ours, optim.Muon([ours], **settings)), (theirs, torch.optim.Muon([theirs], **settings))]
    for seed in range(5):
        for parameter, optimizer in pair:
            parameter.grad = torch.randn(shape, generator=torch.Generator().manual_seed(1 + seed))
            optimizer.step()
    moved = (theirs - start).norm()
    assert moved > 0
    assert (ours - theirs).norm() < 0.02 * moved
    assert pair[0][1].state_dict().keys() == pair[1][1].state_dict().keys()
    pair[0][1].load_state_dict(pair[1][1].state_dict())


def test_muon_where_bf16_is_computed_is_torchs(monkeypatch):
    monkeypatch.setattr(optim, "computes_bf16", lambda: True)
    ours, theirs = (torch.nn.Parameter(torch.eye(32)) for _ in range(2))
    for parameter, kind in ((ours, optim.Muon), (theirs, torch.optim.Muon)):
        parameter.grad = torch.ones(32, 32)
        kind([parameter], lr=0.1).step()
    assert torch.equal(ours, theirs)
