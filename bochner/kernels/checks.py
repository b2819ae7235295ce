"""What a kernel is given, checked: positive parameters, and rows as a floating-point matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Array, dense, is_foreign, namespace
from bochner.errors import InputError


def positive(value: Any, name: str) -> float | Array:
    """A positive number, or a read-only vector of them; anything else is a ValueError that names it."""
    try:
        if np.iscomplexobj(value):
            raise TypeError
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a positive number or a list of them, got {value!r}.") from None
    if array.ndim > 1 or array.size == 0:
        raise InputError(f"{name} must be one number or one per column, got an array of shape {array.shape}.")
    wrong = ~((array > 0) & np.isfinite(array))
    if wrong.any():
        where = f"entry {int(np.flatnonzero(wrong)[0])} is " if array.ndim else ""
        raise InputError(
            f"{name} must be positive and finite, got {where}{np.atleast_1d(array)[np.atleast_1d(wrong)][0]:g}."
        )
    if array.ndim == 0:
        return float(array)
    array.flags.writeable = False
    return array


def refuse_large(name: str, argument: str, largest: float, dtype: Any) -> None:
    """An error where values of an additive kernel, which grow with the rows, have squares that overflow."""
    most = 1e15 if dtype == np.float32 else 1e120
    if largest > most:
        raise InputError(
            f"{argument} holds numbers as large as {largest:.3g}, and the values of {name} grow with them until sums "
            f"overflow beyond {most:g}: divide the columns by a constant, or give histograms that sum to one."
        )


def matrix(X: Array, name: str) -> Array:
    """Rows as a dense floating-point matrix of their own namespace."""
    if is_foreign(X):
        xp = namespace(X)
        complex_numbers = xp.isdtype(X.dtype, "complex floating")
    else:
        X = np.asarray(dense(X))
        complex_numbers = X.dtype.kind == "c"
    if complex_numbers:
        raise InputError(f"{name} must hold real numbers, got {X.dtype}: give real and imaginary parts as columns.")
    if is_foreign(X):
        X = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
    else:
        if not np.issubdtype(X.dtype, np.floating) or X.dtype == np.float16:
            try:
                X = X.astype(np.float64)
            except (TypeError, ValueError):
                raise InputError(f"{name} must hold numbers, got {X.dtype}: encode text columns first.") from None
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"{name} must be a table of at least one row and one column, got shape {tuple(X.shape)}.")
    return X
