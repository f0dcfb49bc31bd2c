"""Planners turn a task into steps.

- `chat.ChatPlanner`: the Planner of InterleaveThinker, on any chat model.
- `kinematic.planner.KinematicPlanner`: derives a plan from the motion of a recorded episode, by rules.
- `watch.planner.WatchPlanner`: lets a chat model correct and name the segments of the kinematic planner.
- `examples.planner.ExamplesPlanner`: carries the steps of labelled episodes over to the others.
- `rows.RowsPlanner`: takes the labels that an episode has.
"""
