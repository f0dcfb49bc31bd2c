"""Map the repository's top-level folders onto one import package, `goalreel`.

`datasets/` has no `__init__.py`: as a namespace portion it never shadows Hugging Face's
`datasets`, not even when Python starts inside the repository root.
"""

from setuptools import find_namespace_packages, setup

ROOMS = (
    "annotator",
    "planners",
    "editors",
    "datasets",
    "evaluation",
    "serving",
    "streaming",
    "training",
    "checkpoints",
)


def packages() -> dict[str, str]:
    """Import name -> folder, for the root package and every folder below each room."""
    found = {"goalreel": "goalreel"}
    for room in ROOMS:
        found[f"goalreel.{room}"] = room
        for inner in [] if room == "checkpoints" else find_namespace_packages(room):
            found[f"goalreel.{room}.{inner}"] = f"{room}/{inner.replace('.', '/')}"
    return found


setup(packages=list(packages()), package_dir=packages())
