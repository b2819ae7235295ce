"""Measures of a report beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    root_mean_squared_error,
)

from bochner.scores import class_scores, measures, scores


class Constant:
    def __init__(self, predicted):
        self.predicted = np.asarray(predicted, float)

    def predict(self, X):
        return self.predicted


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("true", "predicted"),
    [
        ([1.0, 2.0, 4.0], [1.5, 2.0, 3.0]),
        ([2.0, 2.0], [2.0, 2.0]),
        ([2.0, 2.0], [1.0, 2.0]),
        ([[1.0, 2.0], [3.0, 2.0]],) * 2,
    ],
)
def test_shares_of_the_variance_are_those_of_scikit_learn(true, predicted):
    found = dict(scores(Constant(predicted), None, true))
    assert float(next(iter(found.values()))) == pytest.approx(r2_score(true, predicted), abs=1e-4)


class Sure:
    """A classifier with fixed probabilities."""

    def __init__(self, shares, classes):
        self.shares, self.classes_ = shares, np.asarray(classes)

    def predict(self, X):
        return self.classes_[self.shares.argmax(axis=1)]

    def predict_proba(self, X):
        return self.shares


WEIGHT = np.array([0.0, 1.0, 2.0, 3.0, 1.0, 2.0] * 5)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_measures_of_numbers_with_weights_are_those_of_scikit_learn(weight):
    rng = np.random.default_rng(0)
    true, predicted = rng.standard_normal((2, 30))
    found = measures(Constant(predicted), None, true, weight)
    expected = {
        "R2": r2_score(true, predicted, sample_weight=weight),
        "RMSE": root_mean_squared_error(true, predicted, sample_weight=weight),
        "MAE": mean_absolute_error(true, predicted, sample_weight=weight),
    }
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_measures_of_classes_with_weights_are_those_of_scikit_learn(weight):
    rng = np.random.default_rng(1)
    true, shares = rng.choice(["a", "b", "c"], 30), rng.dirichlet([1, 1, 1], 30)
    shares[3] = [1.0, 0.0, 0.0]
    model = Sure(shares, ["a", "b", "c"])
    found = measures(model, None, true, weight)
    predicted = model.predict(None)
    assert found["accuracy"] == pytest.approx(accuracy_score(true, predicted, sample_weight=weight))
    assert found["balanced accuracy"] == pytest.approx(balanced_accuracy_score(true, predicted, sample_weight=weight))
    assert found["log loss"] == pytest.approx(log_loss(true, shares, sample_weight=weight))
    assert found["Brier score"] == pytest.approx(
        np.average(np.sum((shares - (true[:, None] == model.classes_)) ** 2, axis=1), weights=weight)
    )


def test_weights_count_as_repetition():
    rng = np.random.default_rng(2)
    true, shares = rng.choice(["a", "b"], 30), rng.dirichlet([1, 1], 30)
    times = WEIGHT.astype(int)
    model, repeated = Sure(shares, ["a", "b"]), Sure(shares.repeat(times, axis=0), ["a", "b"])
    assert scores(model, None, true, WEIGHT) == scores(repeated, None, true.repeat(times))
    shown, all_rows = class_scores(model, None, true, WEIGHT), class_scores(repeated, None, true.repeat(times))
    assert [row[3:] for row in shown] == [row[3:] for row in all_rows]


def test_a_class_that_the_model_does_not_know_has_no_probability():
    found = measures(Sure(np.array([[1.0, 0.0], [0.5, 0.5]]), ["a", "b"]), None, np.array(["a", "z"]))
    assert found["log loss"] == pytest.approx(-np.log(np.finfo(np.float64).eps) / 2)
    assert found["Brier score"] == pytest.approx((0 + 0.5 + 1) / 2)
