"""A Critic that checks pixels by rules, without a model.

It recognises a picture that is unusable or shows no change. It cannot tell whether the change is the right
one.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.concurrency import map_threaded
from goalreel.types import Candidate, Verdict

type Pixels = NDArray[np.uint8]
THREADS = 2
"""Candidates judged at once: OpenCV leaves Python's lock to others."""
_SMALLEST = 12  # a smaller region, in pixels, may be noise
_COVERED = 0.8  # share of a region from which on it is covered


class DifferenceCritic:
    """Rejects a candidate that is black, washed out, flat, blurred, or the same as its source."""

    def __init__(
        self,
        min_changed: float = 0.002,
        level: float = 20.0,
        min_sharpness: float = 0.2,
        min_brightness: float = 10.0,
        max_saturated: float = 0.6,
        min_contrast: float = 3.0,
    ) -> None:
        """Set the thresholds, which assume a camera that stands still: a moving one always shows change.

        Args:
            min_changed: share of the picture, 0-1, that must differ from the source; a quarter of it is
                enough in one place, where noise is spread.
            level: grey levels (of 255) by which a smoothed pixel must differ to count; above the noise of
                video compression and sensors.
            min_sharpness: variance of the Laplacian, as a share of the source's.
            min_brightness: mean grey level below which a picture is black.
            max_saturated: share of pixels at 250 or above from which a picture is washed out.
            min_contrast: standard deviation of grey below which a picture is flat.
        """
        self._min_changed = min_changed
        self._level = level
        self._min_sharpness = min_sharpness
        self._min_brightness = min_brightness
        self._max_saturated = max_saturated
        self._min_contrast = min_contrast

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Answer i judges candidate i; without a source by the picture alone."""
        return map_threaded(self.judge_one, candidates, THREADS)

    def judge_one(self, candidate: Candidate) -> Verdict:
        """Judge one candidate, as `judge` does."""
        image = candidate.image.pixels
        if fault := self._exposure_fault(image):
            return Verdict(success=False, reasoning=fault, semantics=0.0, quality=0.0, pictures_only=True)
        if candidate.source is None:
            reasoning = "The picture is well exposed; there is no source to compare."
            return Verdict(success=True, reasoning=reasoning, pictures_only=True)
        source, image = _alike(candidate.source.pixels, image)
        mask, sharp = self._mask(source, image), _relative_sharpness(source, image)
        changed = float(mask.mean())
        semantics = 10 * changed / (changed + self._min_changed)
        quality = 10 * min(1.0, sharp)
        reasoning, success = (
            f"{changed:.1%} of the picture changed, at {sharp:.2f} of the source's sharpness.",
            True,
        )
        if not self._is_change(mask):
            reasoning, success = (
                f"Nothing visible changed: {changed:.2%}, at least {self._min_changed:.2%} asked.",
                False,
            )
        elif sharp < self._min_sharpness:
            reasoning, success = (
                f"Blurred: {sharp:.2f} of the source's sharpness, {self._min_sharpness:.2f} asked.",
                False,
            )
        return Verdict(
            success=success, reasoning=reasoning, semantics=semantics, quality=quality, pictures_only=True
        )

    def shows_change(self, source: Pixels, image: Pixels) -> bool:
        """Return whether enough of the picture differs; both have one size."""
        return self._is_change(self._mask(source, image))

    def covers(self, first: Pixels, image: Pixels, last: Pixels) -> bool:
        """Return whether `image` covers a region that differs between `first` and `last`, unlike both there.

        So it is where something covers what has changed. All have one size.
        """
        covered = self._mask(first, image) & self._mask(image, last)
        labels, sizes = _regions(self._mask(first, last))
        hidden = np.bincount(labels[covered], minlength=len(sizes))
        large = sizes >= self._min_region(labels.size)
        return bool((hidden[large] > _COVERED * sizes[large]).any())

    def _is_change(self, mask: NDArray[np.bool_]) -> bool:
        if mask.mean() >= self._min_changed:
            return True
        return int(_regions(mask)[1].max()) >= self._min_region(mask.size)

    def _min_region(self, pixels: int) -> float:
        return max(_SMALLEST, pixels * self._min_changed / 4)

    def _mask(self, source: Pixels, image: Pixels) -> NDArray[np.bool_]:
        sigma = max(0.8, image.shape[1] / 160)
        a, b = (cv2.GaussianBlur(p, (0, 0), sigma).astype(np.int16) for p in (source, image))
        return differing(a, b, self._level)

    def _exposure_fault(self, image: Pixels) -> str | None:
        grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        if grey.mean() < self._min_brightness:
            return f"Black: mean brightness {grey.mean():.1f} of 255."
        if (saturated := float((grey >= 250).mean())) > self._max_saturated:
            return f"Washed out: {saturated:.0%} of the pixels are white."
        if grey.std() < self._min_contrast:
            return f"Flat: grey levels vary by only {grey.std():.1f} of 255."
        return None


def differing(first: NDArray[np.int16], second: NDArray[np.int16], level: float) -> NDArray[np.bool_]:
    """Mark the pixels, (height, width), that differ by more than `level` grey levels in some channel.

    A global shift in brightness does not count. Both pictures are (height, width, 3), with levels of 0-255.
    """
    channels = (np.asarray(channel, np.int16) for channel in cv2.split(second - first))
    red, green, blue = (np.abs(channel - np.int16(_median(channel))) for channel in channels)
    # max(axis=2) takes ten times as long
    return np.maximum(np.maximum(red, green), blue) > level


def _regions(mask: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the connected regions of a mask, 0 outside, and give their sizes, 0 for outside."""
    _, labels = cv2.connectedComponents(mask.astype(np.uint8))
    sizes = np.bincount(labels.ravel()).astype(np.int64)
    sizes[0] = 0
    return np.asarray(labels, np.int32), sizes


def _median(differences: NDArray[np.int16]) -> int:
    """The median of differences of -255 to 255, rounded towards zero. Counting is faster than sorting."""
    reached = np.bincount(differences.ravel() + 255, minlength=511).cumsum()
    middle = np.searchsorted(reached, [(reached[-1] - 1) // 2, reached[-1] // 2], side="right")
    return int(middle.sum() / 2 - 255)


def edges(picture: Pixels) -> float:
    """Variance of the Laplacian of the grey picture; falls with blur, 0 for a flat picture."""
    return float(cv2.Laplacian(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var())


def _alike(source: Pixels, image: Pixels) -> tuple[Pixels, Pixels]:
    """Both at the size of the smaller one: an enlarged picture has no edges to compare."""
    height, width, _ = min(source.shape, image.shape, key=lambda shape: shape[0] * shape[1])
    return _fit(source, (width, height)), _fit(image, (width, height))


def _fit(picture: Pixels, size: tuple[int, int]) -> Pixels:
    if picture.shape[1::-1] == size:
        return picture
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)


def _relative_sharpness(source: Pixels, image: Pixels) -> float:
    """Variance of the Laplacian as a share of the source's; 1 where the source has no edges to compare."""
    of_source, of_image = edges(source), edges(image)
    return of_image / of_source if of_source > 1.0 else 1.0
