"""What scores pictures, by name: the simulator's reading, or a judge model."""

from goalreel.errors import InputError
from goalreel.models.load import build_chat
from goalreel.models.names import ModelName
from goalreel.scoring import Scorer

SIMULATOR = "simulator"


def build_scorer(name: str) -> Scorer:
    """The scorer `name`: `simulator` for simulated tabletops, or a chat model as the judge (VIEScore), such
    as `openai:MODEL@URL`.

    Raises:
        UserError, OSError, ModuleNotFoundError: there is no such scorer, or it cannot be built.
    """
    if name == SIMULATOR:
        from goalreel.tabletop.sim.scoring import SimulatorScorer

        return SimulatorScorer()
    from goalreel.planners.agents.viescore import VieScore

    try:
        return VieScore(build_chat(name, role="critic"))
    except InputError as e:
        if ModelName.parse(name).kind:
            raise
        use = f"{SIMULATOR}, or a chat model such as openai:MODEL@URL"
        raise InputError(f"no scorer {name!r}: use {use}") from e
