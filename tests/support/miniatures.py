"""RISE and CoMM in miniature: data in the shapes that were published, clones with made-up words."""

import json

import numpy as np

from goalreel.image import Image

RISE_PROMPTS = (
    *("prompt_consist", "prompt_reasoning", "prompt_reasoning_w_input", "prompt_generation"),
    *("prompt_spatial_cons", "prompt_spatial_ref", "prompt_spatial_ref_img", "prompt_spatial_ref_w_input"),
    *("prompt_spatial_qual", "prompt_logical_cons", "prompt_logical_cons_ans", "prompt_logical_txt"),
    *("prompt_logical_img", "prompt_logical_img_wo_q"),
)


def rise_row(index, **answer):
    return {"index": index, "category": index.rpartition("_")[0], **answer}


RISE_ROWS = [
    rise_row("temporal_reasoning_1", reference="a {instruct} tree"),
    rise_row("causal_reasoning_1", reference="wet", reasoning_img="True"),
    rise_row("causal_reasoning_2", reference="x", consistency_free="True"),
    rise_row("spatial_reasoning_1", reference="left"),
    rise_row("spatial_reasoning_2", reference_img="spatial_reasoning_images/2_ref.png"),
    rise_row("spatial_reasoning_3", reference="seen", reasoning_img="True"),
    rise_row("logical_reasoning_1", reference_txt="7"),
    rise_row("logical_reasoning_2", reference_img="logical_reasoning_images/2_ref.png"),
]


def flat(value, size=(64, 64)):
    return Image(np.full((size[1], size[0], 3), value, np.uint8))


def rise_data(folder, rows=RISE_ROWS, pictures="data"):
    full = []
    for number, row in enumerate(rows):
        kind, index = row["category"], row["index"].rsplit("_", 1)[1]
        full.append({"instruction": f"Do {number}", "image": f"{kind}_images/{index}.png", **row})
        for name, value in ((full[-1]["image"], number), (row.get("reference_img"), 100 + number)):
            if isinstance(name, str):
                path = folder / pictures / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(flat(value).png())
    (folder / "datav2_total_w_subtask.json").write_text(json.dumps(full))
    return folder


def rise_clone(folder):
    folder.mkdir()
    lines = [f'{name} = """{name}: {{instruct}} / {{reference}} / {{other}}"""' for name in RISE_PROMPTS]
    (folder / "utils.py").write_text("import no_such_module\n" + "\n".join(lines))
    return folder


COMM_PROMPTS = {
    "document": "document_completeness_image_coherence",
    "descriptions": "texts_to_image_descriptions",
    "irs": "descriptions_gt_images_consistency",
}


def words(text):
    return {"type": "text", "content": text}


def picture(name):
    return {"type": "image", "image_path": name, "url": "https://example.org/" + name}


COMM_STEPS = [
    [words(" Fill the pot. "), picture("a/1.png")],
    [picture("a/2.png"), words("Boil it."), words("")],
    [words("Add tea."), picture("a/3.png")],
    [words("Wait.")],
    [words("Pour."), picture("a/5.png")],
]
COMM_ROW = {"data_id": "site/tea-1", "title": "making tea", "step_info": COMM_STEPS, "summary_info": []}


def comm_data(folder, rows, pictures=("a/1.png", "a/2.png")):
    (folder / "images/a").mkdir(parents=True)
    for number, name in enumerate(pictures, 1):
        (folder / "images" / name).write_bytes(flat(number).png())
    import torch

    torch.save(rows, folder / "test_data.pth")
    return folder


def comm_clone(folder):
    prompts = folder / "eval/tot_metric/machine_evaluation_prompts"
    prompts.mkdir(parents=True)
    for name in COMM_PROMPTS.values():
        (prompts / f"{name}.json").write_text(f"{name} {{no: JSON}}")
    inputs = {
        3: "See a beginning about growing figs: (1) Dig ... <IMAGE>(2) Plant ... <IMAGE> Now finish it.",
        4: "Please explain about growing figs?",
    }
    for task, text in inputs.items():
        example = folder / f"eval/example/data_id_task{task}/results.json"
        example.parent.mkdir(parents=True)
        example.write_text(json.dumps({"model_input": text}))
    return folder
