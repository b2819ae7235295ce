"""GMKL against a general solver, finite differences, its optimality conditions, and a group lasso on explicit features."""

import numpy as np
import pytest
from scipy import optimize

from bochner.exact import GMKLRegressor
from bochner.exact.kernel_weights import EpsilonInsensitiveLoss, HingeLoss, SquaredLoss, WeightProblem, minimise
from bochner.kernels import Gaussian
from tests.cases import numerical_gradient, relative_error

LOSSES = ("squared", "epsilon-insensitive", "hinge")
each_loss = pytest.mark.parametrize("loss", LOSSES)


def features(n=14, r=3, width=2, seed=0):
    """Features (r, n, width) of kernels, and targets that the first two explain."""
    rng = np.random.default_rng([seed, n, r])
    F = rng.standard_normal((r, n, width))
    y = F[0] @ [1.0, -0.5] + 0.5 * F[1, :, 0] + 0.3 * rng.standard_normal(n)
    return F, y


def gaussian_grams(n=30, r=4, seed=0):
    """Kernel matrices (r, n, n), one for each column of X, and targets."""
    rng = np.random.default_rng([seed, n, r])
    X = rng.standard_normal((n, r))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(n)
    return np.stack([Gaussian()(X[:, [t]]) for t in range(r)]), y


def problem(grams, y, loss, C=1.0):
    costs = C * np.linspace(0.5, 1.5, len(y))
    made = {
        "squared": lambda: SquaredLoss(y, costs),
        "epsilon-insensitive": lambda: EpsilonInsensitiveLoss(y, costs, 0.1),
        "hinge": lambda: HingeLoss(np.where(y > 0, 1.0, -1.0), costs),
    }[loss]()
    return WeightProblem(grams, made, range(len(grams)))


def joint_dual(problem):
    """max L(a) with a feasible, sum(a) = 0 and 1/2 a'K_t a <= 1 for all t, by SLSQP; |a| as p + q with a = p - q."""
    loss, n = problem.loss, len(problem.loss.y)
    two = isinstance(loss, EpsilonInsensitiveLoss)
    sign = np.concatenate([np.eye(n), -np.eye(n)], axis=1) if two else np.eye(n)
    bounds = None
    if two:
        bounds = [(0, c) for c in loss.costs] * 2
    elif isinstance(loss, HingeLoss):
        bounds = [(min(0, y * c), max(0, y * c)) for y, c in zip(loss.y, loss.costs, strict=True)]

    def objective(x):
        a = sign @ x
        if isinstance(loss, SquaredLoss):
            return np.sum(a**2 / (4 * loss.costs)) - loss.y @ a, sign.T @ (a / (2 * loss.costs) - loss.y)
        return loss.epsilon * x.sum() - loss.y @ a if two else -(loss.y @ a), loss.epsilon * two - sign.T @ loss.y

    constraints = [{"type": "eq", "fun": lambda x: (sign @ x).sum(), "jac": lambda x: sign.sum(axis=0)}]
    for K in problem.grams:
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda x, K=K: 1 - 0.5 * (sign @ x) @ K @ (sign @ x),
                "jac": lambda x, K=K: -sign.T @ (K @ (sign @ x)),
            }
        )
    options = {"maxiter": 1000, "ftol": 1e-13}
    start = np.zeros(sign.shape[1])
    found = optimize.minimize(objective, start, jac=True, bounds=bounds, constraints=constraints, options=options)
    assert found.status in (0, 8), found.message  # 8: no descent is left to its line search, as at the minimum
    return -found.fun


@each_loss
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_objective_is_that_of_a_general_solver(loss, C):
    F, y = features()
    task = problem(F @ F.transpose(0, 2, 1), y, loss, C)
    found = minimise(task, tol=1e-6, max_iter=1000)
    reference = joint_dual(task)
    assert found.converged
    # The certificate: the optimum lies between value - violation and value. SLSQP keeps its constraints to about 1e-8.
    slack = 1e-6 * reference
    assert found.value - found.violation - slack <= reference <= found.value + slack
    assert found.violation <= 1e-6 * found.value


@each_loss
def test_gradient_is_that_of_differences(loss):
    grams, y = gaussian_grams()
    task = problem(grams, y, loss)
    d = np.array([0.5, 0.8, 0.3, 0.2])
    gradient = task.at(d, 1e-12).gradient
    # A value is off by 1e-12 at most, a slope by about that over the step. Where a row enters or leaves the support within
    # the step, the second derivative jumps, and the slope is off by a part of the jump times the step.
    assert relative_error(gradient, numerical_gradient(lambda x: task.at(x, 1e-12).value, d, 1e-5)) <= 1e-6


@each_loss
def test_optimality_conditions(loss):
    grams, y = gaussian_grams(n=40, r=5)
    task = problem(grams, y, loss, C=0.3)
    tol = 1e-7
    found = minimise(task, tol=tol, max_iter=1000)
    d = found.coef
    assert found.converged
    assert 0 < (d > 0).sum() < len(d)  # some are in, some are out
    squares = np.array([found.dual @ K @ found.dual for K in grams])
    # T is smooth around its minimum along the weights that are positive, so that a gap of tol leaves a slope of its root.
    root = np.sqrt(tol * found.value)
    np.testing.assert_allclose(0.5 * squares[d > 0], 1.0, rtol=0, atol=10 * root)
    assert np.all(0.5 * squares[d == 0] <= 1 + 10 * root)
    assert abs(found.dual.sum()) <= 1e-9 * np.abs(found.dual).sum()
    costs, slack = task.loss.costs, 1 + 1e-9
    if loss == "hinge":
        assert np.all(found.dual * task.loss.y >= 0)
    if loss != "squared":
        assert np.all(np.abs(found.dual) <= slack * costs)
    else:
        scores = np.tensordot(d, grams, 1) @ found.dual + found.intercept
        np.testing.assert_allclose(found.dual, 2 * costs * (y - scores), rtol=0, atol=1e-9)


@each_loss
def test_primal_and_dual_of_the_machine_meet(loss):
    """At fixed weights, sum C l(y, f) + 1/2 a'K_d a is the dual L(a) - 1/2 a'K_d a: the two scalings are one problem."""
    grams, y = gaussian_grams()
    task = problem(grams, y, loss, C=3.0)
    d = np.array([0.5, 0.8, 0.3, 0.2])
    point = task.at(d, 1e-9)
    K = np.tensordot(d, grams, 1)
    product = K @ point.dual
    primal = task.loss.value(product + point.intercept) + 0.5 * point.dual @ product + d.sum()
    assert -1e-9 * primal <= primal - point.value <= 1e-8 * primal


def group_lasso(F, y, penalty, n_iter=20000):
    """min sum (f - y)^2 + penalty sum |w_t| with a free intercept, by accelerated proximal gradient: w (r, width), b."""
    centred = F - F.mean(axis=1, keepdims=True)
    r, _, width = F.shape
    A, target = np.concatenate(centred, axis=1), y - y.mean()
    length = 2 * np.linalg.norm(A, 2) ** 2
    w = z = np.zeros((r, width))
    t = 1.0
    for _ in range(n_iter):
        step = z - (2 * A.T @ (A @ z.ravel() - target)).reshape(r, width) / length
        norms = np.linalg.norm(step, axis=1, keepdims=True)
        new = np.maximum(1 - penalty / length / np.maximum(norms, 1e-300), 0) * step
        if np.sum((z - new) * (new - w)) > 0:  # momentum that leads upwards is dropped
            t = 1.0
        t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
        z = new + (t - 1) / t_new * (new - w)
        w, t = new, t_new
    return w, float(y.mean() - np.einsum("tm,tm->", F.mean(axis=1), w))


@pytest.mark.parametrize("C", [0.03, 0.1, 1.0, 30.0])
def test_equivalence_with_the_group_lasso(C):
    F, y = features(n=40, r=5)
    F_new = features(n=25, r=5, seed=1)[0]
    model = GMKLRegressor("precomputed", loss="squared", C=C, tol=1e-10, max_iter=2000).fit(F @ F.transpose(0, 2, 1), y)
    assert model.converged_
    w, b = group_lasso(F, y, np.sqrt(2) / C)
    own = np.einsum("t,tnm,n->tm", model.kernel_weights_, F, model.dual_coef_[:, 0])
    np.testing.assert_allclose(own, w, rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.kernel_weights_, np.linalg.norm(w, axis=1) / np.sqrt(2), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(model.kernel_weights_ > 0, np.linalg.norm(w, axis=1) > 0)
    np.testing.assert_allclose(
        model.predict(F_new @ F.transpose(0, 2, 1)), np.einsum("tnm,tm->n", F_new, w) + b, rtol=0, atol=1e-4
    )
    objective = C * np.sum((np.einsum("tnm,tm->n", F, w) + b - y) ** 2) + np.sqrt(2) * np.linalg.norm(w, axis=1).sum()
    assert model.objective_ == pytest.approx(objective, rel=1e-8)


def test_the_largest_cost_without_kernels():
    """At d = 0 the squared loss has a = 2 C (y - mean), so that no kernel enters until C^2 max 2 r'K_t r = 1."""
    grams, y = gaussian_grams()
    residual = y - y.mean()
    edge = 1 / np.sqrt(2 * max(residual @ K @ residual for K in grams))
    below = GMKLRegressor("precomputed", loss="squared", C=0.99 * edge, tol=1e-6).fit(grams, y)
    np.testing.assert_array_equal(below.kernel_weights_, 0)
    np.testing.assert_allclose(below.predict(grams), y.mean(), rtol=1e-6)
    above = GMKLRegressor("precomputed", loss="squared", C=1.05 * edge, tol=1e-6).fit(grams, y)
    assert (above.kernel_weights_ > 0).sum() == 1


@each_loss
def test_order_of_kernels(loss):
    grams, y = gaussian_grams(n=40)
    order = [2, 0, 3, 1]
    found = minimise(problem(grams, y, loss), tol=1e-8, max_iter=2000)
    turned = minimise(problem(grams[order], y, loss), tol=1e-8, max_iter=2000)
    assert abs(found.value - turned.value) <= found.violation + turned.violation
    np.testing.assert_allclose(turned.coef, found.coef[order], rtol=0, atol=1e-3 * found.coef.max())


@each_loss
def test_a_kernel_given_twice_shares_its_weight(loss):
    grams, y = gaussian_grams(n=40)
    single = minimise(problem(grams, y, loss), tol=1e-8, max_iter=2000)
    double = minimise(problem(np.concatenate([grams, grams[:1]]), y, loss), tol=1e-8, max_iter=2000)
    assert abs(single.value - double.value) <= single.violation + double.violation
    assert double.coef[0] + double.coef[-1] == pytest.approx(single.coef[0], abs=1e-3 * single.coef.max())
