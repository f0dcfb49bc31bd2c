"""Measures what goalreel does against ground truth; every value has a 95 % interval over episodes.

`kinematic.evaluate` scores the kinematic planner's segments and labels on a tabletop recording;
`tabletop.bench.evaluate` scores planner, editor, critic and their loop by the simulator's predicates.
"""
