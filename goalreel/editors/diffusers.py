"""Any diffusers pipeline with a prompt, and perhaps an image, as an Editor: batched, safe from bad items."""

import inspect
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from goalreel.editors.catalogue import REFERENCE_PIPELINES, Entry, find
from goalreel.editors.sizes import Placement, Size, placement
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.types import Edit, Failure

log = logging.getLogger(__name__)


class DiffusersEditor:
    """Renders edits with a diffusers pipeline (see `load` and `from_catalogue`), in one thread at a time."""

    def __init__(self, pipeline: Any, entry: Entry, *, batch_size: int = 8) -> None:
        """`batch_size`: the most edits in one call of the pipeline; halved for good when memory runs out."""
        self.entry, self.pipeline, self._batch_size = entry, pipeline, batch_size
        self._parameters = inspect.signature(type(pipeline).__call__).parameters
        self._class_names = {base.__name__ for base in type(pipeline).__mro__}

    @classmethod
    def load(
        cls, source: str | Path, *, entry: Entry | None = None, batch_size: int = 8, **options: Any
    ) -> Self:
        """Load a pipeline from a folder or a repository; safetensors only, never the checkpoint's own code.

        `entry`: how to call it; by default the folder's own `goalreel.json`, else the catalogue's entry of
        the same class. `options` are those of `goalreel.editors.loading.load_pipeline`.

        Raises:
            InputError: it cannot be loaded here; the message is one line that says what to do.
        """
        # diffusers warns of classes that torchao has moved; only torchao's own files need them.
        logging.getLogger("diffusers.quantizers.torchao.torchao_quantizer").setLevel(logging.ERROR)
        try:
            from goalreel.editors.loading import entry_of, load_pipeline, model_index
        except ImportError as e:
            raise InputError(f"an editor needs {e.name}: pip install 'goalreel[gpu]'") from e
        index = model_index(str(source))
        entry = entry or entry_of(Path(source), index)
        return cls(load_pipeline(str(source), index, entry, **options), entry, batch_size=batch_size)

    @classmethod
    def from_catalogue(cls, name: str, **options: Any) -> Self:
        """Load an editor as `find` names it; options and errors are those of `load`."""
        entry = find(name)
        return cls.load(entry.repository, entry=entry, **options)

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i is the picture of edit i in the size that the model works in, or a Failure.

        It has the source's aspect ratio and stays the same from step to step (see `placement`). The same edit
        gives the same picture in any batch, up to numerics.
        """
        answers: list[Image | Failure | None] = [None] * len(edits)
        groups: dict[tuple[Placement | None, bool], list[int]] = {}
        for i, edit in enumerate(edits):
            refusal = self._refusal(edit)
            if refusal:
                answers[i] = _failure(refusal, refused=True)
                continue
            place = None if edit.image is None else self._placement(edit.image)
            groups.setdefault((place, bool(edit.references)), []).append(i)
        for (place, _), members in groups.items():
            for i, picture in zip(members, self._render([edits[i] for i in members], place), strict=True):
                answers[i] = picture
        return [a for a in answers if a is not None]

    def _refusal(self, edit: Edit) -> str | None:
        name = self.entry.name or type(self.pipeline).__name__
        if edit.image is None and "text-to-image" not in self.entry.kinds:
            return f"{name} edits pictures and cannot draw one from text alone: start from a frame"
        if edit.image is not None and "edit" not in self.entry.kinds:
            return f"{name} draws from text alone and cannot edit a picture: use an edit model"
        if edit.references and not self._class_names & REFERENCE_PIPELINES:
            return f"{name} takes one picture an edit: leave out the references"
        return None

    def _placement(self, image: Image) -> Placement:
        return placement(image.size, self.entry.size, self.entry.multiple, self.entry.square)

    def _render(self, edits: Sequence[Edit], place: Placement | None) -> list[Image | Failure]:
        pictures: list[Image | Failure] = []
        while len(pictures) < len(edits):  # `_attempt` may make the batches smaller
            room = self._batch_size if self._batches(edits[0]) else 1
            pictures += self._attempt(edits[len(pictures) : len(pictures) + room], place)
        return pictures

    def _batches(self, edit: Edit) -> bool:
        from goalreel.editors.loading import PAIR_BATCHES, TEXT_BATCHES

        if edit.image is None:
            return bool(self._class_names & TEXT_BATCHES)
        paired = hasattr(self.pipeline, "edit_pairs") or bool(self._class_names & PAIR_BATCHES)
        return paired and not edit.references

    def _attempt(self, edits: Sequence[Edit], place: Placement | None) -> list[Image | Failure]:
        """Make one call; if it fails, two calls of half the edits each, down to the edit that causes it."""
        import torch

        from goalreel.torch_support import threads_for

        half, refused = len(edits) // 2, False
        try:
            modules = [part for part in vars(self.pipeline).values() if isinstance(part, torch.nn.Module)]
            with threads_for(modules):
                drawn = [_checked(pixels) for pixels in self._call(edits, place)]
            return [d if place is None or isinstance(d, Failure) else place.cut(d) for d in drawn]
        except torch.OutOfMemoryError:
            reason = "out of memory for a single edit: use offload or quantize"
            self._batch_size = max(1, half)
        except (ValueError, IndexError, RuntimeError, TypeError) as e:
            # A TypeError is LongCat's, on a long prompt.
            reason = f"{type(e).__name__}: {(str(e).strip() or 'no message').splitlines()[0]}"
            refused = isinstance(e, ValueError)  # so pipelines say what they do not take
        # Outside the handler, where the failed call's tensors are no longer held by the exception.
        torch.cuda.empty_cache()
        if not half:
            return [_failure(reason, refused)]
        log.warning("a batch of %d edits failed, so it is tried in smaller parts: %s", len(edits), reason)
        return self._attempt(edits[:half], place) + self._attempt(edits[half:], place)

    def _call(self, edits: Sequence[Edit], place: Placement | None) -> NDArray[np.floating]:
        """Canvases (n, height, width, 3), 0 to 1, of edits that have one placement."""
        import torch

        arguments = self.arguments(self.entry.size if place is None else place.canvas)
        prompts = [e.prompt for e in edits]
        # On the CPU, one each: the noise depends on neither the device nor the batch.
        generators = [torch.Generator("cpu").manual_seed(e.seed) for e in edits]
        images = [_to_pil(e.image, place) for e in edits if place is not None and e.image is not None]
        if len(edits) == 1:
            references = [_to_pil(image, self._placement(image)) for image in edits[0].references]
            pictures = {"image": [*images, *references] if references else images[0]} if images else {}
            output = self.pipeline(prompt=prompts[0], generator=generators[0], **pictures, **arguments)
        elif images and hasattr(self.pipeline, "edit_pairs"):
            output = self.pipeline.edit_pairs(images, prompts, generators, **arguments)
        else:
            if "negative_prompt" in arguments:
                arguments["negative_prompt"] = [arguments["negative_prompt"]] * len(edits)
            pictures = {"image": images} if images else {}
            output = self.pipeline(prompt=prompts, generator=generators, **pictures, **arguments)
        return np.asarray(output.images, dtype=np.float32)

    def arguments(self, size: Size | None) -> dict[str, Any]:
        """Give the arguments of a call of the pipeline on a canvas, without prompt, picture and seed."""
        entry = self.entry
        arguments = {**entry.arguments, **entry.guidance, "output_type": "np"}
        if entry.steps is not None:
            arguments["num_inference_steps"] = entry.steps
        if size is not None:
            fitting = {"width": size[0], "height": size[1], "max_area": size[0] * size[1]}
            arguments |= {k: v for k, v in fitting.items() if k in self._parameters}
        return arguments


def _to_pil(image: Image, place: Placement) -> PIL.Image.Image:
    return PIL.Image.fromarray(place.place(image).pixels)


def _checked(pixels: NDArray[np.floating]) -> Image | Failure:
    """Convert one item of the output to a picture; a Failure where the model gave none."""
    if not np.isfinite(pixels).all():
        return _failure("the model's output is not a number: try another seed or dtype='float32'")
    if pixels.max() <= 0:
        return _failure("the model's output is black: try another seed or prompt")
    return Image((pixels.clip(0, 1) * 255).round().astype(np.uint8))


def _failure(message: str, refused: bool = False) -> Failure:
    return Failure(stage="edit", message=message, refused=refused)
