"""A storyboard while a robot acts on it: frames in, sub-goals out, tracked and re-planned. No ROS here.

- `engine.Engine` is what a node, or any robot's own loop, talks to: it takes a `request.TaskRequest`, gives a
  `ticket.Ticket`, and tells a `request.BoardListener` of every change.
- `engine_loop`, `execution`: the thread in which it works, and the request that it works on.
- `session.Session` carries a request out; `renderer` draws ahead, `follow` and `tracker` watch the robot.
- `board` holds the words: `Board`, `StepPanel`, `Goal`, `ErrorCode`; `live` is the board that changes.
- `frames`, `camera`, `vision`: the newest frame, whether it is fresh, how near it is to the goal.
- `caller`: models in threads of their own. `settings`, `names`: what is set, and which models that names.
"""
