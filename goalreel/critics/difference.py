"""A Critic that checks pixels by rules, without a model: it cannot tell whether a change is the right one."""

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

# Thresholds, for a camera that stands still: a moving one always shows change.
_MIN_CHANGED = 0.002  # share of the picture that must differ; a quarter is enough in one place
_LEVEL = 20.0  # grey levels (of 255) by which a smoothed pixel must differ: above video noise
_MIN_SHARPNESS = 0.2  # variance of the Laplacian, as a share of the source's
_MOVED = 0.6  # share of the picture that differs from which on the camera has moved, and sees other edges
_SMEARED = 0.6  # share of sharpness kept if blurred again: 0.7 by a blurred picture, 0.42 by a sharp one
_MIN_BRIGHTNESS = 10.0  # mean grey level below which a picture is black
_MAX_SATURATED = 0.6  # share of pixels at 250 or above from which a picture is washed out
_MIN_CONTRAST = 3.0  # standard deviation of grey below which a picture is flat


class DifferenceCritic:
    """Rejects a candidate that is black, washed out, flat, blurred, or the same as its source."""

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Answer i judges candidate i; without a source by the picture alone."""
        return map_threaded(self.judge_one, candidates, THREADS)

    def judge_one(self, candidate: Candidate) -> Verdict:
        """Judge one candidate, as `judge` does."""
        image = candidate.image.pixels
        if fault := self._exposure_fault(image):
            return Verdict(success=False, reasoning=fault, pictures_only=True)
        if candidate.source is None:
            reasoning = "The picture is well exposed; there is no source to compare."
            return Verdict(success=True, reasoning=reasoning, pictures_only=True)
        source, image = _alike(candidate.source.pixels, image)
        of_source = edges(source)
        sharp = edges(image) / of_source if of_source > 1.0 else 1.0  # else there is nothing to compare
        mask = self.changed(source, image)
        changed = float(mask.mean())
        success = False
        if not self._is_change(mask):
            reasoning = f"Nothing visible changed: {changed:.2%}, at least {_MIN_CHANGED:.2%} asked."
        elif sharp < _MIN_SHARPNESS and (changed < _MOVED or _is_smeared(image)):
            reasoning = f"Blurred: {sharp:.2f} of the source's sharpness, {_MIN_SHARPNESS:.2f} asked."
        else:
            success = True
            reasoning = f"{changed:.1%} of the picture changed, at {sharp:.2f} of the source's sharpness."
        return Verdict(success=success, reasoning=reasoning, pictures_only=True)

    def shows_change(self, source: Pixels, image: Pixels) -> bool:
        """Tell whether enough of the picture differs; both have one size."""
        return self._is_change(self.changed(source, image))

    def covers(self, first: Pixels, image: Pixels, last: Pixels) -> bool:
        """Tell whether `image` covers a region that differs between `first` and `last`, unlike both there.

        All have one size.
        """
        covered = self.changed(first, image) & self.changed(image, last)
        labels, sizes = _regions(self.changed(first, last))
        hidden = np.bincount(labels[covered], minlength=len(sizes))
        large = sizes >= self._min_region(labels.size)
        return bool((hidden[large] > _COVERED * sizes[large]).any())

    def _is_change(self, mask: NDArray[np.bool_]) -> bool:
        if mask.mean() >= _MIN_CHANGED:
            return True
        return int(_regions(mask)[1].max()) >= self._min_region(mask.size)

    def _min_region(self, pixels: int) -> float:
        return max(_SMALLEST, pixels * _MIN_CHANGED / 4)

    def changed(self, source: Pixels, image: Pixels) -> NDArray[np.bool_]:
        """Mark the pixels, (height, width), that differ by more than noise; both have one size."""
        sigma = max(0.8, image.shape[1] / 160)
        a, b = (cv2.GaussianBlur(p, (0, 0), sigma).astype(np.int16) for p in (source, image))
        return differing(a, b, _LEVEL)

    def _exposure_fault(self, image: Pixels) -> str | None:
        grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        if grey.mean() < _MIN_BRIGHTNESS:
            return f"Black: mean brightness {grey.mean():.1f} of 255."
        if (saturated := float((grey >= 250).mean())) > _MAX_SATURATED:
            return f"Washed out: {saturated:.0%} of the pixels are white."
        if grey.std() < _MIN_CONTRAST:
            return f"Flat: grey levels vary by only {grey.std():.1f} of 255."
        return None


class AcceptCritic:
    """Accepts every picture unseen, as in the paper's base rows; a step with a drawn one stays `unjudged`."""

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        return [Verdict(success=True, reasoning="Nobody looked.", pictures_only=True)] * len(candidates)


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
    first, second = (cv2.resize(p, (width, height), interpolation=cv2.INTER_AREA) for p in (source, image))
    return np.asarray(first, np.uint8), np.asarray(second, np.uint8)


def _is_smeared(image: Pixels) -> bool:
    return edges(np.asarray(cv2.GaussianBlur(image, (0, 0), 1.0), np.uint8)) > _SMEARED * edges(image)
