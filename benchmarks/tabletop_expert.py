"""How often the tabletop's scripted expert succeeds, beside two controls that should not.

    python benchmarks/tabletop_expert.py --episodes 200 --json

Keys of --json: `split`, `first_seed`, `episodes`, `subgoals`; `expert`, `never_closing` and `random`, shares
of episodes at whose end every sub-goal holds (0-1); `expert_subgoals`, `never_closing_subgoals` and
`random_subgoals`, shares of sub-goals; `failed_seeds`, at which the expert failed; `phases`, phase ->
[fewest, mean, most] actions a visit by the expert; `seconds`, wall time.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

from common import argument_parser, parse, report
from rich.progress import track

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.tabletop_measure import Outcome, never_closing, random_actions, run

from goalreel.tabletop.sim.expert import PHASES, pick_and_place
from goalreel.tabletop.sim.rollout import Policy
from goalreel.tabletop.sim.splits import SEEDS, seeds

POLICIES = ("expert", "never_closing", "random")


def policy_of(name: str, seed: int) -> Policy:
    """Make one of POLICIES, for the episode of a seed."""
    return {"expert": pick_and_place, "never_closing": never_closing, "random": random_actions(seed)}[name]


def phase_lengths(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Fewest, mean and most actions a visit, by phase."""
    lengths = {p: [n for o in outcomes for phase, n in o.visits if phase == p] for p in PHASES}
    return {p: [min(n), round(sum(n) / len(n), 2), max(n)] for p, n in lengths.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--split", choices=list(SEEDS), default="validation")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    options = parse(parser, argv, episodes=1)
    chosen = seeds(options.split, options.episodes, options.first)
    start = time.perf_counter()
    result: dict[str, object] = {"split": options.split, "first_seed": chosen[0], "episodes": len(chosen)}
    for name in POLICIES:
        progress = track(chosen, description=name, disable=not sys.stderr.isatty())
        outcomes = [run(seed, policy_of(name, seed)) for seed in progress]
        predicates = [h for o in outcomes for h in o.held]
        result[name] = sum(o.success for o in outcomes) / len(outcomes)
        result[f"{name}_subgoals"] = sum(predicates) / len(predicates)
        if name == "expert":
            result["subgoals"] = len(predicates)
            result["failed_seeds"] = [o.seed for o in outcomes if not o.success]
            result["phases"] = phase_lengths(outcomes)
    report(result | {"seconds": round(time.perf_counter() - start, 1)}, options.json)


if __name__ == "__main__":
    main()
