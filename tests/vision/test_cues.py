"""Cues of segments, against their masks."""

import cv2
import numpy as np
import pytest

from bochner.vision.cues import _contour, _extents, _frame, _hull_areas, _shape, cues_of
from bochner.vision.proposals import ProposalOptions, overlaps_within, proposals_of
from tests.vision.scenes import scene


@pytest.fixture(scope="module")
def found():
    return proposals_of(scene()[0], ProposalOptions(n_superpixels=80, n_segments=150))


def masks_of(found):
    return found.pool.members[:, found.graph.labels]


def test_cues_are_finite_and_do_not_change(found):
    cues = cues_of(found)
    assert cues.shape[0] == found.pool.n_segments
    assert cues.dtype == np.float32
    assert np.isfinite(cues).all()
    np.testing.assert_array_equal(cues, cues_of(found))
    overlaps = overlaps_within(found.pool.members, found.graph.sizes)
    np.testing.assert_array_equal(cues, cues_of(found, overlaps))


def test_strength_and_length_of_a_contour_are_those_of_pixels_side_by_side(found):
    cues = _contour(found.graph, found.scores, found.pool.members.astype(np.float32))
    strength = found.boundaries.strength
    for i in (1, 20, 149):
        mask = masks_of(found)[i]
        down, right = mask[:-1] != mask[1:], mask[:, :-1] != mask[:, 1:]
        values = np.r_[np.maximum(strength[:-1], strength[1:])[down], np.maximum(strength[:, :-1], strength[:, 1:])[right]]
        assert cues[i, 0] == pytest.approx(values.mean(), rel=1e-4)
        assert cues[i, -1] == pytest.approx(len(values) / np.sqrt(mask.size), rel=1e-6)


def test_shapes_are_those_of_masks(found):
    cues = _shape(found.graph, found.pool.members.astype(np.float32))
    for i in (1, 20, 149):
        rows, columns = np.nonzero(masks_of(found)[i])
        assert cues[i, 0] == pytest.approx(len(rows) / (120 * 160))
        assert cues[i, 2] == pytest.approx(rows.mean() / 120, rel=1e-5)
        assert cues[i, 3] == pytest.approx(columns.mean() / 160, rel=1e-5)
        assert cues[i, 5] == pytest.approx(rows.min() / 120, abs=1e-6)
        assert cues[i, 6] == pytest.approx(rows.max() / 120, rel=1e-5)


def test_hulls_are_a_little_larger_than_convex_ones(found):
    """A triangle on a chord c of the hull has an area of c^2 tan(pi / 16) / 4 at most; chords sum to the perimeter."""
    rows, columns = (axis.ravel().astype(float) for axis in np.indices((120, 160)))
    areas = _hull_areas(_extents(found.graph, found.pool.members.astype(np.float32), rows, columns))
    for i in (1, 20, 149):
        points = np.argwhere(masks_of(found)[i])[:, ::-1].astype(np.int32)
        hull = cv2.convexHull(points)
        area, perimeter = cv2.contourArea(hull), cv2.arcLength(hull, True)
        assert area * (1 - 1e-4) <= areas[i] <= area + perimeter**2 * np.tan(np.pi / 16) / 4


def test_hull_of_a_disc():
    """All extents are one: a polygon of 16 sides around the unit circle, of area 16 tan(pi / 16)."""
    assert _hull_areas(np.ones((1, 16)))[0] == pytest.approx(16 * np.tan(np.pi / 16))


def test_frames(found):
    cues = _frame(found.graph, found.pool.members.astype(np.float32))
    for i in (0, 20, 149):
        mask = masks_of(found)[i]
        sides = [side.mean() for side in (mask[0], mask[:, 0], mask[-1], mask[:, -1])]
        np.testing.assert_allclose(cues[i, :4], sides, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 7, 3)])
def test_images_of_one_colour(shape):
    cues = cues_of(proposals_of(np.full(shape, 9, dtype=np.uint8), ProposalOptions()))
    assert len(cues)
    assert np.isfinite(cues).all()
