"""A simulated tabletop without asset files: scenes, instructions, expert, predicates and recordings.

Everything about an episode follows from one integer seed (`grammar.sample_episode`). Only `env`, and what
stands on it, imports mujoco; only `record` imports lerobot.
"""
