"""Newton's method for a penalised loss: against scikit-learn, dense algebra, and where the classes can be separated."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bochner.losses import LOSSES
from bochner.solvers import newton
from bochner.solvers.newton import PenalisedLoss
from bochner.statistics import Moments

CASES = [("logistic", 1), ("logistic", 3), ("multinomial", 3)]
each_case = pytest.mark.parametrize(("name", "c"), CASES, ids=[f"{name}{c}" for name, c in CASES])


class DensePasses:
    """The passes over features that lie in one array, seven rows at a time."""

    def __init__(self, features):
        self.features = features
        self.bordered = np.c_[features, np.ones(len(features))]

    def there_and_back(self, coef, between, *rows):
        blocks = [slice(i, min(i + 7, len(self.features))) for i in range(0, len(self.features), 7)]
        scores = self.bordered @ coef
        return sum(self.bordered[b].T @ between(scores[b], *(row[b] for row in rows)) for b in blocks), scores

    def moments(self, weights):
        return [Moments.of(self.features, np.empty((len(weights), 0)), column) for column in weights.T]


def make(name, c, *, n=60, d=8, weighted=True, noise=1.0, seed=0):
    rng = np.random.default_rng([seed, n, d, c])
    features = rng.standard_normal((n, d)) / d**0.5
    scores = features @ (5 * rng.standard_normal((d, c))) + noise * rng.standard_normal((n, c))
    targets = np.eye(c)[scores.argmax(axis=1)] if name == "multinomial" else np.where(scores > 0, 1.0, -1.0)
    weights = rng.gamma(2.0, 0.5, n) if weighted else np.ones(n)
    return features, targets, weights


def problem_of(name, features, targets, weights):
    return PenalisedLoss(DensePasses(features), LOSSES[name], targets, weights)


def zeros(features, targets):
    return np.zeros((features.shape[1] + 1, targets.shape[1]))


def reference(name, features, targets, weights, alpha):
    """Coefficients and intercept by scikit-learn: (d + 1, c)."""
    labels = [targets.argmax(axis=1)] if name == "multinomial" else list((targets > 0).T)
    columns = []
    for y in labels:
        model = LogisticRegression(C=1 / (2 * alpha * weights.sum()), solver="newton-cholesky", tol=1e-12, max_iter=1000)
        model.fit(features, y, sample_weight=weights)
        columns.append(np.vstack([model.coef_.T, model.intercept_]))
    return np.concatenate(columns, axis=1)


def hessian(passes, loss, targets, weights, point):
    """The Hessian as a matrix of (d + 1) c rows, column by column of the unknowns."""
    size = point.coef.size
    share = (weights / weights.sum())[:, None]
    matrix = np.empty((size, size))
    for index, unit in enumerate(np.eye(size)):
        direction = unit.reshape(point.coef.shape)
        change = loss.curve(passes.bordered @ point.coef, targets, passes.bordered @ direction)
        product = passes.bordered.T @ (share * change)
        product[:-1] += 2 * point.alpha * direction[:-1]
        product[-1] += 2 * newton.INTERCEPT_PENALTY * direction[-1]
        matrix[:, index] = product.ravel()
    return matrix


@each_case
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 1e-2, 1e-4])
def test_solution_is_that_of_scikit_learn(name, c, weighted, alpha):
    features, targets, weights = make(name, c, weighted=weighted)
    result, _ = problem_of(name, features, targets, weights).solve(alpha, zeros(features, targets))
    expected = reference(name, features, targets, weights, alpha)
    if name == "multinomial":
        expected = expected - expected.mean(axis=1, keepdims=True)
    assert result.converged
    # Both stop at gradients of 1e-9 or less, relative to slopes of 1e-2 or more; the Hessian is at least 2 alpha times one
    # along coefficients of ten or so: 1e-11 / (2e-4 * 10) = 5e-9 of their size.
    assert np.max(np.abs(result.coef - expected)) <= 1e-7 * np.max(np.abs(expected))


@each_case
def test_result(name, c):
    """Value and certificate are what they say: an upper bound on (g' H^-1 g / f)^(1/2)."""
    features, targets, weights = make(name, c)
    problem = problem_of(name, features, targets, weights)
    for tol in (1e-2, 1e-5, newton.TOLERANCE):
        result, point = problem.solve(1e-3, zeros(features, targets), tol=tol)
        scores = features @ result.coef[:-1] + result.coef[-1]
        np.testing.assert_allclose(point.scores, scores, rtol=0, atol=1e-12)
        value = weights @ LOSSES[name].values(scores, targets) / weights.sum() + 1e-3 * np.sum(result.coef[:-1] ** 2)
        assert result.value == pytest.approx(value, rel=1e-8)  # and 1e-10 of the squared intercept
        assert result.converged
        assert result.violation <= tol
        assert 0 < result.n_iter < 20
        slopes = weights[:, None] / weights.sum() * LOSSES[name].slopes(scores, targets)
        gradient = (
            problem.passes.bordered.T @ slopes + 2 * np.r_[np.full(8, 1e-3), newton.INTERCEPT_PENALTY][:, None] * point.coef
        )
        matrix = hessian(problem.passes, LOSSES[name], targets, weights, point)
        inverse = np.linalg.pinv(matrix, rcond=1e-10, hermitian=True)
        distance = (gradient.ravel() @ inverse @ gradient.ravel() / result.value) ** 0.5
        assert distance <= result.violation + 1e-14


@each_case
def test_inverse_of_the_hessian(name, c):
    features, targets, weights = make(name, c)
    problem = problem_of(name, features, targets, weights)
    _, point = problem.solve(1e-3, zeros(features, targets))
    right = np.random.default_rng(1).standard_normal(point.coef.shape)
    if name == "multinomial":
        right -= right.mean(axis=1, keepdims=True)  # as every gradient of a loss of differences
    matrix = hessian(problem.passes, LOSSES[name], targets, weights, point)
    expected = (np.linalg.pinv(matrix, rcond=1e-10, hermitian=True) @ right.ravel()).reshape(right.shape)
    # The residual is 1e-9 in the norm of P^-1; its condition, up to 1e3 here, has its square root in the solution.
    assert np.max(np.abs(problem.solve_hessian(point, right) - expected)) <= 1e-7 * np.max(np.abs(expected))


@each_case
@pytest.mark.parametrize("alpha", [1e-4, 1e-8, 1e-11])
def test_separable_classes(name, c, alpha):
    """More features than rows: the loss has no minimum without the penalty, and a finite one with it."""
    features, targets, weights = make(name, c, n=20, d=40)
    result, point = problem_of(name, features, targets, weights).solve(alpha, zeros(features, targets))
    assert result.converged
    assert np.isfinite(result.coef).all()
    # At the minimum 2 alpha B = -Phi' w R / W. R is known to eps of its size, and its sum to a few eps of 2 alpha B.
    slopes = LOSSES[name].slopes(point.scores, targets) * weights[:, None] / weights.sum()
    balance = 2 * alpha * result.coef[:-1]
    assert np.max(np.abs(balance + features.T @ slopes)) <= 1e-6 * np.max(np.abs(balance))


@each_case
def test_start_does_not_matter(name, c):
    features, targets, weights = make(name, c)
    cold, _ = problem_of(name, features, targets, weights).solve(1e-3, zeros(features, targets))
    for size in (1.0, 1e3):
        start = size * np.random.default_rng(2).standard_normal(cold.coef.shape)
        found, _ = problem_of(name, features, targets, weights).solve(1e-3, start)
        assert found.converged
        assert np.max(np.abs(found.coef - cold.coef)) <= 1e-7 * np.max(np.abs(cold.coef))


@each_case
def test_warm_start_is_quicker(name, c):
    features, targets, weights = make(name, c)
    problem = problem_of(name, features, targets, weights)
    cold, _ = problem.solve(1e-4, zeros(features, targets))
    again, _ = problem.solve(1e-4, cold.coef)
    near, _ = problem.solve(1.1e-4, cold.coef)
    assert again.n_iter <= 1
    assert again.converged
    assert near.n_iter < cold.n_iter


def test_a_start_that_is_optimal_up_to_rounding_has_converged():
    """No step goes down from there in float64, and the certificate is that of the start."""
    features, targets, weights = make("logistic", 1, seed=2)
    problem = problem_of("logistic", features, targets, weights)
    coef = zeros(features, targets)
    for _ in range(50):  # each goes down, by a rounding in the end; how many there are depends on BLAS
        result, _ = problem.solve(1.0, coef)
        coef = result.coef
        assert result.converged
        assert result.violation <= newton.TOLERANCE
        if result.n_iter == 0:
            break
    assert result.n_iter == 0


@pytest.mark.parametrize("name", list(LOSSES))
def test_shared_preconditioner(name, monkeypatch):
    """Where memory is short all columns share one matrix, and the solution is the same."""
    features, targets, weights = make(name, 3)
    one, _ = problem_of(name, features, targets, weights).solve(1e-4, zeros(features, targets))
    monkeypatch.setattr(newton, "MOST_BYTES", 0)
    problem = problem_of(name, features, targets, weights)
    two, _ = problem.solve(1e-4, zeros(features, targets))
    assert len(problem._moments) == 1
    assert two.converged
    assert np.max(np.abs(one.coef - two.coef)) <= 1e-7 * np.max(np.abs(one.coef))


@each_case
def test_one_class_alone(name, c):
    """All rows of one class: a constant score as large as the least of penalties allows, and no coefficients."""
    features, targets, weights = make(name, c)
    targets = np.tile(targets[:1], (len(targets), 1))
    result, _ = problem_of(name, features, targets, weights).solve(1e-3, zeros(features, targets))
    assert result.converged
    assert np.max(np.abs(result.coef[:-1])) < 1e-5
    assert 15 < np.ptp(result.coef[-1]) + np.max(np.abs(result.coef[-1])) < 50
    assert result.value < 1e-6


@each_case
def test_features_without_spread(name, c):
    """Constant features: coefficients are zero, and the intercept gives the mean."""
    features, targets, weights = make(name, c)
    features = np.ones_like(features)
    result, point = problem_of(name, features, targets, weights).solve(1e-3, zeros(features, targets))
    assert result.converged
    # The intercept's penalty of 1e-10 pushes a score of one or so to the coefficients, whose own is 1e7 times as large; an
    # error of 1e-9 in the norm of the Hessian is one of 1e-9 / (2 alpha)^(1/2) = 2e-8 in them.
    np.testing.assert_allclose(result.coef[:-1], 0, atol=1e-7)
    slopes = weights @ LOSSES[name].slopes(point.scores, targets) / weights.sum()
    np.testing.assert_allclose(slopes, 0, atol=1e-8)
