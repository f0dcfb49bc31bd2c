"""lerobot's own rollout, led by a storyboard: sub-goals go to the policy, a camera's frames come back.

No ROS, and nothing of lerobot is changed. `run` builds lerobot's context and runs its strategy;
`subgoalcamera` adds a camera to the robot, and wraps the policy's inference engine.
"""
