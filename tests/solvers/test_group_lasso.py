"""Group lasso: against scikit-learn where it solves the same, a plain solver where nobody does, limits and invariances."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import ElasticNet, Lasso, MultiTaskElasticNet, MultiTaskLasso, Ridge

from bochner.losses import Logistic
from bochner.solvers import group_lasso_path
from bochner.solvers.group_lasso import GroupLasso
from bochner.solvers.group_newton import DAMPING, NewtonSystem, OwnInverses
from bochner.solvers.group_path import ElasticGroups, falling_alphas, join_pieces, solve_path, walk_path
from bochner.solvers.groups import GroupPenalty, Groups, block_minimum
from bochner.solvers.least_squares import LeastSquares
from bochner.solvers.normal_equations import CentredMoments
from bochner.solvers.spectra import LowRank
from bochner.statistics import Moments
from tests.naive import group_lasso as naive_group_lasso
from tests.naive import group_lasso_objective

GROUPS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])


def problem(n=80, c=1, groups=GROUPS, seed=0):
    """Columns that go together, targets of the first two groups, and noise."""
    rng = np.random.default_rng([seed, n, c])
    X = rng.standard_normal((n, len(groups))) @ rng.standard_normal((len(groups), len(groups))) / 3
    coef = np.where((groups < 2)[:, None], rng.standard_normal((len(groups), c)), 0.0)
    return X, X @ coef + 0.5 * rng.standard_normal((n, c)) + 3.0


def objectives(path, X, Y, groups, **options):
    """The objective of every solution of a path, in one number each."""
    return np.array(
        [
            group_lasso_objective(X, Y, groups, coef, intercept, alpha=alpha, **options)
            for alpha, coef, intercept in zip(path.alphas, path.coef, path.intercept, strict=True)
        ]
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("n", [8, 80])
def test_objectives_are_those_of_a_plain_solver(n, l1_ratio, shared):
    X, Y = problem(n=n, c=3)
    weights = np.random.default_rng(1).gamma(2.0, 1.0, n)
    group_weights = np.array([1.0, 2.0, 0.5, 1.5])
    options = {"l1_ratio": l1_ratio, "group_weights": group_weights, "shared": shared, "sample_weight": weights}
    path = group_lasso_path(X, Y, GROUPS, n_alphas=4, smallest=0.02, tol=1e-9, **options)
    assert path.converged.all()
    found = objectives(path, X, Y, GROUPS, **options)
    np.testing.assert_allclose(path.value.sum(axis=1), found, rtol=1e-9)  # the value it tells is the objective
    for alpha, value in zip(path.alphas, found, strict=True):
        plain = naive_group_lasso(X, Y, GROUPS, alpha=alpha, **options)
        best = group_lasso_objective(X, Y, GROUPS, *plain, alpha=alpha, **options)
        assert value <= best * (1 + 1e-9)  # ours is as good as asked for, and theirs cannot be better than the minimum
        assert best <= value * (1 + 1e-6)


def test_the_gap_bounds_the_distance_from_the_minimum():
    X, Y = problem(c=2)
    exact = group_lasso_path(X, Y, GROUPS, tol=1e-12)
    rough = group_lasso_path(X, Y, GROUPS, tol=1e-2, alphas=exact.alphas)
    excess = rough.value - exact.value
    assert np.all(excess <= rough.gap + 1e-12 * exact.value)
    assert np.all(rough.gap <= 1e-2 * rough.value)
    assert excess.max() > 1e-6  # so that there was something to bound


@pytest.mark.parametrize("shared", [False, True])
def test_a_path_takes_a_start_for_each_penalty(shared):
    X, Y = problem(c=30)  # so many targets that the penalties are solved in several chunks
    groups, _ = Groups.of(GROUPS, shared=shared)
    centred = CentredMoments(Moments.of(X, Y, np.ones(len(X))))
    posed, penalties = LeastSquares.of(centred, together=shared), ElasticGroups(groups=groups, weights=np.ones(4))
    alphas = falling_alphas(posed, penalties, 7, 0.02)
    path = solve_path(posed, penalties, alphas, tol=1e-10)
    assert path.n_iter > 3
    again = join_pieces(list(walk_path(posed, penalties, alphas, start=path.coef, most_penalties=3, tol=1e-6)))
    np.testing.assert_allclose(again.value, path.value, rtol=1e-9)
    assert again.n_iter == 3  # one round for each chunk, which finds that there is nothing left to do


def test_optimality_conditions():
    X, Y = problem(n=60)
    path = group_lasso_path(X, Y, GROUPS, n_alphas=8, tol=1e-12)
    for alpha, coef, intercept in zip(path.alphas, path.coef, path.intercept, strict=True):
        residuals = X @ coef + intercept - Y
        assert abs(residuals.mean()) < 1e-10
        for t in range(4):
            gradient, w = 2 * X[:, t == GROUPS].T @ residuals[:, 0] / len(X), coef[t == GROUPS, 0]
            if w.any():
                np.testing.assert_allclose(gradient, -alpha * w / np.linalg.norm(w), atol=1e-5 * alpha)
            else:
                assert np.linalg.norm(gradient) <= alpha * (1 + 1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_nothing_is_in_at_the_largest_penalty_and_something_just_below(shared):
    X, Y = problem(c=2)
    largest = group_lasso_path(X, Y, GROUPS, n_alphas=1, shared=shared).alphas[0]
    path = group_lasso_path(X, Y, GROUPS, alphas=[largest * 1.5, largest, largest * 0.99], shared=shared)
    assert not path.coef[:2].any()
    assert path.coef[2].any()
    np.testing.assert_allclose(path.intercept[0], Y.mean(axis=0))


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_groups_of_one_are_the_lasso_of_scikit_learn(l1_ratio):
    X, Y = problem()
    path = group_lasso_path(X, Y, np.arange(10), n_alphas=4, smallest=0.02, l1_ratio=l1_ratio, tol=1e-13)
    for alpha, coef, intercept in zip(path.alphas, path.coef, path.intercept, strict=True):
        group, ridge = alpha * l1_ratio / 2, alpha * (1 - l1_ratio)  # scikit-learn halves the loss and the ridge
        peer = ElasticNet(alpha=group + ridge, l1_ratio=group / (group + ridge), tol=1e-12, max_iter=100_000)
        peer = Lasso(alpha=group, tol=1e-12, max_iter=100_000) if ridge == 0 else peer
        peer.fit(X, Y[:, 0])
        np.testing.assert_allclose(coef[:, 0], peer.coef_, atol=1e-6)
        np.testing.assert_allclose(intercept[0], peer.intercept_, atol=1e-6)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_shared_groups_of_one_are_the_multi_task_lasso_of_scikit_learn(l1_ratio):
    X, Y = problem(c=3)
    path = group_lasso_path(X, Y, np.arange(10), n_alphas=4, smallest=0.02, l1_ratio=l1_ratio, shared=True, tol=1e-13)
    for alpha, coef in zip(path.alphas, path.coef, strict=True):
        group, ridge = alpha * l1_ratio / 2, alpha * (1 - l1_ratio)
        peer = MultiTaskElasticNet(alpha=group + ridge, l1_ratio=group / (group + ridge), tol=1e-12, max_iter=100_000)
        peer = MultiTaskLasso(alpha=group, tol=1e-12, max_iter=100_000) if ridge == 0 else peer
        np.testing.assert_allclose(coef.T, peer.fit(X, Y).coef_, atol=1e-6)


def test_one_group_is_ridge_at_the_matching_penalty():
    X, Y = problem()
    path = group_lasso_path(X, Y, np.zeros(10, dtype=int), n_alphas=5, tol=1e-13)
    for alpha, coef, norm in zip(path.alphas[1:], path.coef[1:], path.norms[1:, 0, 0], strict=True):
        peer = Ridge(alpha=len(X) * alpha / (2 * norm)).fit(X, Y[:, 0])
        np.testing.assert_allclose(coef[:, 0], peer.coef_, atol=1e-6)


def test_without_the_group_penalty_it_is_ridge():
    X, Y = problem(c=2)
    path = group_lasso_path(X, Y, GROUPS, alphas=[1.0, 1e-2], l1_ratio=0.0, tol=1e-13)
    for alpha, coef in zip(path.alphas, path.coef, strict=True):
        np.testing.assert_allclose(coef.T, Ridge(alpha=len(X) * alpha).fit(X, Y).coef_, atol=1e-6)


def test_permuted_columns_permute_the_coefficients():
    X, Y = problem(c=2)
    order = np.random.default_rng(0).permutation(10)
    path = group_lasso_path(X, Y, GROUPS, n_alphas=5, tol=1e-12)
    permuted = group_lasso_path(X[:, order], Y, GROUPS[order], alphas=path.alphas, tol=1e-12)
    np.testing.assert_allclose(permuted.coef, path.coef[:, order], atol=1e-5)
    renamed = group_lasso_path(X, Y, np.array(["d", "b", "a", "c"])[GROUPS], alphas=path.alphas, tol=1e-12)
    np.testing.assert_allclose(renamed.norms, path.norms[:, [2, 1, 3, 0]], atol=1e-5)


def test_a_group_that_comes_twice_shares_its_length():
    X, Y = problem()
    twice = np.hstack([X, X[:, GROUPS == 0]])
    path = group_lasso_path(X, Y, GROUPS, n_alphas=6, tol=1e-11)
    both = group_lasso_path(twice, Y, np.r_[GROUPS, [4] * 3], alphas=path.alphas, tol=1e-11)
    np.testing.assert_allclose(both.value, path.value, rtol=1e-9)
    np.testing.assert_allclose(both.norms[:, 0] + both.norms[:, 4], path.norms[:, 0], atol=1e-4)


def test_sparse_rows_are_dense_rows():
    X, Y = problem()
    X = np.where(np.abs(X) < 0.5, 0.0, X).astype(np.float32)
    paths = [group_lasso_path(rows, Y, GROUPS, n_alphas=3) for rows in (X, sparse.csr_array(X), sparse.coo_matrix(X))]
    for path in paths[1:]:
        np.testing.assert_array_equal(path.coef, paths[0].coef)


def test_weight_two_is_a_row_twice():
    X, Y = problem(n=40)
    twice = np.repeat([1, 2], 20)
    path = group_lasso_path(X, Y, GROUPS, n_alphas=5, sample_weight=twice, tol=1e-12)
    repeated = group_lasso_path(
        np.repeat(X, twice, axis=0), np.repeat(Y, twice, axis=0), GROUPS, alphas=path.alphas, tol=1e-12
    )
    np.testing.assert_allclose(repeated.coef, path.coef, atol=1e-5)


def test_columns_and_targets_without_information():
    X, Y = problem(n=30)
    flat = np.hstack([X, np.ones((30, 2)), X[:, :1], X[:, :1]])
    path = group_lasso_path(flat, Y, np.r_[GROUPS, 4, 4, 5, 5], n_alphas=5)
    assert path.converged.all()
    assert not path.norms[:, 4].any()
    constant = group_lasso_path(X, np.full(30, 2.0), GROUPS, n_alphas=3)
    assert not constant.coef.any()
    np.testing.assert_allclose(constant.intercept, 2.0)


def test_values_of_float32_rows_are_their_objectives():
    """Columns of mean five and many rows: sums in float32 would miss by thousands of gaps."""
    n, groups = 200_000, np.repeat(np.arange(4), 2)
    rng = np.random.default_rng(0)
    X = (5 + rng.standard_normal((n, 8))).astype(np.float32)
    Y = X[:, :1] - X[:, 1:2] + rng.standard_normal((n, 1))
    path = group_lasso_path(X, Y, groups, n_alphas=4, tol=1e-9)
    double = X.astype(np.float64)
    # Sums of n terms, whose squares are 26 times their spread, err by n eps of that at most.
    rounding = 26 * n * np.finfo(np.float64).eps
    np.testing.assert_allclose(path.value[:, 0], objectives(path, double, Y, groups), rtol=rounding)
    best = group_lasso_path(double, Y, groups, alphas=path.alphas, tol=1e-9)
    assert np.all(path.value - best.value <= path.gap + rounding * path.value)


def falling_matrix(n_columns, power):
    """A matrix whose eigenvalues fall like a power of their number."""
    vectors = np.linalg.qr(np.random.default_rng(2).standard_normal((n_columns, n_columns)))[0]
    return vectors @ np.diag(np.arange(1.0, n_columns + 1) ** -power) @ vectors.T


def newton_systems(groups, c, power=2.0):
    """The matrix of three problems of c outputs, and their Newton systems where one of the groups is out."""
    rng = np.random.default_rng(3)
    matrix, shape = falling_matrix(groups.n_columns, power), (groups.n_columns, 3, c)
    coef = rng.standard_normal(shape)
    coef[groups.slices[1], 0] = 0.0
    problem = LeastSquares(matrix, rng.standard_normal(shape), np.ones(3))
    penalty = GroupPenalty(groups, rng.gamma(2.0, 0.1, (len(groups), 3)), np.array([0.0, 0.1, 0.2]))
    return matrix, NewtonSystem.of(problem, problem.at(coef), penalty, lambda used, bends: matrix[np.ix_(used, used)])


def test_the_part_of_low_rank_is_not_above_the_matrix_and_near_the_best():
    matrix, groups = falling_matrix(60, 2.0), Groups((20, 40))
    part = LowRank.of(matrix, groups, 12)
    left = matrix - part.columns @ part.columns.T
    values = np.linalg.eigvalsh(left)
    assert values[0] > -1e-12
    assert values[-1] < 3 / 13**2  # the best of this rank leaves 1 / 13^2
    np.testing.assert_allclose(part.rest, [np.diag(left)[:20].mean(), np.diag(left)[20:].mean()], rtol=1e-9)
    np.testing.assert_allclose(part.grams.sum(axis=0), part.columns.T @ part.columns, atol=1e-12)


def test_the_part_of_low_rank_of_a_matrix_of_lower_rank_is_the_matrix():
    half = np.random.default_rng(0).standard_normal((20, 3))
    for matrix in (half @ half.T, np.zeros((20, 20))):
        part = LowRank.of(matrix, Groups((5, 15)), 10)
        np.testing.assert_allclose(part.columns @ part.columns.T, matrix, rtol=0, atol=2e-8 * np.linalg.norm(matrix))


@pytest.mark.parametrize("c", [1, 2])
def test_own_inverses_of_the_whole_matrix_are_exact(c):
    groups, scale = Groups((4, 3, 5)), np.ones(3)
    matrix, system = newton_systems(groups, c)
    inverses = OwnInverses.of(system, scale, LowRank.of(matrix, groups, 12))
    right = system.masked(np.random.default_rng(4).standard_normal(system.right.shape))
    np.testing.assert_allclose(system.product(inverses(right)), right, atol=1e-4)
    np.testing.assert_allclose(inverses.take(np.array([2, 0]))(right[:, [2, 0]]), inverses(right)[:, [2, 0]], rtol=1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_own_inverses_are_those_of_dense_matrices(shared):
    groups, scale = Groups((4, 3, 5), shared=shared), np.array([1.0, 0.5, 2.0])
    matrix, system = newton_systems(groups, 2)
    part = LowRank.of(matrix, groups, 4)
    found = OwnInverses.of(system, scale, part)(system.right)
    for b, output in np.ndindex(3, 2):
        bends = system.bends[:, b, min(output, system.bends.shape[2] - 1)]
        dense = scale[b] * part.columns @ part.columns.T
        for some, bend, rest in zip(groups.slices, bends, part.rest, strict=True):
            dense[some, some] += (scale[b] * rest + system.ridge[b] + bend) * np.eye(some.stop - some.start)
            if not shared:
                dense[some, some] -= (1 - DAMPING) * bend * np.outer(*[system.units[some, b, output]] * 2)
        keep = groups.spread(bends > 0)
        expected = np.linalg.solve(dense[np.ix_(keep, keep)], system.right[keep, b, output])
        np.testing.assert_allclose(found[keep, b, output], expected, rtol=1e-8)
        assert not found[~keep, b, output].any()


@pytest.mark.parametrize(("smallest", "own"), [(0.1, True), (1e-9, False)])
def test_all_problems_share_an_inverse_once_their_own_do_not_do(smallest, own):
    """Penalties far below the eigenvalues that the part of low rank leaves out."""
    groups, matrix = Groups((20,) * 10), falling_matrix(200, 4.0)
    coef = np.random.default_rng(5).standard_normal(200)
    linear = (matrix @ coef)[:, None, None]
    problem = LeastSquares(matrix, linear, np.array([1.0 + coef @ matrix @ coef]))
    solver, largest = GroupLasso(matrix, groups), groups.norms(linear).max()
    penalty = GroupPenalty(groups, np.full((10, 1), smallest * largest), np.zeros(1))
    assert solver.solve(problem, penalty, problem.zero(), tol=1e-9).converged.all()
    assert solver._preconditioner.own == own


def test_block_minimum_against_a_general_minimiser():
    rng = np.random.default_rng(0)
    L, v = rng.gamma(1.0, 1.0, (4, 6, 1)), rng.standard_normal((4, 6, 2))
    L[0] = 0.0
    length = np.linspace(0.05, 3.0, 6)
    v[0] *= 0.01  # bounded only by the penalty
    found = block_minimum(L, v, length)
    for b in range(6):

        def objective(w, b=b):
            w = w.reshape(4, 2)
            return 0.5 * np.sum(L[:, b] * w**2) - np.sum(v[:, b] * w) + length[b] * np.linalg.norm(w)

        general = minimize(
            objective,
            rng.standard_normal(8),
            method="Nelder-Mead",
            options={"maxiter": 40_000, "maxfev": 40_000, "xatol": 1e-9, "fatol": 1e-12, "adaptive": True},
        )
        assert objective(found[:, b].ravel()) <= general.fun + 1e-12
        assert general.fun <= objective(found[:, b].ravel()) + 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": [0, 1]}, r"group of each of the 10 columns .*, got an array of shape \(2,\)"),
        ({"groups": 3}, "group of each of the 10 columns .*, got 3"),
        ({"groups": None}, "group of each of the 10 columns .*, got None"),
        ({"loss": None}, r"loss must be one of squared, .* or an object of bochner.losses such as .*, got None"),
        ({"loss": Logistic}, "or an object of bochner.losses such as .*, got <class"),
        ({"loss": np.zeros(2)}, "or an object of bochner.losses such as .*, got array"),
        ({"loss": "hinge"}, "loss must be one of squared, .*, got 'hinge'"),
        ({"n_alphas": 0}, "n_alphas must be at least 1, got 0"),
        ({"smallest": 0}, "smallest must be above 0 and at most 1, got 0"),
        ({"smallest": 1.5}, "smallest must be above 0 and at most 1, got 1.5"),
        ({"targets": np.zeros(3)}, "one row for each of the 80 rows"),
        ({"alphas": [1.0, -1.0]}, "alphas must be a list of positive numbers"),
        ({"l1_ratio": 1.5}, "l1_ratio must be from 0 to 1, got 1.5"),
        ({"l1_ratio": 0.0}, "give alphas"),
        ({"group_weights": [1, 1, 0, 1]}, "a positive number for each of the 4 groups"),
        ({"sample_weight": np.zeros(80)}, "not all zero"),
        ({"features": np.full((80, 10), np.nan)}, "features must be finite"),
        ({"tol": 0.0}, "tol must be positive"),
    ],
)
def test_bad_input_is_told(change, message):
    X, Y = problem()
    arguments = {"features": X, "targets": Y, "groups": GROUPS} | change
    with pytest.raises(ValueError, match=message):
        group_lasso_path(**arguments)
