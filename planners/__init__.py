"""Planners turn a task into steps; Critics judge a rendered step.

- `agents.planner.ChatPlanner`, `agents.critic.ChatCritic`: the agents of InterleaveThinker, on any chat
  model.
- `agents.dialects`: the wording of their questions, our own or InterleaveThinker's; `agents.prompts` has
  ours.
- `agents.parsing`, `agents.reply_format`: read and write the agents' replies.
- `agents.viescore.VieScore`: scores a picture from 0 to 10 by any chat model.
- `chat.conversation.Chat`: the chat model that they need; `chat.openai.OpenAIChat` calls one over HTTP,
  `chat.hf.HfChat` runs one in this process, and `chat.recording.RecordingChat` records one.
- `chat.token_probability`: how sure a model was of one word of its reply.
- `kinematic.planner.KinematicPlanner`: derives a plan from the motion of a recorded episode, by rules.
- `watch.planner.WatchPlanner`: lets a chat model correct and name the segments of the kinematic planner.
- `recorded.rows.RowsPlanner`: takes the labels that an episode has.
- `recorded.difference.DifferenceCritic`: checks pixels, by rules; `recorded.motion_critic.MotionCritic` also
  checks the robot's motion.
"""
