"""Fast training of small models: Muon for matrices beside AdamW, and compiled layers."""

import logging
import os
import shutil
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from goalreel.training.run import computes_bf16

log = logging.getLogger(__name__)


def compile_parts(parts: Iterable[nn.Module], *, dynamic: bool | None = None) -> None:
    """Have each part compiled when it is first called; without a C++ compiler say so, and leave them.

    Args:
        dynamic: sizes differ from call to call; None leaves that to be found out.
    """
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        log.warning("%s is missing, so training is not compiled and slower: install it", compiler)
        return
    for part in parts:
        part.compile(dynamic=dynamic)


class Muon(torch.optim.Muon):
    """torch's Muon, which orthogonalizes in bf16; in float32 where that is only emulated."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        if computes_bf16():
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._turn(parameter, parameter.grad, group)
        return loss

    def _turn(self, parameter: Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        average, momentum = state["momentum_buffer"], group["momentum"]
        average.lerp_(gradient, 1 - momentum)
        update = gradient.lerp(average, momentum) if group["nesterov"] else average
        rows, columns = parameter.shape
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        rate = group["lr"] * max(1, rows / columns) ** 0.5  # `adjust_lr_fn` "original"
        parameter.add_(_orthogonal(update, group), alpha=-rate)


def _orthogonal(update: Tensor, group: dict[str, Any]) -> Tensor:
    """Newton-Schulz, as torch.optim.Muon has it: singular values near 1."""
    a, b, c = group["ns_coefficients"]
    wide = update.T if update.shape[0] > update.shape[1] else update
    wide = wide / wide.norm().clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide.T if update.shape[0] > update.shape[1] else wide


class MuonAdamW(torch.optim.Optimizer):
    """Two optimizers that step together; schedulers see the groups of both.

    Muon (https://kellerjordan.github.io/posts/muon) takes the 2-D weights other than embeddings and output.
    """

    def __init__(
        self,
        parameters: Iterable[tuple[str, Parameter]],
        *,
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
        muon_lr: float,
        muon_weight_decay: float,
    ) -> None:
        """Share the parameters out between Muon and AdamW.

        Args:
            parameters: (name, parameter); those without gradient are left out.
        """
        trained = [(name, p) for name, p in parameters if p.requires_grad]
        matrices = [p for name, p in trained if is_matrix(name, p)]
        others = [p for name, p in trained if not is_matrix(name, p)]
        # The base class is not initialized: it would keep groups of its own, apart from those of the parts.
        self._muon = Muon(matrices, lr=muon_lr, weight_decay=muon_weight_decay, adjust_lr_fn="original")
        self._adamw = torch.optim.AdamW(others, lr=lr, betas=betas, weight_decay=weight_decay)
        self.defaults: dict[str, Any] = {}

    @property
    def param_groups(  # pyrefly: ignore[bad-override]  (the parts replace theirs on loading)
        self,
    ) -> list[dict[str, Any]]:
        return [*self._adamw.param_groups, *self._muon.param_groups]

    @property
    def state(  # pyrefly: ignore[bad-override]  (as with the groups)
        self,
    ) -> dict[Tensor, Any]:
        return {**self._adamw.state, **self._muon.state}

    def step(  # pyrefly: ignore[bad-override]  (one signature for the base's overloads)
        self, closure: Callable[[], float] | None = None
    ) -> float | None:
        loss = self._adamw.step(closure)
        self._muon.step()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._adamw.zero_grad(set_to_none)
        self._muon.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return {"adamw": self._adamw.state_dict(), "muon": self._muon.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._adamw.load_state_dict(state_dict["adamw"])
        self._muon.load_state_dict(state_dict["muon"])

    def __repr__(self) -> str:
        return f"MuonAdamW({self._muon!r}, {self._adamw!r})"


def is_matrix(name: str, parameter: Parameter) -> bool:
    """Tell whether Muon trains a parameter: a 2-D weight that maps between hidden spaces."""
    return parameter.ndim == 2 and "embed" not in name and "lm_head" not in name
