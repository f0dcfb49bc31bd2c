"""Registers the scorer `simulator`: an entry point of the group `goalreel.scorers`."""

from goalreel.models.scorers import register_scorer
from goalreel_lab.scoring import SimulatorScorer, success_of

register_scorer("simulator", success_of)(SimulatorScorer)
