"""What solvers of one problem return; those of many at a time (:mod:`bochner.solvers.group_lasso`) have their own."""

from __future__ import annotations

from dataclasses import dataclass

from bochner.arrays import Array


@dataclass(frozen=True)
class Result:
    """The end of a minimisation.

    ``violation`` is the certificate: how far the optimality condition is from holding, zero at an exact solution.
    """

    coef: Array
    value: float
    violation: float
    n_iter: int
    converged: bool
