"""Files of `torch.save` that hold plain data: lists, dictionaries, texts and numbers."""

import pickle
from pathlib import Path
from typing import Any

from goalreel.errors import InputError, first_line


def read_plain_data(path: Path) -> Any:
    """Read the data; no object of a class is made, and no code in the file runs.

    Raises:
        InputError: the file is damaged, or holds more than plain data.
    """
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    # A damaged pickle may end in any of these: its commands work on an empty stack or on the wrong type.
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as e:
        reason = first_line(e)[:200]
        raise InputError(f"{path}: not a file of plain data ({reason}): download it again") from e
