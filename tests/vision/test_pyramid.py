"""Cells of pyramids against masks cut up pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest

from bochner.vision.pyramid import Boxes, Pieces, Pyramid, normalised, pooled
from tests.vision.cases import random_pool


def naive_borders(low, high, side, block):
    """Pixels at which the cells of a grid begin, and the end of the last: multiples of the block."""
    return [block * int(np.floor((low + (high - low) * i / side) / block + 0.5)) for i in range(side)]


def cell_of(pixel, borders):
    """The last cell that begins at the pixel or before; pixels before all belong to the first."""
    return max([0] + [i for i, border in enumerate(borders) if border <= pixel])


def naive_cells(mask, bins, weights, n_bins, pyramid):
    """The finest grid (side, side, n_bins) of one mask, pixel by pixel."""
    found = np.zeros((pyramid.side, pyramid.side, n_bins))
    y, x = np.nonzero(mask)
    if len(y):
        down = naive_borders(y.min(), y.max() + 1, pyramid.side, pyramid.block)
        right = naive_borders(x.min(), x.max() + 1, pyramid.side, pyramid.block)
        for v, u in zip(y, x, strict=True):
            found[cell_of(v, down), cell_of(u, right), bins[v, u]] += weights[v, u]
    return found


@pytest.mark.parametrize(("levels", "block"), [(1, 4), (3, 1), (3, 4), (4, 3)])
def test_cells_are_sums_over_the_pixels_of_a_mask(levels, block):
    rng = np.random.default_rng(0)
    pool, pyramid = random_pool(rng), Pyramid(levels, block)
    bins, weights = rng.integers(0, 5, pool.labels.shape), rng.random(pool.labels.shape)
    rows, columns = np.indices(pool.labels.shape).reshape(2, -1)
    pieces = Pieces.of(pool.labels.ravel(), rows, columns, block)
    inside = pool.members.T[pool.labels.ravel()[pieces.first]]
    histograms = pieces.histogram(bins.ravel(), 5, weights.ravel())
    found = pooled(pieces, inside, Boxes.of(pool.labels, pool.members), pyramid, histograms)
    assert found.shape == (pool.n_segments, pyramid.side, pyramid.side, 5)
    for i in range(pool.n_segments):
        np.testing.assert_allclose(found[i], naive_cells(pool.mask(i), bins, weights, 5, pyramid), rtol=1e-5, atol=1e-5)


def test_boxes_are_those_of_masks():
    pool = random_pool(np.random.default_rng(1))
    boxes = Boxes.of(pool.labels, pool.members)
    assert not pool.members[2].any()
    for i in range(pool.n_segments):
        y, x = np.nonzero(pool.mask(i))
        expected = (y.min(), y.max() + 1, x.min(), x.max() + 1) if len(y) else (0, 0, 0, 0)
        assert (boxes.top[i], boxes.bottom[i], boxes.left[i], boxes.right[i]) == expected


def test_superpixels_without_pixels():
    """Numbers that no pixel has are no part of any box."""
    labels = np.array([[0, 0], [2, 2]], dtype=np.int32)
    boxes = Boxes.of(labels, np.array([[True, True, False, True], [False, True, False, True]]))
    np.testing.assert_array_equal(boxes.bottom, [1, 0])
    np.testing.assert_array_equal(boxes.right, [2, 0])


def test_pieces_lie_in_one_block_and_are_of_one_kind():
    pool = random_pool(np.random.default_rng(2))
    rows, columns = np.indices(pool.labels.shape).reshape(2, -1)
    pieces = Pieces.of(pool.labels.ravel(), rows, columns, 4)
    kinds = {(label, y // 4, x // 4) for label, y, x in zip(pool.labels.ravel(), rows, columns, strict=True)}
    assert pieces.n_pieces == len(kinds)
    np.testing.assert_array_equal(pieces.row[pieces.number], rows // 4)
    np.testing.assert_array_equal(pieces.column[pieces.number], columns // 4)
    np.testing.assert_array_equal(pool.labels.ravel()[pieces.first][pieces.number], pool.labels.ravel())


def test_coarse_grids_are_sums_of_the_finest():
    finest = np.random.default_rng(3).random((2, 4, 4, 3))
    pyramid = Pyramid(3)
    found = pyramid.stack(finest)
    assert found.shape == (2, pyramid.n_cells * 3)
    np.testing.assert_allclose(found[:, :3], finest.sum(axis=(1, 2)))
    np.testing.assert_allclose(found[1, 3 : 5 * 3].reshape(2, 2, 3)[1, 0], finest[1, 2:, :2].sum(axis=(0, 1)))
    np.testing.assert_array_equal(found[:, 5 * 3 :], finest.reshape(2, -1))


def test_histograms_sum_to_one_or_are_zero():
    found = normalised(np.array([[1, 3], [0, 0]]))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[0.25, 0.75], [0, 0]])


@pytest.mark.parametrize(("levels", "block"), [(0, 4), (3, 0)])
def test_options_that_make_no_sense(levels, block):
    with pytest.raises(ValueError, match="1 or more"):
        Pyramid(levels, block)
