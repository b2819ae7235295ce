"""From what a user says about validation to parts of the rows."""

from __future__ import annotations

import numbers
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.folds import Folds, Rows

FOLDS = 5
LARGE = 50_000
"""Rows from which criterion="auto" holds out one part instead of folding all."""
EXPECTED = "a number of folds (2 or more), a fraction (between 0 and 1), a splitter, or a set of your own as a tuple (X, y)"
"""What ``validation`` may be."""


def is_validation_set(validation: Any) -> bool:
    """Whether ``validation`` is a set of rows with their targets: a tuple (X, y) or (X, y, sample_weight).

    X may be nested lists, unless all of the tuple can be read as pairs of row numbers.
    """
    if not isinstance(validation, tuple) or len(validation) not in (2, 3) or len(_shape(validation[0])) != 2:
        return False
    return not all(_is_split(entry) for entry in validation)


def _is_split(entry: Any) -> bool:
    """Whether ``entry`` is a pair of lists of row numbers."""
    return (
        isinstance(entry, list | tuple)
        and len(entry) == 2
        and all(len(_shape(side)) == 1 and np.asarray(side).dtype.kind in "iub" for side in entry)
    )


def _shape(values: Any) -> tuple[int, ...]:
    """The shape of an array, a table or nested lists; () where there is none."""
    try:
        return tuple(values.shape if hasattr(values, "shape") else np.shape(values))
    except ValueError:  # lists of different lengths
        return ()


def _described(validation: Any) -> str:
    """What was given, in a few words and without its data."""
    if not isinstance(validation, list | tuple):
        return f"validation={reprlib.repr(validation)}"
    kinds = [f"{type(entry).__name__} of shape {_shape(entry)}" for entry in validation[:3]] + ["..."] * (
        len(validation) > 3
    )
    return f"validation, a {type(validation).__name__} of {len(validation)} ({', '.join(kinds)}),"


def is_splitter(validation: Any) -> bool:
    """Whether ``validation`` is a splitter of scikit-learn's kind, or a list of pairs of row numbers."""
    return not isinstance(validation, str) and (hasattr(validation, "split") or isinstance(validation, Iterable))


def cut_rows(rows: Rows, rng: np.random.Generator, criterion: str, validation: int | float | None) -> Folds:
    """Rows in random order, in the parts that a criterion asks for: folds, a part held out, or all in one."""
    n = rows.n
    if n < 2:
        raise InputError(f"Learning a kernel needs at least two rows, got {n} sample: give more rows.")
    shuffled = rng.permutation(n)
    if criterion == "loo":
        if validation is not None:
            raise InputError(
                f"{_described(validation)} is of no use to 'loo', which leaves out each row in turn: leave it out."
            )
        return Folds((rows.take(shuffled),), (0,))
    if criterion == "auto":
        whole = isinstance(validation, int | np.integer) or (validation is None and n < LARGE)
        if not (validation is None or (whole and validation >= 2) or is_fraction(validation)):
            raise InputError(f"validation must be {EXPECTED}, got {reprlib.repr(validation)}.")
        criterion = "kfold" if whole else "holdout"
    if criterion == "kfold":
        return _fold(rows, shuffled, validation)
    fraction = 0.2 if validation is None else validation
    if not is_fraction(fraction):
        raise InputError(
            f"validation must be a fraction between 0 and 1 for 'holdout', got {fraction!r}; a set (X, y) or a "
            "splitter will do too."
        )
    held = min(n - 1, max(1, round(fraction * n)))
    return Folds((rows.take(shuffled[held:]), rows.take(shuffled[:held])), (1,))


def is_fraction(value: Any) -> bool:
    """Whether this is a number between 0 and 1."""
    return isinstance(value, numbers.Real) and 0 < float(value) < 1


def _fold(rows: Rows, shuffled: Array, validation: Any) -> Folds:
    n, folds = rows.n, FOLDS if validation is None else validation
    if not isinstance(folds, int | np.integer) or folds < 2:
        raise InputError(f"validation must be a whole number of folds, at least 2, for 'kfold', got {folds!r}.")
    if validation is not None and folds > n:
        raise InputError(f"validation asks for {folds} folds of {n} rows: use at most {n}.")
    parts = np.array_split(shuffled, min(int(folds), n))
    return Folds(tuple(rows.take(part) for part in parts), tuple(range(len(parts))))


@contextmanager
def about_validation_set() -> Iterator[None]:
    """Let errors say that they are about a validation set of the user's own."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"The validation set is not like the rows of fit: {error}") from error


def hold_out(rows: Rows, rng: np.random.Generator, held: Rows) -> Folds:
    """Rows to fit, and rows of the user's own to validate on, which are not fitted; those of weight zero are left out."""
    held = held.in_form_of(rows).take(held.weights > 0)
    parts = tuple(part.take(rng.permutation(part.n)) for part in (rows, held))
    return Folds(parts, validated=(1,), fitted=(0,))


def split_rows(rows: Rows, rng: np.random.Generator, splits: Any, X: Any, y: Any, used: Array) -> Folds:
    """Rows in the parts of a splitter, or of a list of (training rows, validation rows).

    ``used`` (n,) marks those of the splitter's rows X that are among ``rows``.
    """
    parts, n_validated = listed_parts(splits, X, y)
    masks = [parts[used] == k for k in range(n_validated + 1)]
    sizes = [int(mask.sum()) for mask in masks]
    if any(size == 0 for size in sizes[:-1]):
        raise InputError("validation has a split without a single validation row of positive weight: leave that split out.")
    taken = [rows.take(rng.permutation(np.nonzero(mask)[0])) for mask, size in zip(masks, sizes, strict=True) if size]
    if len(taken) < 2:
        raise InputError("validation leaves no rows to train on: validate on fewer.")
    return Folds(tuple(taken), tuple(range(n_validated)))


def listed_parts(splits: Any, X: Any, y: Any) -> tuple[Array, int]:
    """The part (n,) of each row of X by a splitter or a list of (training rows, validation rows), and how many are held out.

    Part k has the validation rows of split k, the last one the rows that are never validated. Every part is predicted from
    all other rows, so validation rows must not overlap and each training set must be all the others.
    """
    n = len(X)
    try:
        pairs = list(splits.split(X, y) if hasattr(splits, "split") else splits)
        parts = np.full(n, len(pairs))
        for number, pair in enumerate(pairs):
            train, test = _pair(number, pair)
            mask, others = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
            mask[test], others[train] = True, True
            if not np.any(mask):
                raise InputError(f"split {number} has no validation rows")
            if not np.array_equal(others, ~mask):
                raise InputError("the training rows of a split are not all the rows that it leaves unvalidated")
            if np.any(parts[mask] < len(pairs)):
                raise InputError("a row is validated by more than one split")
            parts[mask] = number
        if not pairs:
            raise InputError("there are no splits")
        if len(pairs) == 1 and not np.any(parts):
            raise InputError("it leaves no rows to train on")
    except (TypeError, ValueError, IndexError) as error:
        if isinstance(splits, list) and is_validation_set(tuple(splits)) and not _is_split(splits[0]):
            raise InputError(
                f"{_described(splits)} looks like a set of your own: write a tuple (X, y) or (X, y, sample_weight). "
                "A list is one of pairs (training rows, validation rows)."
            ) from None
        raise InputError(
            f"{_described(splits)} cannot be used: {error}. It must be a number of folds, a fraction, a set of your own as "
            "a tuple (X, y) or (X, y, sample_weight), or a splitter with disjoint validation sets that trains on all other "
            "rows, such as KFold, PredefinedSplit or ShuffleSplit(n_splits=1); a splitter that needs groups goes in as "
            "list(splitter.split(X, y, groups))."
        ) from error
    return parts, len(pairs)


def _pair(number: int, split: Any) -> tuple[Array, Array]:
    """Training rows and validation rows of the ``number``-th split."""
    try:
        train, test = split
    except (TypeError, ValueError):
        raise InputError(f"entry {number} is not a pair (training rows, validation rows)") from None
    return np.asarray(train), np.asarray(test)
