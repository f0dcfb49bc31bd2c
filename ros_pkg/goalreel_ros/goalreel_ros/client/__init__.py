# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""A typed Python client of the goalreel node, in the manner of nav2_simple_commander.

>>> from goalreel_ros.client import GoalreelClient
>>> with GoalreelClient() as goalreel:                     # doctest: +SKIP
...     goalreel.wait_until_active(timeout=60)
...     task = goalreel.execute("put the red block in the bowl")
...     goal = goalreel.wait_for_subgoal(timeout=60)
...     while not task.done:
...         act(goal.instruction, goalreel.goal_image)     # RGB, (height, width, 3), uint8
...         goal = goalreel.subgoal()
...     task.result()                                      # raises GoalreelError if it did not end well

`python -m goalreel_ros.client 'put the red block in the bowl'` shows a task in the terminal.
"""

from goalreel_ros.client.commander import GoalreelClient
from goalreel_ros.client.task import GoalreelError, NodeGoneError, TaskHandle

__all__ = ["GoalreelClient", "GoalreelError", "NodeGoneError", "TaskHandle"]
