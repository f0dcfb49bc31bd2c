"""The kinematic Planner of the `hindsight` preset."""

from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.planner import Granularity, KinematicPlanner

__all__ = ["Granularity", "KinematicPlanner", "Layout"]
