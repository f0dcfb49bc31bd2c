"""Training rows with ground truth, made on the simulated tabletop: what the three agents learn from.

    plans      (frame, instruction) -> plan
    edits      (source, prompt) -> goal image
    verdicts   (source, candidate, instruction, prompt) -> verdict

`corpus` writes them to a folder.
"""
