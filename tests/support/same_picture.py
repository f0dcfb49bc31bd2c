"""A diffusers pipeline that draws its picture as it is, at the size it is asked for."""

import numpy as np
from diffusers.image_processor import VaeImageProcessor
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from diffusers.utils.outputs import BaseOutput

from goalreel.editors.catalogue import Entry
from goalreel.editors.diffusers import DiffusersEditor


class SamePictures(BaseOutput):
    images: np.ndarray


class SamePicturePipeline(DiffusionPipeline):
    """What it loses is lost by resizing alone."""

    def __init__(self) -> None:
        super().__init__()
        self.image_processor = VaeImageProcessor(vae_scale_factor=16)

    def __call__(self, prompt, image, width, height, generator=None, output_type="np") -> SamePictures:
        drawn = self.image_processor.preprocess(image, height=height, width=width)
        return SamePictures(images=self.image_processor.postprocess(drawn, output_type=output_type))


def same_picture_editor(
    size: tuple[int, int], multiple: int = 16, *, square: bool = False
) -> DiffusersEditor:
    """`size`: (width, height), whose area it works at."""
    entry = Entry(kinds=("edit",), size=size, multiple=multiple, square=square)
    return DiffusersEditor(SamePicturePipeline(), entry)
