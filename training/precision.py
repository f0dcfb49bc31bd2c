"""Whether bf16 is worth it here."""

import torch


def computes_bf16() -> bool:
    """Tell whether this machine computes in bf16: a GPU, or a CPU with AVX-512. Another CPU emulates it, many
    times slower than float32 (`benchmarks/precision.py`)."""
    return torch.cuda.is_available() or torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def half(device: torch.device, *, wanted: bool = True) -> torch.autocast:
    """Autocast to bf16, where it is wanted and computed."""
    return torch.autocast(device.type, torch.bfloat16, enabled=wanted and computes_bf16())
