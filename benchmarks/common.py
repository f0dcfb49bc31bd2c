"""Share command lines and scripted models between the benchmarks.

Every benchmark has a `main(argv)` with two options. `--json` prints one JSON object as the last line;
`--smoke` does so at the smallest size that runs every line.
"""

import argparse
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from goalreel.image import Image
from goalreel.types import Candidate, Edit, Plan, Request, Stage, Step, Task, Verdict

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared/data"
"""Datasets of real robots, where they are."""
sys.path.append(str(ROOT / "tests"))  # what tests and benchmarks share: `support`


def argument_parser(doc: str | None) -> argparse.ArgumentParser:
    """Make a parser with `doc` as its help and the options of every benchmark."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--smoke", action="store_true", help="the same at the smallest size")
    return parser


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None, **smoke: object) -> argparse.Namespace:
    """Parse a command line; `smoke` are the defaults that `--smoke` brings."""
    if parser.parse_args(argv).smoke:
        parser.set_defaults(json=True, **smoke)
    return parser.parse_args(argv)


def report(result: Mapping[str, object], as_json: bool) -> None:
    """Print a result: as one JSON line, or a key a line, of a list once for each of its items."""
    if as_json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        for one in value if isinstance(value, list) else [value]:
            print(f"{key:24} {one:.3f}" if isinstance(one, float) else f"{key:24} {one}")


class ScriptedModels:
    """Planner, editor and critic in one, whose answers depend on the request alone.

    A subclass says what a call costs (`work`) and what is answered (`plan_of`, `image_of`, `verdict_of`).
    """

    def work(self, stage: Stage, requests: Sequence[Request]) -> None:
        """Take the time of one call; none here."""

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Plan each task, in one call."""
        self.work("plan", tasks)
        return [self.plan_of(task) for task in tasks]

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        """Draw each edit, in one call."""
        self.work("edit", edits)
        return [self.image_of(edit) for edit in edits]

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Judge each candidate, in one call."""
        self.work("judge", candidates)
        return [self.verdict_of(candidate) for candidate in candidates]

    def plan_of(self, task: Task) -> Plan:
        """Plan two to four steps, by the task's id."""
        steps = range(2 + zlib.crc32(task.id.encode()) % 3)
        return Plan(
            steps=tuple(Step(name=f"step {i}", instruction=f"{task.id} {i}", prompt=f"do {i}") for i in steps)
        )

    def image_of(self, edit: Edit) -> Image:
        """Draw a small picture of one grey level, by the seed."""
        return Image(np.full((8, 8, 3), edit.seed % 256, np.uint8))

    def verdict_of(self, candidate: Candidate) -> Verdict:
        """Reject about two in five; a rejection lengthens the prompt, so that a retry is judged anew."""
        text = f"{candidate.task_id} {candidate.instruction} {candidate.prompt}"
        return Verdict(
            success=zlib.crc32(text.encode()) % 5 > 1, refined_prompt=f"{candidate.prompt}, carefully"
        )
