"""Examinations of critics, as a run has left them."""

import json
from pathlib import Path


def examination(folder: Path, on_false: str, critic: str = "model server") -> str:
    """Write the log of a critic that says `on_false` to what is false, and yes to all of the run's own."""
    answers = [("judged", "yes")] * 200 + [("true", "yes")] * 60
    answers += [(kind, on_false) for kind in ("unchanged", "later_words", "damaged") for _ in range(10)]
    folder.mkdir(parents=True)
    lines = (
        json.dumps({"critic": critic, "of": str(i), "kind": kind, "answer": answer}) + "\n"
        for i, (kind, answer) in enumerate(answers)
    )
    (folder / "run.jsonl").write_text("".join(lines))
    return str(folder)
