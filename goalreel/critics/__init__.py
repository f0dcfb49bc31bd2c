"""Critics judge a rendered step. A new one is a file here and a line in `goalreel/models/kinds.py`.

- `chat.ChatCritic`: the Critic of InterleaveThinker, on any chat model.
- `viescore.VieScore`: scores a picture from 0 to 10 by any chat model.
- `difference.DifferenceCritic`: checks pixels, by rules.
- `motion.MotionCritic`: also checks the motion of a recorded robot.
- `examiner.Examiner`: asks a Critic control questions, from which its `Examination` follows.
"""
