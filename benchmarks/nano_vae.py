"""What the shipped editor's VAE keeps of true goal images: 100 validation sub-goals, encoded and decoded.

python benchmarks/nano_vae.py --json
"""

import json
import os
from dataclasses import asdict
from itertools import islice

os.environ.setdefault("MUJOCO_GL", "egl")

from diffusers import AutoencoderKLFlux2

from goalreel.checkpoints import NANO
from goalreel.datasets.tabletop.lessons.edits import edit_rows
from goalreel.datasets.tabletop.splits import seeds
from goalreel.training.vae import round_trip

ROWS = 100


def main() -> None:
    vae = AutoencoderKLFlux2.from_pretrained(NANO / "editor" / "vae").float().eval()
    every = edit_rows(seeds("validation", ROWS), 128)
    rows = islice((row for row in every if row.register == "explicit"), ROWS)
    print(json.dumps(asdict(round_trip(vae, rows))))


if __name__ == "__main__":
    main()
