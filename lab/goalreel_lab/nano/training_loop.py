"""The loop of goalreel's own trainers: steps of a loss, a moving average, checkpoints, a log."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import accelerate
import torch
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter

from goalreel.errors import InputError
from goalreel.files import atomic
from goalreel.progress import OnProgress
from goalreel.training.run import processes
from goalreel_lab.nano.config import Schedule
from goalreel_lab.nano.optim import Muon

CHECKPOINT = "checkpoint.pt"


type Batch = tuple[Tensor, ...]
type MakeBatch = Callable[[int, int, torch.Generator], Batch]
"""Called with (step, count, generator) for `count` rows for one device, drawn with its generator."""


def fit(
    model: nn.Module,
    batch: MakeBatch,
    schedule: Schedule,
    out: Path,
    *,
    seed: int,
    resume: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> None:
    """Train `model`, whose forward maps a batch to a loss; at the end it holds the averaged weights.

    Each step's randomness follows from the seed, the step and the device alone, so that a resumed run is
    the run that was not stopped. `out` gets `checkpoint.pt` and TensorBoard's events. Its name is the stage
    of `progress`, which the main process alone calls.

    Raises:
        InputError: `out` holds a checkpoint and `resume` is false, or it is another run's.
    """
    # What a launcher, or a trainer before it in this process, wants of precision: the model knows its own.
    precision = accelerate.utils.AutocastKwargs(enabled=False)
    cpu = processes().device == torch.device("cpu")
    accelerator = accelerate.Accelerator(cpu=cpu, kwargs_handlers=[precision])
    if schedule.batch % accelerator.num_processes:
        raise InputError(f"batch {schedule.batch} does not divide over {accelerator.num_processes} devices")
    count = schedule.batch // accelerator.num_processes
    optimizers = _optimizers(model, schedule)
    wrapped, *optimizers = accelerator.prepare(model, *optimizers)
    run = _TrainingState(model, optimizers, schedule, out / CHECKPOINT)
    first = run.restore(resume)
    log = _Log(out, schedule) if accelerator.is_main_process else None
    wrapped.train()
    for step in range(first, schedule.steps):
        generator = torch.Generator(accelerator.device)
        generator.manual_seed((seed * 10**9 + step) * accelerator.num_processes + accelerator.process_index)
        for optimizer, highest in zip(optimizers, run.highest, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = highest * _rate(step, schedule)
            optimizer.zero_grad(set_to_none=True)
        loss = wrapped(*batch(step, count, generator))
        accelerator.backward(loss)
        norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        run.average(step)
        done = step + 1
        if accelerator.is_main_process:
            progress(out.name, done, schedule.steps)
        if log and (done % schedule.log_every == 0 or done == schedule.steps):
            log.write(done, {"loss": loss.detach(), "gradient_norm": norm, "rate": _rate(step, schedule)})
        if accelerator.is_main_process and (done % schedule.save_every == 0 or done == schedule.steps):
            run.save(done)
    accelerator.wait_for_everyone()
    if log:
        log.close()
    run.use_average()
    model.eval()


class _TrainingState:
    """Contents of a checkpoint: the model, its moving average and the optimizers."""

    def __init__(self, model: nn.Module, optimizers: list[Any], schedule: Schedule, path: Path) -> None:
        self.model, self.optimizers, self.schedule, self.path = model, optimizers, schedule, path
        self.highest = [schedule.muon_learning_rate, schedule.learning_rate][-len(optimizers) :]
        self.averaged = [p.detach().clone() for p in model.parameters()]

    def average(self, step: int) -> None:
        """Average over a short past at first, so that the random start is soon forgotten."""
        keep = min(self.schedule.ema, (1 + step) / (10 + step))
        with torch.no_grad():
            parameters = [p.data for p in self.model.parameters()]
            torch._foreach_lerp_(self.averaged, parameters, 1 - keep)

    def use_average(self) -> None:
        with torch.no_grad():
            for parameter, mean in zip(self.model.parameters(), self.averaged, strict=True):
                parameter.copy_(mean)

    def save(self, step: int) -> None:
        """Replace the last checkpoint in one move: being killed leaves a whole one."""
        state = {
            "step": step,
            "schedule": self.schedule.model_dump_json(),
            "model": self.model.state_dict(),
            "averaged": self.averaged,
            "optimizers": [o.state_dict() for o in self.optimizers],
        }
        with atomic(self.path) as part:
            torch.save(state, part)

    def restore(self, resume: bool) -> int:
        """Load the checkpoint, if there is one, and say how many steps it has done."""
        if not self.path.exists():
            return 0
        if not resume:
            raise InputError(f"{self.path} exists: resume it, or choose another folder")
        state = torch.load(self.path, map_location="cpu", weights_only=True)
        if state["schedule"] != self.schedule.model_dump_json():
            raise InputError(f"{self.path} was made with other settings: choose another folder")
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as e:
            raise InputError(f"{self.path} is of a model of another shape: choose another folder") from e
        for mean, stored in zip(self.averaged, state["averaged"], strict=True):
            mean.copy_(stored)
        for optimizer, stored in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
        return state["step"]


class _Log:
    """Scalars for TensorBoard."""

    def __init__(self, out: Path, schedule: Schedule) -> None:
        self._writer, self._batch = SummaryWriter(str(out)), schedule.batch
        self._last: tuple[int, float] | None = None

    def write(self, step: int, values: Mapping[str, Tensor | float | None]) -> None:
        """Write what is known: a sharding engine keeps its gradients' norm to itself."""
        for name, value in ((n, v) for n, v in values.items() if v is not None):
            self._writer.add_scalar(name, float(value), step)
        now = time.monotonic()
        if self._last:
            steps, since = step - self._last[0], now - self._last[1]
            self._writer.add_scalar("rows_per_second", steps * self._batch / since, step)
        self._last = step, now

    def close(self) -> None:
        self._writer.close()


def _rate(step: int, schedule: Schedule) -> float:
    """Compute the share of the highest rate: up over the warm-up, flat, then down to 1 % at the end."""
    remaining = (schedule.steps - step) / max(1.0, schedule.decay * schedule.steps)
    return min(1.0, (step + 1) / schedule.warmup) * min(1.0, max(0.01, remaining))


def _optimizers(model: nn.Module, schedule: Schedule) -> list[torch.optim.Optimizer]:
    """Muon for matrices between hidden layers, if there are any, and AdamW for all else."""
    matrices, rest = [], []
    for name, parameter in model.named_parameters():
        inner = parameter.ndim == 2 and "embed" not in name and "proj_out" not in name
        (matrices if inner and min(parameter.shape) >= 32 else rest).append(parameter)
    decay = schedule.weight_decay
    adam = torch.optim.AdamW(rest, lr=schedule.learning_rate, betas=(0.9, 0.98), weight_decay=decay)
    if not matrices:
        return [adam]
    return [Muon(matrices, lr=schedule.muon_learning_rate, weight_decay=10 * decay), adam]
