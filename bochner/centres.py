"""Which rows become the centres of a model: at random, spread out, or by how much a kernel needs them.

Four ways, from cheap to dear, for n rows of m columns and M centres:

``random``: uniformly. ``k-means++``: one after the other with a probability in proportion to the squared distance from
those chosen before (Arthur and Vassilvitskii, 2007), in the kernel's metric, O(n M m). ``leverage``: in proportion to
approximate ridge leverage scores, O(n s^2) for a pilot sample of s rows. ``cholesky``: the pivots of a randomly pivoted
partial Cholesky factorisation of the kernel matrix (Chen, Epperly, Tropp and Webber, 2022), O(n M^2) and n M numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import brentq

from bochner.arrays import Array, dense, fetch, fetch64, solve_rows
from bochner.errors import InputError
from bochner.kernels import Kernel

ROWS_A_CENTRE = 50
"""Rows for each centre that are looked at, other than at random: a uniform sample where there are more."""
PILOT_ROWS = 1000
"""Most rows of the pilot sample behind leverage scores."""
LEAST_SHIFT = 1e-8
"""Least shift of a kernel matrix behind leverage scores, in parts of its largest eigenvalue: they are rounding over it."""
TOGETHER = 8
"""Centres that are drawn from the same distances are one in so many of those that there are."""
PROPOSALS = 256
"""Most pivots that are proposed at a time."""
BLOCK_BYTES = 2**23
"""Size of a block of a kernel matrix."""


def choose_centres(
    X: Array, n: int, rng: np.random.Generator, *, method: str = "random", kernel: Kernel | None = None
) -> Array:
    """Numbers of ``n`` rows of X (rows, m), dense, sparse or of another library, all different: (n,), as they were chosen.

    Of rows that are equal no more than one is chosen, so there are fewer where X has fewer distinct rows. ``kernel`` says
    what near means: "leverage" and "cholesky" need one, "k-means++" takes plain distances without.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.centres import choose_centres
    >>> X = np.array([[0.0], [0.0], [1.0], [100.0]])
    >>> sorted(choose_centres(X, 5, np.random.default_rng(0), method="k-means++").tolist())
    [0, 2, 3]
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}.")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"n must be a positive whole number of centres, got {n!r}.")
    if kernel is None and method in ("leverage", "cholesky"):
        raise InputError(f"method={method!r} needs the kernel: give kernel=Gaussian(scale=...), or use 'k-means++'.")
    X = X.tocsr() if sparse.issparse(X) else fetch(X)
    first = distinct_rows(X)
    if method == "random" or len(first) <= n:
        return rng.permutation(first)[:n]
    if len(first) > ROWS_A_CENTRE * n:
        first = rng.permutation(first)[: ROWS_A_CENTRE * n]
    chosen = METHODS[method](X[first], int(n), rng, kernel)
    return first[_filled(chosen, n, len(first), rng)]


def distinct_rows(X: Array) -> Array:
    """The number of the first of each set of equal rows, in order."""
    if sparse.issparse(X):
        X = X.tocsr()
        X.sum_duplicates()
        X.eliminate_zeros()
        ends = X.indptr.tolist()
        keys: dict[tuple[bytes, bytes], int] = {}
        for i, (start, stop) in enumerate(pairwise(ends)):
            keys.setdefault((X.indices[start:stop].tobytes(), X.data[start:stop].tobytes()), i)
        return np.array(list(keys.values()), dtype=np.intp)
    X = np.ascontiguousarray(X + 0.0)  # and no negative zeros
    whole = X.view(np.dtype((np.void, X.shape[1] * X.dtype.itemsize)))[:, 0]
    return np.sort(np.unique(whole, return_index=True)[1])


def _at_random(X: Array, n: int, rng: np.random.Generator, _kernel: Kernel | None) -> Array:
    return rng.permutation(X.shape[0])[:n]


def _spread(X: Array, n: int, rng: np.random.Generator, kernel: Kernel | None) -> Array:
    """k-means++: D^2 sampling, a few at a time once there are many."""
    U = fetch64(dense(X)) if kernel is None else fetch64(kernel.embed(X))
    U = U - U.mean(axis=0)
    norms = np.sum(U * U, axis=1)
    nearest = np.full(len(U), np.inf)
    weights = np.ones(len(U))
    chosen = np.empty(0, dtype=np.intp)
    while len(chosen) < n and np.any(weights > 0):
        size = min(n - len(chosen), max(1, len(chosen) // TOGETHER))
        new = _draw(weights, size, rng)
        chosen = np.concatenate([chosen, new])
        for rows in _row_blocks(len(U), len(new)):
            squares = norms[rows, None] - 2 * (U[rows] @ U[new].T) + norms[new]
            nearest[rows] = np.minimum(nearest[rows], np.min(squares, axis=1))
        nearest[chosen] = 0
        weights = np.where(nearest > 1e-12 * norms.mean(), nearest, 0)  # what is below is rounding
    return chosen


def _by_leverage(X: Array, n: int, rng: np.random.Generator, kernel: Kernel) -> Array:
    """Ridge leverage scores (k(x, x) - k(x, S) (k(S, S) + s a I)^-1 k(S, x)) / (n a), from a uniform sample S of s rows.

    (Rudi, Calandriello, Carratino and Rosasco, 2018.) The penalty a is the one at which the sample has an effective
    dimension of half its size, or else s a is LEAST_SHIFT of the largest eigenvalue of k(S, S).
    """
    size = min(X.shape[0], max(n // 2, 1), PILOT_ROWS)
    pilot = kernel.embed(fetch64(dense(X[rng.choice(X.shape[0], size, replace=False)])))
    K = np.asarray(kernel.between(pilot, pilot))
    values = np.maximum(linalg.eigvalsh(K), 0)

    def excess(log_shift: float) -> float:
        return float(np.sum(values / (values + np.exp(log_shift)))) - size / 2

    top = float(np.log(values[-1]))
    low = top + np.log(LEAST_SHIFT)
    shift = float(np.exp(brentq(excess, low, top + np.log(4 * size)) if excess(low) > 0 else low))
    triangle = linalg.cholesky(K + shift * np.eye(size), lower=True)
    scores = np.empty(X.shape[0])
    for rows in _row_blocks(X.shape[0], size):
        some = kernel.embed(fetch64(dense(X[rows])))
        between = np.asarray(kernel.between(some, pilot))
        explained = np.sum(solve_rows(between, triangle) ** 2, axis=1)
        scores[rows] = np.maximum(_diagonal(kernel, some) - explained, 0) / (shift * X.shape[0] / size)
    return _draw(np.clip(scores, np.finfo(float).tiny, 1), n, rng)


def _pivots(X: Array, n: int, rng: np.random.Generator, kernel: Kernel) -> Array:
    """Pivots of a randomly pivoted Cholesky factorisation: each in proportion to what is left of the diagonal.

    Proposed in blocks and accepted or not so that they come as one by one (Epperly, Tropp and Webber, 2024).
    """
    U = kernel.embed(fetch64(dense(X)))
    left = _diagonal(kernel, U)
    floor = 1e-12 * left.mean()
    F = np.empty((len(left), n))
    chosen: list[int] = []
    while len(chosen) < n and left.max() > floor:
        k = len(chosen)
        proposed = rng.choice(len(left), min(PROPOSALS, max(1, n // 4)), p=left / left.sum())
        H = np.asarray(kernel.between(U[proposed], U[proposed])) - F[proposed, :k] @ F[proposed, :k].T
        kept, triangle = _accepted(H, left[proposed], rng, most=n - k)
        if not kept:
            continue
        new = proposed[kept]
        for rows in _row_blocks(len(left), len(new)):
            columns = np.asarray(kernel.between(U[rows], U[new])) - F[rows, :k] @ F[new, :k].T
            F[rows, k : k + len(new)] = solve_rows(columns, triangle)
        left = np.maximum(left - np.sum(F[:, k : k + len(new)] ** 2, axis=1), 0)
        chosen += new.tolist()
        left[chosen] = 0
    return np.array(chosen, dtype=np.intp)


def _accepted(H: Array, proposed_with: Array, rng: np.random.Generator, *, most: int) -> tuple[list[int], Array]:
    """Which of the proposals are accepted, in order, and the factor (b, b) of what was left of the kernel between them.

    H (p, p) is what is left of it between all of them. One that was proposed with a weight of d and has h left after those
    accepted before it is accepted with probability h / d.
    """
    left = H.copy()
    kept: list[int] = []
    floor = 1e-10 * float(np.max(proposed_with))
    for i in range(len(left)):
        if len(kept) == most:
            break
        if left[i, i] > floor and rng.random() * proposed_with[i] < left[i, i]:
            kept.append(i)
            column = left[:, i] / np.sqrt(left[i, i])
            left -= np.outer(column, column)
    if not kept:
        return kept, np.empty((0, 0))
    return kept, linalg.cholesky(H[np.ix_(kept, kept)], lower=True)


def _diagonal(kernel: Kernel, U: Array) -> Array:
    """k(x, x) of embedded rows, one by one unless all are one."""
    if hasattr(kernel, "profile"):
        return np.ones(len(U))
    return np.array([float(np.asarray(kernel.between(row[None], row[None]))[0, 0]) for row in U])


def _draw(weights: Array, n: int, rng: np.random.Generator) -> Array:
    """n numbers, or as many as have a weight, without repetition, each in proportion to the weights that are left."""
    usable = np.flatnonzero(weights > 0)
    keys = rng.exponential(size=len(usable)) / weights[usable]  # the first of n clocks to ring
    size = min(n, len(usable))
    first = np.argpartition(keys, size - 1)[:size]
    return usable[first[np.argsort(keys[first])]]


def _filled(chosen: Array, n: int, n_rows: int, rng: np.random.Generator) -> Array:
    """The chosen rows, and others at random where a method found that the kernel needs fewer than n."""
    others = np.setdiff1d(np.arange(n_rows), chosen)
    return np.concatenate([chosen, rng.permutation(others)[: n - len(chosen)]]).astype(np.intp)


def _row_blocks(n_rows: int, width: int) -> list[slice]:
    step = max(1, BLOCK_BYTES // (8 * width))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


METHODS: dict[str, Callable[..., Array]] = {
    "random": _at_random,
    "k-means++": _spread,
    "leverage": _by_leverage,
    "cholesky": _pivots,
}
"""The ways to choose, by name."""
