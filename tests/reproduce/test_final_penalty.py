"""The last regression: its penalty is that of the highest held-out accuracy, against regressions written out by hand."""

import numpy as np
import pytest

from bochner import KernelRegressor
from bochner.exact import KernelRidgeGD
from bochner.reproduce.final_penalty import FACTORS, final_regression, held_out_accuracy
from bochner.reproduce.protocol import Training, Views, labels_of

N = 90


@pytest.fixture
def training():
    """Ninety rows of thirty groups: a third shows the first class, a third the second, the others none."""
    rng = np.random.default_rng(0)
    labels = np.arange(N) % 3
    X = rng.standard_normal((N, 4)) + labels[:, None] * [0.8, -0.5, 0.3, 0.0]
    worth = np.stack([labels == 0, labels == 1], axis=1) * 0.9
    targets = (worth - worth.mean(axis=0)) / worth.std(axis=0)
    rows = Views({"one": X}, worth, np.repeat(np.arange(N // 3), 3))
    return Training(rows, targets, rng.uniform(0.5, 2.0, N), 0.2, 0)


def by_hand(gram, across, targets, weights, alpha):
    """Scores of new rows: the stationary point of the weighted mean of squares plus alpha a' K a, with an intercept."""
    n = len(gram)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram + np.diag(weights.sum() * alpha / weights)
    system[:n, n] = system[n, :n] = 1
    solution = np.linalg.solve(system, np.vstack([targets, np.zeros((1, targets.shape[1]))]))
    return across @ solution[:n] + solution[n]


@pytest.mark.parametrize("learner", [KernelRegressor, KernelRidgeGD])
def test_the_penalty_is_that_of_the_highest_accuracy_and_the_sum_of_squares_keeps_it(training, learner):
    X = training.rows.tables["one"]
    parts = training.folds(2)
    options = {"n_features": 60} if learner is KernelRegressor else {"max_iter": 3}
    model = learner("gaussian", validation=parts, standardize=False, random_state=0, **options)
    model.fit(X, training.targets, training.weights)
    if learner is KernelRegressor:
        features = model.feature_map_.forward(X)
        gram = features @ features.T
    else:
        gram = model.kernel_(X)
    found = []
    for factor in FACTORS:
        scores = np.empty((N, 2))
        for fitted, held in parts:
            some = gram[np.ix_(fitted, fitted)], gram[np.ix_(held, fitted)]
            scores[held] = by_hand(*some, training.targets[fitted], training.weights[fitted], model.alpha_ * factor)
        found.append(held_out_accuracy(labels_of(training.rows.worth), scores))
    share = np.mean([training.weights[fitted].sum() for fitted, _ in parts]) / training.weights.sum()
    assert share == pytest.approx(0.5)
    alpha = model.alpha_ * FACTORS[int(np.argmax(found))] * share
    final = final_regression(model, X, training, parts)
    assert final.alpha == pytest.approx(alpha)
    expected = by_hand(gram, gram, training.targets, training.weights, alpha)
    # Penalties of 1e-6 and more, and matrices of norm N: the condition number is below 1e8.
    assert model.alpha_ * FACTORS[0] > 1e-6
    np.testing.assert_allclose(final.scores(X), expected, rtol=0, atol=1e-6)


def test_accuracy_counts_rows_that_show_a_class_and_every_class_alike():
    labels = np.array([0, 0, 0, 0, 1, -1, -1])
    scores = np.eye(3)[[0, 0, 0, 2, 1, 0, 1]]
    assert held_out_accuracy(labels, scores) == pytest.approx((3 / 4 + 1) / 2)
