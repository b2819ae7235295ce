"""What the descriptors of segments are made of, where one can choose."""

from __future__ import annotations

from dataclasses import dataclass, field

from bochner.errors import InputError
from bochner.vision.pyramid import Pyramid
from bochner.vision.sift import SiftOptions


@dataclass(frozen=True)
class DescriptorOptions:
    """Options of all descriptors; those of words go into a vocabulary, and must be the same when it is used."""

    sift: SiftOptions = field(default_factory=SiftOptions)
    n_words: int = 300
    """Words of gray descriptors."""
    n_colour_words: int = 500
    n_points: int = 500
    """Descriptors of each image that vocabularies are learned from."""
    pyramid: Pyramid = field(default_factory=Pyramid)
    """Cells of the bounding box of a segment, for histograms of gradients and of binary patterns."""
    n_orientations: int = 8
    """Orientations of gradients in such a cell, of half a turn."""
    smoothing: float = 1.0
    """Standard deviation in pixels of the Gaussian that smooths gradients of images and of boundaries."""
    circles: tuple[tuple[int, float], ...] = ((8, 1.0),)
    """Neighbours of a pixel in binary patterns: points on a circle, and its radius."""

    def __post_init__(self) -> None:
        counts = (self.n_words, self.n_colour_words, self.n_points, self.n_orientations)
        if min(counts) < 1 or self.smoothing < 0:
            raise InputError(
                f"words, points and orientations must be 1 or more, and smoothing not negative: got {self}; raise the least."
            )
