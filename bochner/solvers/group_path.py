"""Group lasso for a row of penalties, from the largest to the smallest, each solution the start of the next ones."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self

import numpy as np

from bochner.arrays import Array, dense
from bochner.errors import InputError
from bochner.losses import LOSSES, REGRESSION_LOSSES, Loss
from bochner.solvers.group_lasso import MOST_ROUNDS, GroupLasso
from bochner.solvers.groups import GroupPenalty, Groups
from bochner.solvers.least_squares import LeastSquares
from bochner.solvers.normal_equations import CentredMoments
from bochner.solvers.problem import Problem
from bochner.solvers.row_loss import ArrayPasses, RowLoss
from bochner.solvers.spectra import Spectra
from bochner.statistics import Moments

SIDE_BY_SIDE, MOST_PENALTIES = 100, 10
"""Columns that are solved at a time, and most penalties among them."""
OF_A_LOSS = ("bound", "shift_free", "values", "slopes", "curve", "curvature", "conjugate")
"""What an object must have to be a loss."""


@dataclass(frozen=True)
class GroupLassoPath:
    """The solutions of L penalties; b is one where groups are shared by all targets, else their number c."""

    alphas: Array
    """Penalties, falling: (L,)."""
    coef: Array
    """Coefficients: (L, D, c)."""
    intercept: Array
    """(L, c)."""
    norms: Array
    """The length of each group's coefficients: (L, r, b)."""
    value: Array
    """Objectives: (L, b)."""
    gap: Array
    """How far each objective is from its minimum at most: (L, b)."""
    converged: Array
    """Whether the gap is as small as asked for: (L, b)."""
    n_iter: int
    """Rounds of the solver."""

    def part(self, some: slice) -> GroupLassoPath:
        """Some of the penalties."""
        arrays = {field.name: getattr(self, field.name)[some] for field in fields(self) if field.name != "n_iter"}
        return GroupLassoPath(**arrays, n_iter=self.n_iter)

    def replaced(self, i: int, one: GroupLassoPath) -> GroupLassoPath:
        """This path with another solution of its i-th penalty, and the rounds of both."""
        pieces = [self.part(slice(0, i)), one, self.part(slice(i + 1, None))]
        joined = join_pieces([piece for piece in pieces if len(piece.alphas)])
        return replace(joined, n_iter=self.n_iter + one.n_iter)


@dataclass(frozen=True, kw_only=True)
class ElasticGroups:
    """alpha (l1_ratio sum_t weight_t |w_t| + (1 - l1_ratio) |w|^2) for every alpha: what a path penalises by."""

    groups: Groups
    weights: Array
    """(r,), positive."""
    l1_ratio: float = 1.0

    def penalty(self, alphas: Array) -> GroupPenalty:
        """The penalties of alphas (B,)."""
        return GroupPenalty(self.groups, self.l1_ratio * self.weights[:, None] * alphas, 2 * (1 - self.l1_ratio) * alphas)

    def largest(self, slopes: Array) -> float:
        """The smallest alpha at which no group is in, from slopes (D, B, c) at zero."""
        with np.errstate(divide="ignore"):
            return float(np.max(self.groups.norms(slopes) / (self.l1_ratio * self.weights[:, None, None])))


class Repeatable(Problem, Protocol):
    """Problems that can be posed again for other penalties."""

    def zero(self) -> Array:
        """Coefficients of zero: (D, B, c)."""

    def repeat(self, times: int) -> Self:
        """The problems over again, for as many penalties."""


def walk_path(
    problem: Repeatable,
    penalties: ElasticGroups,
    alphas: Array,
    *,
    start: Array | None = None,
    spectra: Spectra | None = None,
    most_penalties: int = MOST_PENALTIES,
    tol: float = 1e-6,
    max_iter: int = MOST_ROUNDS,
) -> Iterator[GroupLassoPath]:
    """The path of any problem on features whose groups are consecutive, piece by piece; an eliminated intercept is zero.

    ``start`` are coefficients (D, c) to start from, else zero, or some for each penalty, (L, D, c); ``spectra`` as in
    :class:`GroupLasso`; at most ``most_penalties`` are side by side.
    """
    solver = GroupLasso(problem.matrix, penalties.groups, single=problem.single, spectra=spectra)
    n_columns, width, n_outputs = problem.zero().shape
    own = None if start is None or start.ndim == 2 else start.reshape(len(alphas), n_columns, width, n_outputs)
    start = problem.zero() if start is None or own is not None else start.reshape(n_columns, width, n_outputs)
    chunk = int(np.clip(SIDE_BY_SIDE // (width * n_outputs), 1, most_penalties))
    for first in range(0, len(alphas), chunk):
        some = alphas[first : first + chunk]
        penalty = penalties.penalty(np.repeat(some, width))
        starts = np.concatenate([start] * len(some) if own is None else own[first : first + chunk], axis=1)
        found = solver.solve(problem.repeat(len(some)), penalty, starts, tol=tol, max_iter=max_iter)
        start, each = found.coef[:, -width:], (len(some), width)
        norms = penalties.groups.norms(found.coef).reshape(len(penalties.groups), len(some), -1)
        yield GroupLassoPath(
            alphas=some,
            coef=found.coef.reshape(n_columns, len(some), -1).transpose(1, 0, 2),
            intercept=found.intercept.reshape(len(some), -1),
            norms=norms.transpose(1, 0, 2),
            value=found.value.reshape(each),
            gap=found.gap.reshape(each),
            converged=found.converged.reshape(each),
            n_iter=found.n_iter,
        )


def join_pieces(pieces: Sequence[GroupLassoPath]) -> GroupLassoPath:
    """One path of several pieces."""
    names = [field.name for field in fields(GroupLassoPath) if field.name != "n_iter"]
    arrays = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}
    return GroupLassoPath(**arrays, n_iter=sum(piece.n_iter for piece in pieces))


def solve_path(
    problem: Repeatable, penalties: ElasticGroups, alphas: Array, *, tol: float = 1e-6, max_iter: int = MOST_ROUNDS
) -> GroupLassoPath:
    """The whole of that path."""
    return join_pieces(list(walk_path(problem, penalties, alphas, tol=tol, max_iter=max_iter)))


def with_intercept(path: GroupLassoPath, moments: CentredMoments) -> GroupLassoPath:
    """A path of the squared loss with the intercepts that were eliminated."""
    return replace(path, intercept=moments.target_mean - np.einsum("d,ldc->lc", moments.mean, path.coef))


def falling_alphas(problem: Repeatable, penalties: ElasticGroups, n_alphas: int, smallest: float) -> Array:
    """Penalties (L,) from the smallest at which no group is in down to ``smallest`` of it, evenly on a logarithmic axis."""
    largest = penalties.largest(problem.at(problem.zero()).slopes)
    return (largest if largest > 0 else 1.0) * np.geomspace(1.0, smallest, n_alphas)


def group_lasso_path(
    features: Any,
    targets: Any,
    groups: Any,
    *,
    loss: Any = "squared",
    alphas: Any = None,
    n_alphas: int = 20,
    smallest: float = 3e-3,
    l1_ratio: float = 1.0,
    group_weights: Any = None,
    shared: bool = False,
    sample_weight: Any = None,
    tol: float = 1e-6,
    max_iter: int = MOST_ROUNDS,
) -> GroupLassoPath:
    """Solve (1/n) sum_i loss(x_i w + b, y_i) + alpha (l1_ratio sum_t weight_t |w_t| + (1 - l1_ratio) |w|^2) for many alpha.

    The intercept b is free. Every solution comes with a duality gap: its objective is at most that far from the minimum.

    Parameters
    ----------
    features : array of shape (n, D)
        The rows x_i, computed with in float64; sparse ones are made dense.
    targets : array of shape (n,) or (n, c)
        The targets y_i.
    groups : array of shape (D,)
        The group of each column, as whole numbers or names. Groups are numbered by rising label in all results.
    loss : {"squared", "epsilon-logistic", "logistic", "multinomial"} or an object of bochner.losses, default="squared"
        The squared loss is |x_i w + b - y_i|^2. Targets of "logistic" are -1 or +1, one question a column; those of
        "multinomial" have a one in the column of the row's class.
    alphas : array of shape (L,), optional
        The penalties, which are taken from the largest down; without them, ``n_alphas`` from the smallest at which no group
        is in down to ``smallest`` of it.
    n_alphas : int, default=20
        Number of penalties, without ``alphas``.
    smallest : float, default=3e-3
        The last of them as a part of the first, above 0 and at most 1.
    l1_ratio : float, default=1.0
        The share of the group penalty; the rest is a ridge penalty.
    group_weights : array of shape (r,), optional
        A positive weight for each group; one by default.
    shared : bool, default=False
        Whether a group is in or out for all targets together (then |w_t| is over all of them), or for each by itself.
    sample_weight : array of shape (n,), optional
        Weights of the rows; the mean over rows becomes the weighted one.
    tol : float, default=1e-6
        The largest duality gap, as a part of the objective.
    max_iter : int, default=100
        Most rounds for each batch of penalties.

    Returns
    -------
    GroupLassoPath
        ``alphas``, ``coef``, ``intercept``, ``norms``, ``value``, ``gap``, ``converged``, ``n_iter``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.solvers import group_lasso_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 6))
    >>> path = group_lasso_path(X, X[:, 0] - X[:, 1], [0, 0, 1, 1, 2, 2], n_alphas=3, smallest=0.1)
    >>> np.flatnonzero(path.norms[-1, :, 0]).tolist()
    [0]
    """
    X, Y, labels, weights = _checked(features, targets, groups, sample_weight)
    _check_numbers(n_alphas=n_alphas, smallest=smallest, l1_ratio=l1_ratio, tol=tol, max_iter=max_iter)
    parts, order = Groups.of(labels, shared=shared)
    penalties = ElasticGroups(groups=parts, weights=_checked_weights(group_weights, len(parts)), l1_ratio=float(l1_ratio))
    X = X if np.array_equal(order, np.arange(len(order))) else X[:, order]
    centred = CentredMoments(Moments.of(X, Y, weights))
    problem: Repeatable
    squared = isinstance(loss, str) and loss == "squared"
    if squared:
        problem = LeastSquares.of(centred, together=shared)
    else:
        problem = RowLoss.of(ArrayPasses(X), _checked_loss(loss, Y), Y, weights, centred, together=shared)
    if alphas is None and l1_ratio == 0:
        raise InputError("With l1_ratio=0 every group is in at any penalty: give alphas.")
    falling = falling_alphas(problem, penalties, n_alphas, smallest) if alphas is None else _checked_alphas(alphas)
    path = solve_path(problem, penalties, falling, tol=tol, max_iter=max_iter)
    coef = np.empty_like(path.coef)
    coef[:, order] = path.coef
    if squared:
        path = with_intercept(path, centred)
    return replace(path, coef=coef)


def _checked(features: Any, targets: Any, groups: Any, sample_weight: Any) -> tuple[Array, Array, Array, Array]:
    """Rows (n, D), targets (n, c), labels (D,) and weights (n,) that fit together."""
    X, Y, labels = np.asarray(dense(features), dtype=np.float64), np.asarray(targets, dtype=np.float64), np.asarray(groups)
    Y = Y[:, None] if Y.ndim == 1 else Y
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"features must be an array of rows and columns, got one of shape {X.shape}.")
    if Y.ndim != 2 or len(Y) != len(X):
        raise InputError(
            f"targets must have one row for each of the {len(X)} rows of features, got shape {Y.shape}: reshape them."
        )
    if labels.shape != (X.shape[1],):
        what = reprlib.repr(groups) if labels.ndim == 0 else f"an array of shape {labels.shape}"
        raise InputError(
            f"groups must name the group of each of the {X.shape[1]} columns of features, such as "
            f"{[0, 0, 1, 1][: X.shape[1]]}, got {what}."
        )
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (len(X),) or not np.all(weights >= 0) or not weights.sum() > 0:
        raise InputError(f"sample_weight must be {len(X)} numbers, zero or more and not all zero.")
    for name, values in (("features", X), ("targets", Y), ("sample_weight", weights)):
        if not np.isfinite(values).all():
            raise InputError(f"{name} must be finite numbers, and some are NaN or infinite.")
    return X, Y, labels, weights


def _checked_weights(group_weights: Any, n_groups: int) -> Array:
    weights = np.ones(n_groups) if group_weights is None else np.asarray(group_weights, dtype=np.float64)
    if weights.shape != (n_groups,) or not (np.isfinite(weights).all() and np.all(weights > 0)):
        raise InputError(
            f"group_weights must be a positive number for each of the {n_groups} groups, got {group_weights!r}."
        )
    return weights


def _checked_alphas(alphas: Any) -> Array:
    values = np.asarray(alphas, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not (np.isfinite(values).all() and np.all(values > 0)):
        raise InputError(f"alphas must be a list of positive numbers, got {alphas!r}.")
    return np.sort(values)[::-1]


def _checked_loss(loss: Any, Y: Array) -> Loss:
    """The loss of a name, or the loss itself, and targets that it can take."""
    known = {**REGRESSION_LOSSES, **LOSSES}
    if not isinstance(loss, str) and not isinstance(loss, type) and all(hasattr(loss, name) for name in OF_A_LOSS):
        return loss
    if not isinstance(loss, str) or loss not in known:
        raise InputError(
            f"loss must be one of {', '.join(known)}, or an object of bochner.losses such as EpsilonLogistic(epsilon=0.1), "
            f"got {loss!r}."
        )
    if loss == "logistic" and not np.all(np.abs(Y) == 1):
        raise InputError("Targets of the logistic loss must be -1 or +1: write numpy.where(y == label, 1.0, -1.0).")
    if loss == "multinomial" and not (np.all((Y == 0) | (Y == 1)) and np.all(Y.sum(axis=1) == 1)):
        raise InputError(
            "Targets of the multinomial loss must have a one in the column of each row's class and zeros elsewhere: write "
            "(y[:, None] == labels).astype(float)."
        )
    return known[loss]


def _check_numbers(*, n_alphas: int, smallest: float, l1_ratio: float, tol: float, max_iter: int) -> None:
    for name, value, sound, limits in (
        ("n_alphas", n_alphas, n_alphas >= 1, "at least 1"),
        ("smallest", smallest, 0 < smallest <= 1, "above 0 and at most 1"),
        ("l1_ratio", l1_ratio, 0 <= l1_ratio <= 1, "from 0 to 1"),
        ("tol", tol, tol > 0, "positive"),
        ("max_iter", max_iter, max_iter >= 1, "at least 1"),
    ):
        if not sound:
            raise InputError(f"{name} must be {limits}, got {value!r}.")
