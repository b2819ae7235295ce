"""validation=: sets of the user's own, splitters and lists of row numbers, in both learners."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, ShuffleSplit, StratifiedKFold

from bochner import KernelClassifier, KernelRegressor
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

TRAIN, HELD = np.arange(0, 60, 2), np.arange(1, 60, 2)


def halves(learner):
    """A table whose two halves have targets of equal mean and spread, so that standardising one is standardising both."""
    X, y = table()
    y = np.array(targets(learner, y), dtype=float)
    if learner is KernelClassifier:
        y = np.argsort(np.argsort(X[:, 0] + 0.3 * X[:, 1])) // 2 % 2 * 1.0  # as many of each class on both sides
        return X, y
    y[HELD] = (y[HELD] - y[HELD].mean()) / y[HELD].std() * y[TRAIN].std() + y[TRAIN].mean()
    return X, y


# -- splitters -----------------------------------------------------------------------------------------------------------


@each_learner
@pytest.mark.parametrize(
    "splitter",
    [
        KFold(4),
        KFold(3, shuffle=True, random_state=1),
        PredefinedSplit(np.arange(60) % 4 - 1),
        ShuffleSplit(1, test_size=0.3, random_state=0),
        StratifiedKFold(3),
    ],
    ids=lambda splitter: type(splitter).__name__,
)
def test_a_splitter_is_the_list_of_its_splits(learner, splitter):
    X, y = table()
    y = targets(KernelClassifier, y)
    pairs = list(splitter.split(X, y))
    one, two = (small(learner, validation=v).fit(X, y) for v in (splitter, pairs))
    np.testing.assert_array_equal(output(one, X), output(two, X))
    assert one.validation_error_ == two.validation_error_
    assert clone(one).get_params()["validation"] is not None


@each_learner
def test_groups_go_in_as_a_list(learner):
    X, y = table()
    y = targets(learner, y)
    groups = np.arange(60) // 6
    model = small(learner, validation=list(GroupKFold(5).split(X, y, groups))).fit(X, y)
    assert np.isfinite(model.validation_error_)
    with pytest.raises(ValueError, match=r"'groups' parameter.*list\(splitter.split\(X, y, groups\)\)"):
        small(learner, validation=GroupKFold(5)).fit(X, y)


@pytest.mark.parametrize("validation", [KFold(3), PredefinedSplit(np.arange(60) % 3)], ids=["KFold", "PredefinedSplit"])
def test_the_error_of_a_splitter_is_that_of_its_refits(validation):
    X, y = table()
    model = fixed(KernelRegressor, validation=validation).fit(X, y)
    features, unit = features_of(model, X), y.std()
    square = 0.0
    for train, test in validation.split(X):
        ridge = Ridge(alpha=len(train) * 1e-2).fit(features[train], y[train])
        square += np.sum((ridge.predict(features[test]) - y[test]) ** 2)
    assert model.validation_error_ == pytest.approx(square / 60 / unit**2, rel=solving_error(features, 1e-2))


def test_weight_zero_is_no_row_of_a_split():
    X, y = table()
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 60)
    weights[::4] = 0
    used = np.nonzero(weights)[0]
    place = np.arange(60) % 5
    one = regressor(validation=PredefinedSplit(place)).fit(X, y, weights)
    two = regressor(validation=PredefinedSplit(place[used])).fit(X[used], y[used], weights[used])
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


# -- a set of one's own --------------------------------------------------------------------------------------------------


@each_learner
def test_a_set_is_rows_held_out(learner):
    """With targets of equal mean and spread on both sides, and the same base points: those of two equal halves."""
    X, y = halves(learner)
    options = {"standardize": False, "tol": 1e-4, "alpha": None}
    apart = fixed(learner, validation=(X[HELD], y[HELD]), **options).fit(X[TRAIN], y[TRAIN])
    within = fixed(learner, validation=[(TRAIN, HELD)], **options).fit(X, y)
    np.testing.assert_array_equal(apart.feature_map_.points, within.feature_map_.points)
    # The same criterion but for rounding, so the same steps, each of which may carry a rounding error on: a part of a
    # million leaves room for every step to multiply it by two.
    np.testing.assert_allclose(apart.scale_, within.scale_, rtol=1e-6)
    assert apart.validation_error_ == pytest.approx(within.validation_error_, rel=1e-6)
    assert [r["n_rows"] for r in apart.history_] == [r["n_rows"] for r in within.history_]


def test_the_rows_of_a_set_are_not_fitted_and_those_held_out_are():
    X, y = table()
    apart = fixed(KernelRegressor, validation=(X[HELD], y[HELD])).fit(X[TRAIN], y[TRAIN])
    within = fixed(KernelRegressor, validation=[(TRAIN, HELD)]).fit(X, y)
    for model, fitted in ((apart, TRAIN), (within, np.arange(60))):
        features = features_of(model, X)
        ridge = Ridge(alpha=len(fitted) * 1e-2).fit(features[fitted], y[fitted])
        bound = solving_error(features, 1e-2) * np.linalg.norm(ridge.coef_)
        np.testing.assert_allclose(model.coef_[:, 0], ridge.coef_, rtol=0, atol=bound)


def test_the_error_on_a_set():
    X, y = table()
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 30)
    model = fixed(KernelRegressor, validation=(X[HELD], y[HELD], weights)).fit(X[TRAIN], y[TRAIN])
    residual = model.predict(X[HELD]) - y[HELD]
    expected = weights @ residual**2 / weights.sum()
    bound = solving_error(features_of(model, X), 1e-2)
    assert model.validation_error_ * y[TRAIN].var() == pytest.approx(expected, rel=bound)
    assert model.residual_deviation_[0] == pytest.approx(expected**0.5, rel=bound)


@each_learner
def test_a_set_of_all_rows_follows_every_step(learner):
    """Rows of the set count among the rows of every size: a fit with a set of its own is not learned on fewer rows."""
    X, y = table()
    y = targets(learner, y)
    model = small(learner, validation=(X[HELD], y[HELD])).fit(X[TRAIN], y[TRAIN])
    assert {record["n_rows"] for record in model.history_} == {60}


@each_learner
def test_weight_two_in_a_set_is_a_row_twice(learner):
    X, y = table()
    y = targets(learner, y)
    X, twice = np.abs(X), np.repeat(HELD, 1 + np.arange(30) % 2)
    one = drawn(learner, validation=(X[HELD], y[HELD], 1.0 + np.arange(30) % 2)).fit(X[TRAIN], y[TRAIN])
    two = drawn(learner, validation=(X[twice], y[twice])).fit(X[TRAIN], y[TRAIN])
    bound = solving_error(features_of(one, X), 1e-2)
    assert one.validation_error_ == pytest.approx(two.validation_error_, rel=bound)
    three = drawn(learner, validation=(X[HELD], y[HELD], np.full(30, 3.0))).fit(X[TRAIN], y[TRAIN])
    plain = drawn(learner, validation=(X[HELD], y[HELD])).fit(X[TRAIN], y[TRAIN])
    assert three.validation_error_ == pytest.approx(plain.validation_error_, rel=bound)


@each_learner
def test_rows_of_weight_zero_in_a_set_do_not_count(learner):
    X, y = table()
    y = targets(learner, y)
    weights = np.ones(30)
    weights[::3] = 0
    some = HELD[weights > 0]
    one = small(learner, validation=(X[HELD], y[HELD], weights)).fit(X[TRAIN], y[TRAIN])
    two = small(learner, validation=(X[some], y[some])).fit(X[TRAIN], y[TRAIN])
    np.testing.assert_array_equal(output(one, X), output(two, X))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_class_weights_count_in_a_set_too(loss):
    X, y = table()
    y = targets(KernelClassifier, y, 3)
    by_class = {0: 1.0, 1: 4.0, 2: 0.5}
    weights = np.array([by_class[k] for k in y])
    options = {"loss": loss, "alpha": 1e-2, "tol": 1e-1}
    one = classifier(class_weight=by_class, validation=(X[HELD], y[HELD]), **options).fit(X[TRAIN], y[TRAIN])
    two = classifier(validation=(X[HELD], y[HELD], weights[HELD]), **options).fit(X[TRAIN], y[TRAIN], weights[TRAIN])
    np.testing.assert_array_equal(output(one, X), output(two, X))
    assert one.validation_error_ == two.validation_error_


def test_several_targets_in_a_set():
    X, y = table()
    Y = np.stack([y, X[:, 1]], axis=1)
    model = fixed(KernelRegressor, validation=(X[HELD], Y[HELD])).fit(X[TRAIN], Y[TRAIN])
    errors = np.mean((model.predict(X[HELD]) - Y[HELD]) ** 2, axis=0) / Y[TRAIN].var(axis=0)
    assert model.validation_error_ == pytest.approx(errors.mean(), rel=solving_error(features_of(model, X), 1e-2))


def test_a_frame_as_a_set():
    X, y = table()
    frame = pd.DataFrame(X, columns=["height", "age", "weight"])
    model = fixed(KernelRegressor, validation=(frame.iloc[HELD], y[HELD])).fit(frame.iloc[TRAIN], y[TRAIN])
    same = fixed(KernelRegressor, validation=(X[HELD], y[HELD])).fit(X[TRAIN], y[TRAIN])
    # Sums over a table stored by columns are taken in another order.
    bound = solving_error(features_of(same, X), 1e-2) * np.abs(same.coef_).sum()
    np.testing.assert_allclose(model.predict(frame), same.predict(X), rtol=0, atol=bound)
    with pytest.raises(ValueError, match=r"validation set is not like the rows of fit.*feature names"):
        regressor(validation=(frame[["age", "height", "weight"]], y)).fit(frame, y)


@each_learner
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("make", [fixed, drawn])
@pytest.mark.parametrize("convert", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_a_set_in_another_form_than_the_rows(learner, make, standardize, convert):
    X, y = table()
    X, y = np.where(np.abs(X) < 0.6, 0, np.abs(X)), targets(learner, y)

    def fitted(rows, held):
        return make(learner, standardize=standardize, validation=(held, y[HELD])).fit(rows, y[TRAIN])

    for rows in (X[TRAIN], convert(X[TRAIN])):
        one, two = fitted(rows, X[HELD]), fitted(rows, convert(X[HELD]))
        bound = solving_error(features_of(one, X), 1e-2)
        assert two.validation_error_ == pytest.approx(one.validation_error_, rel=bound)
        np.testing.assert_allclose(output(two, X), output(one, X), rtol=0, atol=bound * (1 + np.abs(one.coef_).sum()))


@each_learner
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_set_takes_the_precision_of_the_rows(learner, dtype):
    X, y = table()
    y = targets(learner, y)
    models = [
        fixed(learner, validation=(X[HELD].astype(held), y[HELD])).fit(X[TRAIN].astype(dtype), y[TRAIN])
        for held in (np.float32, np.float64)
    ]
    assert {record["precision"] for model in models for record in model.history_} == {np.dtype(dtype).name}
    # Rows of the set are rounded to float32 on one side: a condition number of 1e2, and features of length one.
    one, two = (model.validation_error_ for model in models)
    assert one == pytest.approx(two, rel=1e2 * 64 * float(np.finfo(np.float32).eps))


@each_learner
@pytest.mark.parametrize(
    "container",
    [
        lambda X, y: (X.tolist(), y.tolist()),
        lambda X, y: (X.tolist(), y),
        lambda X, y: (list(X), tuple(y)),
        lambda X, y: (tuple(map(tuple, X)), y, np.ones(len(y)).tolist()),
    ],
    ids=["lists", "list and array", "list of arrays", "tuples"],
)
def test_lists_as_a_set(learner, container):
    X, y = table()
    y = targets(learner, y)
    plain = small(learner, validation=(X[HELD], y[HELD])).fit(X[TRAIN], y[TRAIN])
    model = small(learner, validation=container(X[HELD], y[HELD])).fit(X[TRAIN], y[TRAIN])
    np.testing.assert_array_equal(output(model, X), output(plain, X))


@each_learner
@pytest.mark.parametrize("container", [list, np.asarray, lambda rows: rows.tolist()], ids=["list", "array", "numbers"])
def test_a_tuple_of_splits_is_no_set(learner, container):
    X, y = table()
    y = targets(learner, y)
    pairs = [(TRAIN, HELD), (HELD, TRAIN)]
    listed = small(learner, validation=pairs).fit(X, y)
    model = small(learner, validation=tuple((container(a), container(b)) for a, b in pairs)).fit(X, y)
    np.testing.assert_array_equal(output(model, X), output(listed, X))


def test_two_rows_of_whole_numbers_are_a_set():
    X, y = table()
    model = fixed(KernelRegressor, validation=([[1, 2, 3], [4, 5, 6]], [1, 2])).fit(X, y)
    residual = model.predict([[1, 2, 3], [4, 5, 6]]) - [1, 2]
    assert model.validation_error_ * y.var() == pytest.approx(np.mean(residual**2), rel=1e-9)


# -- refusals ------------------------------------------------------------------------------------------------------------


@each_learner
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:, :2], y), "validation set is not like the rows of fit: X has 2 features"),
        (lambda X, y: (X, y[:-1]), "validation set is not like the rows of fit: .*inconsistent numbers of samples"),
        (lambda X, y: (X, None), "validation set is not like the rows of fit: .*requires y"),
        (lambda X, y: (np.full_like(X, np.nan), y), "validation set is not like the rows of fit: .*holds NaN"),
        (lambda X, y: (X, y, np.zeros(60)), "not like the rows of fit: sample_weight is zero for every row"),
        (lambda X, y: (X, y, -np.ones(60)), "validation set is not like the rows of fit: .*Negative values"),
        (lambda X, y: (X, y, np.ones(3)), "not like the rows of fit: X has .* rows and sample_weight has 3"),
        (lambda X, y: (X[:0], y[:0]), "validation set is not like the rows of fit: .*0 sample"),
        (lambda X, y: (X[:, :2].tolist(), y.tolist()), "validation set is not like the rows of fit: X has 2 features"),
        (lambda X, y: ([["a", "b", "c"]], [0]), "validation set is not like the rows of fit: X, column 0 holds text"),
        (
            lambda X, y: [X, y],
            r"a list of 2 \(ndarray of shape \(60, 3\), .*looks like a set of your own: write a tuple \(X, y\)",
        ),
        (lambda X, y: (X,), r"a tuple of 1 \(ndarray of shape \(60, 3\)\), cannot be used: .*a tuple \(X, y\)"),
        (lambda X, y: (X.tolist(),), r"a tuple of 1 \(list of shape \(60, 3\)\), cannot be used: .*a tuple \(X, y\)"),
        (lambda X, y: (X, y, y, y), r"a tuple of 4 .*, \.\.\.\), cannot be used: entry 0 is not a pair"),
        (lambda X, y: (y.tolist(), X.tolist()), "cannot be used: entry 0 is not a pair"),
        (lambda X, y: ([[1.0, 2.0, 3.0], [1.0]], [0, 1]), r"cannot be used: .*a tuple \(X, y\)"),
    ],
    ids=[
        "width",
        "length",
        "no y",
        "nan",
        "zero",
        "negative",
        "weights",
        "empty",
        "width of lists",
        "text",
        "list",
        "no targets",
        "lists without targets",
        "four",
        "exchanged",
        "ragged",
    ],
)
def test_sets_that_cannot_be_used(learner, change, message):
    X, y = table()
    y = targets(learner, y)
    with pytest.raises(ValueError, match=message) as caught:
        small(learner, validation=change(X, y)).fit(X, y)
    assert len(str(caught.value)) < 1000  # the rows themselves are no part of the message


@each_learner
@pytest.mark.parametrize("criterion", ["kfold", "loo"])
def test_a_set_against_another_criterion(learner, criterion):
    X, y = table()
    y = targets(learner, y)
    for held in ((X, y), (X.tolist(), y.tolist())):
        with pytest.raises(ValueError, match=f"criterion='{criterion}' .*: give criterion='auto' or 'holdout'") as caught:
            small(learner, criterion=criterion, validation=held).fit(X, y)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("validation", [3, KFold(3), [(TRAIN, HELD)]], ids=str)
def test_leave_one_out_takes_no_validation(validation):
    X, y = table()
    with pytest.raises(ValueError, match=r"^validation.* is of no use to 'loo', .*: leave it out"):
        regressor(criterion="loo", validation=validation).fit(X, y)


@each_learner
@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([], "there are no splits"),
        ([(TRAIN, HELD), (TRAIN, HELD)], "a row is validated by more than one"),
        ([(TRAIN[1:], HELD)], "the training rows of a split are not all the rows"),
        ([(TRAIN, np.arange(60))], "the training rows of a split are not all the rows"),
        ([([], np.arange(60))], "cannot be used|leaves no rows to train on"),
        ([(TRAIN, [61])], "cannot be used: index 61 is out of bounds"),
        ([(TRAIN, HELD, HELD)], r"cannot be used: entry 0 is not a pair \(training rows, validation rows\)"),
        ([(TRAIN, HELD), 4], "cannot be used: entry 1 is not a pair"),
        ([3, 4], "cannot be used: entry 0 is not a pair"),
        (ShuffleSplit(3, random_state=0), "cannot be used: .*more than one"),
        (KFold(61), "cannot be used: .*61"),
    ],
    ids=str,
)
def test_splits_that_cannot_be_used(learner, splits, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        small(learner, validation=splits).fit(X, targets(learner, y))


def test_a_split_without_a_row_of_positive_weight():
    X, y = table()
    with pytest.raises(ValueError, match="a split without a single validation row of positive weight"):
        regressor(validation=[(np.arange(50), np.arange(50, 60)), (np.arange(10, 60), np.arange(10))]).fit(
            X, y, (np.arange(60) < 50).astype(float)
        )


def test_labels_of_a_set_that_the_rows_do_not_have():
    X, y = table()
    with pytest.raises(ValueError, match=r"validation set is not like the rows of fit: y has labels .* such as .*7"):
        classifier(validation=(X, np.full(60, 7))).fit(X, targets(KernelClassifier, y))


def test_labels_of_a_set_of_another_type():
    X, y = table()
    labels = targets(KernelClassifier, y)
    for one, two in ((labels, labels.astype(str)), (np.where(labels, "yes", "no"), labels)):
        with pytest.raises(ValueError, match=r"rows of fit: y has labels of type .*: give all of them") as caught:
            classifier(validation=(X, two)).fit(X, one)
        assert "partial_fit" not in str(caught.value)
    with pytest.raises(ValueError, match=r"labels that the model does not know, such as 7: .* Leave those rows out\.$"):
        classifier(validation=(X, np.full(60, 7))).fit(X, labels)


def test_targets_of_a_set_in_another_shape():
    X, y = table()
    with pytest.raises(ValueError, match=r"y must have the shape \(n,\) of the y that fit was given, got \(60, 1\)"):
        regressor(validation=(X, y[:, None])).fit(X, y)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_few_rows_and_many_to_validate_on(n):
    """Rows that are only validated on do not count where it is asked whether columns should share a scale."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 6))
    y = X[:, 0] + 0.1 * rng.standard_normal(100)
    model = KernelRegressor("gaussian", n_features=32, validation=(X[n:], y[n:]), random_state=0).fit(X[:n], y[:n])
    assert model.n_scales_ == 6
    assert np.isfinite(model.predict(X)).all()
