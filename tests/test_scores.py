"""Measures of a report beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import r2_score

from bochner.scores import scores


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
