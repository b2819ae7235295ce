"""HeldOutLoss: its value against refits by scikit-learn, its gradient against differences and autograd, invariances."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from bochner import held_out_loss
from bochner.engines import passes, products
from bochner.folds import Folds, Rows
from bochner.held_out_loss import FoldedLoss, HeldOutLoss
from bochner.kernels import Cauchy, Gaussian, Matern, SkewedChi2
from bochner.losses import LOSSES
from bochner.solvers import newton
from bochner.solvers.penalty_search import HIGHEST_PENALTY, LOWEST_PENALTY
from tests.cases import numerical_gradient, relative_error, slope_along
from tests.test_criteria import SCHEMES, dense_features, make_folds, make_map

LOG_ALPHA = float(np.log(1e-3))
CASES = [("logistic", 1), ("logistic", 2), ("multinomial", 3)]
each_case = pytest.mark.parametrize(("name", "c"), CASES, ids=[f"{name}{c}" for name, c in CASES])
each_scheme = pytest.mark.parametrize("scheme", SCHEMES)
KERNELS = {"gaussian": Gaussian(), "cauchy": Cauchy(), "matern32": Matern(nu=1.5), "skewed_chi2": SkewedChi2()}
SOLVED = 1e-7
"""Models are solved for until g' P^-1 g <= 1e-18 f: predictions are off by 1e-9 or so in the mean square, and less after the
last Newton step. Sums over few rows, of terms of both signs, and small slopes divided out make that a hundred times more."""


@pytest.fixture
def fixed_penalty(monkeypatch):
    """Evaluate at the penalty that is given, without a search."""
    monkeypatch.setattr(FoldedLoss, "best", lambda self, start, bounds: self.exactly(start))


def classes(folds, name):
    """The folds with the signs, or the columns of the largest, of their targets instead (which have noise)."""

    def labels(targets):
        if name == "multinomial":
            return np.eye(targets.shape[1])[targets.argmax(axis=1)]
        return np.where(targets > targets.mean(axis=0), 1.0, -1.0)

    return Folds(tuple(Rows(p.X, labels(p.targets), p.weights) for p in folds.parts), folds.validated)


def case(name, c, scheme, kernel=None, **options):
    kernel = Gaussian() if kernel is None else kernel
    return classes(make_folds(kernel, scheme=scheme, c=c, **options), name), make_map(kernel)


def by_hand(folds, feature_map, alpha, name):
    """Value, and scores of every validated part, by refits of scikit-learn's LogisticRegression."""
    total = sum(folds.parts[k].weights.sum() for k in folds.validated)
    value, scores = 0.0, []
    for k in folds.validated:
        train = Rows.stack([part for j, part in enumerate(folds.parts) if j != k])
        scores.append(refit(train, folds.parts[k].X, feature_map, alpha, name))
        value += folds.parts[k].weights @ LOSSES[name].values(scores[-1], folds.parts[k].targets) / total
    return value, np.concatenate(scores)


def refit(train, X, feature_map, alpha, name):
    labels = [train.targets.argmax(axis=1)] if name == "multinomial" else list((train.targets > 0).T)
    scores = []
    for y in labels:
        model = LogisticRegression(
            C=1 / (2 * alpha * train.weights.sum()), solver="newton-cholesky", tol=1e-12, max_iter=1000
        )
        model.fit(dense_features(feature_map, train.X), y, sample_weight=train.weights)
        scores.append(model.decision_function(dense_features(feature_map, X)).reshape(X.shape[0], -1))
    scores = np.concatenate(scores, axis=1)
    return scores - scores.mean(axis=1, keepdims=True) if name == "multinomial" else scores


def folded(folds, feature_map, name):
    criterion = HeldOutLoss(folds, LOSSES[name])
    rows, _ = criterion._by_part(feature_map)
    return FoldedLoss(folds, LOSSES[name], rows, criterion._known)


def bordered(fit):
    """Coefficients with the intercept as their last row."""
    return np.vstack([fit.coef, fit.intercept])


def assert_same(one, two):
    assert one.value == pytest.approx(two.value, rel=SOLVED)
    assert relative_error(one.gradient.parameters["scale"], two.gradient.parameters["scale"]) <= 100 * SOLVED


# -- value and predictions -----------------------------------------------------------------------------------------------


@each_scheme
@each_case
@pytest.mark.parametrize("weighted", [False, True])
def test_value_is_that_of_refits(scheme, name, c, weighted, fixed_penalty):
    folds, feature_map = case(name, c, scheme, weighted=weighted)
    criterion = HeldOutLoss(folds, LOSSES[name])
    evaluation = criterion.evaluate(feature_map, LOG_ALPHA, gradient=False)
    value, scores = by_hand(folds, feature_map, 1e-3, name)
    assert evaluation.gradient is None
    assert evaluation.value == pytest.approx(value, rel=SOLVED)
    held_out = criterion.held_out(feature_map, evaluation)
    np.testing.assert_allclose(held_out.predictions, scores, rtol=0, atol=SOLVED * np.abs(scores).max())
    np.testing.assert_array_equal(held_out.rows.targets, np.concatenate([folds.parts[k].targets for k in folds.validated]))


@each_scheme
@each_case
def test_best_penalty_and_fit_on_all_rows(scheme, name, c):
    folds, feature_map = case(name, c, scheme, n=90)
    criterion = HeldOutLoss(folds, LOSSES[name])
    evaluation = criterion.evaluate(feature_map, gradient=False)
    grid = np.linspace(np.log(1e-6), np.log(HIGHEST_PENALTY), 20)
    assert evaluation.value <= 1.001 * min(by_hand(folds, feature_map, float(np.exp(t)), name)[0] for t in grid)
    fit = criterion.fit(feature_map, evaluation)
    whole = Rows.stack(list(folds.parts))
    scores = refit(whole, whole.X, feature_map, float(np.exp(evaluation.log_alpha)), name)
    found = dense_features(feature_map, whole.X) @ fit.coef + fit.intercept
    assert fit.converged
    np.testing.assert_allclose(found, scores, rtol=0, atol=SOLVED * np.abs(scores).max())


@each_scheme
@each_case
def test_span_of_the_rows(scheme, name, c, fixed_penalty, monkeypatch):
    """Clearly more features than rows: the same in a basis of their span as without, and again from a start."""
    folds, _ = case(name, c, scheme, n=18)
    feature_map = make_map(Gaussian(), frequencies=20)
    criterion = HeldOutLoss(folds, LOSSES[name])
    assert criterion._by_part(feature_map)[1].coordinates.shape == (18, 18)
    reduced = criterion.evaluate(feature_map, LOG_ALPHA)
    assert_same(criterion.evaluate(feature_map, LOG_ALPHA), reduced)
    fit = criterion.fit(feature_map, reduced)
    monkeypatch.setattr(held_out_loss, "few_rows", lambda *_: False)
    assert criterion._by_part(feature_map)[1] is None
    full = HeldOutLoss(folds, LOSSES[name]).evaluate(feature_map, LOG_ALPHA)
    assert_same(reduced, full)
    for k in folds.validated:
        assert relative_error(reduced.models[k][0], full.models[k][0]) <= SOLVED
    assert relative_error(bordered(fit), bordered(criterion.fit(feature_map, full))) <= SOLVED


@each_case
def test_a_given_penalty_is_where_the_search_begins(name, c):
    folds, feature_map = case(name, c, "kfold", n=90)
    far = HeldOutLoss(folds, LOSSES[name]).evaluate(feature_map, gradient=False)
    near = HeldOutLoss(folds, LOSSES[name]).evaluate(feature_map, far.log_alpha + 0.5, gradient=False)
    assert near.value == pytest.approx(far.value, rel=1e-4)  # PenaltySearch stops at a promise of 1e-5, by either way


@each_case
def test_highest_penalty_is_kept(name, c):
    folds, feature_map = case(name, c, "kfold")
    for start in (None, 0.0):
        evaluation = HeldOutLoss(folds, LOSSES[name]).evaluate(
            feature_map, start, gradient=False, bounds=(LOWEST_PENALTY, 1e-5)
        )
        assert np.log(LOWEST_PENALTY) <= evaluation.log_alpha <= np.log(1e-5)


def test_a_penalty_that_stays():
    folds, feature_map = case("logistic", 1, "kfold")
    evaluation = HeldOutLoss(folds, LOSSES["logistic"], penalty=1e-3).evaluate(feature_map, 0.0, gradient=False)
    assert evaluation.log_alpha == LOG_ALPHA
    assert evaluation.value == pytest.approx(by_hand(folds, feature_map, 1e-3, "logistic")[0], rel=SOLVED)


def test_parts_to_fit():
    folds, feature_map = case("logistic", 1, "holdout")
    folds = replace(folds, fitted=(0,))
    criterion = HeldOutLoss(folds, LOSSES["logistic"], penalty=1e-3)
    evaluation = criterion.evaluate(feature_map, gradient=False)
    np.testing.assert_allclose(criterion.fit(feature_map, evaluation).coef, evaluation.models[1][0], rtol=SOLVED)


@each_case
def test_too_few_newton_steps_are_told(name, c, monkeypatch):
    """By the models of the parts, and by that of all rows."""
    folds, feature_map = case(name, c, "kfold")
    criterion = HeldOutLoss(folds, LOSSES[name], penalty=1e-3)
    solved = criterion.evaluate(feature_map, gradient=False)
    assert solved.converged
    monkeypatch.setattr(newton, "MOST_NEWTON_STEPS", 1)
    assert not HeldOutLoss(folds, LOSSES[name], penalty=1e-3).evaluate(feature_map, gradient=False).converged
    assert not criterion.fit(feature_map, solved).converged
    monkeypatch.undo()
    assert criterion.fit(feature_map, solved).converged
    assert not criterion.fit(feature_map, replace(solved, converged=False)).converged


# -- gradient ------------------------------------------------------------------------------------------------------------


@each_scheme
@each_case
@pytest.mark.parametrize("kernel", [pytest.param(kernel, id=name) for name, kernel in KERNELS.items()])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_gradient_is_that_of_differences(scheme, name, c, kernel, container, fixed_penalty):
    """In the logarithms of all parameters: scales, and the offset of the skewed kernel."""
    folds, feature_map = case(name, c, scheme, kernel, container=container)
    criterion = HeldOutLoss(folds, LOSSES[name])
    gradient = feature_map.kernel.unconstrain(criterion.evaluate(feature_map, LOG_ALPHA).gradient.parameters)

    def value(theta):
        moved = feature_map.with_kernel(feature_map.kernel.with_theta(theta))
        return criterion.evaluate(moved, LOG_ALPHA, gradient=False).value

    # A fourth-order difference of step h errs by h^4 / 30 of a fifth derivative, which may be the largest angle times the
    # gradient to the fifth: h = 1e-2 / angle makes that 1e-8 / 30. The models' error of 1e-9, at worst, over h is 1e-6.
    step = 1e-2 / max(1.0, 3 * float(np.max(np.abs(feature_map.frequencies))))
    assert relative_error(gradient, numerical_gradient(value, feature_map.kernel.theta, step)) < 1e-5


@each_scheme
@each_case
@pytest.mark.parametrize("log_alpha", [0.0, LOG_ALPHA, np.log(1e-8)])
def test_slope_in_the_penalty_is_that_of_differences(scheme, name, c, log_alpha):
    folds, feature_map = case(name, c, scheme)
    search = folded(folds, feature_map, name)

    def value(t):
        return search.exactly(float(t)).value

    difference = slope_along(value, log_alpha, 1.0, 1e-2)
    assert search.exactly(log_alpha).slope == pytest.approx(difference, rel=1e-5)
    # Good to 1e-3 of the adjoint where penalties are only compared.
    assert search.at(log_alpha).slope == pytest.approx(difference, rel=2e-2)


@each_case
def test_gradient_where_classes_are_separable(name, c, fixed_penalty):
    """More features than rows and hardly any penalty: coefficients are large, and their gradient is right."""
    folds, _ = case(name, c, "kfold", n=24)
    feature_map = make_map(Gaussian(), frequencies=16)
    criterion = HeldOutLoss(folds, LOSSES[name])
    log_alpha = float(np.log(1e-8))
    evaluation = criterion.evaluate(feature_map, log_alpha)
    gradient = feature_map.kernel.unconstrain(evaluation.gradient.parameters)
    assert max(np.abs(coef).max() for coef, _ in evaluation.models.values()) > 10

    def value(theta):
        moved = feature_map.with_kernel(feature_map.kernel.with_theta(theta))
        return criterion.evaluate(moved, log_alpha, gradient=False).value

    # Margins are tens, so that the value bends tens of times as fast: a step of 1e-3 for the same reasons as above.
    assert relative_error(gradient, numerical_gradient(value, feature_map.kernel.theta, 1e-3)) < 1e-5


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("log_alpha", [LOG_ALPHA, np.log(1e-8)])
def test_gradient_where_a_class_has_no_rows_to_learn_from(name, log_alpha, fixed_penalty):
    folds, feature_map = case(name, 3, "kfold", n=60)
    lone, other = (np.eye(3)[2], np.eye(3)[0]) if name == "multinomial" else ([-1, -1, 1.0], [1.0, -1, -1])

    def rid_of_class(rows, row):
        targets = np.where((rows.targets[:, 2:] == 1), other, rows.targets)
        targets[:row] = lone
        return Rows(rows.X, targets, rows.weights)

    folds = replace(folds, parts=tuple(rid_of_class(part, 2 * (k == 0)) for k, part in enumerate(folds.parts)))
    criterion = HeldOutLoss(folds, LOSSES[name])
    gradient = feature_map.kernel.unconstrain(criterion.evaluate(feature_map, log_alpha).gradient.parameters)

    def value(theta):
        moved = feature_map.with_kernel(feature_map.kernel.with_theta(theta))
        return criterion.evaluate(moved, log_alpha, gradient=False).value

    # At the small penalty margins are tens and the value bends accordingly: the step has to be short (2e-3 is off by 1e-3,
    # and the error falls with its fourth power). The intercept of the class is held by a penalty of 1e-10 alone, and still
    # known to 1e-9 or so, the last Newton step being better than what is promised: over the step, 5e-6.
    assert relative_error(gradient, numerical_gradient(value, feature_map.kernel.theta, 2e-4)) < 1e-5


def torch_loss(name, scores, targets):
    if name == "multinomial":
        return torch.logsumexp(scores, 1) - (scores * targets).sum(1)
    return torch.nn.functional.softplus(-targets * scores).sum(1)


def torch_fit(name, Phi, targets, weights, alpha):
    """The minimiser, by dense Newton steps; the last of them is recorded, with its gradient in Phi."""
    d, c = Phi.shape[1], targets.shape[1]

    def objective(flat, Phi):
        coef = flat.reshape(d, c)
        mean = (weights * torch_loss(name, Phi @ coef, targets)).sum() / weights.sum()
        return mean + alpha * (coef[:-1] ** 2).sum()

    flat = torch.zeros(d * c, dtype=torch.float64)
    fixed = Phi.detach()
    for _ in range(15):
        hessian = torch.autograd.functional.hessian(lambda f: objective(f, fixed), flat)
        inverse = torch.linalg.pinv(hessian, rtol=1e-12, hermitian=True)
        flat = flat - inverse @ torch.func.grad(objective)(flat, fixed)
    return (flat - inverse @ torch.func.grad(objective)(flat, Phi)).reshape(d, c)


@each_scheme
@each_case
def test_gradient_against_autograd(scheme, name, c, fixed_penalty):
    folds, _ = case(name, c, scheme)
    feature_map = make_map(Gaussian(), frequencies=4)
    scales = torch.tensor(np.array(feature_map.kernel.scales(3)), requires_grad=True)
    points = torch.tensor(feature_map.points)
    frequencies = scales[:, None] * points
    frequencies.retain_grad()

    def features(X):
        angles = torch.tensor(X) @ frequencies
        root = points.shape[1] ** 0.5
        return torch.cat([angles.cos() / root, angles.sin() / root, torch.ones(len(X), 1)], 1)

    total = sum(folds.parts[k].weights.sum() for k in folds.validated)
    value = 0.0
    for k in folds.validated:
        train = Rows.stack([part for j, part in enumerate(folds.parts) if j != k])
        held = folds.parts[k]
        coef = torch_fit(name, features(train.X), torch.tensor(train.targets), torch.tensor(train.weights), 1e-3)
        losses = torch_loss(name, features(held.X) @ coef, torch.tensor(held.targets))
        value = value + (torch.tensor(held.weights) * losses).sum() / total
    value.backward()
    evaluation = HeldOutLoss(folds, LOSSES[name]).evaluate(feature_map, LOG_ALPHA)
    assert evaluation.value == pytest.approx(value.item(), rel=SOLVED)
    assert relative_error(evaluation.gradient.parameters["scale"], scales.grad.numpy()) <= 10 * SOLVED
    assert relative_error(evaluation.gradient.frequencies, frequencies.grad.numpy()) <= 10 * SOLVED


# -- invariances ---------------------------------------------------------------------------------------------------------


@each_case
def test_earlier_evaluations_do_not_matter(name, c, fixed_penalty):
    folds, feature_map = case(name, c, "kfold")
    cold = HeldOutLoss(folds, LOSSES[name]).evaluate(feature_map, LOG_ALPHA)
    criterion = HeldOutLoss(folds, LOSSES[name])
    criterion.evaluate(make_map(Gaussian(), frequencies=5), LOG_ALPHA)  # of another number of features
    criterion.evaluate(feature_map.with_kernel(feature_map.kernel.replace(scale=np.full(3, 2.0))), -10.0)
    assert_same(criterion.evaluate(feature_map, LOG_ALPHA), cold)


@each_scheme
@each_case
def test_kept_and_recomputed_features_agree(scheme, name, c, fixed_penalty, monkeypatch):
    folds, feature_map = case(name, c, scheme)
    criterion = HeldOutLoss(folds, LOSSES[name])
    kept = criterion.evaluate(feature_map, LOG_ALPHA)
    monkeypatch.setattr(held_out_loss, "KEPT_BYTES", 0)
    monkeypatch.setattr(held_out_loss, "forward", None)  # what keeps features is not called
    recomputed = HeldOutLoss(folds, LOSSES[name]).evaluate(feature_map, LOG_ALPHA)
    assert_same(recomputed, kept)
    one, two = (bordered(criterion.fit(feature_map, evaluation)) for evaluation in (kept, recomputed))
    assert relative_error(two, one) <= SOLVED


@each_scheme
def test_block_size_does_not_matter(scheme, fixed_penalty, monkeypatch):
    folds, feature_map = case("multinomial", 3, scheme, n=1700)
    reference = HeldOutLoss(folds, LOSSES["multinomial"]).evaluate(feature_map, LOG_ALPHA)
    monkeypatch.setattr(products, "PRODUCT_BLOCK_BYTES", 1)
    monkeypatch.setattr(products, "MOMENT_BLOCK_BYTES", 1)
    monkeypatch.setattr(passes, "TILE_BYTES", 1)
    monkeypatch.setattr(passes, "TILES_A_BLOCK", 1)
    assert_same(HeldOutLoss(folds, LOSSES["multinomial"]).evaluate(feature_map, LOG_ALPHA), reference)


@each_scheme
@each_case
def test_row_order_does_not_matter(scheme, name, c, fixed_penalty, rng):
    folds, feature_map = case(name, c, scheme)
    shuffled = Folds(tuple(part.take(rng.permutation(part.n)) for part in folds.parts), folds.validated)
    one, two = (HeldOutLoss(f, LOSSES[name]).evaluate(feature_map, LOG_ALPHA) for f in (folds, shuffled))
    assert_same(one, two)


@each_scheme
@each_case
def test_weight_two_is_a_row_twice_in_the_same_part(scheme, name, c, fixed_penalty):
    folds, feature_map = case(name, c, scheme)
    first = folds.parts[0]
    twice = Folds((first.take(np.r_[0, np.arange(first.n)]), *folds.parts[1:]), folds.validated)
    weights = first.weights.copy()
    weights[0] *= 2
    double = Folds((Rows(first.X, first.targets, weights), *folds.parts[1:]), folds.validated)
    one, two = (HeldOutLoss(f, LOSSES[name]).evaluate(feature_map, LOG_ALPHA) for f in (twice, double))
    assert_same(one, two)


@each_scheme
@each_case
def test_unit_of_the_weights_does_not_matter(scheme, name, c, fixed_penalty):
    folds, feature_map = case(name, c, scheme)
    heavy = Folds(tuple(Rows(p.X, p.targets, 1024 * p.weights) for p in folds.parts), folds.validated)
    one, two = (HeldOutLoss(f, LOSSES[name]).evaluate(feature_map, LOG_ALPHA) for f in (folds, heavy))
    assert_same(one, two)


def test_rows_in_single_precision(fixed_penalty):
    """Features are rounded to float32, and everything after them is in float64."""
    folds, feature_map = case("multinomial", 3, "kfold")
    single = Folds(tuple(Rows(p.X.astype(np.float32), p.targets, p.weights) for p in folds.parts), folds.validated)
    one, two = (HeldOutLoss(f, LOSSES["multinomial"]).evaluate(feature_map, LOG_ALPHA) for f in (folds, single))
    # Angles of ten or so are off by 1e-6; coefficients of ten over thirty rows, at a penalty of 1e-3, add some to that.
    assert two.value == pytest.approx(one.value, rel=1e-4)
    assert relative_error(two.gradient.parameters["scale"], one.gradient.parameters["scale"]) <= 1e-3
