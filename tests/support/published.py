"""Models behind real ends for the published benchmarks, and the benchmarks' data in miniature."""

import json
from pathlib import Path

from support.chat_server import Reply, Request, said

ROWS = {
    "space": ("1", ["It names a planet."], ["A planet is to be seen."]),
    "paper": ("paper_2", [], ["The figure has two boxes."]),
    "art": ("3", ["It has two steps.", "It names the brush."], ["There is a picture a step."]),
}
"""Task -> (id, criteria for the text, criteria for the pictures)."""
PROMPTS = {7: "a tree in the season of sowing", 450: "noon in a desert", 950: "rust on a nail"}


def editor(folder: Path) -> Path:
    """A random klein pipeline that draws 64 x 64 in one step."""
    from support.tiny_pipelines import tiny_pipeline

    tiny_pipeline("Flux2KleinPipeline", folder)
    settings = {
        "pipeline": "Flux2KleinPipeline",
        "kinds": ["text-to-image", "edit"],
        "steps": 1,
        "guidance": {"guidance_scale": 1.0},
        "size": [64, 64],
    }
    (folder / "goalreel.json").write_text(json.dumps(settings))
    return folder


def agents(request: Request) -> Reply:
    """A Planner of two steps, and a Critic that accepts."""
    if "previous_step_success" in json.dumps(request.json["messages"]):
        return said('<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>')
    if "unplannable" in json.dumps(request.json["messages"]):
        return said("I would rather not.")
    steps = [
        {
            "step_number": n,
            "step_name": f"Step {n}",
            "instruction": f"It is at stage {n}.",
            "prompt": f"Bring it to stage {n}.",
            "auxiliary_text": f"Stage {n} of it.",
        }
        for n in (1, 2)
    ]
    return said(f"<answer>{json.dumps({'execution_plan': steps})}</answer>")


def pictures(request: Request) -> int:
    """How many pictures a request carries."""
    content = [m["content"] for m in request.json["messages"]]
    return sum(p["type"] == "image_url" for parts in content if not isinstance(parts, str) for p in parts)


def ueval_data(folder: Path, *, old: bool = False, suffix: str = "json") -> Path:
    """Rows as on the hub; `old` names the task and holds the criteria as its first upload did."""
    rows = []
    for task, (number, text, image) in ROWS.items():
        wrap = (lambda c: [{"criterion": x, "tags": []} for x in c]) if old else list
        rows.append(
            {
                "id": number,
                "prompt": f"How does {task} work? Explain it both visually and textually.",
                "task_type" if old else "task": task,
                "text_rubrics": wrap(text),
                "image_rubrics": wrap(image),
            }
        )
    path = folder / "data" / f"test-00000-of-00001.{suffix}"
    path.parent.mkdir(parents=True)
    if suffix == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows))
    return folder


def ueval_clone(folder: Path) -> Path:
    """A script with the names that the official one has, in made-up words."""
    folder.mkdir()
    (folder / "ueval_eval.py").write_text(
        'raise SystemExit("never run")\n'
        'SYSTEM_INSTRUCTION = """ Mind the rubric. """.strip()\n'
        'TEXT_TEMPLATE = """Asked <<question>>, said <<text_answer>>.""".strip()\n'
        'IMAGE_TEMPLATE_OPEN = "Open: <<question>> / <<text_answer>>"\n'
        'IMAGE_TEMPLATE_CLOSED = "Closed: <<question>>"\n'
        'TEXT_RUBRIC_TEMPLATE = "Rubric: <<rubric_item>>"\n'
        'IMAGE_RUBRIC_TEMPLATE = "Picture rubric: <<rubric_item>>"\n'
    )
    return folder


def wise_clone(folder: Path) -> Path:
    """WISE_legacy's data and judge in their shape, in made-up words."""
    legacy = folder / "WISE_legacy"
    (legacy / "data").mkdir(parents=True)
    rows = [
        {
            "prompt_id": number,
            "Prompt": prompt,
            "Explanation": f"about {number}",
            "Category": "any",
            "Subcategory": "any",
        }
        for number, prompt in PROMPTS.items()
    ]
    (legacy / "data" / "cultural_common_sense.json").write_text(json.dumps(rows[:1]))
    (legacy / "data" / "natural_science.json").write_text(json.dumps(rows[1:]))
    (legacy / "gpt_eval.py").write_text(
        'raise SystemExit("never run")\n'
        "def build(prompt_data, image):\n"
        '    return [{"role": "system", "content": [{"type": "text", "text": "Be strict."}]},\n'
        '            {"role": "user", "content": [{"type": "text", "text": f"""Mark it.\n'
        "PROMPT: {prompt_data['Prompt']} WHY: {prompt_data['Explanation']}\"\"\"}]}]\n"
    )
    return folder
