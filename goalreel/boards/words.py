"""Ids and texts in the requests of people, and pictures that stand for stored ones."""

from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field, StringConstraints

from goalreel.image import Image
from goalreel.terms import check_controls

FRAME = "frame:"
"""A reference to a frame of the recording begins so: `frame:CAMERA#INDEX`."""


def one_line(text: str) -> str:
    """Replace line breaks, tabs and other white space of a person's words by single spaces.

    >>> one_line(" grasp\\nthe  cup ")
    'grasp the cup'

    Raises:
        ValueError: nothing is left, or the text holds another control character.
    """
    line = " ".join(text.split())
    if not line:
        raise ValueError("a text holds nothing but white space")
    return check_controls(line)


type StepId = Annotated[str, Field(pattern=r"^[a-z0-9]{1,16}$")]
type Words = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]
type Phrase = Annotated[Words, AfterValidator(one_line)]
type Who = Annotated[str, StringConstraints(min_length=1, max_length=80), AfterValidator(one_line)]


def stand_in(reference: str) -> Image:
    """Make a picture that only says which one it is."""
    return Image(np.zeros((1, 1, 3), np.uint8), frame=reference)


def reference_of(image: Image) -> str:
    """Name the picture that a stand-in stands for.

    Raises:
        ValueError: it stands for none.
    """
    if image.frame is None:
        raise ValueError("a picture that is not stored")
    return image.frame
