"""Local binary patterns against scikit-image's, and turned images."""

from __future__ import annotations

import numpy as np
import pytest

from bochner.vision.lbp import n_patterns, patterns

CIRCLES = [(8, 1.0), (16, 2.0), (12, 2.5)]


@pytest.mark.parametrize(("n_points", "radius"), CIRCLES)
def test_patterns_are_those_of_scikit_image(n_points, radius):
    """Inside the image: beyond its border scikit-image has zeros, we the nearest pixel."""
    feature = pytest.importorskip("skimage.feature")
    gray = np.random.default_rng(0).integers(0, 2**20, (40, 50))
    expected = feature.local_binary_pattern(gray, n_points, radius, method="uniform")
    edge = int(np.ceil(radius))
    inner = np.s_[edge:-edge, edge:-edge]
    np.testing.assert_array_equal(patterns(gray, n_points, radius)[inner], expected[inner])


def test_at_the_border_the_nearest_pixel_counts():
    gray = np.random.default_rng(1).random((6, 7))
    wide = patterns(np.pad(gray, 3, mode="edge"), 8, 1.0)
    np.testing.assert_array_equal(patterns(gray, 8, 1.0), wide[3:-3, 3:-3])


@pytest.mark.parametrize(("n_points", "radius"), CIRCLES)
def test_all_neighbours_of_a_flat_image_are_as_bright(n_points, radius):
    np.testing.assert_array_equal(patterns(np.full((9, 8), 0.1), n_points, radius), n_points)


@pytest.mark.parametrize(("n_points", "radius"), CIRCLES)
def test_turning_and_mirroring_the_image_turns_and_mirrors_the_patterns(n_points, radius):
    gray = np.random.default_rng(2).random((30, 31))
    found = patterns(gray, n_points, radius)
    np.testing.assert_array_equal(patterns(np.rot90(gray), n_points, radius), np.rot90(found))
    np.testing.assert_array_equal(patterns(gray[:, ::-1], n_points, radius), found[:, ::-1])
    assert found.min() >= 0
    assert found.max() == n_patterns(n_points) - 1


def test_brightness_and_contrast_do_not_count():
    gray = np.random.default_rng(3).integers(0, 64, (30, 31))
    np.testing.assert_array_equal(patterns(2 * gray + 5, 16, 2.0), patterns(gray, 16, 2.0))
