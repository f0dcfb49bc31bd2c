"""Runs every trainer in each of the processes that a launcher has started: FOLDER holds the two corpora.

In one go, for starting processes takes longer than these trainings do.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from goalreel.training import sft as language
from goalreel.training.run import processes
from goalreel_lab.nano import editor_training
from goalreel_lab.nano.agent_config import NanoAgentConfig
from goalreel_lab.nano.config import EditorConfig, Schedule
from goalreel_lab.nano.training_loop import fit

ROWS = torch.linspace(-1, 1, 32).view(8, 4).sin()
WANTED = ROWS @ torch.tensor([[1.0], [2.0], [-1.0], [0.5]])
EDITOR = {
    "shape": {
        "size": 64,
        "vae_encoder": (16, 16, 24),
        "unet": (16, 32),
        "text_width": 64,
        "vocabulary": 640,
        "prompt_tokens": 64,
    },
    "vae": {"steps": 4, "batch": 4, "save_every": 2},
    "denoiser": {"steps": 4, "batch": 4, "save_every": 2},
    "precision": "float32",
}
PLANNER = {
    "role": "planner",
    "model": "nano",
    "nano": {
        "hidden": 96,
        "layers": 2,
        "vision_hidden": 64,
        "vision_layers": 2,
        "vocabulary": 420,
        "side": 64,
    },
    "max_steps": 4,
    "per_device_train_batch_size": 2,
    "save_steps": 2,
    "optimizer": "muon",
    "bf16": False,
}


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 1, bias=False)
        nn.init.zeros_(self.line.weight)

    def forward(self, rows: Tensor, wanted: Tensor) -> Tensor:
        return (self.line(rows) - wanted).square().mean()


def fit_line(out: Path, rank: int) -> Tensor:
    """Fit a line to eight fixed rows, shared out among the processes; its weight."""

    def share(step: int, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        mine = slice(rank * count, (rank + 1) * count)
        return ROWS[mine], WANTED[mine]

    model = Line()
    fit(model, share, Schedule(steps=30, batch=8, learning_rate=0.1, warmup=1, ema=0.5), out, seed=0)
    return model.line.weight.data


def main(folder: Path) -> None:
    rank, told = processes().process_index, []
    save_file({"weight": fit_line(folder / "line", rank)}, folder / f"line-{rank}.safetensors")
    config = EditorConfig.model_validate({**EDITOR, "data": folder / "edits"})
    editor_training.train(config, folder / "editor", progress=lambda *done: told.append(done))
    (folder / f"told-{rank}.json").write_text(json.dumps(told))
    editor_training.train(config, folder / "editor", resume=True)
    rows = folder / "plans" / "sharegpt" / "plans.json"
    language.train(NanoAgentConfig.model_validate({**PLANNER, "corpus": [rows]}), folder / "planner", False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
    # Else a thread of the group may outlive what it needs, and end the exit with SIGABRT.
    torch.distributed.destroy_process_group()
