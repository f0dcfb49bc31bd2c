"""How long it takes to write prompts from the banks that come with goalreel, and how balanced they are.

    python benchmarks/prompts.py --json                       # 40,000 prompts

Keys of --json: `prompts`; `seconds`, `cpu_seconds` and `prompts_per_s` that it took; `domains`,
`sub_categories`, `templates` and `phrases` that are in them; `exact` and `near` duplicates left out;
`smallest_domain` and `largest_domain`, the prompts of each; `smallest_sub_category`.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from common import argument_parser, parse, report

from goalreel.annotator.prompts.bank import SHIPPED, read_banks
from goalreel.annotator.prompts.make import PromptOrder, make_prompts


def measure(order: PromptOrder) -> dict[str, float]:
    """Write them into a folder that is dropped, with their report."""
    start, cpu_start = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        written = make_prompts(order, Path(folder) / "prompts")
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return {
        "prompts": written.prompts,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "prompts_per_s": written.prompts / seconds,
        "domains": len(written.domains),
        "sub_categories": len(written.sub_categories),
        "templates": written.templates,
        "phrases": written.phrases,
        **written.duplicates,
        "smallest_domain": min(written.domains.values()),
        "largest_domain": max(written.domains.values()),
        "smallest_sub_category": min(written.sub_categories.values()),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--count", type=int, default=40_000, help="how many prompts")
    parser.add_argument("--seed", type=int, default=0)
    options = parse(parser, argv, count=200)
    report(measure(PromptOrder(read_banks(SHIPPED), options.count, options.seed)), options.json)


if __name__ == "__main__":
    main()
