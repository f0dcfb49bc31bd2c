"""Several (image, prompt, seed) edits in one call of a diffusers pipeline.

Kontext, Fill and InstructPix2Pix pair images with prompts themselves. FLUX.2-klein takes several images as
references of every prompt; Qwen-Image-Edit, Edit-Plus, LongCat and ChronoEdit take one image a call. Their
subclasses here encode prompt, image and noise one edit at a time, exactly as a single call does, and put them
together before the denoising loop. Classes of diffusers 0.42; all pictures of a call have one size.
"""

from collections.abc import Sequence
from typing import Any

import diffusers
import PIL.Image
import torch
from torch.nn.functional import pad

_PAIRS = "\0pairs"
"""Stands for the prompts of all pairs: the stock call must believe that it has one."""

TEXT_BATCHES = frozenset({"Flux2KleinPipeline", "FluxPipeline", "FluxKontextPipeline", "QwenImagePipeline"})
PAIR_BATCHES = frozenset(
    {"FluxKontextPipeline", "FluxFillPipeline", "StableDiffusionInstructPix2PixPipeline"}
)


class _Pairs(diffusers.DiffusionPipeline):
    """Makes a one-image pipeline draw B pictures of one prompt, and gives each its own image and prompt."""

    copies = "num_images_per_prompt"
    _pairs: list[tuple[PIL.Image.Image, str]] | None = None

    def edit_pairs(
        self,
        images: Sequence[PIL.Image.Image],
        prompts: Sequence[str],
        generator: Sequence[torch.Generator],
        **arguments: Any,
    ) -> Any:
        """The stock call's output for B edits. `images` all have one size."""
        self._pairs = list(zip(images, prompts, strict=True))
        try:
            return self(
                image=images[0],
                prompt=_PAIRS,
                generator=list(generator),
                **{self.copies: len(images)},
                **arguments,
            )
        finally:
            self._pairs = None

    def _texts(self, prompt: str | list[str]) -> list[str]:
        """What stands for `prompt` in each pair: its own, or the negative prompt all share."""
        prompt = prompt[0] if isinstance(prompt, list) else prompt
        return [own if prompt == _PAIRS else prompt for _, own in self._pairs or ()]

    def prepare_latents(self, image: Any, batch_size: int, *rest: Any) -> tuple[Any, ...]:
        """Noise and source latents, one pair at a time, joined along the batch."""
        if self._pairs is None:
            return super().prepare_latents(image, batch_size, *rest)
        *middle, generators, latents = rest
        parts = [
            super(_Pairs, self).prepare_latents(
                self._preprocess(picture, image), 1, *middle, generator, latents
            )
            for (picture, _), generator in zip(self._pairs, generators, strict=True)
        ]
        joined = tuple(torch.cat([p[k] for p in parts]) for k in range(2))
        return joined + parts[0][2:]

    def _preprocess(self, picture: PIL.Image.Image, like: Any) -> Any:
        """`picture` as the stock call made `like` from the first one."""
        return self.image_processor.preprocess(picture, *like.shape[-2:])


class _QwenPairs(_Pairs):
    def encode_prompt(self, prompt: Any, image: Any = None, **rest: Any) -> tuple[Any, ...]:
        if self._pairs is None:
            return super().encode_prompt(prompt, image, **rest)
        rest["num_images_per_prompt"] = 1
        embeds = [
            super(_QwenPairs, self).encode_prompt([text], self._resized(picture, image), **rest)[0]
            for text, (picture, _) in zip(self._texts(prompt), self._pairs, strict=True)
        ]
        longest = max(e.shape[1] for e in embeds)
        mask = torch.zeros(len(embeds), longest, dtype=torch.long, device=embeds[0].device)
        for row, e in zip(mask, embeds, strict=True):
            row[: e.shape[1]] = 1
        joined = torch.cat([pad(e, (0, 0, 0, longest - e.shape[1])) for e in embeds])
        return joined, None if bool(mask.all()) else mask

    def _resized(self, picture: PIL.Image.Image, like: Any) -> Any:
        if isinstance(like, list):
            return [self._resized(picture, like[0])]
        return self.image_processor.resize(picture, like.height, like.width)

    def _preprocess(self, picture: PIL.Image.Image, like: Any) -> Any:
        if isinstance(like, list):
            return [self._preprocess(picture, like[0])]
        return super()._preprocess(picture, like).unsqueeze(2)


class QwenImageEditPairs(_QwenPairs, diffusers.QwenImageEditPipeline):
    """Qwen-Image-Edit with one image a prompt."""


class QwenImageEditPlusPairs(_QwenPairs, diffusers.QwenImageEditPlusPipeline):
    """Qwen-Image-Edit-Plus (2509, 2511), which refuses batches, with one image a prompt."""


class LongCatImageEditPairs(_Pairs, diffusers.LongCatImageEditPipeline):
    """LongCat-Image-Edit, which refuses batches, with one image a prompt."""

    def encode_prompt(self, prompt: Any = None, image: Any = None, **rest: Any) -> tuple[Any, ...]:
        """Texts are padded to one length, so embeddings join as they are."""
        if self._pairs is None:
            return super().encode_prompt(prompt=prompt, image=image, **rest)
        rest["num_images_per_prompt"] = 1
        parts = []
        for text, (picture, _) in zip(self._texts(prompt), self._pairs, strict=True):
            resized = self.image_processor.resize(picture, image.height * 2, image.width * 2)
            resized = self.image_processor.resize(resized, image.height, image.width)
            parts.append(super().encode_prompt(prompt=[text], image=resized, **rest))
        return torch.cat([embeds for embeds, _ in parts]), parts[0][1]


class ChronoEditPairs(_Pairs, diffusers.ChronoEditPipeline):
    """ChronoEdit, which takes one image a call, with one image a prompt."""

    copies = "num_videos_per_prompt"

    def encode_prompt(self, prompt: Any, **rest: Any) -> tuple[Any, ...]:
        """Embeddings of all prompts, and the shared negative one's."""
        if self._pairs is None:
            return super().encode_prompt(prompt, **rest)
        rest["num_videos_per_prompt"] = 1
        parts = [super(ChronoEditPairs, self).encode_prompt(text, **rest) for text in self._texts(prompt)]
        return tuple(None if p[0] is None else torch.cat(p) for p in zip(*parts, strict=True))

    def encode_image(self, image: Any, device: Any = None) -> torch.Tensor:
        """CLIP's view of each source."""
        if self._pairs is None:
            return super().encode_image(image, device)
        return torch.cat([super(ChronoEditPairs, self).encode_image(p, device) for p, _ in self._pairs])

    def _preprocess(self, picture: PIL.Image.Image, like: Any) -> Any:
        return self.video_processor.preprocess(picture, *like.shape[-2:]).to(like.device, like.dtype)


class Flux2KleinPairs(diffusers.Flux2KleinPipeline):
    """FLUX.2-klein with one image a prompt."""

    _paired = False

    def edit_pairs(
        self,
        images: Sequence[PIL.Image.Image],
        prompts: Sequence[str],
        generator: Sequence[torch.Generator],
        **arguments: Any,
    ) -> Any:
        """The stock call's output for B edits. `images` all have one size."""
        self._paired = True
        try:
            return self(image=list(images), prompt=list(prompts), generator=list(generator), **arguments)
        finally:
            self._paired = False

    def prepare_image_latents(
        self, images: list[torch.Tensor], batch_size: int, generator: Any, device: Any, dtype: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Image i becomes the only reference of prompt i, at the place of a first reference."""
        if not self._paired:
            return super().prepare_image_latents(images, batch_size, generator, device, dtype)
        parts = [
            super(Flux2KleinPairs, self).prepare_image_latents([i], 1, None, device, dtype) for i in images
        ]
        return torch.cat([latents for latents, _ in parts]), torch.cat([ids for _, ids in parts])


PAIRED: dict[str, type[diffusers.DiffusionPipeline]] = {
    "Flux2KleinPipeline": Flux2KleinPairs,
    "QwenImageEditPipeline": QwenImageEditPairs,
    "QwenImageEditPlusPipeline": QwenImageEditPlusPairs,
    "LongCatImageEditPipeline": LongCatImageEditPairs,
    "ChronoEditPipeline": ChronoEditPairs,
}
"""What a stock class is loaded as."""
