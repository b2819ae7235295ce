"""Linear systems with a symmetric positive definite matrix, by preconditioned conjugate gradients, many side by side.

For one system A x = b with preconditioner P, about the inverse of A::

    repeat
        r = b - A x;  z = P r;  p = z                       the true residual
        repeat
            q = A p;  t = r'z / p'q
            x = x + t p;  r = r - t q;  z = P r
            p = z + (r'z / old r'z) p
        until r'z <= tol^2 s, or max_iter steps in all
    until that holds for the true residual, or this is no better than the one before

With P the inverse of A, r'z is the square of the error in the norm of A: how far x'Ax - 2 b'x is above its minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.arrays import Array, fetch64, namespace, place
from bochner.solvers.result import Result

LEAST = 1e-15
"""The objective of a least squares problem counts as at least this part of its value at zero: it is rounding below that."""
BETTER = 0.5
"""Another start from the true residual is made where the last one has brought it to this part of what it was, or less."""


def conjugate_gradient(
    matvec: Callable[[Array], Array],
    right: Array,
    *,
    precondition: Callable[[Array], Array] | None = None,
    shifts: Any = 0.0,
    start: Array | None = None,
    squares: Array | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
) -> Result:
    """Solve (A + shift_j I) x_j = b_j for the columns b_j of ``right`` (d, c), in float64, of NumPy or another library.

    ``matvec`` and ``precondition`` multiply some columns (d, k) by A, and by about the inverse of A + shift I for all the
    shifts, one number or (c,). The violation of a column is sqrt(r'P r / s) with the true residual r. The scale s is b'P b,
    or, where A is the matrix of a least squares problem and ``squares`` (c,) its value at x = 0, the value
    squares - 2 b'x + x'(A + shift I) x that is reached, which may be much smaller: the certificate then says how far the
    value is above its minimum, as the square root of a part of it.

    ``value`` is the sum over columns of x'(A + shift I) x - 2 b'x (+ squares), which every step lowers, ``violation`` the
    largest one, ``n_iter`` the steps. Where rounding, or a matrix that is not positive definite, stops the way down, the
    coefficients are the best that were seen (``start`` among them), and the result says that it has not converged.

    References
    ----------
    Hestenes and Stiefel (1952); Shewchuk (1994), "An introduction to the conjugate gradient method without the agonizing
    pain".
    """
    xp = namespace(right)
    system = _System(matvec, precondition or (lambda some: some), right, _per_column(shifts, right), squares)
    coef = xp.zeros_like(right) if start is None else xp.asarray(start, copy=True)
    residual = xp.asarray(right, copy=True) if start is None else system.residual(coef)
    violation, value = system.violation(coef, residual)
    n_iter = 0
    going = np.flatnonzero(~(fetch64(violation) <= tol))
    while len(going) and n_iter < max_iter:
        some = system.take(going)
        found, used = _descend(some, coef[:, going], residual[:, going], tol, max_iter - n_iter)
        n_iter += used
        new_residual = some.residual(found)
        new_violation, new_value = some.violation(found, new_residual)
        before, after = fetch64(violation)[going], fetch64(new_violation)
        improved = (after < before) | (fetch64(new_value) < fetch64(value)[going])
        here = going[improved]
        coef[:, here], residual[:, here] = found[:, improved], new_residual[:, improved]
        violation[here], value[here] = new_violation[improved], new_value[improved]
        going = going[(after <= BETTER * before) & ~(after <= tol)]
    worst = float(np.max(fetch64(violation), initial=0.0))
    return Result(coef, float(np.sum(fetch64(value))), worst, n_iter, bool(worst <= tol))


@dataclass(frozen=True)
class _System:
    """Systems side by side: their matrix, right sides, shifts (c,) and values at zero (c,)."""

    matvec: Callable[[Array], Array]
    precondition: Callable[[Array], Array]
    right: Array
    shifts: Array
    squares: Array | None

    def take(self, columns: Array) -> _System:
        """Some of them."""
        squares = None if self.squares is None else self.squares[columns]
        return _System(self.matvec, self.precondition, self.right[:, columns], self.shifts[columns], squares)

    def times(self, vectors: Array) -> Array:
        """Each column by its own matrix."""
        return self.matvec(vectors) + self.shifts * vectors

    def residual(self, coef: Array) -> Array:
        return self.right - self.times(coef)

    def value(self, coef: Array, residual: Array) -> Array:
        """x'Ax - 2 b'x (+ squares), as -x'(b + r): (c,)."""
        value = -_dots(coef, self.right + residual)
        return value if self.squares is None else value + self.squares

    def scale(self, value: Array) -> Array:
        """What r'P r is compared with: (c,)."""
        if self.squares is None:
            return _dots(self.right, self.precondition(self.right))
        return _largest(value, LEAST * self.squares)

    def violation(self, coef: Array, residual: Array) -> tuple[Array, Array]:
        """sqrt(r'P r / s), and the value, of each column."""
        value = self.value(coef, residual)
        return _root_ratio(_dots(residual, self.precondition(residual)), self.scale(value)), value


def _descend(system: _System, coef: Array, residual: Array, tol: float, max_iter: int) -> tuple[Array, int]:
    """One run of conjugate gradients: where each column ends by its own account, and how many steps were taken."""
    xp = namespace(coef)
    ends, columns = xp.asarray(coef, copy=True), np.arange(coef.shape[1])
    constant = None if system.squares is not None else system.scale(coef)
    z = system.precondition(residual)
    product, direction = _dots(residual, z), z
    for step in range(1, max_iter + 1):
        ahead = system.times(direction)
        curvature = _dots(direction, ahead)
        sound = (curvature > 0) & xp.isfinite(curvature) & (product > 0)
        length = xp.where(sound, product / xp.where(sound, curvature, 1.0), 0.0)
        coef, residual = coef + length * direction, residual - length * xp.where(sound, ahead, 0.0)
        z = system.precondition(residual)
        old, product = product, _dots(residual, z)
        scale = system.scale(system.value(coef, residual)) if constant is None else constant
        violation = fetch64(xp.where(sound, _root_ratio(product, scale), np.inf))
        ends[:, columns] = coef
        stay = np.flatnonzero(np.isfinite(violation) & (violation > tol))
        if len(stay) == 0 or step == max_iter:
            break
        direction = z + product / xp.where(old > 0, old, 1.0) * direction
        if len(stay) < len(columns):
            columns, system = columns[stay], system.take(stay)
            coef, residual, direction, product = coef[:, stay], residual[:, stay], direction[:, stay], product[stay]
            constant = None if constant is None else constant[stay]
    return ends, step


def _dots(left: Array, right: Array) -> Array:
    """The product of each column with its own: (c,)."""
    return namespace(left).sum(left * right, axis=0)


def _largest(one: Array, other: Array) -> Array:
    return namespace(one).where(one > other, one, other)


def _root_ratio(product: Array, scale: Array) -> Array:
    """sqrt(product / scale); zero where the product is, and infinite where it is negative or there is no scale."""
    xp = namespace(product)
    sound = (product > 0) & (scale > 0)
    ratio = xp.sqrt(xp.where(sound, product, 1.0) / xp.where(sound, scale, 1.0))
    return xp.where(sound, ratio, xp.where(product == 0, 0.0, np.inf))


def _per_column(shifts: Any, right: Array) -> Array:
    """Shifts (c,) where the right sides are."""
    return place(np.broadcast_to(np.asarray(shifts, dtype=np.float64), right.shape[1]), like=right)
