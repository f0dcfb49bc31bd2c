"""How often the tabletop's scripted expert succeeds, beside two controls that should not.

    python benchmarks/tabletop_expert.py --episodes 200 --json

With --json the last line is one JSON object:
    split, first_seed, episodes, subgoals
    expert, never_closing, random      share of episodes at whose end every sub-goal holds (0-1)
    expert_subgoals, never_closing_subgoals, random_subgoals    share of sub-goals
    failed_seeds                       seeds at which the expert failed
    phases                             phase -> [fewest, mean, most] actions a visit by the expert
    seconds                            wall time
"""

import argparse
import json
import sys
import time
from pathlib import Path

from rich.progress import track

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support import tabletop_measure as measure

from goalreel.tabletop.sim.expert import PHASES
from goalreel.tabletop.sim.splits import SEEDS, seeds


def phase_lengths(outcomes: list[measure.Outcome]) -> dict[str, list[float]]:
    """Fewest, mean and most actions a visit."""
    lengths = {p: [n for o in outcomes for phase, n in o.visits if phase == p] for p in PHASES}
    return {p: [min(n), round(sum(n) / len(n), 2), max(n)] for p, n in lengths.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--split", choices=list(SEEDS), default="validation")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = seeds(options.split, options.episodes, options.first)

    started = time.perf_counter()
    result: dict[str, object] = {"split": options.split, "first_seed": chosen[0], "episodes": len(chosen)}
    for name in ("expert", "never_closing", "random"):
        outcomes = []
        for seed in track(chosen, description=name, disable=not sys.stderr.isatty()):
            if name == "expert":
                outcomes.append(measure.run(seed))
            else:
                control = measure.never_closing if name == "never_closing" else measure.random_actions(seed)
                outcomes.append(measure.run(seed, control))
        held = [h for o in outcomes for h in o.held]
        result[name] = sum(o.success for o in outcomes) / len(outcomes)
        result[f"{name}_subgoals"] = sum(held) / len(held)
        if name == "expert":
            result["subgoals"] = len(held)
            result["failed_seeds"] = [o.seed for o in outcomes if not o.success]
            result["phases"] = phase_lengths(outcomes)
    result["seconds"] = round(time.perf_counter() - started, 1)
    if options.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:24} {value}")


if __name__ == "__main__":
    main()
