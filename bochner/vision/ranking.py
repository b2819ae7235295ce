"""Which segments of a pool are objects: overlaps predicted from cues, and a short list in which segments differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from bochner.archives import read_made
from bochner.arrays import Array
from bochner.durable import replace_file
from bochner.vision.cues import cues_of
from bochner.vision.proposals import Proposals, overlaps_within

ROWS_AT_A_TIME = 2000
FAINT = 1e-6
"""Scores and new parts below this one are taken to be this one."""


@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """How overlaps are predicted, and segments chosen."""

    n_trees: int = 200
    n_leaves: int = 31
    learning_rate: float = 0.06
    poor: float = 0.3
    """Overlaps below this one are poor; there are many of them."""
    poor_share: float = 0.3
    """Of segments of poor overlap, the share that the trees are fitted to, with weights that make up for it."""
    object_weight: float = 200.0
    """What all segments of an object weigh together, besides the weight of one that each of them has."""
    n_folds: int = 3
    """Parts of the training images, each of which is scored by a model of the others."""
    diversity: float = 0.8
    """Power of what is new in a segment, one less its overlap with those chosen before."""


@dataclass(frozen=True)
class Trees:
    """Sum of regression trees: f(x) = base + sum over trees of the value of the leaf that x falls into.

    Arrays are (n_trees, n_nodes) but where another shape is given. A leaf is its own child.
    """

    base: Array
    """()."""
    feature: Array
    threshold: Array
    left: Array
    right: Array
    value: Array
    depth: Array
    """(): steps from a root to the deepest leaf."""

    @classmethod
    def fit(cls, X: Array, y: Array, weights: Array, options: RankingOptions, seed: int) -> Trees:
        """Boosted trees for rows (n, q), targets (n,) and weights (n,)."""
        model = HistGradientBoostingRegressor(
            max_iter=options.n_trees,
            max_leaf_nodes=options.n_leaves,
            learning_rate=options.learning_rate,
            min_samples_leaf=50,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=seed,
        ).fit(X, y, weights)
        return cls.of(model)

    @classmethod
    def of(cls, model: HistGradientBoostingRegressor) -> Trees:
        """The trees of a fitted model."""
        tables = [stage[0].nodes for stage in model._predictors]
        shape = len(tables), max(map(len, tables))
        feature, left, right = (np.zeros(shape, dtype=np.int32) for _ in range(3))
        threshold, value = np.full(shape, np.inf), np.zeros(shape)
        for k, nodes in enumerate(tables):
            n, own, leaf = len(nodes), np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
            feature[k, :n] = np.where(leaf, 0, nodes["feature_idx"])
            threshold[k, :n] = np.where(leaf, np.inf, nodes["num_threshold"])
            left[k, :n], right[k, :n] = np.where(leaf, own, nodes["left"]), np.where(leaf, own, nodes["right"])
            value[k, :n] = nodes["value"]
        depth = np.array(max(int(nodes["depth"].max()) for nodes in tables))
        return cls(np.array(float(model._baseline_prediction.ravel()[0])), feature, threshold, left, right, value, depth)

    def predict(self, X: Array) -> Array:
        """f of each row of X (n, q): (n,)."""
        parts = [self._predict(X[start : start + ROWS_AT_A_TIME]) for start in range(0, len(X), ROWS_AT_A_TIME)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _predict(self, X: Array) -> Array:
        """The same of few rows: all of them go down all trees at a time, and each stops at its leaf."""
        n_trees, n_nodes = self.value.shape
        firsts = np.arange(n_trees)[:, None] * n_nodes  # nodes of all trees, one after the other
        left, right = (self.left + firsts).ravel(), (self.right + firsts).ravel()
        feature, threshold, value = self.feature.ravel(), self.threshold.ravel(), self.value.ravel()
        is_leaf = left == np.arange(left.size)
        values, n_columns = np.ascontiguousarray(X).ravel(), X.shape[1]
        row = np.repeat(np.arange(len(X)), n_trees)
        node = np.tile(firsts.ravel(), len(X))
        total = np.full(len(X), float(self.base))
        for _ in range(max(int(self.depth), 1)):
            node = np.where(values[row * n_columns + feature[node]] <= threshold[node], left[node], right[node])
            done = is_leaf[node]
            total += np.bincount(row[done], value[node[done]], minlength=len(X))
            row, node = row[~done], node[~done]
        return total


@dataclass(frozen=True)
class Ranked:
    """Segments in the order in which they were chosen: their numbers in the pool (k,), and predicted overlaps (k,)."""

    index: Array
    scores: Array


@dataclass(frozen=True)
class SegmentRanker:
    """Predicts the best overlap of a segment with an object, then lists segments that are likely and differ.

    Segment k of the list is the one of the largest ``score * (1 - overlap) ** diversity``, where the overlap is the largest
    one with a segment before it in the list.
    """

    trees: Trees
    diversity: float

    @classmethod
    def fit(
        cls, cues: Sequence[Array], overlaps: Sequence[Array], options: RankingOptions | None = None, seed: int = 0
    ) -> SegmentRanker:
        """From cues (s, q) of the segments of each training image, and their overlaps (s, k) with its objects."""
        options = RankingOptions() if options is None else options
        rng = np.random.default_rng(seed)
        rows = [_rows(some, theirs, options, rng) for some, theirs in zip(cues, overlaps, strict=True)]
        X, y, weights = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        return cls(Trees.fit(X, y, weights, options, seed), options.diversity)

    def scores(self, cues: Array) -> Array:
        """Predicted best overlaps (s,)."""
        return self.trees.predict(cues)

    def rank(self, proposals: Proposals, max_segments: int = 100) -> Ranked:
        """At most ``max_segments`` segments of a pool."""
        overlaps = overlaps_within(proposals.pool.members, proposals.graph.sizes)
        scores = self.scores(cues_of(proposals, overlaps))
        index = diversify(scores, overlaps, max_segments, self.diversity)
        return Ranked(index, scores[index])

    def arrays(self) -> dict[str, Array]:
        """The ranker as a few arrays."""
        trees = {field.name: getattr(self.trees, field.name) for field in fields(Trees)}
        return {**trees, "diversity": np.array(self.diversity)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> SegmentRanker:
        """The ranker of such arrays."""
        return cls(Trees(**{field.name: arrays[field.name] for field in fields(Trees)}), float(arrays["diversity"]))

    def save(self, path: str | Path) -> None:
        """Write the ranker to a file of NumPy arrays (npz)."""
        replace_file(Path(path), lambda file: np.savez_compressed(file, **self.arrays()))

    @classmethod
    def load(cls, path: str | Path) -> SegmentRanker:
        """The ranker that :meth:`save` wrote."""
        return read_made(path, "ranker", cls.from_arrays)


def cross_fit(
    cues: Sequence[Array],
    overlaps: Sequence[Array],
    options: RankingOptions | None = None,
    seed: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> list[Array]:
    """Scores (s,) of the segments of each training image, from a ranker that did not see it.

    ``watch`` hears how many of the rankers are fitted, and of how many.
    """
    options = RankingOptions() if options is None else options
    parts = np.random.default_rng(seed).permutation(len(cues)) % options.n_folds
    rankers = {}
    n_rankers = len(np.unique(parts))
    for part in np.unique(parts):
        seen = np.flatnonzero(parts != part).tolist()
        rankers[part] = SegmentRanker.fit([cues[i] for i in seen], [overlaps[i] for i in seen], options, seed)
        if watch is not None:
            watch(len(rankers), n_rankers)
    return [rankers[part].scores(some) for some, part in zip(cues, parts, strict=True)]


def best_overlaps(overlaps: Array) -> Array:
    """Overlap (s,) of each segment with the object that it overlaps most, of (s, k); zero where there is none."""
    return overlaps.max(axis=1, initial=0.0)


def object_weights(overlaps: Array) -> Array:
    """Weights (s,) of segments, of sum one over those that overlap an object most, in proportion to squared overlaps."""
    best = best_overlaps(overlaps) ** 2
    if not overlaps.shape[1]:
        return best
    own = overlaps.argmax(axis=1)
    totals = np.bincount(own, best, minlength=overlaps.shape[1])
    return best / np.maximum(totals[own], 1e-3)


def _rows(cues: Array, overlaps: Array, options: RankingOptions, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Cues, best overlaps and weights of those segments of an image that the trees are fitted to."""
    best = best_overlaps(overlaps)
    poor = best < options.poor
    weights = np.where(poor, 1 / options.poor_share, 1.0) * (1 + options.object_weight * object_weights(overlaps))
    kept = ~poor | (rng.random(len(best)) < options.poor_share)
    return cues[kept], best[kept], weights[kept]


def diversify(scores: Array, overlaps: Array, max_segments: int, diversity: float) -> Array:
    """Numbers (k,) of segments in the order of maximal marginal relevance, see :class:`SegmentRanker`."""
    worth = np.log(np.maximum(scores, FAINT))
    new = np.zeros(len(scores))
    chosen: list[int] = []
    for _ in range(min(max_segments, len(scores))):
        best = int(np.argmax(worth + diversity * new))
        chosen.append(best)
        worth[best] = -np.inf
        new = np.minimum(new, np.log(np.maximum(1 - overlaps[best], FAINT)))
    return np.array(chosen, dtype=np.int64)
