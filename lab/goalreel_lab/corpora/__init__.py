"""Training rows with ground truth, made on the simulated tabletop: what the three agents learn from.

    plans      (frame, instruction) -> plan
    continuations  (first frame, done steps, scene now) -> the rest of the plan
    edits      (source, prompt) -> goal image
    verdicts   (source, candidate, instruction, prompt) -> verdict
    live       the same, the candidate a frame of the robot at work
    wholes     the same, the candidate a frame at the end of a whole task

`corpus` writes them to a folder.
"""
