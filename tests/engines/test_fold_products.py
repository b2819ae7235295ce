"""Passes over folded rows that are not in memory: against products with one dense matrix."""

from functools import reduce

import numpy as np
import pytest

from bochner.engines import forward
from bochner.engines.fold_products import FoldPasses, FoldProducts, FoldRows, RowNumbers
from bochner.features import FeatureChoices, StackedMap, build_map
from bochner.folds import RemoteFolds, Rows
from bochner.kernels import Gaussian
from tests.cases import relative_error

ROUNDING = 1e-12
"""Sums of a few hundred products of numbers of order one."""
SIZES = (40, 1, 3, 25, 30)
PARTS = (0, 2, 1, 2, 0)


class Chunks:
    """Rows in chunks of some parts."""

    def __init__(self, rows):
        self.rows = rows

    def chunks(self):
        return iter(zip(PARTS, self.rows, strict=True))


class Pieces(Chunks):
    """The same on other machines: two chunks, none, and the rest."""

    n_pieces = 3

    def map_reduce(self, function, add, *, beside):
        chunks = list(self.chunks())
        pieces = [chunks[:2], [], chunks[2:]]
        found = [function(iter(some), each) for some, each in zip(pieces, beside, strict=True) if some]
        return reduce(add, [each for each in found if each is not None])


def case(kind, seed=0):
    """Numbers of rows, their map, the features of all rows, and their parts."""
    rng = np.random.default_rng(seed)
    feature_map = StackedMap(tuple(build_map(Gaussian(), 2, FeatureChoices(n_features=6), rng) for _ in range(2)))
    rows = [Rows(rng.standard_normal((n, 4)), rng.standard_normal((n, 3)), rng.random(n)) for n in SIZES]
    features = forward(feature_map, np.concatenate([some.X for some in rows]))
    return RowNumbers.of(kind(rows)), feature_map, features, np.repeat(PARTS, SIZES), rows


each_kind = pytest.mark.parametrize("kind", [Chunks, Pieces])
each_parts = pytest.mark.parametrize("parts", [(0, 1, 2), (0, 2), (2,)])


def tanh(scores, weights):
    return weights * np.tanh(scores)


def test_which_rows_are_elsewhere():
    assert isinstance(Pieces([]), RemoteFolds)
    assert not isinstance(Chunks([]), RemoteFolds)


@each_kind
@each_parts
def test_numbers_of_rows(kind, parts):
    numbers, feature_map, _, where, rows = case(kind)
    by_parts, among = FoldRows(numbers, feature_map), np.isin(where, parts)
    np.testing.assert_array_equal(by_parts.targets(parts), np.concatenate([some.targets for some in rows])[among])
    np.testing.assert_array_equal(by_parts.weights(parts), np.concatenate([some.weights for some in rows])[among])
    assert by_parts.n_features == 12


@each_kind
@each_parts
def test_there_or_back(kind, parts):
    numbers, feature_map, features, where, _ = case(kind)
    features = features[np.isin(where, parts)]
    rng = np.random.default_rng(1)
    coef, values, weights = (rng.standard_normal(shape) for shape in ((12, 2), (len(features), 2), (len(features), 1)))
    passes = FoldPasses(numbers, feature_map, parts)
    assert relative_error(passes.there(coef), features @ coef) <= ROUNDING
    assert relative_error(passes.back(values), features.T @ values) <= ROUNDING
    expected = features.T @ tanh(features @ coef, weights)
    assert relative_error(passes.there_and_back(coef, tanh, weights), expected) <= ROUNDING
    second = passes.columns(np.arange(12) >= 6)
    assert second.n_columns == 6
    assert relative_error(second.there(coef[6:]), features[:, 6:] @ coef[6:]) <= ROUNDING


@each_kind
@each_parts
def test_there_and_back_with_an_intercept(kind, parts):
    numbers, feature_map, features, where, _ = case(kind)
    whole = np.c_[features, np.ones(len(features))][np.isin(where, parts)]
    rng = np.random.default_rng(1)
    coef, weights = rng.standard_normal((13, 2)), rng.random((len(whole), 2))
    products = FoldProducts(numbers, feature_map, parts)
    found, scores = products.there_and_back(coef, tanh, weights)
    assert relative_error(scores, whole @ coef) <= ROUNDING
    assert relative_error(found, whole.T @ tanh(whole @ coef, weights)) <= ROUNDING
    for moments, column in zip(products.moments(weights), weights.T, strict=True):
        expected = whole.T @ (column[:, None] * whole)
        assert relative_error(moments.gram, expected[:-1, :-1]) <= ROUNDING
        assert relative_error(moments.feature_sum, expected[-1, :-1]) <= ROUNDING


@each_kind
def test_the_way_there_is_the_transpose_of_the_way_back(kind):
    numbers, feature_map, features, _, _ = case(kind)
    rng = np.random.default_rng(2)
    coef, values = rng.standard_normal((12, 1)), rng.standard_normal((len(features), 1))
    passes = FoldPasses(numbers, feature_map, (0, 1, 2))
    assert np.sum(passes.there(coef) * values) == pytest.approx(np.sum(coef * passes.back(values)), rel=1e-10)
