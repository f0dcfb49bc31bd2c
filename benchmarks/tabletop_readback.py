"""How well a rendered goal image reads back into the predicates it shows.

    python benchmarks/tabletop_readback.py --episodes 100 --size 128 --json

With --json the last line is one JSON object:
    split, first_seed, episodes, size, camera
    pictures          goal states that were teleported to and read
    goal_shown        share of reached sub-goals that the picture is read to show (0-1)
    goal_not_shown    share of sub-goals not reached yet that the picture is read NOT to show
    predicates_true   share of all true predicates (every pair of objects, borderline ones too) read as true
    predicates_false  share of all false ones read as false
    error_mm          median, 90th and 99th percentile of a block's position error
    missing           objects in the scene that were not found, all pictures together
    seconds           wall time
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.tabletop_measure import measure_reading

from goalreel.tabletop.sim.cameras import FIXED
from goalreel.tabletop.sim.splits import SEEDS, seeds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--split", choices=list(SEEDS), default="validation")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--camera", choices=list(FIXED), default="front")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = seeds(options.split, options.episodes, options.first)

    started = time.perf_counter()
    reading = measure_reading(chosen, options.size, options.camera)
    goals, predicates = reading.goals, reading.predicates
    result = {
        "split": options.split,
        "first_seed": chosen[0],
        "episodes": len(chosen),
        "size": options.size,
        "camera": options.camera,
        "pictures": goals.true,
        "goal_shown": goals.right_true / goals.true,
        "goal_not_shown": goals.right_false / goals.false,
        "predicates_true": predicates.right_true / predicates.true,
        "predicates_false": predicates.right_false / predicates.false,
        "error_mm": [round(1000 * float(e), 2) for e in np.percentile(reading.errors, [50, 90, 99])],
        "missing": reading.missing,
        "seconds": round(time.perf_counter() - started, 1),
    }
    if options.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:24} {value}")


if __name__ == "__main__":
    main()
