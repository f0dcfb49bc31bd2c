"""The kinematic Planner of the `hindsight` preset."""
