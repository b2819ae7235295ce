"""Dense descriptors against one that is made pixel by pixel, against OpenCV's, and what must not change them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

cv2 = pytest.importorskip("cv2")

from bochner.vision import sift  # noqa: E402
from bochner.vision.sift import SiftOptions  # noqa: E402
from tests.vision.cases import texture  # noqa: E402


def naive_descriptor(smooth, y, x, width, window):
    """One descriptor (4, 4, 8), not normalised, of a smooth image, pixel by pixel.

    The Gaussian weight is taken at each pixel (window="pixel", as Lowe and OpenCV do) or at the centre of each cell.
    """
    found = np.zeros((4, 4, 8))
    h, w = smooth.shape
    for v in range(h):
        for u in range(w):
            right = smooth[v, u + 1] - smooth[v, u - 1] if 0 < u < w - 1 else 0.0
            down = smooth[v + 1, u] - smooth[v - 1, u] if 0 < v < h - 1 else 0.0
            row, column = (v - y) / width + 1.5, (u - x) / width + 1.5
            place = np.arctan2(down, right) * 8 / (2 * np.pi)
            near = np.exp(-((row - 1.5) ** 2 + (column - 1.5) ** 2) / 8)
            for i in range(4):
                for j in range(4):
                    share = max(0, 1 - abs(row - i)) * max(0, 1 - abs(column - j))
                    if share == 0:
                        continue
                    weight = near if window == "pixel" else np.exp(-((i - 1.5) ** 2 + (j - 1.5) ** 2) / 8)
                    for k in range(8):
                        apart = abs((place - k + 4) % 8 - 4)
                        found[i, j, k] += weight * share * max(0, 1 - apart) * np.hypot(right, down)
    return found


def normal(raw):
    """As SIFT is normalised, in float64."""
    found = raw.ravel() / np.linalg.norm(raw)
    found = np.minimum(found, 0.2)
    return found / np.linalg.norm(found)


def whole(channels, options):
    """All descriptors of one width, by their place in the grid: (rows, columns, c, 4, 4, 8)."""
    (width,) = options.widths
    cells = sift.cells(channels, options, width)
    return cells.rows(0, cells.shape[0]).reshape(*cells.shape, len(channels), 4, 4, 8)


@pytest.mark.parametrize(("step", "width"), [(4, 4), (4, 6), (5, 3), (6, 8)])
def test_every_descriptor_is_the_sum_over_its_pixels(step, width):
    gray = texture(np.random.default_rng(0), 25, 33, 1)[:, :, 0].astype(np.float32)
    found = whole(gray[None], SiftOptions(step, (width,), 0.0))
    rows, columns = sift.grid(25, step), sift.grid(33, step)
    assert found.shape[:2] == (len(rows), len(columns))
    for i, j in [(0, 0), (len(rows) // 2, len(columns) // 2), (len(rows) - 1, 1)]:
        expected = naive_descriptor(gray.astype(np.float64), rows[i], columns[j], width, "cell")
        np.testing.assert_allclose(found[i, j, 0], expected, rtol=1e-4, atol=1e-5 * expected.max())


@pytest.mark.parametrize("width", [3, 6])
def test_descriptors_are_those_of_opencv_but_for_the_window(width):
    """OpenCV weighs each pixel by the Gaussian window, here each cell has one weight; all else is the same.

    OpenCV smooths an image to 1.6 pixels, counts orientations upwards, takes angles to 0.3 degrees and rounds to bytes.
    """
    gray = texture(np.random.default_rng(1), 61, 61, 1)[:, :, 0].astype(np.uint8)
    sigma = np.sqrt(1.6**2 - 0.5**2)
    point = cv2.KeyPoint(30.0, 30.0, 2 * width / 3, 0.0, 0.0, 0)
    _, theirs = cv2.SIFT_create().compute(gray, [point])
    theirs = np.roll(theirs.reshape(4, 4, 8)[..., ::-1], 1, axis=-1).ravel() / 512

    smooth = cv2.GaussianBlur(gray.astype(np.float32), (0, 0), sigma)
    exact = normal(naive_descriptor(smooth.astype(np.float64), 30, 30, width, "pixel"))
    assert np.abs(theirs - exact).max() < 1 / 512

    ours = whole(gray.astype(np.float32)[None], SiftOptions(6, (width,), sigma / width))[5, 5]
    ours = sift.normalised(ours.reshape(1, 128))[0]
    cell = normal(naive_descriptor(smooth.astype(np.float64), 30, 30, width, "cell"))
    np.testing.assert_allclose(ours, cell, atol=1e-4)
    assert np.corrcoef(ours, theirs)[0, 1] > 0.99


def test_opponent_channels_are_an_orthogonal_change_of_colours():
    image = texture(np.random.default_rng(2))
    found = sift.opponent(image)
    np.testing.assert_allclose((found**2).sum(axis=0), (image**2).sum(axis=-1), rtol=1e-5)
    gray = sift.opponent(image[..., 0])
    np.testing.assert_allclose(gray[0], np.sqrt(3) * image[..., 0], rtol=1e-6)
    assert np.abs(gray[1:]).max() < 1e-4


@pytest.mark.parametrize("shape", [(5, 5, 4), (5,), (0, 5, 3)])
def test_arrays_that_are_no_images(shape):
    with pytest.raises(ValueError, match="image must be"):
        sift.opponent(np.zeros(shape))


def all_descriptors(image, options=None):
    """Gray and colour descriptors of all points."""
    raw = np.concatenate([some for some, _ in sift.dense(sift.opponent(image), options or SiftOptions())])
    return sift.normalised(raw[:, 0]), sift.normalised(raw)


@pytest.mark.parametrize("change", [lambda image: image + 64, lambda image: image * 0.25], ids=["brightness", "contrast"])
def test_brightness_and_contrast_do_not_count(change):
    image = np.round(texture(np.random.default_rng(3)))
    for before, after in zip(all_descriptors(image), all_descriptors(change(image)), strict=True):
        np.testing.assert_allclose(after, before, atol=2e-4)
        np.testing.assert_allclose(np.linalg.norm(before, axis=1), 1, rtol=1e-5)


def test_hue_counts_in_colours_alone():
    image = np.round(texture(np.random.default_rng(4)))
    before, after = all_descriptors(image), all_descriptors(image[..., ::-1])
    np.testing.assert_allclose(after[0], before[0], atol=2e-4)
    assert np.linalg.norm(after[1] - before[1], axis=1).min() > 0.1


def test_a_mirror_image_has_mirrored_descriptors():
    """Columns of cells swap, and the orientation k becomes 4 - k."""
    image = texture(np.random.default_rng(5), 61, 81)
    options = SiftOptions(4, (4,))
    found = whole(sift.opponent(image), options)
    mirrored = whole(sift.opponent(image[:, ::-1]), options)[:, ::-1]
    expected = found[:, :, :, :, ::-1, :][..., (4 - np.arange(8)) % 8]
    np.testing.assert_allclose(mirrored, expected, rtol=1e-4, atol=1e-5 * found.max())


def test_a_flat_image_has_descriptors_of_zero():
    for found in all_descriptors(np.full((20, 30, 3), 7, dtype=np.uint8)):
        np.testing.assert_array_equal(found, 0)


def test_channels_count_by_their_gradients():
    """A channel of half the gradients has half the length, before large numbers are cut off: none is, of random ones."""
    raw = np.random.default_rng(6).random((5, 1, 128)).astype(np.float32)
    found = sift.normalised(np.concatenate([raw, raw / 2], axis=1))
    np.testing.assert_allclose(found[:, 128:], found[:, :128] / 2, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)


def test_large_numbers_are_cut_off():
    raw = np.ones((1, 128), dtype=np.float32)
    raw[0, 0] = 1000
    expected = np.r_[0.2, np.full(127, 1 / np.sqrt(1000**2 + 127))]
    np.testing.assert_allclose(sift.normalised(raw)[0], expected / np.linalg.norm(expected), rtol=1e-5)


def test_orientation_maps_share_out_the_lengths_of_gradients():
    gray = texture(np.random.default_rng(7), channels=1)[..., 0]
    maps = sift.orientation_maps(gray, 0.7)
    right, down = sift.gradients(gray, 0.7)
    np.testing.assert_allclose(maps.sum(axis=0), np.hypot(right, down), rtol=1e-4)
    assert maps.min() >= 0
    assert (maps > 0).sum(axis=0).max() == 2


def test_gradients_are_those_of_the_smooth_image():
    gray = texture(np.random.default_rng(9), channels=1)[..., 0]
    right, down = sift.gradients(gray, 2.0)
    smooth = ndimage.gaussian_filter(gray, 2.0, truncate=4)
    inner = np.s_[12:-12, 12:-12]
    for found, axis in ((down, 0), (right, 1)):
        expected = 2 * np.gradient(smooth, axis=axis)
        np.testing.assert_allclose(found[inner], expected[inner], atol=1e-3 * np.abs(expected).max())


def test_pixels_are_those_of_the_grid():
    channels = sift.opponent(texture(np.random.default_rng(8), 30, 41))
    pixels = np.concatenate([some for _, some in sift.dense(channels, SiftOptions(4, (4, 8)))])
    expected = (sift.grid(30, 4)[:, None] * 41 + sift.grid(41, 4)).ravel()
    np.testing.assert_array_equal(pixels, np.tile(expected, 2))


@pytest.mark.parametrize("wrong", [{"step": 0}, {"widths": ()}, {"widths": (4, 0)}, {"smoothing": -1.0}])
def test_options_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="1 or more"):
        SiftOptions(**wrong)
