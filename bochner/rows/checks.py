"""Checks of what was read: errors that say where in the files a value is, and what to do about it."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from bochner.arrays import Array
from bochner.errors import InputError

if TYPE_CHECKING:
    from bochner.rows.source import Block

Names = tuple[str, ...] | None


def whole_number(name: str, value: Any) -> int:
    """``value`` as an int, or an error where it is not a whole number, one or more."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < 1:
        raise InputError(f"{name} must be a whole number, 1 or more, got {value!r}.")
    return int(value)


def check_dtype(dtype: Any) -> Any:
    """float32 or float64, or an error."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in (np.float32, np.float64):
        raise InputError(f"dtype must be 'float32' or 'float64', got {dtype!r}.")
    return found


def common_dtype(dtypes: list[Any]) -> Any:
    """The dtype of X for columns of these: float32 where all are float32 or float16, otherwise float64."""
    narrow = bool(dtypes) and all(np.dtype(d) in (np.float32, np.float16) for d in dtypes)
    return np.dtype(np.float32 if narrow else np.float64)


def as_targets(values: Array) -> Array:
    """Targets (k,) or (k, c) as float64, or as text (objects) where they are text; never a view of what was read."""
    values = np.asarray(values)
    if values.dtype.kind == "S" or (values.dtype.kind == "O" and any(isinstance(v, bytes) for v in values.flat)):
        values = np.char.decode(values.astype(bytes))
    if values.dtype.kind in "UT" or (values.dtype.kind == "O" and any(isinstance(v, str) for v in values.flat)):
        return np.array(values, dtype=object)
    return np.array(values, dtype=np.float64)


def check_values(block: Block, where: str, before: int, names: Names, target_names: Names) -> None:
    """An error at the first NaN, infinity or negative weight. ``before``: rows before the part that the block is from."""
    bad = _first_not_finite(block.X)
    if bad is not None:
        _refuse(block, where, before, bad[0], _label("column", bad[1], names), bad[2])
    if block.y is not None:
        y = block.y.reshape(block.n_rows, -1)
        bad = _first_missing_text(y) if y.dtype == object else _first_not_finite(y)
        if bad is not None:
            label = "target" if target_names is None and block.y.ndim == 1 else _label("target", bad[1], target_names)
            _refuse(block, where, before, bad[0], label, bad[2])
    if block.weight is not None:
        bad = _first_not_finite(block.weight[:, None])
        if bad is not None:
            _refuse(block, where, before, bad[0], "weight", bad[2])
        if block.weight.min(initial=0) < 0:
            row = int(np.argmax(block.weight < 0))
            raise InputError(
                f"{_place(block, where, before, row, 'weight')} is {block.weight[row]}: weights must be zero or more, so "
                "change it, or leave the row out."
            )


def _refuse(block: Block, where: str, before: int, row: int, label: str, value: float) -> None:
    what = f"infinity in {block.X.dtype}" if np.isinf(value) else "NaN or a missing value"
    raise InputError(
        f"{_place(block, where, before, row, label)} holds {what}: drop that row, or fill the gap first, "
        "for instance with sklearn.impute.SimpleImputer()."
    )


def _place(block: Block, where: str, before: int, row: int, label: str) -> str:
    """Where a value is: the file, the column, and the row in the file and in the whole, counted from 0."""
    inside = block.start + row
    overall = f" (row {before + inside} of all)" if before else ""
    return f"{where}, {label}, row {inside}{overall}"


def _label(kind: str, index: int, names: Names) -> str:
    return f"{kind} {index}" if names is None else f"{kind} {names[index]!r}"


def _first_not_finite(values: Array) -> tuple[int, int, float] | None:
    """Row, column and value of the first entry that is NaN or infinite, or None."""
    stored = values.data if sparse.issparse(values) else values
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(stored.sum()):  # no temporary; a sum that overflows is looked at again
            return None
    if sparse.issparse(values):
        at = np.flatnonzero(~np.isfinite(stored))
        if not len(at):
            return None
        row = int(np.searchsorted(values.indptr, at[0], side="right")) - 1
        return row, int(values.indices[at[0]]), float(stored[at[0]])
    bad = ~np.isfinite(values)
    if not bad.any():
        return None
    row, column = divmod(int(np.argmax(bad)), values.shape[1])
    return row, column, float(values[row, column])


def _first_missing_text(values: Array) -> tuple[int, int, float] | None:
    """Row and column of the first target that is not text."""
    for i, value in enumerate(values.flat):
        if not isinstance(value, str):
            row, column = divmod(i, values.shape[1])
            return row, column, np.nan
    return None
