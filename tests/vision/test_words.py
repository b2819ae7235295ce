"""Vocabularies: nearest words by brute force, counts word by word, and what is kept in a file."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

pytest.importorskip("cv2")

from bochner.vision import sift
from bochner.vision.options import DescriptorOptions
from bochner.vision.sift import SiftOptions
from bochner.vision.words import Vocabularies, Vocabulary
from tests.vision.cases import random_labels, texture

OPTIONS = DescriptorOptions(sift=SiftOptions(4, (4, 8)), n_words=12, n_colour_words=15, n_points=150)


def images(n=3):
    return [texture(np.random.default_rng(seed)) for seed in range(n)]


@pytest.fixture(scope="module")
def vocabularies():
    return Vocabularies.fit(images(), OPTIONS, 0)


def test_the_word_of_a_descriptor_is_the_nearest():
    rng = np.random.default_rng(0)
    words, descriptors = rng.random((40, 17)).astype(np.float32), rng.random((500, 17)).astype(np.float32)
    np.testing.assert_array_equal(Vocabulary(words).assign(descriptors), cdist(descriptors, words).argmin(axis=1))


def test_words_of_separate_clusters_are_their_means():
    rng = np.random.default_rng(1)
    centres = 10 * np.eye(5)
    descriptors = np.concatenate([centre + 0.01 * rng.standard_normal((200, 5)) for centre in centres])
    found = Vocabulary.fit(descriptors, 5, 0)
    assert found.words.dtype == np.float32
    np.testing.assert_array_less(cdist(centres, found.words).min(axis=1), 0.05)


def test_fewer_descriptors_than_words():
    with pytest.raises(ValueError, match="7 words need as many descriptors"):
        Vocabulary.fit(np.zeros((3, 2)), 7, 0)


def test_no_images():
    with pytest.raises(ValueError, match="at least one image"):
        Vocabularies.fit([], OPTIONS, 0)


def test_the_seed_decides(vocabularies):
    again, other = (Vocabularies.fit(iter(images()), OPTIONS, seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.gray.words, vocabularies.gray.words)
    np.testing.assert_array_equal(again.colour.words, vocabularies.colour.words)
    assert not np.array_equal(other.gray.words, vocabularies.gray.words)
    assert (vocabularies.gray.words.shape, vocabularies.colour.words.shape) == ((12, 128), (15, 384))


def test_counts_are_those_of_the_words_at_each_point(vocabularies):
    image, labels = images(1)[0], random_labels(np.random.default_rng(2))
    n = int(labels.max()) + 1
    gray, colour = np.zeros((n, 12)), np.zeros((n, 15))
    for raw, pixels in sift.dense(sift.opponent(image), OPTIONS.sift):
        nearest = [
            cdist(descriptors, words).argmin(axis=1)
            for descriptors, words in (
                (sift.normalised(raw[:, 0]), vocabularies.gray.words),
                (sift.normalised(raw), vocabularies.colour.words),
            )
        ]
        for pixel, one, other in zip(pixels, *nearest, strict=True):
            gray[labels[divmod(pixel, labels.shape[1])], one] += 1
            colour[labels[divmod(pixel, labels.shape[1])], other] += 1
    found = vocabularies.counts(image, labels, n)
    np.testing.assert_array_equal(found[0], gray)
    np.testing.assert_array_equal(found[1], colour)
    assert gray.sum() == 2 * len(sift.grid(61, 4)) * len(sift.grid(81, 4))


def test_vocabularies_are_the_same_after_save_and_load(vocabularies, tmp_path):
    vocabularies.save(tmp_path / "words.npz")
    loaded = Vocabularies.load(tmp_path / "words.npz")
    assert loaded.sift == vocabularies.sift
    for name in ("gray", "colour"):
        before, after = getattr(vocabularies, name).words, getattr(loaded, name).words
        assert after.dtype == np.float32
        np.testing.assert_array_equal(after, before)
