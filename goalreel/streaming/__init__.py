"""A storyboard while a robot acts on it: frames in, sub-goals out, tracked and re-planned. No ROS here.

- `engine.Engine` is what a node, or any robot's control loop, talks to. It takes a `request.TaskRequest`,
  returns a `ticket.Ticket`, and notifies a `request.BoardListener` of every change.
- `engine_loop`, `execution`: the thread in which the engine works, and the request it works on.
- `session.Session` carries a request out; `renderer` renders ahead, `step_follower` and `tracker` watch the
  robot, `operator_commands` holds pending commands, and `final_check` asks about the task as a whole.
- `board` has the terms `Board`, `StepPanel`, `Goal` and `ErrorCode`; `live_board` is the board that changes.
- `frames`, `camera`, `closeness`: the newest frame, whether it is fresh, how near it is to the goal.
- `model_caller` runs models in threads of their own. `settings` and `preset_settings` name the models.
- `rollout` leads a policy in lerobot's own rollout.
"""
