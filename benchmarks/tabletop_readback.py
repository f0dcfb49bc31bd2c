"""How well a rendered goal image reads back into the predicates that it shows.

    python benchmarks/tabletop_readback.py --episodes 100 --size 128 --json

Keys of --json: `split`, `first_seed`, `episodes`, `size`, `camera`; `pictures`, the goal states that were
teleported to and read; `goal_shown`, the share of reached sub-goals that the picture is read to show (0-1);
`goal_not_shown`, the share of sub-goals not reached yet that it is read not to show; `predicates_true`, the
share of all true predicates (every pair of objects, borderline ones too) that are read as true;
`predicates_false`, the share of all false ones that are read as false; `error_mm`, the median, 90th and 99th
percentile of a block's position error; `missing`, objects of the scene that were not found, in all pictures
together; `seconds`, wall time.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
from common import argument_parser, parse, report

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.tabletop_measure import measure_reading

from goalreel.tabletop.sim.cameras import FIXED
from goalreel.tabletop.sim.splits import SEEDS, seeds


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--split", choices=list(SEEDS), default="validation")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--camera", choices=list(FIXED), default="front")
    options = parse(parser, argv, episodes=1)
    chosen = seeds(options.split, options.episodes, options.first)
    start = time.perf_counter()
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
        "seconds": round(time.perf_counter() - start, 1),
    }
    report(result, options.json)


if __name__ == "__main__":
    main()
