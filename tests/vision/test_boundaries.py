"""Boundaries: strong where things end, weak inside, and turned with the image."""

import numpy as np
import pytest

from bochner.vision.boundaries import as_colour, boundaries_of
from tests.vision.scenes import scene

MAPS = ("strength", "fine", "coarse")


def step(h=40, w=60):
    image = np.full((h, w, 3), 60, dtype=np.uint8)
    image[:, w // 2 :] = 200
    return image


@pytest.mark.parametrize("name", MAPS)
def test_strength_is_between_zero_and_one_and_peaks_near_a_step(name):
    found = getattr(boundaries_of(step()), name)
    assert found.shape == (40, 60)
    assert found.dtype == np.float32
    assert found.min() >= 0
    assert found.max() <= 1
    assert np.all(np.abs(found.argmax(axis=1) - 29.5) <= 3)
    assert found[:, 29:31].min() > 10 * found[:, :5].max()


def test_the_coarse_strength_is_wider_than_the_fine_one():
    found = boundaries_of(step())
    widths = [(values > 0.5 * values.max()).sum() for values in (found.fine, found.coarse)]
    assert widths[0] < widths[1]


@pytest.mark.parametrize(("turned", "expected"), [(False, 0.0), (True, np.pi / 2)])
def test_orientation_is_across_the_boundary(turned, expected):
    image = np.ascontiguousarray(step().transpose(1, 0, 2)) if turned else step()
    found = boundaries_of(image)
    angle = found.orientation[30, 20] if turned else found.orientation[20, 30]
    assert np.cos(2 * (angle - expected)) == pytest.approx(1)
    assert found.orientation.min() >= 0
    assert found.orientation.max() <= np.float32(np.pi)


def test_objects_are_bounded_more_strongly_than_they_are_inside():
    image, masks = scene()
    strength = boundaries_of(image).strength
    inside = np.zeros(strength.shape, dtype=bool)
    for mask in masks:
        y, x = (int(axis.mean()) for axis in np.nonzero(mask))
        inside[y - 3 : y + 4, x - 3 : x + 4] = True
    edge = np.any([np.abs(np.diff(mask.astype(int), axis=0, append=0)) > 0 for mask in masks], axis=0)
    assert np.median(strength[edge]) > 3 * np.median(strength[inside])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2)])
def test_tiny_images(shape):
    found = boundaries_of(np.full(shape, 77, dtype=np.uint8))
    for name in MAPS:
        assert getattr(found, name).shape == shape
        assert np.all(getattr(found, name) < 0.01)


def test_gray_values_are_an_image_of_three_equal_channels():
    gray = scene()[0][..., 0]
    one, other = boundaries_of(gray), boundaries_of(np.stack([gray] * 3, axis=2))
    np.testing.assert_array_equal(one.strength, other.strength)
    assert as_colour(gray[..., None]).shape == (*gray.shape, 3)


@pytest.mark.parametrize(
    "image", [np.zeros((4, 4, 3)), np.zeros((4, 4, 2), np.uint8), np.zeros(4, np.uint8), np.zeros((0, 4), np.uint8)]
)
def test_other_arrays_are_refused(image):
    with pytest.raises(ValueError, match=r"image must be \(h, w, 3\) or \(h, w\) of uint8"):
        boundaries_of(image)
