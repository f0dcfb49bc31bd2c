"""What every run needs: its folder, weights that can be saved, bf16, a compiler, Muon, an order of rows."""

import json
import os
import random
import signal
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[train]'")

import torch
from support.grpo_runs import corpus, critique

from goalreel.errors import InputError
from goalreel.tabletop.truth import held_out_split
from goalreel.training import run
from goalreel.training.config import GrpoConfig, SftConfig
from goalreel.training.rows import POOL, LengthSampler, length
from goalreel.training.run import check_sharded, hold
from goalreel_lab.nano import optim

HOLDS = """
import os, sys, time
from pathlib import Path
from goalreel.training.run import hold
hold(Path(sys.argv[1]))
if not os.fork():
    print("there", flush=True)
time.sleep(600)
"""


@pytest.mark.process
@pytest.mark.lab
def test_a_folder_is_its_processs_until_that_ends_however_it_ends(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-c", HOLDS, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "there\n"
            with pytest.raises(InputError, match="another run is training there: wait, or give another"):
                hold(out)
            other.kill()
            other.wait()
            hold(out)  # its child lives on, and has let go
            hold(out)
        finally:
            os.killpg(other.pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["DEEPSPEED", "FSDP", "MULTI_GPU"])
def test_adapters_of_a_sharded_run_are_refused_before_anything_is_written(kind, tmp_path, monkeypatch):
    """Of FSDP a launcher says MULTI_GPU, until the trainer is prepared."""
    pytest.importorskip("trl", reason="needs trl: pip install 'goalreel[train]'")
    from accelerate.utils import DistributedType

    from goalreel.training import grpo, sft

    monkeypatch.setenv("ACCELERATE_USE_FSDP", str(kind == "MULTI_GPU"))
    state = SimpleNamespace(distributed_type=DistributedType[kind])
    monkeypatch.setattr("goalreel.training.run.processes", lambda: state)
    rows, out = tmp_path / "rows.json", tmp_path / "out"
    settings = {"model": str(tmp_path / "none"), "max_steps": 1}
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows.write_text(json.dumps([{"messages": turns}]))
    folder = corpus(tmp_path / "rl", [critique(task_id="e")])
    refused = r"\Aadapters cannot be merged under DeepSpeed or FSDP: set method to full, or shard nothing\Z"
    with pytest.raises(InputError, match=refused):
        sft.train(SftConfig(role="critic", corpus=(rows,), method="lora", **settings), out, False)
    settings |= {"num_generations": 2, "per_device_train_batch_size": 2}
    config = GrpoConfig(corpus=(folder,), method="lora", **settings)
    with pytest.raises(InputError, match=refused):
        models = {"editor": object(), "scorer": object(), "local": True}
        grpo.train(config, out, False, held_out=held_out_split, **models)
    assert not out.exists()
    check_sharded(SftConfig(role="critic", model="some", max_steps=1))
    state.distributed_type = DistributedType.NO
    check_sharded(SftConfig(role="critic", model="some", max_steps=1, method="lora"))


@pytest.mark.parametrize(
    ("gpu", "bf16", "wanted"),
    [(True, 9.0, True), (False, 0.5, True), (False, 0.9, False), (False, 9.0, False)],
)
def test_bf16_is_for_gpus_and_for_cpus_that_gain_by_it_measured_once(gpu, bf16, wanted, monkeypatch):
    measured = []
    seconds = {torch.bfloat16: bf16, torch.float32: 1.0}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(run, "product_seconds", lambda dtype: measured.append(dtype) or seconds[dtype])
    run._gains.cache_clear()
    assert [run.computes_bf16() for _ in range(2)] == [wanted] * 2
    assert measured == [] if gpu else list(seconds)
    run._gains.cache_clear()


@pytest.mark.parametrize("shape", [(48, 32), (32, 48), (40, 40)])
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("bf16", [True, False])
def test_muon_goes_where_torchs_goes(shape, nesterov, bf16, monkeypatch):
    monkeypatch.setattr(optim, "computes_bf16", lambda: bf16)
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
    assert (ours - theirs).norm() <= (0 if bf16 else 0.02 * moved)
    pair[0][1].load_state_dict(pair[1][1].state_dict())


# -- rows of one length are shown together, all of them once an epoch, in an order of its own each

LENGTHS = [(1, random.Random(i).choice((100, 200, 300, 400))) for i in range(1000)]


def steps(sampler: LengthSampler, size: int) -> list[list[int]]:
    indices = list(sampler)
    return [indices[i : i + size] for i in range(0, len(indices), size)]


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 16 * POOL, 16 * POOL + 1, 1000])
def test_every_row_is_shown_once_and_what_is_left_over_last(rows):
    order = steps(LengthSampler(LENGTHS[:rows], 16, 0), 16)
    assert sorted(i for step in order for i in step) == list(range(rows))
    assert all(len(step) == 16 for step in order[:-1])


def test_rows_of_a_step_are_alike_its_neighbours_are_not_and_seed_and_epoch_decide():
    first, second = LengthSampler(LENGTHS, 16, 0), LengthSampler(LENGTHS, 16, 0)
    order = steps(first, 16)
    assert sum(len({LENGTHS[i] for i in step}) <= 2 for step in order) > 0.9 * len(order)
    firsts = [LENGTHS[step[0]] for step in order]
    assert sum(a != b for a, b in pairwise(firsts)) > 0.5 * len(order)
    assert list(first) == list(first) == list(second)
    second.set_epoch(1)
    assert list(first) != list(second)
    assert list(first) != list(LengthSampler(LENGTHS, 16, 1))
    row = {"messages": [{"role": "user", "content": "word"}, {"role": "assistant", "content": "yes"}]}
    assert length(row | {"images": ["a.png", "b.png"]}) == (2, 7) > length(row | {"images": ["a.png"]})


@pytest.mark.parametrize(
    ("compiler", "compiles", "said"),
    [("no-such-compiler", False, "no-such-compiler is missing"), ("sh", True, "")],
)
def test_parts_are_compiled_where_there_is_a_compiler(compiler, compiles, said, monkeypatch, caplog):
    told = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda part, **how: told.append((part, how)))
    monkeypatch.setenv("CXX", compiler)
    parts = [torch.nn.Linear(2, 2), torch.nn.ReLU()]
    optim.compile_parts(iter(parts), dynamic=True)
    assert told == [(part, {"dynamic": True}) for part in parts if compiles]
    assert said in caplog.text
    assert bool(caplog.text) is not compiles
