"""Proposals: hierarchies, minimum cuts against a search over all figures, and objects found in made-up images."""

import itertools

import cv2
import numpy as np
import pytest

from bochner.vision.boundaries import boundaries_of
from bochner.vision.cuts import Seeds, _cuts
from bochner.vision.hierarchy import (
    Likeness,
    border_scores,
    chi_squared,
    coarse_regions,
    distinct,
    hierarchy,
    unions,
)
from bochner.vision.proposals import LIKENESSES, ProposalOptions, at_size, overlaps_within, propose, unlike
from bochner.vision.superpixels import graph_of, sharpened
from tests.vision.scenes import scene


@pytest.fixture(scope="module")
def made():
    image, masks = scene()
    return image, masks, propose(image)


def small_graph():
    """Twelve square regions of an image of noise."""
    rng = np.random.default_rng(0)
    labels = np.arange(12, dtype=np.int32).reshape(3, 4).repeat(6, axis=0).repeat(6, axis=1)
    image = rng.integers(0, 256, (18, 24, 3)).astype(np.uint8)
    image = (0.2 * image + 0.8 * rng.integers(0, 256, (12, 3))[labels]).astype(np.uint8)
    return graph_of(image, boundaries_of(image), labels)


# -- pools ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_objects_of_a_made_up_image_are_among_the_segments(seed):
    image, masks = scene(seed)
    assert propose(image).overlaps(masks).max(axis=0).min() >= 0.95


def test_a_pool_has_the_whole_image_and_no_segment_twice(made):
    image, _, found = made
    assert found.labels.shape == image.shape[:2]
    assert found.members.all(axis=1).sum() == 1
    assert len(np.unique(found.members, axis=0)) == found.n_segments
    assert found.sizes().min() > 0


def test_the_same_image_has_the_same_pool(made):
    image, _, found = made
    again = propose(image.copy())
    np.testing.assert_array_equal(again.labels, found.labels)
    np.testing.assert_array_equal(again.members, found.members)


def test_no_more_segments_than_asked_for(made):
    found = propose(made[0], ProposalOptions(n_segments=50, n_superpixels=40))
    assert found.n_segments <= 50
    assert found.n_superpixels <= 40


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (1, 1, 3), (2, 3, 3), (40, 50, 3)])
def test_images_of_one_colour_have_the_whole_image(shape):
    found = propose(np.full(shape, 120, dtype=np.uint8))
    assert found.labels.shape == shape[:2]
    assert found.members.all(axis=1).any()


def test_gray_images(made):
    gray = made[0].mean(axis=2).astype(np.uint8)
    assert propose(gray).overlaps(made[1]).max() >= 0.95


def test_large_images_are_reduced_and_their_labels_scaled_back():
    image, masks = scene()
    scale = 6
    large = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    found = propose(large, ProposalOptions(longest_side=160))
    assert found.labels.shape == large.shape[:2]
    truths = masks.repeat(scale, axis=1).repeat(scale, axis=2)
    assert found.overlaps(truths).max(axis=0).min() >= 0.9


def test_labels_at_another_size(made):
    found = made[2]
    np.testing.assert_array_equal(at_size(found, (240, 320)).labels, found.labels.repeat(2, axis=0).repeat(2, axis=1))
    assert at_size(found, found.labels.shape) is found


def test_overlaps_within_a_pool_are_those_of_the_masks(made):
    some = made[2].take(slice(0, 40))
    masks = np.array([some.mask(i) for i in range(some.n_segments)])
    np.testing.assert_allclose(overlaps_within(some.members, some.sizes()), some.overlaps(masks), rtol=1e-6)


def test_segments_that_are_alike_are_left_out():
    members = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0]], dtype=bool)
    sizes = np.array([10, 10, 1, 5])
    np.testing.assert_array_equal(unlike(members, sizes, 0.9), [0, 2])
    np.testing.assert_array_equal(unlike(members, sizes, 0.99), [0, 1, 2])


def test_borders_move_to_a_sharp_edge():
    image = np.full((20, 30, 3), 50, dtype=np.uint8)
    image[:, 15:] = 200
    moved = sharpened(image, (np.arange(30) >= 17).astype(np.int32)[None].repeat(20, axis=0))
    np.testing.assert_array_equal(moved, (np.arange(30) >= 15).astype(int)[None].repeat(20, axis=0))


# -- hierarchies ---------------------------------------------------------------------------------------------------------


def test_a_hierarchy_is_nested_and_ends_with_the_whole():
    members = hierarchy(small_graph(), np.zeros(17), Likeness(colour=1.0, size=1.0, fill=1.0))
    assert members.shape == (23, 12)
    assert members[-1].all()
    both = members.astype(int) @ members.T.astype(int)
    sizes = members.sum(axis=1)
    assert np.all((both == 0) | (both == np.minimum.outer(sizes, sizes)))


def test_the_first_merge_is_the_cheapest_of_all_pairs():
    graph, likeness = small_graph(), Likeness(border=0.3, colour=1.0, texture=0.5, size=2.0, fill=3.0)
    scores = border_scores(graph)
    first = hierarchy(graph, scores, likeness)[12]
    costs = {}
    for (i, j), score in zip(graph.pairs.tolist(), scores, strict=True):
        colour, texture = chi_squared(graph.palette[i], graph.palette[j]), chi_squared(graph.textures[i], graph.textures[j])
        costs[i, j] = 0.3 * score + colour + 0.5 * texture + 2.0 * 72 / 432  # two squares fill their box
    assert set(np.flatnonzero(first)) == set(min(costs, key=costs.get))


def test_small_parts_that_differ_are_one_region_of_the_last_hierarchy_alone():
    labels = np.arange(12, dtype=np.int32).reshape(3, 4).repeat(12, axis=0).repeat(12, axis=1)
    labels[16:20, 20:24], labels[16:20, 24:28] = 12, 13  # side by side, in the regions 5 and 6, which look like them
    colours = np.random.default_rng(0).integers(0, 256, (14, 3)).astype(np.uint8)
    colours[[5, 12]], colours[[6, 13]] = (200, 40, 40), (40, 60, 200)
    image = colours[labels]
    graph = graph_of(image, boundaries_of(image), labels)
    small = np.isin(np.arange(14), [12, 13])
    trees = [hierarchy(graph, border_scores(graph), likeness) for likeness in LIKENESSES]
    assert [bool((tree == small).all(axis=1).any()) for tree in trees] == [False, False, False, True]


def test_coarse_regions_part_the_image():
    members = hierarchy(small_graph(), np.zeros(17), Likeness(colour=1.0))
    for n in (1, 5, 12, 40):
        coarse = coarse_regions(members, n)
        assert len(coarse) == min(n, 12)
        np.testing.assert_array_equal(coarse.sum(axis=0), 1)


def test_unions_are_of_disjoint_regions_that_touch():
    nodes = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0]], dtype=bool)
    touching = np.zeros((4, 4), dtype=bool)
    touching[0, 1] = touching[1, 0] = touching[1, 2] = touching[2, 1] = True
    np.testing.assert_array_equal(unions(nodes, touching), [[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0]])


def test_distinct_rows_stay_in_order():
    rows = np.array([[1, 0], [0, 1], [1, 0], [1, 1]], dtype=bool)
    np.testing.assert_array_equal(distinct(rows), rows[[0, 1, 3]])


# -- cuts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", [(0.0, 0.02), (0.3, 0.05), (0.5, -0.1)])
def test_a_cut_is_the_least_of_all_figures(term):
    graph = small_graph()
    rng = np.random.default_rng(1)
    weights = graph.lengths * rng.random(17)
    figure, ground, contrast = np.arange(12) == 5, np.isin(np.arange(12), [0, 11]), rng.standard_normal(12)
    (found,) = _cuts(graph, weights, Seeds(figure, ground, contrast), [term])
    gain = graph.sizes * (term[1] + term[0] * contrast)

    def energy(chosen):
        return weights[chosen[graph.pairs[:, 0]] != chosen[graph.pairs[:, 1]]].sum() - gain[chosen].sum()

    every = (np.array(bits, dtype=bool) for bits in itertools.product([False, True], repeat=12))
    least = min(energy(chosen) for chosen in every if chosen[5] and not chosen[0] and not chosen[11])
    assert found[5]
    assert not found[[0, 11]].any()
    assert energy(found) == pytest.approx(least)
