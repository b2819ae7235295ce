"""All eight descriptors of an image's segments: what they are, and what must and must not change them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")

from bochner.vision import sift
from bochner.vision.descriptors import DESCRIPTORS, PYRAMIDS, WORDS, describe
from bochner.vision.options import DescriptorOptions
from bochner.vision.phog import boundary_edges, image_edges
from bochner.vision.pool import SegmentPool
from bochner.vision.pyramid import Pyramid
from bochner.vision.sift import SiftOptions
from bochner.vision.words import Vocabularies
from tests.vision.cases import random_maps, random_pool, texture
from tests.vision.test_phog import naive_contour
from tests.vision.test_pyramid import naive_cells

OPTIONS = DescriptorOptions(
    sift=SiftOptions(4, (4, 8)),
    n_words=12,
    n_colour_words=15,
    n_points=150,
    pyramid=Pyramid(3),
    n_orientations=6,
    circles=((8, 1.0), (16, 2.0)),
)
LENGTHS = {"sift": 12, "colour_sift": 15, "phog": 21 * 6, "lbp": 21 * (10 + 18)}


@pytest.fixture(scope="module")
def vocabularies():
    return Vocabularies.fit([texture(np.random.default_rng(seed)) for seed in range(3)], OPTIONS, 0)


@pytest.fixture
def scene():
    """An image of bytes, a pool of its segments and maps of its boundaries."""
    rng = np.random.default_rng(7)
    return np.round(texture(rng)).astype(np.uint8), random_pool(rng), random_maps(rng)


def test_histograms_have_their_names_and_lengths_and_sum_to_one(scene, vocabularies):
    found = describe(*scene, vocabularies, OPTIONS)
    assert tuple(found) == DESCRIPTORS
    whole, empty = 1, 2
    for name, histograms in found.items():
        kind = next(kind for kind in ("colour_sift", "sift", "phog", "lbp") if name.startswith(kind))
        assert histograms.shape == (scene[1].n_segments, LENGTHS[kind])
        assert histograms.dtype == np.float32
        assert (histograms >= 0).all()
        expected = np.ones(scene[1].n_segments)
        if name.endswith("_bg") or name == "phog_contour":
            expected[whole] = 0
        if not name.endswith("_bg"):
            expected[empty] = 0
        np.testing.assert_allclose(histograms.sum(axis=1, dtype=np.float64), expected, atol=1e-5)


def test_words_are_those_on_the_mask(scene, vocabularies):
    image, pool, _ = scene
    found = describe(*scene, vocabularies, OPTIONS)
    for i in range(pool.n_segments):
        inside, outside = np.zeros(12), np.zeros(12)
        for raw, pixels in sift.dense(sift.opponent(image), OPTIONS.sift):
            words = vocabularies.gray.assign(sift.normalised(raw[:, 0]))
            for word, here in zip(words, pool.mask(i).ravel()[pixels], strict=True):
                (inside if here else outside)[word] += 1
        np.testing.assert_allclose(found["sift_fg"][i], inside / max(1, inside.sum()), atol=1e-6)
        np.testing.assert_allclose(found["sift_bg"][i], outside / max(1, outside.sum()), atol=1e-6)


def test_pyramids_are_those_of_the_mask(scene, vocabularies):
    image, pool, maps = scene
    found = describe(*scene, vocabularies, OPTIONS)
    edges = {
        "phog_foreground": boundary_edges(maps.coarse, 6, OPTIONS.smoothing),
        "phog_plain": image_edges(sift.brightness(image), 6, OPTIONS.smoothing),
    }
    for name, some in edges.items():
        for i in range(pool.n_segments):
            finest = naive_cells(pool.mask(i), some.bins, some.strength, 6, OPTIONS.pyramid)
            expected = OPTIONS.pyramid.stack(finest[None])[0]
            np.testing.assert_allclose(found[name][i], expected / max(1e-30, expected.sum()), atol=1e-6)


def test_contours_are_those_of_the_mask(scene, vocabularies):
    """Fine boundaries, in cells whose borders are exact to a pixel."""
    _, pool, maps = scene
    found = describe(*scene, vocabularies, OPTIONS)["phog_contour"]
    edges = boundary_edges(maps.fine, 6, OPTIONS.smoothing)
    for i in range(pool.n_segments):
        finest = naive_contour(pool.mask(i), edges, 6, Pyramid(3, 1))
        expected = OPTIONS.pyramid.stack(finest[None])[0]
        np.testing.assert_allclose(found[i], expected / max(1e-30, expected.sum()), atol=1e-6)


def test_the_background_is_the_foreground_of_the_complement(scene, vocabularies):
    image, pool, maps = scene
    found = describe(*scene, vocabularies, OPTIONS)
    other = describe(image, SegmentPool(pool.labels, ~pool.members), maps, vocabularies, OPTIONS)
    for name in ("sift", "colour_sift"):
        np.testing.assert_array_equal(found[f"{name}_bg"], other[f"{name}_fg"])
        np.testing.assert_array_equal(found[f"{name}_fg"], other[f"{name}_bg"])


def test_numbers_of_superpixels_do_not_count(scene, vocabularies):
    image, pool, maps = scene
    order = np.random.default_rng(8).permutation(pool.n_superpixels)
    again = SegmentPool(order[pool.labels], pool.members[:, np.argsort(order)])
    found, other = (describe(image, one, maps, vocabularies, OPTIONS) for one in (pool, again))
    for name in DESCRIPTORS:
        np.testing.assert_allclose(other[name], found[name], atol=1e-6)


def test_finer_superpixels_of_the_same_segments(scene, vocabularies):
    """Only masks count, not the superpixels that they are made of."""
    image, pool, maps = scene
    stripes = np.arange(81) // 20
    finer = SegmentPool(pool.labels * 5 + stripes, np.repeat(pool.members, 5, axis=1))
    found, other = (describe(image, one, maps, vocabularies, OPTIONS) for one in (pool, finer))
    for name in DESCRIPTORS:
        np.testing.assert_allclose(other[name], found[name], atol=1e-6)


def test_a_segment_has_the_same_descriptors_in_any_pool(scene, vocabularies):
    image, pool, maps = scene
    found = describe(*scene, vocabularies, OPTIONS)
    alone = describe(image, pool.take([5]), maps, vocabularies, OPTIONS)
    for name in DESCRIPTORS:
        np.testing.assert_allclose(alone[name][0], found[name][5], atol=1e-6)


def test_hue_counts_in_colour_words_alone(scene, vocabularies):
    image, pool, maps = scene
    found, other = (describe(some, pool, maps, vocabularies, OPTIONS) for some in (image, image[..., ::-1]))
    for name in DESCRIPTORS:
        close = np.allclose(found[name], other[name], atol=1e-6)
        assert close != name.startswith("colour")


def test_brightness_does_not_count(scene, vocabularies):
    image, pool, maps = scene
    found, other = (describe(some, pool, maps, vocabularies, OPTIONS) for some in (image // 2, image // 2 + 100))
    for name in PYRAMIDS:
        np.testing.assert_allclose(other[name], found[name], atol=1e-4)
    for name in WORDS:  # a word in some thousand may be at the same distance of two
        assert np.abs(other[name] - found[name]).sum(axis=1).max() < 0.02


def test_a_mirror_image_has_mirrored_pyramids(vocabularies):
    """Columns of cells swap, and the bin k of n becomes n - 1 - k; the image is a whole number of cells wide."""
    rng = np.random.default_rng(9)
    image, labels, maps = texture(rng, 48, 64), np.zeros((48, 64), dtype=np.int32), random_maps(rng, 48, 64)
    pool = SegmentPool(labels, np.ones((1, 1), dtype=bool))
    mirrored = type(maps)(fine=maps.fine[:, ::-1], coarse=maps.coarse[:, ::-1])
    found = describe(image, pool, maps, vocabularies, OPTIONS)
    other = describe(image[:, ::-1], pool, mirrored, vocabularies, OPTIONS)
    for name in ("phog_foreground", "phog_plain"):
        before, after = (some[name][0, 5 * 6 :].reshape(4, 4, 6) for some in (found, other))
        np.testing.assert_allclose(after, before[:, ::-1, ::-1], atol=1e-4 * before.max())
    before, after = (some["lbp"][0, 5 * 28 :].reshape(4, 4, 28) for some in (found, other))
    np.testing.assert_allclose(after, before[:, ::-1], atol=1e-3 * before.max())


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (3, 2), (5, 5)])
def test_tiny_images(shape, vocabularies):
    rng = np.random.default_rng(10)
    image, labels = rng.integers(0, 255, (*shape, 3)).astype(np.uint8), np.zeros(shape, dtype=np.int32)
    found = describe(image, SegmentPool(labels, [[True]]), random_maps(rng, *shape), vocabularies, OPTIONS)
    for histograms in found.values():
        assert np.isfinite(histograms).all()
    assert found["sift_fg"].sum() == pytest.approx(1)
    assert found["lbp"].sum() == pytest.approx(1)


def test_gray_images_and_empty_pools(scene, vocabularies):
    image, pool, maps = scene
    gray = describe(image[..., 0], pool, maps, vocabularies, OPTIONS)
    three = describe(np.repeat(image[..., :1], 3, axis=2), pool, maps, vocabularies, OPTIONS)
    none = describe(image, pool.take([]), maps, vocabularies, OPTIONS)
    for name in DESCRIPTORS:
        np.testing.assert_array_equal(gray[name], three[name])
        assert none[name].shape == (0, gray[name].shape[1])


def test_options_that_vocabularies_were_not_made_with(scene, vocabularies):
    with pytest.raises(ValueError, match="The vocabularies are of"):
        describe(*scene, vocabularies, DescriptorOptions(sift=SiftOptions(4, (4, 8, 12))))
    found = describe(*scene, vocabularies)
    assert found["phog_plain"].shape[1] == 85 * DescriptorOptions().n_orientations


def test_images_and_pools_of_other_sizes(scene, vocabularies):
    image, pool, maps = scene
    with pytest.raises(ValueError, match="same pixels"):
        describe(image[1:], pool, maps, vocabularies, OPTIONS)


@pytest.mark.parametrize("wrong", [{"n_words": 0}, {"n_points": 0}, {"n_orientations": 0}, {"smoothing": -1.0}])
def test_options_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="1 or more"):
        DescriptorOptions(pyramid=Pyramid(), **wrong)
