"""Models' names without a preset file."""

from goalreel.models.model_set import Provenance
from goalreel.models.presets import Preset


def named(planner: str = "p", editor: str = "e", critic: str = "c", **fields) -> Provenance:
    """Name three models; `fields` are others of the preset."""
    names = {"planner": planner, "editor": editor, "critic": critic, "max_attempts": 3}
    return Provenance(Preset.model_validate({**names, **fields}))
