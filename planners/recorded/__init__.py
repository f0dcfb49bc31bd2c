"""A planner and critics that read a recording by rules, without a model."""
