"""Weights of fewer bits than the checkpoint's: torchao's fp8 and int8, bitsandbytes' nf4.

Only the weights are stored so; what is computed has the model's own dtype.
"""

import importlib.util
from typing import Any, Literal, get_args

from goalreel.errors import InputError

Quantize = Literal["fp8", "int8", "nf4"]

BYTES: dict[Quantize, float] = {"fp8": 1.0, "int8": 1.0, "nf4": 0.5}
"""Of a quantised weight; scales come on top, and embeddings stay as they are."""


def quantization_config(kind: str, library: Literal["transformers", "diffusers"], dtype: str) -> Any:
    """Make the configuration for a library's `from_pretrained`; `dtype` is torch's name of what computes.

    Raises:
        InputError: no such kind, or its package is not installed.
    """
    if kind not in get_args(Quantize):
        raise InputError(f"quantize is one of {', '.join(get_args(Quantize))}, got {kind!r}")
    require_package("bitsandbytes" if kind == "nf4" else "torchao", f"quantize={kind!r}")
    module = importlib.import_module(library)
    if kind == "nf4":
        return module.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
        )
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig

    return module.TorchAoConfig(Float8WeightOnlyConfig() if kind == "fp8" else Int8WeightOnlyConfig())


def require_package(package: str, wanted_by: str) -> None:
    """Check that a package is installed.

    Raises:
        InputError: it is not.
    """
    if importlib.util.find_spec(package) is None:
        raise InputError(f"{wanted_by} needs {package}: pip install {package}")
