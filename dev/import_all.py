"""Import every module of the product, with the lerobot whose folder is given."""

import importlib
import pkgutil
import sys
from pathlib import Path

import lerobot

import goalreel

if len(sys.argv) > 1 and not Path(lerobot.__file__).is_relative_to(Path(sys.argv[1]).resolve()):
    sys.exit(f"lerobot is that of {lerobot.__file__}, not of {sys.argv[1]}")
names = [module.name for module in pkgutil.walk_packages(goalreel.__path__, "goalreel.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
sys.stdout.write(f"{len(names)} modules imported with lerobot of {lerobot.__file__}\n")
