"""A simulated tabletop without asset files, for the demos and the shipped nano models.

Everything about an episode follows from one integer seed (`grammar.sample_episode`). Only `env`, `expert` and
`reach` import mujoco; only `record` imports lerobot.
"""
