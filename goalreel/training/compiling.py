"""Compile parts of a model on machines that can."""

import logging
import shutil
from collections.abc import Iterable

from torch import nn
from torch._inductor import config as inductor

log = logging.getLogger(__name__)


def compile_parts(parts: Iterable[nn.Module], *, dynamic: bool | None = None) -> None:
    """Have each part compiled when it is first called; without a C++ compiler say so, and leave them.

    Args:
        dynamic: whether sizes differ from call to call; None leaves that to be found out.
    """
    compiler = inductor.cpp.cxx[-1]
    if shutil.which(compiler) is None:
        log.warning("%s is missing, so training is not compiled and slower: install it", compiler)
        return
    for part in parts:
        part.compile(dynamic=dynamic)
