"""The Planner that carries labels over from a few labelled episodes."""
