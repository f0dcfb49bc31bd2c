"""Every training target that lerobot's recipes make of an annotated dataset, by lerobot's own renderer."""

from collections import defaultdict
from pathlib import Path

import lerobot.configs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lerobot.configs.recipe import TrainingRecipe
from support.cli import goalreel
from support.faults import feature, info
from support.recordings import load

from goalreel.tabletop.record import record

RECIPES = sorted((Path(lerobot.configs.__file__).parent / "recipes").glob("*.yaml"))
FALLBACK = """
messages:
  - {role: user, content: "${task}", stream: low_level}
  - {role: assistant, content: "${subtask}", stream: low_level, target: true, if_present: subtask}
"""
"""For lerobot 0.6.1, which ships no recipe."""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A simulated recording of whose true sub-tasks nobody tells the second, annotated; and each frame's."""
    folder = tmp_path_factory.mktemp("recipes")
    record(folder / "in", [3], cameras=["front"], size=32)
    (path,) = (folder / "in").glob("data/*/*.parquet")
    table = pq.read_table(path)
    rows = [row for row in table["language_persistent"][0].as_py() if row["style"] == "subtask"]
    times = table["timestamp"].to_numpy()
    starts = [int(np.searchsorted(times, row["timestamp"])) for row in rows]
    step = np.searchsorted(starts, np.arange(len(times)), side="right") - 1
    step[step == 1] = -1
    names = [row["content"] for row in rows]
    table = table.drop_columns(["language_persistent", "language_events"])
    pq.write_table(table.append_column("subtask_index", pa.array(step)), path)
    texts = pa.table({"subtask_index": range(len(names)), "subtask": names})
    pq.write_table(texts, folder / "in/meta/subtasks.parquet")
    info(lambda i: [i["features"].pop(f"language_{name}") for name in ("persistent", "events")])(
        folder / "in"
    )
    feature("subtask_index", dtype="int64", shape=[1], names=None)(folder / "in")
    goalreel("annotate", folder / "in", "--out", folder / "out", "--planner", "rows")
    return load(folder / "out"), [names[i] if i >= 0 else None for i in step]


def recipes() -> dict[str, TrainingRecipe]:
    """Each recipe that lerobot ships, taken apart: a sample draws one of its parts at random."""
    import yaml

    wholes = {path.stem: TrainingRecipe.from_yaml(path) for path in RECIPES}
    wholes = wholes or {"joint": TrainingRecipe.from_dict(yaml.safe_load(FALLBACK))}
    parts: dict[str, TrainingRecipe] = {}
    for name, recipe in wholes.items():
        for part, r in (recipe.blend or {"": recipe}).items():
            parts[f"{name} {part}"] = TrainingRecipe(messages=r.messages, bindings=r.bindings)
    return parts


@pytest.mark.parametrize("name", recipes())
def test_every_target_of_lerobots_recipes_is_true(told, name):
    """A frame without a name has no target, or what is done so far; it never has the task as the answer."""
    from lerobot.datasets.language_render import render_sample

    dataset, truth = told
    recipe, targets = recipes()[name], defaultdict[str, set[str]](set)
    for i, now in enumerate(truth):
        if i % 8 and truth[max(i - 2, 0) : i + 3] == [now] * 5:
            continue  # to decode every frame takes seconds
        item = dataset[i]
        rendered = render_sample(
            recipe=recipe,
            persistent=item["language_persistent"],
            events=item["language_events"],
            t=float(item["timestamp"]),
            sample_idx=i,
            task=item["task"],
        )
        messages = rendered["messages"] if rendered else []
        done = [text for at, text in enumerate(truth[:i]) if text and truth[at + 1] != text]
        memory = f"Done so far: {'; '.join(done)}" if done else None
        for index in rendered["target_message_indices"] if rendered else ():
            text = messages[index]["content"]
            assert text == (memory if "memory" in name else now), (i, text)
            targets["memory" if "memory" in name else "subtask"].add(text)
        said = [m["content"] for m in messages if m["role"] == "user"]
        completed = {text for text in said if text.startswith("Completed")}
        assert completed <= {f"Completed subtask: {text}" for text in done}
        if "low_level" in name:
            assert said == ([now] if now else []), i
    steps = {text for text in truth if text}
    if "speech" not in name or name.endswith(("subtask", "memory_update")):
        assert len(targets["memory"]) == (len(steps) - 1 if "memory" in name else 0)
        assert targets["subtask"] == (steps if name.endswith(("subtask", "joint ")) else set())


def test_lerobots_step_trains_a_frame_without_a_name_on_its_task_alone(told):
    """Batched, as lerobot-train renders: no sample is lost, and none has a false target."""
    from lerobot.processor.render_messages_processor import RenderMessagesStep
    from lerobot.utils.collate import lerobot_collate_fn

    if not RECIPES:
        pytest.skip("lerobot 0.6.1 renders one sample at a time")
    dataset, truth = told
    gap = [i for i, text in enumerate(truth) if text is None]
    frames = [gap[0] - 1, *gap[:2], gap[-1] + 1]
    batch = lerobot_collate_fn([dataset[i] for i in frames])
    for path in RECIPES:
        step = RenderMessagesStep(TrainingRecipe.from_yaml(path))
        result = step({"complementary_data": dict(batch)})["complementary_data"]
        rendered = zip(frames, result["messages"], result["target_message_indices"], strict=True)
        for at, messages, targets in rendered:
            texts = [messages[i]["content"] for i in targets]
            assert all(text == truth[at] or text.startswith("Done so far: ") for text in texts), path.stem
