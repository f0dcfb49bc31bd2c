"""goalreel: storyboards of checked visual sub-goals for robot learning."""

from pathlib import Path

__version__ = "0.1.0"

# In a checkout the rooms lie beside this folder, and `datasets/` has no `__init__.py` (see setup.py),
# which setuptools' editable finder cannot map.
_ROOT = Path(__file__).parents[1]
if (_ROOT / "setup.py").is_file():
    __path__.append(str(_ROOT))
