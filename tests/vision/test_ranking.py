"""Rankings: trees as scikit-learn evaluates them, lists that differ, and scores of images that were not seen."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from bochner.vision.cues import cues_of
from bochner.vision.proposals import ProposalOptions, proposals_of
from bochner.vision.ranking import (
    RankingOptions,
    SegmentRanker,
    Trees,
    best_overlaps,
    cross_fit,
    diversify,
    object_weights,
)
from tests.vision.scenes import scene

FEW = RankingOptions(n_trees=20, n_leaves=8)


def rows(n_images=6, s=300, seed=0):
    """Cues and overlaps with two objects, which two of five cues tell."""
    rng = np.random.default_rng(seed)
    cues = [rng.standard_normal((s, 5)).astype(np.float32) for _ in range(n_images)]
    overlaps = [1 / (1 + np.exp(-np.stack([2 * X[:, 0] - 1, 2 * X[:, 1] - 2], axis=1))) for X in cues]
    return cues, overlaps


def test_trees_predict_what_scikit_learn_predicts():
    cues, overlaps = rows()
    X, y = np.concatenate(cues), best_overlaps(np.concatenate(overlaps))
    model = HistGradientBoostingRegressor(max_iter=30, max_leaf_nodes=12, early_stopping=False).fit(X, y)
    fresh = np.random.default_rng(1).standard_normal((500, 5)).astype(np.float32)
    for some in (X, fresh):
        np.testing.assert_allclose(Trees.of(model).predict(some), model.predict(some), rtol=1e-12)


def test_a_ranker_learns_overlaps():
    cues, overlaps = rows()
    ranker = SegmentRanker.fit(cues[:5], overlaps[:5], FEW)
    found, truth = ranker.scores(cues[5]), best_overlaps(overlaps[5])
    assert np.mean((found - truth) ** 2) < 0.3 * truth.var()


def test_save_and_load(tmp_path):
    cues, overlaps = rows()
    ranker = SegmentRanker.fit(cues, overlaps, FEW)
    ranker.save(tmp_path / "ranker.npz")
    again = SegmentRanker.load(tmp_path / "ranker.npz")
    assert again.diversity == ranker.diversity
    np.testing.assert_array_equal(again.scores(cues[0]), ranker.scores(cues[0]))


def test_cross_fitted_scores_do_not_depend_on_the_overlaps_of_their_own_image():
    cues, overlaps = rows(4, 200)
    options = RankingOptions(n_trees=5, n_leaves=4, n_folds=2)
    heard = []
    scores = cross_fit(cues, overlaps, options, watch=lambda *how_far: heard.append(how_far))
    assert heard == [(1, 2), (2, 2)]
    assert [len(some) for some in scores] == [200] * 4
    changed = [np.zeros_like(overlaps[0]), *overlaps[1:]]
    others = cross_fit(cues, changed, options)
    np.testing.assert_array_equal(others[0], scores[0])
    assert any(np.any(one != other) for one, other in zip(others[1:], scores[1:], strict=True))


def test_object_weights_sum_to_one_for_each_object():
    overlaps = np.array([[0.8, 0.1], [0.4, 0.2], [0.0, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(object_weights(overlaps), [0.8, 0.2, 1.0, 0.0])
    np.testing.assert_array_equal(object_weights(np.zeros((3, 0))), np.zeros(3))
    np.testing.assert_array_equal(best_overlaps(np.zeros((3, 0))), np.zeros(3))


def naive_list(scores, overlaps, n, diversity):
    chosen = []
    while len(chosen) < min(n, len(scores)):
        worth = {}
        for i in set(range(len(scores))) - set(chosen):
            new = 1 - max((overlaps[i, j] for j in chosen), default=0.0)
            worth[i] = scores[i] * max(new, 1e-6) ** diversity
        chosen.append(max(worth, key=worth.get))
    return chosen


@pytest.mark.parametrize("diversity", [0.0, 0.7, 3.0])
def test_lists_are_those_of_the_definition(diversity):
    rng = np.random.default_rng(2)
    members = rng.random((40, 12)) < 0.4
    both = members.astype(float) @ members.T
    overlaps = both / (members.sum(axis=1)[:, None] + members.sum(axis=1) - both)
    scores = rng.random(40) + 0.01
    for n in (1, 10, 100):
        np.testing.assert_array_equal(diversify(scores, overlaps, n, diversity), naive_list(scores, overlaps, n, diversity))


def test_no_diversity_is_the_order_of_the_scores():
    scores = np.array([0.3, 0.9, -0.2, 0.5])
    np.testing.assert_array_equal(diversify(scores, np.eye(4), 3, 0.0), [1, 3, 0])


def test_ranking_a_pool_is_the_same_each_time():
    image, masks = scene()
    found = proposals_of(image, ProposalOptions(n_superpixels=100, n_segments=400))
    cues, overlaps = cues_of(found), found.pool.overlaps(masks)
    first, second = (SegmentRanker.fit([cues], [overlaps], FEW, seed=3).rank(found, 30) for _ in range(2))
    np.testing.assert_array_equal(first.index, second.index)
    np.testing.assert_array_equal(first.scores, second.scores)
    assert len(set(first.index.tolist())) == 30
    assert found.pool.take(first.index).overlaps(masks).max(axis=0).min() >= 0.8
