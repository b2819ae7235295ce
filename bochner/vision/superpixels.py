"""Superpixels of an image, and the graph of those that touch: their borders, colours and textures."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy import ndimage
from skimage.segmentation import watershed

from bochner.arrays import Array
from bochner.vision.agglomerate import Borders, cluster_labels, merge_weakest
from bochner.vision.boundaries import Boundaries, Gradients, lab_of

MINIMUM_BLUR = 1.0
"""Standard deviation in pixels of the Gaussian before minima of the strength are taken."""
REACH = 3.0
"""How far in pixels borders move towards sharp edges."""
COLOUR_BINS, ANGLES, CONTRASTS = 8, 8, (0.01, 0.03, 0.08)
TEXTURE_SCALES = (1.0, 2.0)


@dataclass(frozen=True)
class RegionGraph:
    """P superpixels of an image and the E pairs of them that touch."""

    labels: Array
    """(h, w) of int32, 0 to P - 1."""
    sizes: Array
    """Pixels (P,)."""
    boxes: Array
    """First row and column, last row and column plus one: (P, 4)."""
    centres: Array
    """Mean row and column (P, 2)."""
    frame: Array
    """Pixels on the top, left, bottom and right edge of the image: (P, 4)."""
    colours: Array
    """Mean L, a, b (P, 3)."""
    palette: Array
    """Histograms of L, a and b, of sum one each: (P, 24)."""
    textures: Array
    """Histograms of directions and contrasts at two scales, of sum one each: (P, 48)."""
    pairs: Array
    """The superpixels that touch (E, 2), the smaller number first."""
    lengths: Array
    """Pixels along which they touch (E,)."""
    strengths: Array
    """Mean boundary strength there, of all scales, fine and coarse: (E, 3)."""

    @property
    def n_regions(self) -> int:
        """Number of superpixels P."""
        return len(self.sizes)


def superpixels_of(image: Array, boundaries: Boundaries, n_regions: int) -> Array:
    """Labels (h, w) of at most ``n_regions`` superpixels of an image (h, w, 3) of uint8.

    The strength is flooded from its minima, then regions with the weakest common borders become one, small ones first.
    """
    strength = boundaries.strength
    smooth = cv2.GaussianBlur(strength, (0, 0), MINIMUM_BLUR)
    minima, _ = ndimage.label(smooth == cv2.erode(smooth, np.ones((3, 3))), np.ones((3, 3)))
    labels = watershed(strength, minima).astype(np.int64) - 1
    pairs, lengths, sums = borders_of(labels, strength[..., None])
    sizes = np.bincount(labels.ravel())
    colours = _means(labels, lab_of(image), sizes)
    parents = merge_weakest(Borders(pairs, lengths, sums[:, 0]), sizes, colours, n_regions)
    return cluster_labels(parents, len(sizes))[labels].astype(np.int32)


def sharpened(image: Array, labels: Array) -> Array:
    """Labels (h, w) whose borders lie on the sharpest edges of brightness and colour at most ``REACH`` pixels away."""
    inside = np.ones(labels.shape, dtype=np.uint8)
    for first, second in (((slice(None), slice(-1)), (slice(None), slice(1, None))), ((slice(-1),), (slice(1, None),))):
        cut = labels[first] != labels[second]
        inside[first][cut] = inside[second][cut] = 0
    if inside.all():
        return labels
    depths = cv2.distanceTransform(inside, cv2.DIST_L2, 3)
    deepest = ndimage.maximum(depths, labels, np.arange(labels.max() + 1))
    core = depths >= np.minimum(REACH, deepest)[labels]
    edges = Gradients.of(lab_of(image), 1.0).length
    return watershed(edges, np.where(core, labels + 1, 0)).astype(np.int32) - 1


def graph_of(image: Array, boundaries: Boundaries, labels: Array) -> RegionGraph:
    """The graph of superpixels of an image (h, w, 3) of uint8."""
    maps = np.stack([boundaries.strength, boundaries.fine, boundaries.coarse], axis=2)
    pairs, lengths, sums = borders_of(labels, maps)
    lab = lab_of(image)
    sizes = np.bincount(labels.ravel())
    rows, columns = np.indices(labels.shape, dtype=np.float32)
    slices = ndimage.find_objects(labels + 1)
    return RegionGraph(
        labels=labels,
        sizes=sizes,
        boxes=np.array([(r.start, c.start, r.stop, c.stop) for r, c in slices]),
        centres=_means(labels, np.stack([rows, columns], axis=2), sizes),
        frame=np.stack(
            [np.bincount(s, minlength=len(sizes)) for s in (labels[0], labels[:, 0], labels[-1], labels[:, -1])], axis=1
        ),
        colours=_means(labels, lab, sizes),
        palette=_palette(labels, lab, sizes),
        textures=_textures(labels, np.ascontiguousarray(lab[..., 0]), sizes),
        pairs=pairs,
        lengths=lengths,
        strengths=sums / lengths[:, None],
    )


def borders_of(labels: Array, maps: Array) -> tuple[Array, Array, Array]:
    """Pairs of regions that touch (E, 2), along how many pixels (E,), and sums there of maps (h, w, q): (E, q).

    Two pixels side by side count once, with the larger of their values.
    """
    n, q = int(labels.max()) + 1, maps.shape[2]
    keys, values = [], []
    for first, second in (((slice(None), slice(-1)), (slice(None), slice(1, None))), ((slice(-1),), (slice(1, None),))):
        one, other = labels[first].astype(np.int64), labels[second].astype(np.int64)
        cut = one != other
        one, other = one[cut], other[cut]
        keys.append(np.minimum(one, other) * n + np.maximum(one, other))
        values.append(np.maximum(maps[first][cut], maps[second][cut]))
    found, inverse, lengths = np.unique(np.concatenate(keys), return_inverse=True, return_counts=True)
    stacked = np.concatenate(values)
    sums = [np.bincount(inverse, stacked[:, k], minlength=len(found)) for k in range(q)]
    return np.stack([found // n, found % n], axis=1), lengths, np.stack(sums, axis=1)


def _means(labels: Array, maps: Array, sizes: Array) -> Array:
    """Means of maps (h, w, q) over regions: (P, q)."""
    flat = labels.ravel()
    return np.stack([np.bincount(flat, maps[..., k].ravel()) for k in range(maps.shape[2])], axis=1) / sizes[:, None]


def _histogram(labels: Array, bins: Array, n_bins: int, sizes: Array) -> Array:
    counts = np.bincount((labels.astype(np.int64) * n_bins + bins).ravel(), minlength=len(sizes) * n_bins)
    return counts.reshape(-1, n_bins) / sizes[:, None]


def _palette(labels: Array, lab: Array, sizes: Array) -> Array:
    unit = np.stack([lab[..., 0], 0.5 + lab[..., 1] / 1.5, 0.5 + lab[..., 2] / 1.5], axis=2)
    bins = np.clip((unit * COLOUR_BINS).astype(np.int64), 0, COLOUR_BINS - 1)
    return np.hstack([_histogram(labels, bins[..., k], COLOUR_BINS, sizes) for k in range(3)])


def _textures(labels: Array, brightness: Array, sizes: Array) -> Array:
    parts = []
    for scale in TEXTURE_SCALES:
        smooth = cv2.GaussianBlur(brightness, (0, 0), scale)
        dx, dy = cv2.Sobel(smooth, -1, 1, 0, scale=0.125 * scale), cv2.Sobel(smooth, -1, 0, 1, scale=0.125 * scale)
        contrast, angle = cv2.cartToPolar(dx, dy)
        level = sum((contrast > bound).astype(np.int64) for bound in CONTRASTS)
        turn = np.minimum((angle * (ANGLES / (2 * np.pi))).astype(np.int64), ANGLES - 1)
        parts.append(
            _histogram(labels, np.where(level > 0, 1 + (level - 1) * ANGLES + turn, 0), 1 + len(CONTRASTS) * ANGLES, sizes)
        )
    return np.hstack(parts)
