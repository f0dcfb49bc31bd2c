"""The laboratory: a simulated tabletop, and what is trained and measured on it.

sim       scenes, instructions, an expert, predicates and recordings
lessons   training rows with ground truth
bench     scores of planner, editor, critic and their loop
nano      the small models that ship
policy    policies that follow goal pictures
"""
