"""The published benchmarks by name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from goalreel.errors import InputError
from goalreel_lab.published.benchmark import Benchmark
from goalreel_lab.published.comm import Comm
from goalreel_lab.published.rise import Rise
from goalreel_lab.published.ueval import UEval
from goalreel_lab.published.wise import Wise

type Opener = Callable[[Path | None, int], Benchmark]
"""Makes a benchmark from the clone of its repository, if any, and the task of one that has two."""

BENCHMARKS: Mapping[str, Opener] = {
    "ueval": lambda clone, _: UEval(clone),
    "wise": lambda clone, _: Wise(clone),
    "comm": lambda clone, task: Comm(clone, task=4 if task == 4 else 3),
    "rise": lambda clone, _: Rise(clone),
}


def open_benchmark(name: str, clone: Path | None = None, task: int = 3) -> Benchmark:
    """Make the benchmark `name`.

    Args:
        clone: the user's clone of its repository, which the judge's prompts are read from.
        task: of CoMM, 3 (continue a sequence) or 4 (answer a question).

    Raises:
        InputError: there is no such benchmark, or no such clone.
    """
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    if clone is not None and not clone.is_dir():
        raise InputError(f"{clone}: no such folder: --clone is where you cloned the benchmark's repository")
    return BENCHMARKS[name](clone, task)
