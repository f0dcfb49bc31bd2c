"""A Planner that looks at the frames of a recording."""
