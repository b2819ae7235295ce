"""Edges and their orientations against scikit-image's histograms of gradients, ridges of known angles and naive contours."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")

from bochner.vision.descriptors import contour_cells
from bochner.vision.phog import Edges, boundary_edges, crossings, image_edges, orientation_bins
from bochner.vision.pyramid import Boxes, Pieces, Pyramid, pooled
from tests.vision.cases import random_maps, random_pool, texture
from tests.vision.test_pyramid import cell_of, naive_borders


def test_cells_of_a_whole_image_are_those_of_scikit_image():
    """One segment, all of the image, whose sides are multiples of a cell of the finest grid; nothing is smoothed."""
    feature = pytest.importorskip("skimage.feature")
    gray = texture(np.random.default_rng(0), 48, 64, 1)[..., 0].astype(np.float32)
    expected = feature.hog(
        gray.astype(np.float64), 9, pixels_per_cell=(12, 16), cells_per_block=(4, 4), block_norm="L1", feature_vector=False
    )[0, 0]
    labels = np.zeros((48, 64), dtype=np.int32)
    edges = image_edges(gray, 9, 0.0)
    rows, columns = np.indices(labels.shape).reshape(2, -1)
    pieces = Pieces.of(labels.ravel(), rows, columns, 4)
    histograms = pieces.histogram(edges.bins.ravel(), 9, edges.strength.ravel())
    boxes = Boxes.of(labels, np.ones((1, 1), dtype=bool))
    (found,) = pooled(pieces, np.ones((pieces.n_pieces, 1), dtype=bool), boxes, Pyramid(3, 4), histograms)
    np.testing.assert_allclose(found / found.sum(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("degrees", [0, 30, 45, 90, 120, 150])
def test_the_orientation_of_a_ridge_is_across_it(degrees):
    y, x = np.indices((61, 61)) - 30.0
    angle = np.deg2rad(degrees)
    ridge = np.exp(-((np.cos(angle) * x + np.sin(angle) * y) ** 2) / 8)
    bins = boundary_edges(ridge, 180, 1.0).bins[20:41, 20:41][ridge[20:41, 20:41] > 0.1]
    apart = np.abs((bins + 0.5 - degrees + 90) % 180 - 90)
    assert apart.max() <= 2.0


def test_bins_of_half_a_turn():
    angles = np.deg2rad(np.array([1, 44, 46, 134, 136, 179, -1, -46, -179], dtype=np.float32))
    np.testing.assert_array_equal(orientation_bins(angles, 4), [0, 0, 1, 2, 3, 3, 3, 2, 0])
    every = orientation_bins(np.linspace(-np.pi, np.pi, 1001, dtype=np.float32), 16)
    assert every.min() == 0
    assert every.max() == 15


def test_strengths_are_those_of_the_map():
    maps = random_maps(np.random.default_rng(1))
    np.testing.assert_array_equal(boundary_edges(maps.fine, 8, 1.0).strength, maps.fine)


def naive_contour(mask, edges, n_bins, pyramid):
    """The finest grid of one contour: all pairs of neighbours of which one is inside."""
    found = np.zeros((pyramid.side, pyramid.side, n_bins))
    y, x = np.nonzero(mask)
    if not len(y):
        return found
    down = naive_borders(y.min(), y.max() + 1, pyramid.side, pyramid.block)
    right = naive_borders(x.min(), x.max() + 1, pyramid.side, pyramid.block)
    for v, u in np.ndindex(mask.shape):
        for other in ((v + 1, u), (v, u + 1)):
            if other[0] < mask.shape[0] and other[1] < mask.shape[1] and mask[v, u] != mask[other]:
                own = found[cell_of(v, down), cell_of(u, right)]
                for pixel in ((v, u), other):
                    own[edges.bins[pixel]] += edges.strength[pixel]
    return found


@pytest.mark.parametrize("block", [1, 4])
def test_contours_are_sums_over_pairs_of_pixels(block):
    rng = np.random.default_rng(2)
    pool, pyramid = random_pool(rng), Pyramid(3, block)
    edges = Edges(rng.random(pool.labels.shape), rng.integers(0, 7, pool.labels.shape))
    found = contour_cells(pool, edges, 7, Boxes.of(pool.labels, pool.members), pyramid)
    for i in range(pool.n_segments):
        np.testing.assert_allclose(found[i], naive_contour(pool.mask(i), edges, 7, pyramid), rtol=1e-5, atol=1e-5)
    assert not found[1].any()  # all of the image has no contour


def test_crossings_of_one_superpixel():
    pieces, pairs, sides = crossings(np.zeros((5, 6), dtype=np.int32), 4)
    assert pieces.n_pieces == 0
    assert pairs.shape == sides.shape == (0, 2)
