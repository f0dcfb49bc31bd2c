"""What thinks: the Planners, which turn a task into steps, and the Critics, which judge a rendered step.

- `planner.ChatPlanner`, `critic.ChatCritic`: the agents of InterleaveThinker, on any chat model.
- `observing.ObservingCritic`: asks a chat model whether a frame of a recording shows what is claimed.
- `chat.Chat`: what a chat model is to them; `openai.OpenAIChat` asks one over HTTP, `hf.HfChat` runs one.
- `kinematic.KinematicPlanner`: reads a plan off a recorded episode, by rules.
- `rows.RowsPlanner`: takes the sub-tasks that an episode is labelled with.
- `difference.DifferenceCritic`: checks pixels, by rules; `recorded_critic.RecordedCritic` also the recording.
- `viescore.VieScore`: what a picture is worth, 0-10, by any chat model.
- `tokens`: how sure a model was of one word of its reply.
- `overhear`: a chat model that is listened to.
- `parsing`, `replies`: the agents' own format, read and written.
- `dialects`: the words in which they are asked, our own or InterleaveThinker's; `prompts/` holds ours.
"""
