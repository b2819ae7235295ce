"""Hostile data with hostile options: penalties, weights, folds, validation sets, new rows and further rows of any kind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bochner import KernelClassifier, KernelRegressor
from bochner.exact import KernelRidgeGD
from bochner.kernels import get_kernel
from tests.estimators.learners import EPS, small
from tests.hostile.cases import COLUMNS, TARGETS, WEIGHTS, Data
from tests.hostile.judge import no_worse_than_mean

each_way = pytest.mark.parametrize("learner", [KernelRegressor, KernelClassifier, KernelRidgeGD])
quick = settings(max_examples=20)


def hurried(learner, **options):
    """A learner that takes a step or two."""
    if learner is KernelRidgeGD:
        return KernelRidgeGD(options.pop("kernel", "gaussian"), **{"random_state": 0, "tol": 1e-1, "max_iter": 2, **options})
    return small(learner, **{"n_features": 8, "tol": 1e-1, **options})


def labels_or(learner, y):
    """Targets, or two classes of them that both occur."""
    if learner is not KernelClassifier:
        return y
    labels = (y > np.median(y)).astype(int)
    labels[:2] = 0, 1
    return labels


@st.composite
def tables(draw, least_rows=2, most_rows=24, most_columns=4):
    """Rows with two kinds of hostile columns, but for numbers whose differences overflow."""
    n, m = draw(st.integers(least_rows, most_rows)), draw(st.integers(1, most_columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    kinds = draw(st.lists(st.sampled_from([kind for kind in COLUMNS if kind != "largest"]), min_size=1, max_size=2))
    parts = zip(kinds, np.array_split(np.arange(m), len(kinds)), strict=True)
    return np.hstack([COLUMNS[kind](rng, n, len(which)).astype(float) for kind, which in parts if len(which)])


@st.composite
def problems(draw):
    """Rows, targets and weights, all of them hostile."""
    X = draw(tables())
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    t = rng.standard_normal(len(X)) + np.sign(X[:, 0])
    plain = [kind for kind in TARGETS if kind not in ("largest", "several-units", "1000-targets")]
    y = np.asarray(TARGETS[draw(st.sampled_from(plain))](rng, t), dtype=float)
    return X, y, WEIGHTS[draw(st.sampled_from(list(WEIGHTS)))](rng, len(X))


@quick
@given(problem=problems(), single=st.booleans())
def test_targets_by_themselves_and_further_rows(problem, single):
    X, y, weights = problem
    Y = np.stack([y, np.arange(len(y)) % 2], axis=1)
    X = np.clip(X, -3e38, 3e38).astype(np.float32) if single else X
    model = hurried(KernelRegressor, alpha="per-target").fit(X, Y, weights)
    no_worse_than_mean(model.predict(X), Data(X, Y, weights))
    assert np.isfinite(model.partial_fit(X, Y, weights).predict(X)).all()


@each_way
@quick
@given(X=tables(), alpha=st.sampled_from([1e-300, 1e-12, 1e-3, 1.0, 1e12, 1e300]))
def test_any_penalty(learner, X, alpha):
    y = labels_or(learner, np.random.default_rng(0).standard_normal(len(X)))
    model = hurried(learner, alpha=alpha)
    if 1e-13 <= alpha <= 1e13:
        assert np.isfinite(model.fit(X, y).predict(X)).all()
    else:
        with pytest.raises(ValueError, match="alpha must be a positive number"):
            model.fit(X, y)


@each_way
@quick
@given(X=tables(), far=st.sampled_from([1e3, 1e30, -1e300, 0.0]))
def test_new_rows_anywhere(learner, X, far):
    y = labels_or(learner, np.random.default_rng(0).standard_normal(len(X)))
    new = np.full((2, X.shape[1]), far)
    assert np.isfinite(hurried(learner).fit(X, y).predict(new)).all()


@each_way
@quick
@given(X=tables(), folds=st.integers(2, 40))
def test_more_folds_than_rows(learner, X, folds):
    y = labels_or(learner, np.random.default_rng(0).standard_normal(len(X)))
    model = hurried(learner, validation=folds)
    if folds > len(X):
        with pytest.raises(ValueError, match=f"validation asks for {folds} folds of {len(X)} rows: use at most {len(X)}"):
            model.fit(X, y)
    else:
        assert np.isfinite(model.fit(X, y).predict(X)).all()


@each_way
@quick
@given(
    X=tables(least_rows=4),
    wrong=st.sampled_from([np.nan, np.inf, -np.inf]),
    where=st.sampled_from(["X", "y", "weights"]),
    row=st.integers(0, 3),
)
def test_values_that_are_not_finite(learner, X, wrong, where, row):
    y = labels_or(learner, np.random.default_rng(0).standard_normal(len(X))).astype(float)
    weights = np.ones(len(X))
    {"X": X[:, 0], "y": y, "weights": weights}[where][row] = wrong
    with pytest.raises(ValueError, match=r"NaN|nan|inf|infinity"):
        hurried(learner).fit(X, y, weights)


@each_way
@quick
@given(X=tables(least_rows=4), width=st.integers(1, 6), n=st.integers(0, 3))
def test_validation_sets_of_any_shape(learner, X, width, n):
    y = labels_or(learner, np.random.default_rng(0).standard_normal(len(X)))
    held = np.random.default_rng(1).standard_normal((n, width))
    model = hurried(learner, validation=(held, y[:n]))
    if width != X.shape[1] or n == 0:
        with pytest.raises(ValueError, match=r"The validation set is not like the rows of fit: .*(features|0 sample)"):
            model.fit(X, y)
    else:
        assert np.isfinite(model.fit(X, y).predict(X)).all()


@each_way
@quick
@given(X=tables(), weights=st.data())
def test_weights_of_any_size(learner, X, weights):
    n = len(X)
    sizes = st.sampled_from([0.0, 1.0, 1e-300, 1e300, 1e-320, 5e-324, 3.0])
    w = weights.draw(hnp.arrays(float, n, elements=sizes))
    y = labels_or(learner, np.random.default_rng(0).standard_normal(n))
    counted = w > n * EPS * w.max() if w.max() > 0 else w > 0  # smaller ones are lost in the rounding of sums
    enough = len(np.unique(y[counted])) == 2 if learner is KernelClassifier else counted.sum() > 1
    if enough:
        assert np.isfinite(hurried(learner).fit(X, y, w).predict(X)).all()
    else:
        with pytest.raises(ValueError, match=r"at least two rows|only one class|at least one non-zero"):
            hurried(learner).fit(X, y, w)


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("kernel", ["cauchy", "matern12", "chi2", "skewed_chi2"])
def test_one_column(kernel, n):
    X = np.linspace(0, 1, n)[:, None]
    features = None if get_kernel(kernel).geometry == "additive" else 2
    model = hurried(KernelRegressor, kernel=kernel, n_features=features).fit(X, X[:, 0])
    no_worse_than_mean(model.predict(X), Data(X, X[:, 0], None))


@each_way
def test_one_class_only(learner):
    X = np.random.default_rng(0).standard_normal((10, 2))
    model = hurried(learner)
    if learner is KernelClassifier:
        with pytest.raises(ValueError, match="only one class"):
            model.fit(X, np.ones(10))
    else:
        np.testing.assert_allclose(model.fit(X, np.ones(10)).predict(X), 1, rtol=64 * EPS)
