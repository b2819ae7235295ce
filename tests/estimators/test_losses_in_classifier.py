"""KernelClassifier with logistic losses: scikit-learn's solution on the same features, invariances, calibration."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from bochner import KernelClassifier
from bochner.solvers import newton
from tests.estimators.learners import EPS, classifier, drawn, features_of, fixed, table, targets

LOSSES = ("logistic", "multinomial")
each_loss = pytest.mark.parametrize("loss", LOSSES)
EVERY_LOSS = ("squared", *LOSSES)

# Models end at a gradient of 1e-9, ours, or 1e-10, scikit-learn's, of an objective whose curvature is at least 2 alpha in
# every direction of the coefficients: with alpha = 1e-2 they are within 1e-9 / 2e-2 of the minimum, times sqrt(d c) = 10.
SOLVED = 1e-6


def labelled(n_classes, n=60):
    X, y = table(n)
    rng = np.random.default_rng(1)
    return X, targets(KernelClassifier, y + rng.standard_normal(n), n_classes)


def peer(features, labels, weights=None, alpha=1e-2):
    """scikit-learn's model of the same objective: it sums losses and halves the penalty."""
    total = len(labels) if weights is None else weights.sum()
    model = LogisticRegression(C=1 / (2 * alpha * total), tol=1e-10, max_iter=10_000, solver="newton-cg")
    return model.fit(features, labels, weights)


# -- against scikit-learn ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "n_classes"), [("logistic", 2), ("logistic", 4), ("multinomial", 3), ("multinomial", 4)])
def test_coefficients(loss, n_classes, weighted):
    X, y = labelled(n_classes)
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 60) if weighted else None
    model = fixed(KernelClassifier, loss=loss).fit(X, y, weights)
    features = features_of(model, X)
    if loss == "multinomial":
        scores = peer(features, y, weights).decision_function(features)
    else:
        questions = [1] if n_classes == 2 else range(n_classes)
        scores = np.stack([peer(features, y == k, weights).decision_function(features) for k in questions], axis=1)
    found = model._outputs(X)
    if loss == "multinomial":  # scores of the softmax count up to a number for each row
        found, scores = (s - s.mean(axis=1, keepdims=True) for s in (found, scores))
    np.testing.assert_allclose(found, scores, rtol=0, atol=SOLVED)


def test_held_out_loss_is_that_of_refits():
    X, y = labelled(2)
    place = np.arange(60) % 3
    pairs = [(np.nonzero(place != k)[0], np.nonzero(place == k)[0]) for k in range(3)]
    model = fixed(KernelClassifier, loss="logistic", validation=pairs).fit(X, y)
    features, losses = features_of(model, X), np.empty(60)
    for train, test in pairs:
        scores = peer(features[train], y[train]).decision_function(features[test])
        losses[test] = np.logaddexp(0, -(2 * y[test] - 1) * scores)
    assert model.validation_error_ == pytest.approx(losses.mean(), abs=SOLVED)


# -- invariances ---------------------------------------------------------------------------------------------------------


def test_the_softmax_of_two_classes_is_the_logistic_model_of_half_the_penalty():
    """Its scores are -f/2 and f/2 with coefficients half as large, twice: alpha (|b|^2/4 + |b|^2/4) = alpha/2 |b|^2."""
    X, y = labelled(2)
    soft = fixed(KernelClassifier, loss="multinomial", alpha=2e-2).fit(X, y)
    one = fixed(KernelClassifier, loss="logistic", alpha=1e-2).fit(X, y)
    difference = np.diff(soft._outputs(X), axis=1)
    np.testing.assert_allclose(difference, one._outputs(X), rtol=0, atol=SOLVED)
    assert soft.validation_error_ == pytest.approx(one.validation_error_, abs=SOLVED)
    # The calibration's optimiser ends at a gradient of 1e-5 of its mean loss.
    np.testing.assert_allclose(soft.predict_proba(X), one.predict_proba(X), rtol=0, atol=1e-3)


@each_loss
def test_weight_two_is_a_row_twice(loss):
    X, y = labelled(3)
    X, place, times = np.abs(X), np.arange(60) % 3, 1 + np.arange(60) % 2
    again = np.repeat(np.arange(60), times)

    def fit(rows, weights):
        pairs = [(np.nonzero(place[rows] != k)[0], np.nonzero(place[rows] == k)[0]) for k in range(3)]
        return drawn(KernelClassifier, loss=loss, validation=pairs).fit(X[rows], y[rows], weights)

    one, two = fit(np.arange(60), times.astype(float)), fit(again, None)
    np.testing.assert_allclose(one._outputs(X), two._outputs(X), rtol=0, atol=10 * SOLVED)  # features up to ten long
    assert one.validation_error_ == pytest.approx(two.validation_error_, abs=10 * SOLVED)


@each_loss
def test_class_weight_is_a_weight(loss):
    X, y = labelled(3)
    by_class = {0: 1.0, 1: 2.0, 2: 0.5}
    one = fixed(KernelClassifier, loss=loss, class_weight=by_class).fit(X, y)
    two = fixed(KernelClassifier, loss=loss).fit(X, y, np.array([by_class[k] for k in y]))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@each_loss
def test_the_highest_penalty_leaves_the_shares_of_the_classes(loss):
    X, y = labelled(3)
    model = fixed(KernelClassifier, loss=loss, alpha=1e9).fit(X, y)
    shares = np.bincount(y) / 60
    scores = model._outputs(X)
    # Coefficients are at most slope / (2 alpha): 1e-9, which moves no score by more.
    implied = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    implied = implied if loss == "multinomial" else 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose(implied, np.broadcast_to(shares, implied.shape), rtol=0, atol=SOLVED)


@each_loss
def test_a_learned_kernel_does_better_than_shares(loss):
    X, y = table()
    model = classifier(loss=loss, alpha=1e-2, n_features=16, validation=3).fit(X, targets(KernelClassifier, y))
    assert model.validation_error_ < np.log(2)  # that of equal shares; y is a function of the first column, nearly
    assert model.relevance_.argmax() == 0
    assert model.moments_ is None


# -- probabilities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_agree_with_predictions(loss, n_classes):
    X, y = labelled(n_classes)
    model = fixed(KernelClassifier, loss=loss).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (60, n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0, atol=2 * n_classes * EPS)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    decisions = model.decision_function(X)
    assert decisions.shape == ((60,) if n_classes == 2 else (60, n_classes))
    chosen = (decisions > 0).astype(int) if n_classes == 2 else decisions.argmax(axis=1)
    np.testing.assert_array_equal(model.classes_[chosen], model.predict(X))
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(probabilities))


def calibration_error(chances, outcomes, bins):
    """Mean distance between chance and frequency over equally wide bins of chances, weighted by their rows."""
    bin_of = np.minimum((chances * bins).astype(int), bins - 1)
    return sum(abs(np.sum((chances - outcomes)[bin_of == b])) for b in range(bins)) / len(chances)


@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_probabilities_are_calibrated(loss):
    """Chances from 200 rows, held against 4000 new outcomes, in ten bins.

    True chances would be off by sqrt(p (1 - p) / n_b) <= 1 / (2 sqrt(n_b)) in bin b: at most sqrt(bins / n) / 2 in all, with
    a deviation of at most 1 / (2 sqrt(n)), of which three are granted. A slope and an offset fitted to 200 held-out rows
    move chances by sqrt(2 / 200) / 2 in the mean square, of which two are granted.
    """
    n, new, bins = 200, 4000, 10
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n + new, 2))
    y = (rng.random(n + new) < 1 / (1 + np.exp(-2 * np.sin(2 * X[:, 0]) - X[:, 1]))).astype(int)
    model = classifier(loss=loss, tol=1e-1, alpha=None if loss == "squared" else 1e-2).fit(X[:n], y[:n])
    bound = 0.5 * ((bins / new) ** 0.5 + 3 / new**0.5 + 2 * (2 / n) ** 0.5)
    assert calibration_error(model.predict_proba(X[n:])[:, 1], y[n:], bins) <= bound
    certain = model.predict(X[n:])
    assert calibration_error(certain.astype(float), y[n:], bins) > bound  # what a classifier without doubts would make


# -- limits and refusals -------------------------------------------------------------------------------------------------


@each_loss
def test_a_class_without_weight(loss):
    X, y = labelled(3)
    model = fixed(KernelClassifier, loss=loss).fit(X, y, (y < 2).astype(float))
    probabilities = model.predict_proba(X)
    assert np.isfinite(probabilities).all()
    assert (probabilities[:, 2] < 0.1).all()  # a third of a row of the prior, against twenty in each of the others


@each_loss
@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows(loss, n):
    """Some folds have rows of one class only."""
    X, _ = table()
    model = fixed(KernelClassifier, loss=loss).fit(X[:n], np.arange(n) % 2)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=0, atol=4 * EPS)


@each_loss
def test_too_few_newton_steps_are_told(loss, monkeypatch):
    X, y = labelled(3)
    assert fixed(KernelClassifier, loss=loss).fit(X, y).converged_
    monkeypatch.setattr(newton, "MOST_NEWTON_STEPS", 1)
    model = fixed(KernelClassifier, loss=loss)
    with pytest.warns(ConvergenceWarning, match=f"before the least {loss} loss at alpha=0.01.*Give a larger alpha") as told:
        model.fit(X, y)
    assert told[0].filename == __file__
    assert not model.converged_
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=0, atol=6 * EPS)  # and the model is whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of squared, logistic, multinomial, got 'hinge'"),
        ({"loss": None}, "loss must be one of squared, logistic, multinomial, got None"),
        ({"loss": ["logistic"]}, "loss must be one of squared, logistic, multinomial, got"),
        ({"loss": "logistic", "criterion": "loo"}, "criterion='loo' has a closed form for loss='squared' only"),
        ({"loss": "logistic", "alpha": "per-target"}, "alpha='per-target' needs loss='squared'"),
        ({"loss": "multinomial", "alpha": 0.0}, "alpha must be a positive number"),
    ],
    ids=str,
)
def test_refusals(options, message):
    X, y = labelled(2)
    with pytest.raises(ValueError, match=message):
        classifier(**options).fit(X, y)
