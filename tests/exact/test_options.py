"""Options of KernelRidgeGD: penalties, validation sets and splitters, warm starts, progress."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, PredefinedSplit

from bochner import KernelRegressor
from bochner.exact import KernelRidgeGD
from bochner.kernels import Gaussian
from tests.estimators.learners import EPS, table

TRAIN, HELD = np.arange(0, 60, 2), np.arange(1, 60, 2)


def exact(kernel="gaussian", **options):
    return KernelRidgeGD(kernel, **{"random_state": 0, **options})


def fixed(**options):
    """A model whose kernel stays where it starts."""
    return exact(Gaussian(scale=0.7), **{"alpha": 1e-2, "tol": 1e9, **options})


def peer(X, y, new, alpha=1e-2):
    """Predictions of scikit-learn's kernel ridge regression; a large constant in the kernel is a free intercept."""
    kernel = Gaussian(scale=0.7)
    centre = y.mean()
    model = KernelRidge(alpha=alpha * len(y), kernel="precomputed").fit(kernel.exact(X, X) + 1e6, y - centre)
    return model.predict(kernel.exact(new, X) + 1e6) + centre


# The constant 1e6 stands for an infinite one, to a part of alpha / 1e6 of the targets; it makes a system of condition
# 1e6 n / (n alpha) = 1e8 for alpha = 1e-2.
CLOSE = 1e-2 / 1e6 + 60 * 1e8 * EPS


@pytest.mark.parametrize("alpha", [1e-2, 1, np.float32(0.5)])
def test_a_number_is_the_penalty(alpha):
    X, y = table()
    model = fixed(alpha=alpha).fit(X, y)
    assert model.alpha_ == pytest.approx(float(alpha), rel=1e-12)
    np.testing.assert_allclose(model.predict(X), peer(X, y, X, float(alpha)), rtol=0, atol=CLOSE * np.abs(y).max())


def test_the_best_penalty_is_no_worse_than_any_number():
    X, y = table()
    best = fixed(alpha=None).fit(X, y).validation_error_
    # The search ends where another step promises a part of 1e-4 of the error; ten times that for steps that keep less.
    assert all(best <= fixed(alpha=a).fit(X, y).validation_error_ * (1 + 1e-3) for a in 10.0 ** np.arange(-8, 1))


@pytest.mark.parametrize("validation", [KFold(3), PredefinedSplit(np.arange(60) % 4 - 1)], ids=["KFold", "PredefinedSplit"])
def test_a_splitter_is_the_list_of_its_splits(validation):
    X, y = table()
    pairs = list(validation.split(X))
    one, two = (exact(validation=v, max_iter=5).fit(X, y) for v in (validation, pairs))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert one.validation_error_ == two.validation_error_


def test_the_error_of_a_splitter_is_that_of_its_refits():
    X, y = table()
    model = fixed(validation=KFold(3)).fit(X, y)
    held = np.concatenate([peer(X[train], y[train], X[test]) for train, test in KFold(3).split(X)])
    assert model.validation_error_ == pytest.approx(np.mean((held - y) ** 2) / y.var(), rel=10 * CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_set_is_validated_on_and_not_fitted(weighted):
    X, y = table()
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 30) if weighted else np.ones(30)
    model = fixed(validation=(X[HELD], y[HELD], weights)).fit(X[TRAIN], y[TRAIN])
    assert model.dual_coef_.shape == (30, 1)
    np.testing.assert_allclose(model.predict(X), peer(X[TRAIN], y[TRAIN], X), rtol=0, atol=CLOSE * np.abs(y).max())
    expected = weights @ (model.predict(X[HELD]) - y[HELD]) ** 2 / weights.sum() / y[TRAIN].var()
    assert model.validation_error_ == pytest.approx(expected, rel=1e-10)
    assert {record["n_rows"] for record in model.history_} == {60}


@pytest.mark.parametrize("standardize", [True, False])
def test_sparse_rows_are_dense_rows(standardize):
    X, y = table()
    X = np.where(np.abs(X) < 0.6, 0, X + 3)
    thin = sparse.csr_array(X)

    def fitted(rows, held):
        return exact(max_iter=3, standardize=standardize, validation=(held[HELD], y[HELD])).fit(rows[TRAIN], y[TRAIN])

    expected = fitted(X, X)
    for model in (fitted(X, thin), fitted(thin, X), fitted(thin, thin)):
        for rows in (X, thin):
            np.testing.assert_array_equal(model.predict(rows), expected.predict(X))


def test_the_memory_of_a_set_counts():
    X, y = table()
    enough_for_the_rows_alone = 8.0 * 6 * 30**2
    with pytest.raises(ValueError, match="60 rows need about"):
        fixed(validation=(X[HELD], y[HELD]), max_memory=enough_for_the_rows_alone).fit(X[TRAIN], y[TRAIN])


def test_warm_start_goes_on_downwards():
    X, y = table()
    model = exact(max_iter=2, warm_start=True, tol=0.0).fit(X, y)
    kernel, error = model.kernel_, model.validation_error_
    model.fit(X, y)
    # The same folds, and so the same criterion: the first value is the last one reached, its penalty searched again near it.
    assert model.history_[0]["criterion"] == pytest.approx(error, rel=1e-3)
    assert model.validation_error_ <= error * (1 + 1e-4)
    model.set_params(tol=1e9).fit(X, y)
    assert len(model.history_) == 1
    assert type(model.kernel_) is type(kernel)
    with pytest.raises(ValueError, match="a kernel of 3 columns, and X has 2"):
        model.fit(X[:, :2], y)


def test_useless_columns_have_a_relevance_of_zero():
    X, y = table(80, 6)
    y = y + X[:, 1]
    model = exact(scale_penalty="sparse", scale_penalty_strength=0.03).fit(X, y)
    assert (model.relevance_[:2] > 0).all()
    assert (model.relevance_[2:] < model.relevance_[:2].min()).all()
    # Those below a thousandth of the largest are zero, and nothing else is; of 80 rows, some columns of noise stay of use.
    assert (model.relevance_[2:] == 0).any()
    scale = model.scale_ * model.standardiser_.spread
    np.testing.assert_array_equal(model.relevance_ == 0, scale < 1e-3 * scale.max())
    moved = np.where(model.relevance_ > 0, X, X[::-1])
    # A distance feels 1e-12 of what a column of relevance zero moves by.
    np.testing.assert_allclose(model.predict(moved), model.predict(X), atol=1e-9 * np.abs(model.dual_coef_).sum())


def test_learners_on_features_and_on_kernels_agree_on_a_fixed_problem():
    X, y = table(40)
    pairs = list(KFold(4).split(X))
    full = fixed(alpha=0.1, validation=pairs).fit(X, y)

    def distance(n_features):
        models = [
            KernelRegressor(
                Gaussian(scale=0.7),
                alpha=0.1,
                tol=1e9,
                validation=pairs,
                n_features=n_features,
                sampling="iid",
                random_state=seed,
            )
            for seed in range(8)
        ]
        return np.mean([abs(m.fit(X, y).validation_error_ - full.validation_error_) for m in models])

    # Errors of the features fall by the square root of 64; half of that is left to the spread over eight seeds.
    assert distance(1024) < distance(16) / 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": "per-target"}, "alpha='per-target' is not available for exact kernel matrices"),
        ({"alpha": -1.0}, "alpha must be a positive number"),
        ({"max_iter": "x"}, "max_iter must be a whole number, zero or more, got 'x'"),
        ({"max_iter": -1}, "max_iter must be a whole number, zero or more, got -1"),
        ({"max_memory": -1}, "max_memory must be a positive number of bytes, .* got -1"),
        ({"validation": (np.ones((5, 2)), np.ones(5))}, "validation set is not like the rows of fit: X has 2 features"),
        ({"validation": (np.ones((5, 3)), np.ones((5, 2)))}, r"y must have the shape \(n,\) of the y that fit was given"),
        ({"validation": [(TRAIN, TRAIN)]}, "cannot be used"),
    ],
    ids=str,
)
def test_refusals(options, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        exact(**options).fit(X, y)
