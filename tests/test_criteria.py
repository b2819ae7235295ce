"""HeldOutError: its value against refits by hand, its gradient against differences, the paper's formulas and autograd."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import Ridge

from bochner.criteria import FoldedRidge, HeldOutError
from bochner.engines import forward, passes
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian
from bochner.solvers.penalty_search import HIGHEST_PENALTY, LOWEST_PENALTY, PRECISION
from tests.cases import BUILT_IN, each, numerical_gradient, relative_error, rows, small_map, with_scales

LOG_ALPHA = float(np.log(1e-3))
IDENTITY_INPUT = {
    name: kernel for name, kernel in BUILT_IN.items() if kernel.geometry in ("product", "radial") and kernel.lower == -np.inf
}
"""Kernels that look at the rows as they are, so that a feature is a cosine or sine of s * h . x."""
SCHEMES = ("holdout", "kfold")
ROUNDING = 1e-9
"""Relative rounding error of everything solved here: at most n eps times the condition of the matrices, W / (W alpha) = 1e3
at unit features and a penalty of 1e-3, times a hundred for additive kernels, whose features are not unit vectors; and the
residuals are not much smaller than the targets."""


@pytest.fixture
def fixed_penalty(monkeypatch):
    """Evaluate at the penalty that is given, without a search."""
    monkeypatch.setattr(FoldedRidge, "best", lambda self, start, bounds: self.at(start))


def make_folds(kernel, *, scheme, n=30, m=3, c=2, weighted=True, container=np.asarray, seed=0):
    rng = np.random.default_rng([seed, n, m, c])
    X = rows(kernel, n, m, seed=seed)
    if container is not np.asarray and kernel.lower == -np.inf:
        X[rng.random(X.shape) < 0.4] = 0
    targets = np.stack([np.sin((k + 1) * X[:, 0]) + X[:, -1] + 0.3 * rng.standard_normal(n) for k in range(c)], axis=1)
    weights = rng.gamma(2.0, 0.5, n) if weighted else np.ones(n)
    whole = Rows(container(X), targets, weights)
    cuts = np.array_split(np.arange(n), 3)
    if scheme == "holdout":
        return Folds((whole.take(np.concatenate(cuts[:2])), whole.take(cuts[2])), (1,))
    return Folds(tuple(whole.take(cut) for cut in cuts), (0, 1, 2))


def make_map(kernel, m=3, frequencies=8):
    return small_map(with_scales(kernel, m, shared=False), m, frequencies=frequencies, sampling="auto")


def dense_features(feature_map, X):
    features = forward(feature_map, X)
    return features.toarray() if sparse.issparse(features) else features


def by_hand(folds, feature_map, alpha):
    """Value, and predictions of every validated part, by refits of scikit-learn's Ridge."""
    error = total = 0.0
    predictions = []
    for k in folds.validated:
        train = Rows.stack([part for j, part in enumerate(folds.parts) if j != k])
        held = folds.parts[k]
        model = Ridge(alpha=train.weights.sum() * alpha, solver="svd")
        model.fit(dense_features(feature_map, train.X), train.targets, sample_weight=train.weights)
        predicted = model.predict(dense_features(feature_map, held.X)).reshape(held.n, -1)
        error += float(np.sum(held.weights[:, None] * (predicted - held.targets) ** 2))
        total += float(held.weights.sum()) * held.targets.shape[1]
        predictions.append(predicted)
    return error / total, np.concatenate(predictions)


def value_at(folds, feature_map, theta=None, log_alpha=LOG_ALPHA):
    kernel = feature_map.kernel
    moved = feature_map if theta is None else feature_map.with_kernel(kernel.with_theta(theta))
    return HeldOutError(folds).evaluate(moved, log_alpha, gradient=False).value


def gradient_at(folds, feature_map):
    evaluation = HeldOutError(folds).evaluate(feature_map, LOG_ALPHA)
    return feature_map.kernel.unconstrain(evaluation.gradient.parameters)


# -- value and predictions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", ["more rows", "more features"])
def test_value_is_that_of_refits(scheme, c, weighted, shape, fixed_penalty):
    n, frequencies = (30, 8) if shape == "more rows" else (12, 20)
    folds = make_folds(Gaussian(), scheme=scheme, n=n, c=c, weighted=weighted)
    feature_map = make_map(Gaussian(), frequencies=frequencies)
    criterion = HeldOutError(folds)
    evaluation = criterion.evaluate(feature_map, LOG_ALPHA, gradient=False)
    value, predictions = by_hand(folds, feature_map, 1e-3)
    assert (evaluation.basis is None) == (shape == "more rows")
    assert evaluation.gradient is None
    assert evaluation.value == pytest.approx(value, rel=ROUNDING)
    held_out = criterion.held_out(feature_map, evaluation)
    np.testing.assert_allclose(held_out.predictions, predictions, rtol=0, atol=ROUNDING * np.abs(predictions).max())
    np.testing.assert_array_equal(held_out.rows.targets, np.concatenate([folds.parts[k].targets for k in folds.validated]))


@each(BUILT_IN)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_best_penalty(kernel, scheme):
    """With the penalty searched for: predictions and error are those of refits at the penalty found."""
    folds = make_folds(kernel, scheme=scheme)
    feature_map = make_map(kernel)
    criterion = HeldOutError(folds)
    evaluation = criterion.evaluate(feature_map)
    value, predictions = by_hand(folds, feature_map, float(np.exp(evaluation.log_alpha)))
    # Penalties down to 1e-11 have a condition of 1e11 at worst, and these data want far larger ones.
    assert evaluation.log_alpha > np.log(1e-7)
    assert evaluation.value == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(
        criterion.held_out(feature_map, evaluation).predictions, predictions, rtol=0, atol=1e-5 * np.abs(predictions).max()
    )
    grid = np.linspace(np.log(LOWEST_PENALTY), np.log(HIGHEST_PENALTY), 60)
    assert evaluation.value <= 1.001 * min(by_hand(folds, feature_map, float(np.exp(t)))[0] for t in grid)


# -- gradient ------------------------------------------------------------------------------------------------------------


@each(BUILT_IN)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("shape", ["more rows", "more features"])
def test_gradient_against_differences(kernel, scheme, container, shape, fixed_penalty):
    n, frequencies = (30, 8) if shape == "more rows" else (8, 12)
    folds = make_folds(kernel, scheme=scheme, n=n, container=container)
    feature_map = make_map(kernel, frequencies=frequencies)
    # A fourth-order difference of step h errs by h^4 / 30 of a fifth derivative, which may be the largest angle times the
    # gradient to the fifth: h = 1e-2 / angle makes that 1e-8 / 30 or so. Angles reach 1e3, and rounding 1e-12 / h = 1e-7.
    angle = float(np.max(np.abs(feature_map.frequencies))) * 3 if hasattr(feature_map, "frequencies") else 1.0
    step = 1e-2 / max(1.0, angle)
    difference = numerical_gradient(lambda t: value_at(folds, feature_map, t), feature_map.kernel.theta, step)
    assert relative_error(gradient_at(folds, feature_map), difference) < 1e-5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradient_at_the_best_penalty_is_that_of_the_profile(scheme):
    """The penalty moves with the kernel, and does not matter to first order."""
    folds = make_folds(Gaussian(), scheme=scheme)
    feature_map = make_map(Gaussian())
    evaluation = HeldOutError(folds).evaluate(feature_map)
    found = []

    def profiled(theta):
        moved = feature_map.with_kernel(feature_map.kernel.with_theta(theta))
        log_alphas = np.linspace(evaluation.log_alpha - 0.5, evaluation.log_alpha + 0.5, 21)
        values = [by_hand(folds, moved, float(np.exp(t)))[0] for t in log_alphas]
        curve = np.polynomial.Polynomial.fit(log_alphas, values, 6)
        best = min(
            (r.real for r in curve.deriv().roots() if abs(r.imag) < 1e-9), key=lambda r: abs(r - evaluation.log_alpha)
        )
        found.append((best, curve.deriv(2)(best), np.max(np.abs(curve(log_alphas) - values))))
        return curve(best)

    step = 1e-2
    profiled(feature_map.kernel.theta)
    difference = numerical_gradient(profiled, feature_map.kernel.theta, step)
    best, curvature, _ = found[0]
    moves = [abs(there - best) for there, _, _ in found]
    misfit = max(error for _, _, error in found)
    assert max(abs(there - evaluation.log_alpha) for there, _, _ in found) < 0.5
    off = abs(evaluation.log_alpha - best)
    assert 0.5 * curvature * off**2 <= PRECISION * evaluation.value  # where the search ends
    # The gradient at a penalty that is off by so much differs by off times the mixed derivative, which is the curvature
    # times what the best penalty moves in a unit of theta. Moves are over up to two steps, so that the bound is doubled;
    # the difference has 18/12 of the polynomials' misfit in it, over a step.
    gradient = feature_map.kernel.unconstrain(evaluation.gradient.parameters)
    assert np.max(np.abs(gradient - difference)) <= curvature * off * max(moves) / step + 2 * misfit / step


@each(IDENTITY_INPUT)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradient_against_the_formulas_of_the_paper(kernel, scheme, fixed_penalty):
    """One derivative matrix and one linear system for each parameter."""
    folds = make_folds(kernel, scheme=scheme)
    feature_map = make_map(kernel)
    scales = feature_map.kernel.scales(3)
    total = 2 * sum(folds.parts[k].weights.sum() for k in folds.validated)

    def with_one(X):
        return np.c_[forward(feature_map, X), np.ones(len(X))]

    def derivative(X, i):
        angles = X @ (scales[:, None] * feature_map.points)
        turn = X[:, i : i + 1] * feature_map.points[i] / angles.shape[1] ** 0.5
        return np.c_[-np.sin(angles) * turn, np.cos(angles) * turn, np.zeros(len(X))]

    expected = np.zeros(3)
    for k in folds.validated:
        train = Rows.stack([part for j, part in enumerate(folds.parts) if j != k])
        held, w = folds.parts[k], train.weights[:, None]
        Phi, Phi_held = with_one(train.X), with_one(held.X)
        shift = np.diag([*[train.weights.sum() * 1e-3] * feature_map.n_features, 0.0])
        Q = Phi.T @ (w * Phi) + shift
        beta = np.linalg.solve(Q, Phi.T @ (w * train.targets))
        residual = Phi_held @ beta - held.targets
        for i in range(3):
            D, D_held = derivative(train.X, i), derivative(held.X, i)
            dQ = D.T @ (w * Phi) + Phi.T @ (w * D)
            dbeta = np.linalg.solve(Q, D.T @ (w * train.targets) - dQ @ beta)
            change = D_held @ beta + Phi_held @ dbeta
            expected[i] += 2 / total * np.sum(held.weights[:, None] * residual * change)
    found = HeldOutError(folds).evaluate(feature_map, LOG_ALPHA).gradient.parameters["scale"]
    assert relative_error(found, expected) <= 100 * ROUNDING  # sums of terms of both signs


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradient_against_autograd(scheme, fixed_penalty):
    folds = make_folds(Gaussian(), scheme=scheme)
    feature_map = make_map(Gaussian())
    scales = torch.tensor(np.array(feature_map.kernel.scales(3)), requires_grad=True)
    points = torch.tensor(feature_map.points)
    frequencies = scales[:, None] * points
    frequencies.retain_grad()

    def features(X):
        angles = torch.tensor(X) @ frequencies
        return (
            torch.cat([angles.cos(), angles.sin(), torch.ones(len(X), 1) * points.shape[1] ** 0.5], 1)
            / points.shape[1] ** 0.5
        )

    value = 0.0
    total = 2 * sum(folds.parts[k].weights.sum() for k in folds.validated)
    for k in folds.validated:
        train = Rows.stack([part for j, part in enumerate(folds.parts) if j != k])
        held, w = folds.parts[k], torch.tensor(train.weights)[:, None]
        Phi = features(train.X)
        shift = torch.diag(torch.tensor([*[train.weights.sum() * 1e-3] * feature_map.n_features, 0.0]))
        beta = torch.linalg.solve(Phi.T @ (w * Phi) + shift, Phi.T @ (w * torch.tensor(train.targets)))
        residual = features(held.X) @ beta - torch.tensor(held.targets)
        value = value + (torch.tensor(held.weights)[:, None] * residual**2).sum() / total
    value.backward()
    evaluation = HeldOutError(folds).evaluate(feature_map, LOG_ALPHA)
    assert evaluation.value == pytest.approx(value.item(), rel=ROUNDING)
    assert relative_error(evaluation.gradient.parameters["scale"], scales.grad.numpy()) <= 100 * ROUNDING
    assert relative_error(evaluation.gradient.frequencies, frequencies.grad.numpy()) <= 100 * ROUNDING


# -- invariances ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_block_size_does_not_matter(scheme, fixed_penalty, monkeypatch):
    folds = make_folds(Gaussian(), scheme=scheme, n=1700)
    feature_map = make_map(Gaussian())
    reference = HeldOutError(folds).evaluate(feature_map, LOG_ALPHA)
    monkeypatch.setattr(passes, "TILE_BYTES", 1)
    monkeypatch.setattr(passes, "TILES_A_BLOCK", 1)
    monkeypatch.setattr(passes, "MOMENT_BLOCK_BYTES", 1)
    evaluation = HeldOutError(folds).evaluate(feature_map, LOG_ALPHA)
    assert evaluation.value == pytest.approx(reference.value, rel=100 * ROUNDING)
    assert relative_error(evaluation.gradient.parameters["scale"], reference.gradient.parameters["scale"]) <= 1e4 * ROUNDING


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", ["more rows", "more features"])
def test_row_order_does_not_matter(scheme, shape, fixed_penalty, rng):
    n, frequencies = (30, 8) if shape == "more rows" else (12, 20)
    folds = make_folds(Gaussian(), scheme=scheme, n=n)
    feature_map = make_map(Gaussian(), frequencies=frequencies)
    shuffled = Folds(tuple(part.take(rng.permutation(part.n)) for part in folds.parts), folds.validated)
    one, two = (HeldOutError(f).evaluate(feature_map, LOG_ALPHA) for f in (folds, shuffled))
    assert one.value == pytest.approx(two.value, rel=ROUNDING)
    assert relative_error(one.gradient.parameters["scale"], two.gradient.parameters["scale"]) <= 100 * ROUNDING


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weight_two_is_a_row_twice_in_the_same_part(scheme, fixed_penalty):
    folds = make_folds(Gaussian(), scheme=scheme)
    feature_map = make_map(Gaussian())
    first = folds.parts[0]
    twice = Folds((first.take(np.r_[0, np.arange(first.n)]), *folds.parts[1:]), folds.validated)
    weights = first.weights.copy()
    weights[0] *= 2
    double = Folds((Rows(first.X, first.targets, weights), *folds.parts[1:]), folds.validated)
    one, two = (HeldOutError(f).evaluate(feature_map, LOG_ALPHA) for f in (twice, double))
    assert one.value == pytest.approx(two.value, rel=ROUNDING)
    assert relative_error(one.gradient.parameters["scale"], two.gradient.parameters["scale"]) <= 100 * ROUNDING


@pytest.mark.parametrize("scheme", SCHEMES)
def test_unit_of_the_weights_does_not_matter(scheme, fixed_penalty):
    folds = make_folds(Gaussian(), scheme=scheme)
    feature_map = make_map(Gaussian())
    heavy = Folds(tuple(Rows(p.X, p.targets, 1024 * p.weights) for p in folds.parts), folds.validated)
    one, two = (HeldOutError(f).evaluate(feature_map, LOG_ALPHA) for f in (folds, heavy))
    assert one.value == pytest.approx(two.value, rel=ROUNDING)
    assert relative_error(one.gradient.parameters["scale"], two.gradient.parameters["scale"]) <= 100 * ROUNDING


def test_head_takes_the_first_rows_of_every_part():
    folds = make_folds(Gaussian(), scheme="kfold", n=30)
    head = folds.head(12)
    assert [part.n for part in head.parts] == [4, 4, 4]
    np.testing.assert_array_equal(head.parts[1].X, folds.parts[1].X[:4])
    assert head.validated == folds.validated
    assert [part.n for part in folds.head(1).parts] == [1, 1, 1]
    assert folds.head(1000).n == folds.n == 30


def test_constant_targets_have_no_error():
    folds = make_folds(Gaussian(), scheme="kfold")
    flat = Folds(tuple(Rows(p.X, 0 * p.targets, p.weights) for p in folds.parts), folds.validated)
    evaluation = HeldOutError(flat).evaluate(make_map(Gaussian()))
    assert evaluation.value == 0
    np.testing.assert_array_equal(evaluation.gradient.parameters["scale"], 0)
