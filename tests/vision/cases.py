"""Small images, pools and maps of boundaries."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy import ndimage

from bochner.vision.pool import SegmentPool


def texture(rng, h=61, w=81, channels=3):
    """A smooth random image (h, w, 3) of float64, from 0 to 255: edges of all orientations, no two gradients alike."""
    noise = ndimage.gaussian_filter(rng.standard_normal((h, w, channels)), (1.5, 1.5, 0))
    return 255 * (noise - noise.min()) / np.ptp(noise)


def random_labels(rng, h=61, w=81, n=30):
    """Superpixels (h, w): the nearest of some random points."""
    points = rng.uniform((0, 0), (h, w), (n, 2))
    y, x = np.indices((h, w))
    distances = (y[..., None] - points[:, 0]) ** 2 + (x[..., None] - points[:, 1]) ** 2
    _, labels = np.unique(distances.argmin(axis=-1), return_inverse=True)
    return labels.reshape(h, w).astype(np.int32)


def random_pool(rng, h=61, w=81, n=30, s=8):
    """Segments of all sizes, among them one superpixel, all of the image and nothing."""
    labels = random_labels(rng, h, w, n)
    members = rng.random((s, int(labels.max()) + 1)) < np.linspace(0.1, 0.9, s)[:, None]
    members[0], members[1], members[2] = False, True, False
    members[0, 3] = True
    return SegmentPool(labels, members)


def random_maps(rng, h=61, w=81):
    """Boundaries at two scales."""
    fine, coarse = (ndimage.gaussian_filter(rng.random((h, w)), sigma).astype(np.float32) for sigma in (1, 3))
    return SimpleNamespace(fine=fine, coarse=coarse)
