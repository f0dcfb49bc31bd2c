"""lerobot's own rollout with a storyboard beside it: sub-goals go to the policy, a camera's frames come back.

No ROS, and nothing of lerobot is changed: `run` builds lerobot's context and runs its strategy,
`subgoalcamera` is one more camera of the robot, `following` stands before the policy's inference engine.
"""
