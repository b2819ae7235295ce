"""Superpixels and their graph, against counts made pixel by pixel; merges against a search over all pairs."""

import numpy as np
import pytest
from scipy import ndimage

from bochner.vision.agglomerate import Borders, agglomerate, cluster_labels, members_of
from bochner.vision.boundaries import boundaries_of
from bochner.vision.superpixels import borders_of, graph_of, sharpened, superpixels_of
from tests.vision.scenes import scene

N = 150


@pytest.fixture(scope="module")
def made():
    image, masks = scene()
    boundaries = boundaries_of(image)
    labels = superpixels_of(image, boundaries, N)
    return image, masks, boundaries, labels, graph_of(image, boundaries, labels)


def test_labels_are_connected_and_numbered_without_gaps(made):
    labels = made[3]
    assert labels.dtype == np.int32
    assert set(np.unique(labels)) == set(range(N))
    assert all(ndimage.label(labels == k)[1] == 1 for k in range(N))


def test_sharpened_superpixels_keep_to_the_objects(made):
    image, masks, _, labels, _ = made
    labels = sharpened(image, labels)
    for mask in masks:
        share = np.bincount(labels[mask], minlength=N) / np.bincount(labels.ravel())
        union = (share > 0.5)[labels]
        assert (union & mask).sum() / (union | mask).sum() >= 0.95


def test_the_graph_counts_pixels(made):
    _, _, boundaries, labels, graph = made
    lengths, sums = {}, {}
    h, w = labels.shape
    for y, x in np.ndindex(h, w):
        for v, u in ((y, x + 1), (y + 1, x)):
            if v < h and u < w and labels[y, x] != labels[v, u]:
                pair = tuple(sorted((int(labels[y, x]), int(labels[v, u]))))
                lengths[pair] = lengths.get(pair, 0) + 1
                sums[pair] = sums.get(pair, 0.0) + max(boundaries.strength[y, x], boundaries.strength[v, u])
    assert [tuple(pair) for pair in graph.pairs.tolist()] == sorted(lengths)
    np.testing.assert_array_equal(graph.lengths, [lengths[pair] for pair in sorted(lengths)])
    means = [sums[pair] / lengths[pair] for pair in sorted(lengths)]
    np.testing.assert_allclose(graph.strengths[:, 0], means, rtol=1e-6)


def test_regions_of_the_graph(made):
    _, _, _, labels, graph = made
    for k in (0, 17, N - 1):
        rows, columns = np.nonzero(labels == k)
        assert graph.sizes[k] == len(rows)
        np.testing.assert_array_equal(graph.boxes[k], [rows.min(), columns.min(), rows.max() + 1, columns.max() + 1])
        np.testing.assert_allclose(graph.centres[k], [rows.mean(), columns.mean()], rtol=1e-6)
        frame = [np.sum(rows == 0), np.sum(columns == 0), np.sum(rows == 119), np.sum(columns == 159)]
        np.testing.assert_array_equal(graph.frame[k], frame)
    np.testing.assert_allclose(graph.palette.sum(axis=1), 3)
    np.testing.assert_allclose(graph.textures.sum(axis=1), 2)


def test_one_region_has_no_borders():
    pairs, lengths, sums = borders_of(np.zeros((3, 4), dtype=int), np.ones((3, 4, 2)))
    assert pairs.shape == (0, 2)
    assert lengths.shape == (0,)
    assert sums.shape == (0, 2)


def naive_merges(pairs, lengths, sums, n):
    """Members of every region made, in order: the pair of groups of the weakest mean border is searched for each time."""
    groups, made = [frozenset([k]) for k in range(n)], []
    while True:
        best = None
        for a in range(len(groups)):
            for b in range(a):
                across = [e for e, (i, j) in enumerate(pairs) if {i in groups[a], j in groups[a]} == {True, False}]
                across = [e for e in across if pairs[e][0] in groups[b] or pairs[e][1] in groups[b]]
                if across:
                    cost = sum(sums[e] for e in across) / sum(lengths[e] for e in across)
                    best = min(best or (np.inf,), (cost, a, b))
        if best is None:
            return made
        _, a, b = best
        made.append(groups[a] | groups[b])
        groups = [group for k, group in enumerate(groups) if k not in (a, b)] + [made[-1]]


def test_merges_are_those_of_a_search_over_all_pairs():
    rng = np.random.default_rng(3)
    labels = rng.permutation(12).reshape(3, 4).repeat(3, axis=0).repeat(3, axis=1)
    pairs, lengths, sums = borders_of(labels, rng.random((9, 12, 1)))
    borders = Borders(pairs, lengths, sums[:, 0])
    parents = agglomerate(borders, 12, lambda i, others, strengths: strengths, lambda i, j, new: None)
    members = members_of(parents, 12)
    expected = naive_merges(pairs.tolist(), lengths.tolist(), sums[:, 0].tolist(), 12)
    assert [frozenset(np.flatnonzero(row).tolist()) for row in members[12:]] == expected
    assert members[-1].all()


def test_merging_stops_where_regions_are_few_enough_or_do_not_touch():
    borders = Borders(np.array([[0, 1], [1, 2], [3, 4]]), np.ones(3, dtype=int), np.array([0.2, 0.1, 0.5]))
    for n_left, expected in ((5, [0, 1, 2, 3, 4]), (4, [0, 1, 1, 2, 3]), (3, [0, 0, 0, 1, 2]), (1, [0, 0, 0, 1, 1])):
        parents = agglomerate(borders, 5, lambda i, others, strengths: strengths, lambda i, j, new: None, n_left)
        clusters = cluster_labels(parents, 5)
        groups = {tuple(np.flatnonzero(clusters == c)) for c in set(clusters)}
        assert groups == {tuple(np.flatnonzero(np.array(expected) == c)) for c in set(expected)}
