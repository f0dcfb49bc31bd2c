"""Average a checkpoint that was trained on with the one that it went on from.

Part of what the leg of training gained is kept, and part of what it forgot comes back (WiSE-FT, Wortsman et
al., arXiv 2109.01903). It costs seconds; whether it is better is for a validation split to say.

    python lab/studies/nano/average_weights.py nano-critic runs/critic --out runs/averaged
    python lab/studies/nano/average_weights.py nano-editor runs/editor/editor --share 0.3 --out averaged
"""

import re
import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from goalreel.checkpoints import located
from goalreel.cli.errors import one_line_errors
from goalreel.errors import InputError
from goalreel.files import atomic_folder, write_bytes
from goalreel.training.card import MADE, TABLE, file_facts

CARD = "README.md"
RESUMING = ("checkpoints", "logs", "training.yaml")
"""Files that only a run of training needs."""


def main(
    start: Annotated[
        str, typer.Argument(help="The checkpoint that it went on from: a folder or a shipped one.")
    ],
    end: Annotated[str, typer.Argument(help="The one that was trained on, of the same shape.")],
    out: Annotated[Path, typer.Option(help="A new folder for the average.")],
    share: Annotated[float, typer.Option(min=0, max=1, help="How much of the second.")] = 0.5,
) -> None:
    """Write (1 - share) of the first one's weights and share of the second's as a checkpoint of its own."""
    with one_line_errors():
        average(Path(located(start)), Path(located(end)), out, share)


def average(start: Path, end: Path, out: Path, share: float) -> None:
    """Mix the weights of two checkpoints in a new folder `out`, whose other files are those of `end`.

    Types stay those of `end`. Its model card, if it has one, names what was mixed in.

    Raises:
        InputError: no weights, or the two are not of one shape; `out` holds something, or lies in `end`.
        goalreel.errors.DatasetError: the disk is full.
    """
    names = _weights(end)
    if names != _weights(start) or not names:
        raise InputError(f"{start} and {end} do not hold the same files of weights (.safetensors)")
    if out.resolve().is_relative_to(end.resolve()):
        raise InputError(f"{out} lies in {end}, which is to be copied: name a folder elsewhere")
    with atomic_folder(out) as folder:
        shutil.copytree(end, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*RESUMING))
        for name in names:
            old, _ = _read(start / name)
            new, metadata = _read(end / name)
            if _shapes(old) != _shapes(new):
                raise InputError(f"{start / name} is of another shape than {end / name}")
            if all(torch.equal(old[key], value) for key, value in new.items()):
                continue
            save_file(
                {key: _mixed(old[key], value, share) for key, value in new.items()}, folder / name, metadata
            )
            shutil.copymode(end / name, folder / name)
            if (folder / CARD).exists():
                _tell(folder / CARD, start / name, 1 - share)


def _tell(card: Path, weights: Path, share: float) -> None:
    """Add a line to the card's table of facts; a card of another's gets a table for it."""
    facts, text = file_facts(weights), card.read_text(encoding="utf-8")
    line = f"| averaged with | {share:.2g} of {facts.name}, sha256 `{facts.sha256}` |\n"
    new_text, count = re.subn(rf"{MADE}\n\n(?:\|.*\n)+", lambda table: table[0] + line, text, count=1)
    write_bytes(card, (new_text if count else f"{text}\n{MADE}\n\n{TABLE}{line}").encode())


def _weights(folder: Path) -> list[Path]:
    paths = (path.relative_to(folder) for path in folder.rglob("*.safetensors"))
    return sorted(path for path in paths if path.parts[0] not in RESUMING)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str] | None]:
    try:
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata()  # noqa: SIM118
    except SafetensorError as e:
        raise InputError(f"{path} cannot be read: {e}") from e


def _shapes(weights: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {key: value.shape for key, value in weights.items()}


def _mixed(old: Tensor, new: Tensor, share: float) -> Tensor:
    if not new.is_floating_point():
        return new
    return torch.lerp(old.float(), new.float(), share).to(new.dtype)


if __name__ == "__main__":
    typer.run(main)
