"""Where things end in an image: gradients of brightness, colour and texture at several scales, joined into one strength."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError

SCALES = (1.0, 2.0, 4.0)
"""Standard deviations in pixels of the Gaussians whose derivatives the gradients are."""
TEXTURE_SCALES = (1.0, 2.0)
CHANNEL_UNITS = (100.0, 60.0, 60.0)
"""Spreads of L, a and b that are divided out."""


@dataclass(frozen=True)
class Weights:
    """A logistic regression on logarithms of gradients: one factor for each scale of brightness, colour and texture."""

    constant: float
    factors: tuple[tuple[float, ...], ...]


FAINT = 0.01
"""Added to lengths of gradients before logarithms are taken."""
ALL = Weights(6.29, ((0.99, 0.09, 0.13), (-0.79, 0.65, 0.42), (0.44, 0.15, 0.74)))
FINE = Weights(5.68, ((0.92,), (0.30,), (1.35,)))
COARSE = Weights(5.40, ((1.19,), (0.50,), (0.68,)))
"""Fitted to the object boundaries of 40 training images of VOC 2012."""


@dataclass(frozen=True)
class Boundaries:
    """Strength of the boundary through each pixel of an image, zero to one, and its direction."""

    strength: Array
    """(h, w) of float32: all scales together."""
    fine: Array
    """(h, w) of float32: the smallest scale alone."""
    coarse: Array
    """(h, w) of float32: the largest scale alone."""
    orientation: Array
    """(h, w) of float32: angle of the gradient across the boundary, from 0 to pi."""


def as_colour(image: Array) -> Array:
    """An image (h, w, 3) of uint8, from one of gray values (h, w) too."""
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.shape[2:] not in ((), (1,), (3,)) or not image.size:
        raise InputError(f"image must be (h, w, 3) or (h, w) of uint8: got {image.shape} of {image.dtype}.")
    if image.ndim == 2 or image.shape[2] == 1:
        image = np.repeat(image.reshape(*image.shape[:2], 1), 3, axis=2)
    return np.ascontiguousarray(image)


def lab_of(image: Array) -> Array:
    """Brightness and colour L, a, b (h, w, 3) of float32, in units of about one."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    return lab / np.array(CHANNEL_UNITS, dtype=np.float32)


def texture_of(brightness: Array) -> Array:
    """Energy of edges in four directions and of spots, at two scales: (h, w, 10), as square roots of contrasts."""
    channels = []
    for scale in TEXTURE_SCALES:
        smooth = cv2.GaussianBlur(brightness, (0, 0), scale)
        dx, dy = cv2.Sobel(smooth, -1, 1, 0, scale=0.125), cv2.Sobel(smooth, -1, 0, 1, scale=0.125)
        diagonal = np.sqrt(np.float32(0.5))
        parts = (dx, dy, diagonal * (dx + dy), diagonal * (dx - dy), cv2.Laplacian(smooth, -1))
        channels += [np.sqrt(np.abs(part) * scale) for part in parts]
    return np.stack(channels, axis=2)


@dataclass(frozen=True)
class Gradients:
    """Lengths (h, w) of the gradients of one kind at one scale, and their mean outer product xx, xy, yy."""

    length: Array
    tensor: tuple[Array, Array, Array]

    @classmethod
    def of(cls, channels: Array, scale: float) -> Gradients:
        """Gradients of channels (h, w, q) after a Gaussian of width ``scale``, as changes over that width."""
        smooth = cv2.GaussianBlur(channels, (0, 0), scale).reshape(channels.shape)
        parts = [np.zeros(channels.shape[:2], dtype=np.float32) for _ in range(3)]
        for k in range(channels.shape[2]):
            plane = np.ascontiguousarray(smooth[..., k])
            dx = cv2.Sobel(plane, -1, 1, 0, scale=0.125 * scale)
            dy = cv2.Sobel(plane, -1, 0, 1, scale=0.125 * scale)
            parts[0] += dx * dx
            parts[1] += dx * dy
            parts[2] += dy * dy
        return cls(np.sqrt(parts[0] + parts[2]), (parts[0], parts[1], parts[2]))


def gradients_of(image: Array) -> list[list[Gradients]]:
    """Gradients of brightness, colour and texture, each at all scales."""
    lab = lab_of(image)
    texture = texture_of(np.ascontiguousarray(lab[..., 0]))
    kinds = (lab[..., :1], lab[..., 1:], texture)
    factors = (1.0, 1.0, 2.0)
    return [
        [Gradients.of(np.ascontiguousarray(kind), factor * scale) for scale in SCALES]
        for kind, factor in zip(kinds, factors, strict=True)
    ]


def boundaries_of(image: Array) -> Boundaries:
    """Boundaries of an image (h, w, 3) or (h, w) of uint8."""
    gradients = gradients_of(as_colour(image))
    logs = [[np.log(FAINT + one.length) for one in kind] for kind in gradients]
    fine, coarse = (_strength([[kind[k]] for kind in logs], weights) for k, weights in ((0, FINE), (-1, COARSE)))
    tensor = [sum(one.tensor[i] for kind in gradients[:2] for one in kind) for i in range(3)]
    angle = 0.5 * np.arctan2(2 * tensor[1], tensor[0] - tensor[2])
    return Boundaries(_strength(logs, ALL), fine, coarse, np.mod(angle, np.pi).astype(np.float32))


def _strength(logs: list[list[Array]], weights: Weights) -> Array:
    """Logistic function of weighted logarithms of gradients: (h, w) of float32."""
    score = np.full(logs[0][0].shape, weights.constant, dtype=np.float32)
    for kind, values in zip(logs, weights.factors, strict=True):
        for one, value in zip(kind, values, strict=True):
            score += np.float32(value) * one
    return 1 / (1 + np.exp(-score))
