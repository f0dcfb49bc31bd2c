"""What an edit costs in a call of its own and in a call of several, on every edit pipeline of the catalogue.

    python benchmarks/edit_batch.py --json

The checkpoints are built here, with random weights in the pipelines' real classes and enough layers that the
denoiser is most of the work. Qwen's and LongCat's pipelines view the source at `size` instead of 1024. The
same edits (own picture, prompt and seed each) are rendered both ways by turns; the best of `repeats` counts.
On a GPU the clock is wall time, on the CPU processor time, which a busy machine does not change.

With --json the last line is one JSON object:
    device, clock, dtype, threads, size, steps, layers, heads, batch, edits, repeats
    pipelines    class -> {parameters, single_ms and batch_ms (an edit), speedup,
                           difference (the largest, in levels of 255)}
    seconds      wall time
"""

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path

import diffusers
import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.tiny_pipelines import reference_area, tiny_pipeline

from goalreel.editors.catalogue import Entry, catalogue
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.types import Edit


def measure(pipeline: str, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Both ways on the same loaded checkpoint; each way is warmed up by one call."""
    checkpoint = tiny_pipeline(pipeline, folder / pipeline, layers=options.layers, heads=options.heads)
    entry = _entry(pipeline).model_copy(
        update={"size": (options.size, options.size), "steps": options.steps, "components": {}}
    )
    loaded = DiffusersEditor.load(checkpoint, entry=entry, dtype=options.dtype)
    edits = [_edit(i, options.size) for i in range(options.edits)]
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    editors = {n: DiffusersEditor(loaded.pipeline, entry, batch_size=n) for n in (1, options.batch)}
    took, pictures = dict.fromkeys(editors, math.inf), {}
    for editor in editors.values():
        editor.edit(edits[: options.batch])
    for _ in range(options.repeats):
        for n, editor in editors.items():
            started = clock()
            pictures[n] = np.stack([_pixels(answer) for answer in editor.edit(edits)])
            took[n] = min(took[n], clock() - started)
    single, batch = took[1], took[options.batch]
    parts = (p for p in loaded.pipeline.components.values() if isinstance(p, torch.nn.Module))
    return {
        "parameters": sum(t.numel() for part in parts for t in part.parameters()),
        "single_ms": round(1000 * single / len(edits), 1),
        "batch_ms": round(1000 * batch / len(edits), 1),
        "speedup": round(single / batch, 2),
        "difference": int(np.abs(pictures[1] - pictures[options.batch]).max()),
    }


def _entry(pipeline: str) -> Entry:
    return next(
        e for e in catalogue().values() if e.pipeline == pipeline and "edit" in e.kinds and not e.lora
    )


def _edit(seed: int, size: int) -> Edit:
    pixels = np.random.default_rng(seed).integers(0, 255, (size, size, 3), np.uint8)
    prompt = f"put block {seed} in the {'blue ' * (seed % 4)}bowl"
    return Edit(task_id=str(seed), step=0, attempt=0, image=Image(pixels), prompt=prompt, seed=seed)


def _pixels(answer: object) -> np.ndarray:
    if not isinstance(answer, Image):
        raise SystemExit(f"an edit failed: {answer}")
    return answer.pixels.astype(int)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    paired = sorted({e.pipeline for e in catalogue().values() if e.pipeline and "edit" in e.kinds})
    parser.add_argument("--pipelines", nargs="+", choices=paired, default=paired)
    parser.add_argument("--size", type=int, default=96, help="side of the pictures and working size, pixels")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8, help="edits a call, at least 2")
    parser.add_argument("--edits", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()

    started = time.perf_counter()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    shown = ("threads", "size", "steps", "layers", "heads", "batch", "edits", "repeats")
    result: dict[str, object] = {
        "device": device,
        "clock": "processor" if device == "cpu" else "wall",
        "dtype": options.dtype or ("float32" if device == "cpu" else "bfloat16"),
        **{k: getattr(options, k) for k in shown},
    }
    with tempfile.TemporaryDirectory() as folder, reference_area(options.size**2):
        result["pipelines"] = {p: measure(p, options, Path(folder)) for p in options.pipelines}
    result["seconds"] = round(time.perf_counter() - started, 1)
    if options.json:
        print(json.dumps(result))
        return
    for name, row in result["pipelines"].items():
        print(f"{name:40} {row['single_ms']:8} ms  {row['batch_ms']:8} ms  x{row['speedup']}")


if __name__ == "__main__":
    main()
