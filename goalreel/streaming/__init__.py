"""A storyboard while a robot acts on it: frames in, sub-goals out, tracked and re-planned. No ROS here.

- `engine.Engine` is the interface for a node, or for any robot's control loop. It takes a
  `request.TaskRequest`, returns a `request.Ticket`, and notifies a `request.BoardListener` of every change.
- `model_caller` runs the models in threads, and probes their servers.
- `session.Session` carries a request out; `renderer` renders ahead, `follower` watches the robot, and
  `live_task` has what they share: the board that changes, and commands about it.
- `board` has the terms `Board`, `StepPanel`, `Goal` and `ErrorCode`; `camera` gives fresh frames.
- `settings` are the engine's, also as flat parameters. `rollout` leads a policy in lerobot's own rollout.
"""
