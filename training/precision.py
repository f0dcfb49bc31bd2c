"""Whether bf16 is worth it here."""

import torch


def computes_bf16() -> bool:
    """Tell whether this machine computes in bf16 faster than in float32: a GPU, or a CPU with AMX.

    Another CPU emulates it, many times slower, and one with AVX-512's bf16 alone was slower too
    (`benchmarks/precision.py`).
    """
    return torch.cuda.is_available() or _has_amx()


def half(device: torch.device, *, wanted: bool = True) -> torch.autocast:
    """Autocast to bf16, where it is wanted and computed."""
    return torch.autocast(device.type, torch.bfloat16, enabled=wanted and computes_bf16())


def _has_amx() -> bool:
    # Earlier releases of torch do not tell.
    told = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(told.get("amx_bf16"))
