"""partial_fit: rows in pieces are rows at once, for a kernel and a penalty that stay."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import Ridge

from bochner import KernelClassifier, KernelRegressor
from bochner.single_kernel import LOWEST_IN_FLOAT32
from tests.estimators.learners import (
    classifier,
    drawn,
    each_learner,
    features_of,
    fixed,
    output,
    regressor,
    small,
    solving_error,
    table,
    targets,
)

PIECES = [slice(0, 30), slice(30, 31), slice(31, 60)]


def in_pieces(model, X, y, weights=None, pieces=PIECES, **first):
    for number, piece in enumerate(pieces):
        extra = first if number == 0 else {}
        model.partial_fit(X[piece], y[piece], sample_weight=None if weights is None else weights[piece], **extra)
    return model


def assert_same_coefficients(model, other, X):
    bound = solving_error(features_of(other, X), np.min(other.alpha_))
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=bound * np.linalg.norm(other.coef_))
    reach = np.linalg.norm(other.coef_) * np.sqrt(np.max(np.sum(features_of(other, X) ** 2, axis=1)))
    np.testing.assert_allclose(
        model.intercept_, other.intercept_, rtol=0, atol=bound * (reach + np.abs(other.intercept_).max())
    )


# -- the same as fit -----------------------------------------------------------------------------------------------------


@each_learner
def test_pieces_are_all_rows_at_once(learner):
    X, y = table()
    X, y = np.abs(X), targets(learner, y, 3)
    assert_same_coefficients(in_pieces(drawn(learner), X, y), drawn(learner).fit(X, y), X)


@each_learner
def test_weighted_pieces_are_all_weighted_rows_at_once(learner):
    X, y = table()
    X, y = np.abs(X), targets(learner, y, 3)
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 60)
    weights[::7] = 0
    assert_same_coefficients(in_pieces(drawn(learner), X, y, weights), drawn(learner).fit(X, y, weights), X)


@each_learner
def test_the_first_call_is_a_fit(learner):
    X, y = table()
    y = targets(learner, y)
    one, two = small(learner).partial_fit(X, y), small(learner).fit(X, y)
    np.testing.assert_array_equal(output(one, X), output(two, X))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_features", [16, 64], ids=["few features", "more features than rows"])
def test_pieces_are_the_ridge_regression_of_all_rows(weighted, n_features):
    X, y = table()
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 60) if weighted else np.ones(60)
    model = in_pieces(fixed(KernelRegressor, n_features=n_features), X, y, weights)
    features = features_of(model, X)
    ridge = Ridge(alpha=1e-2 * weights.sum()).fit(features, y, weights)
    bound = solving_error(features, 1e-2) * np.linalg.norm(ridge.coef_)
    np.testing.assert_allclose(model.coef_[:, 0], ridge.coef_, rtol=0, atol=bound)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, rtol=0, atol=2 * bound)


def test_each_target_keeps_its_own_penalty():
    X, y = table()
    Y = np.stack([y, X[:, 1] + X[:, 2] ** 2], axis=1)
    model = in_pieces(fixed(KernelRegressor, alpha="per-target", n_features=16), X, Y)
    assert model.alpha_.shape == (2,)
    features = features_of(model, X)
    for j, alpha in enumerate(model.alpha_):
        ridge = Ridge(alpha=60 * alpha, solver="cholesky").fit(features, Y[:, j])
        bound = solving_error(features, alpha) * np.linalg.norm(ridge.coef_)
        np.testing.assert_allclose(model.coef_[:, j], ridge.coef_, rtol=0, atol=bound)


@each_learner
def test_the_order_of_later_pieces_does_not_matter(learner):
    X, y = table()
    y = targets(learner, y)
    first, *rest = PIECES
    one = in_pieces(fixed(learner), X, y, pieces=[first, *rest])
    two = in_pieces(fixed(learner), X, y, pieces=[first, *rest[::-1]])
    assert_same_coefficients(one, two, X)


@each_learner
def test_kernel_penalty_and_features_stay(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner).fit(X[:30], y[:30])
    before = clone(model).fit(X[:30], y[:30])
    model.partial_fit(X[30:], y[30:])
    assert model.kernel_ == before.kernel_
    assert model.alpha_ == before.alpha_
    assert model.feature_map_.kernel == before.feature_map_.kernel
    np.testing.assert_array_equal(model.feature_map_.points, before.feature_map_.points)
    assert (model.coef_ != before.coef_).any()


@each_learner
def test_weight_zero_is_no_row(learner):
    X, y = table()
    y = targets(learner, y)
    model, other = (fixed(learner).fit(X[:30], y[:30]) for _ in range(2))
    model.partial_fit(X[30:], y[30:], sample_weight=np.arange(30) % 2)
    other.partial_fit(X[31::2], y[31::2])
    assert_same_coefficients(model, other, X)
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        model.partial_fit(X, y, sample_weight=np.zeros(60))


@each_learner
def test_weight_two_is_a_row_twice(learner):
    X, y = table()
    y = targets(learner, y)
    one, two = (fixed(learner).fit(X[:30], y[:30]) for _ in range(2))
    one.partial_fit(X[30:], y[30:], sample_weight=np.full(30, 2.0))
    two.partial_fit(X[30:], y[30:]).partial_fit(X[30:], y[30:])
    assert_same_coefficients(one, two, X)


@each_learner
def test_the_unit_of_weights_is_that_of_the_first_piece(learner):
    X, y = table()
    y = targets(learner, y)
    one = in_pieces(fixed(learner), X, y, np.full(60, 2.0**-20))
    assert_same_coefficients(one, in_pieces(fixed(learner), X, y), X)


@each_learner
def test_float32_pieces_with_a_penalty_that_float32_cannot_carry(learner):
    X, y = table()
    y = targets(learner, y)
    alpha = LOWEST_IN_FLOAT32 / 100
    single = X.astype(np.float32)
    one = in_pieces(fixed(learner, alpha=alpha, n_features=16), single, y)
    assert one.history_[-1]["precision"] == "float64"
    # The sums over all pieces are those of float64 products of the same, once rounded, standardised rows.
    rows = one.standardiser_(single).astype(np.float64)
    features = one.feature_map_.forward(rows)
    indicators = y if learner is KernelRegressor else 2.0 * y - 1
    ridge = Ridge(alpha=60 * alpha, solver="svd").fit(features, indicators)
    bound = solving_error(features, alpha) * np.linalg.norm(ridge.coef_)
    np.testing.assert_allclose(one.coef_[:, 0], ridge.coef_, rtol=0, atol=bound)


@each_learner
def test_float32_pieces_of_a_fit_on_more_features_than_rows(learner):
    X, y = table()
    y = targets(learner, y)
    alpha = LOWEST_IN_FLOAT32 / 100
    model = fixed(learner, alpha=alpha, n_features=64).fit(X[:30].astype(np.float32), y[:30])
    rows = model.standardiser_(X[:30].astype(np.float32)).astype(np.float64)
    gram = model.feature_map_.forward(rows).T @ model.feature_map_.forward(rows)
    # Sums of thirty products below one, in float64.
    np.testing.assert_allclose(model.moments_.gram, gram, rtol=0, atol=30 * 64 * np.finfo(float).eps)


@each_learner
@pytest.mark.parametrize("fitted_sparse", [True, False])
def test_sparse_and_dense_pieces(learner, fitted_sparse):
    X, y = table()
    X, y = np.where(np.abs(X) < 0.6, 0, X + 3), targets(learner, y)
    first = sparse.csr_array(X[:30]) if fitted_sparse else X[:30]
    one, two = (fixed(learner).fit(first, y[:30]) for _ in range(2))
    one.partial_fit(X[30:], y[30:])
    two.partial_fit(sparse.csr_array(X[30:]), y[30:])
    assert_same_coefficients(one, two, X)


# -- classes -------------------------------------------------------------------------------------------------------------


def test_class_weights_count_in_every_piece():
    X, y = table()
    y = targets(KernelClassifier, y, 3)
    by_class = {0: 1.0, 1: 2.0, 2: 0.5}
    weights = np.array([by_class[k] for k in y])
    one = in_pieces(fixed(KernelClassifier, class_weight=by_class), X, y)
    two = in_pieces(fixed(KernelClassifier), X, y, weights)
    assert_same_coefficients(one, two, X)


def test_a_column_of_labels_is_flattened_with_a_warning():
    X, y = table()
    y = targets(KernelClassifier, y)
    one, two = (fixed(KernelClassifier, class_weight="balanced").fit(X[:30], y[:30]) for _ in range(2))
    with pytest.warns(DataConversionWarning):
        one.partial_fit(X[30:], y[30:, None])
    two.partial_fit(X[30:], y[30:])
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_classes_to_come_are_named_in_the_first_call():
    X, y = table()
    y = targets(KernelClassifier, y, 3)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model = fixed(KernelClassifier).partial_fit(X[:40], y[:40], classes=[2, 0, 1])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert not (model.predict(X) == 2).any()
    before = model.decision_function(X[40:])
    model.partial_fit(X[40:], y[40:])
    after = model.decision_function(X[40:])
    assert (after[:, 2] > before[:, 2]).all()
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0, atol=6 * np.finfo(float).eps)


def test_labels_that_the_first_call_did_not_name():
    X, y = table()
    model = classifier().partial_fit(X, targets(KernelClassifier, y))
    with pytest.raises(ValueError, match=r"y has labels .* such as .*5.* partial_fit\(X, y, classes=...\)"):
        model.partial_fit(X, np.full(60, 5))
    with pytest.raises(ValueError, match=r"y has labels that the model does not know"):
        classifier().partial_fit(X, targets(KernelClassifier, y), classes=[0, 7])


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_losses_without_normal_equations_have_none(loss):
    assert not hasattr(classifier(loss=loss), "partial_fit")
    assert hasattr(classifier(), "partial_fit")
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as caught:
        _ = classifier(loss=loss).partial_fit
    assert str(caught.value.__cause__) == f"partial_fit needs loss='squared', and loss is '{loss}'."


# -- refusals ------------------------------------------------------------------------------------------------------------


@each_learner
def test_sums_that_were_not_kept(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, keep_moments=False).fit(X, y)
    assert model.moments_ is None
    np.testing.assert_array_equal(output(model, X), output(small(learner).fit(X, y), X))
    with pytest.raises(ValueError, match="fit with keep_moments=True"):
        model.partial_fit(X, y)


@each_learner
def test_rows_unlike_those_of_the_fit(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner).fit(X, y)
    before = model.coef_.copy()
    for rows, labels, weights, message in (
        (X[:, :2], y, None, "X has 2 features"),
        (X, y[:-1], None, "inconsistent numbers of samples"),
        (X, y, -np.ones(60), "Negative values"),
        (X, y, np.ones(3), "rows and sample_weight has 3"),
        (np.full_like(X, np.inf), y, None, "needs finite numbers"),
        (X, np.full(60, np.nan), None, "NaN"),
        (X, None, None, "requires y"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, labels, sample_weight=weights)
    np.testing.assert_array_equal(model.coef_, before)


def test_targets_in_another_shape():
    X, y = table()
    model = regressor().fit(X, y)
    with pytest.raises(ValueError, match=r"y must have the shape \(n,\) .*, got \(60, 2\)"):
        model.partial_fit(X, np.stack([y, y], axis=1))
    model = regressor().fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match=r"y must have the shape \(n, 2\) .*, got \(60,\)"):
        model.partial_fit(X, y)
