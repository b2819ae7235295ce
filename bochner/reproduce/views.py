"""Any set of several views with labels as a problem: files of NumPy (npz) or MATLAB (mat)."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bochner.archives import DENSEST, read_arrays
from bochner.arrays import Array
from bochner.reproduce.errors import ReproduceError
from bochner.reproduce.mat_files import read_mat
from bochner.reproduce.protocol import WEIGHTS, Problem, Protocol, Views, labels_of, rows_to_test
from bochner.reproduce.rows import key_of

FORM = "expected arrays view_0, view_1, ... of the same number of rows and labels y (perhaps names, one for each view)"
VIEWS_IN_MAT, LABELS_IN_MAT = ("X", "fea", "data", "views"), ("Y", "y", "gt", "truth", "truelabel", "labels")
"""Names under which files of MATLAB keep views, in a cell, and labels."""
TEST_SHARE = 0.5
"""The part of the rows of each class that is tested on, at most, where the file does not say which."""


@dataclass(frozen=True)
class ViewsFile:
    """What a file holds. All but tables and labels are for files of NumPy, which may leave them out."""

    tables: dict[str, Array]
    """(n, q) of float32 by name."""
    labels: Array
    """(n,), or (n, c): what each row is worth for each class, such as overlaps, one half or more where it shows it."""
    classes: Array | None = None
    """(c,): names of the classes, for labels of the second kind."""
    groups: Array | None = None
    """(n,): rows of a group are held out together."""
    tested: Array | None = None
    """(n,) of bool: rows to test on; all others are learned from."""
    scores: Array | None = None
    """(n,): rows of large scores are learned from first."""
    same_units: bool = False
    """Whether columns stay as they are, even with negative values."""
    about: str = ""
    """What there is to say of the rows."""


def views_problem(path: Path, protocol: Protocol, seed: int) -> Problem:
    """The problem of a file: rows of its own choice to test on, or of each class half of the rows at most."""
    found = read_views(path)
    classes, worth = _worth(path, found)
    shown = labels_of(worth)
    rng = np.random.default_rng(seed)
    if found.tested is None:
        counts = np.bincount(shown[shown >= 0], minlength=len(classes))
        halves = [min(protocol.test_per_class, max(1, round(TEST_SHARE * count))) for count in counts]
        own = [rng.permutation(np.flatnonzero(shown == k))[:half] for k, half in enumerate(halves)]
        tested = np.sort(np.concatenate(own))
        learned = np.setdiff1d(np.arange(len(worth)), tested)
    else:
        among, learned = np.flatnonzero(found.tested), np.flatnonzero(~found.tested)
        tested = among[rows_to_test(worth[among], protocol.test_per_class, seed)]
    _check_counts(path, classes, shown[learned], shown[tested])
    rows = Views(found.tables, worth, np.arange(len(worth)) if found.groups is None else found.groups)
    train = rows.take(learned)
    scores = rng.random(len(worth)) if found.scores is None else found.scores
    return Problem(
        name=path.stem,
        key=key_of({"file": path.name, "rows": _mark(found), "protocol": repr(protocol)}),
        classes=tuple(str(one) for one in classes),
        train=train,
        test=rows.take(tested),
        scores=scores[learned],
        histograms=all(float(table.min()) >= 0 for table in found.tables.values()),
        protocol=protocol,
        seed=seed,
        departures=_departures(path, found, train.n, len(tested)),
        same_units=found.same_units,
    )


def _worth(path: Path, found: ViewsFile) -> tuple[Array, Array]:
    """Names of the classes, and what rows are worth for each: (n, c)."""
    if found.labels.ndim == 2:
        names = np.arange(found.labels.shape[1]) if found.classes is None else found.classes
        return names, found.labels.astype(np.float64)
    classes, numbers = np.unique(found.labels, return_inverse=True)
    counts = np.bincount(numbers)
    if len(classes) < 2 or counts.min() < 4:
        told = f"expected two classes or more of four rows or more each, got {len(classes)} classes"
        few = f", of which {classes[counts.argmin()]} has {counts.min()} rows" if len(classes) > 1 else ""
        raise ReproduceError(f"{path}: {told}{few}; give other labels y.")
    return classes, np.eye(len(classes))[numbers]


def _check_counts(path: Path, classes: Array, learned: Array, tested: Array) -> None:
    """Refuse classes that no row to learn from, or none to test on, shows."""
    for what, shown in (("learn from", learned), ("test on", tested)):
        missing = np.setdiff1d(np.arange(len(classes)), shown)
        if len(missing):
            told = f"expected rows to {what} of every class, got none of {classes[missing[0]]}"
            raise ReproduceError(f"{path}: {told}; give other labels y, or another split tested.")


def read_views(path: Path) -> ViewsFile:
    """The rows of a file, checked."""
    if not path.is_file():
        raise ReproduceError(f"{path}: there is no such file; give a file .npz or .mat.")
    more: dict[str, Any] = {}
    if path.suffix.lower() == ".mat":
        views, labels = _from_mat(path)
        labels = np.asarray(labels).ravel()
    elif path.suffix.lower() == ".npz":
        views, labels, more = _from_npz(path)
    else:
        raise ReproduceError(
            f"{path}: expected a file .npz or .mat, got {path.suffix or 'no suffix'}; save it by numpy.savez."
        )
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ReproduceError(f"{path}: y holds numbers that are not finite; take out the rows that have them.")
    return ViewsFile({name: _table(path, name, view, len(labels)) for name, view in views.items()}, labels, **more)


def _from_npz(path: Path) -> tuple[dict[str, Any], Array, dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            arrays = read_arrays(file)
    except (OSError, ValueError) as error:
        raise ReproduceError(f"{path}: this file cannot be read as npz ({error}); save it again by numpy.savez.") from error
    views = sorted((name for name in arrays if re.fullmatch("view_[0-9]+", name)), key=lambda name: int(name[5:]))
    if not views or "y" not in arrays:
        raise ReproduceError(f"{path}: {FORM}, got {', '.join(sorted(arrays)) or 'nothing'}; rename them.")
    names = [str(name) for name in arrays["names"].ravel()] if "names" in arrays else views
    if len(names) != len(views) or len(set(names)) < len(names):
        raise ReproduceError(f"{path}: expected {len(views)} different names, got {', '.join(names)}; rename them.")
    labels = arrays["y"]
    if labels.ndim != 2 or 1 in labels.shape or labels.dtype.kind not in "buif":
        labels = labels.ravel()
    return {name: arrays[view] for name, view in zip(names, views, strict=True)}, labels, _more_of(path, arrays, labels)


def _more_of(path: Path, arrays: Mapping[str, Array], labels: Array) -> dict[str, Any]:
    """What else a file of NumPy says: one entry for each row, or for each class."""
    lengths = {name: len(labels) for name in ("groups", "tested", "scores")}
    if labels.ndim == 2:
        lengths["classes"] = labels.shape[1]
    found: dict[str, Any] = {}
    for name, length in lengths.items():
        if name in arrays:
            if arrays[name].shape != (length,):
                told = f"{name} must have the shape ({length},), got {arrays[name].shape}"
                raise ReproduceError(f"{path}: {told}; leave it out, or give one entry for each.")
            found[name] = arrays[name]
    if "tested" in found:
        found["tested"] = found["tested"].astype(bool)
    if "scores" in found and not (found["scores"].dtype.kind in "buif" and np.isfinite(found["scores"]).all()):
        raise ReproduceError(f"{path}: scores must be finite numbers, got {found['scores'].dtype}; leave them out.")
    if "same_units" in arrays:
        found["same_units"] = bool(np.all(arrays["same_units"]))
    if "about" in arrays:
        found["about"] = " ".join(str(one) for one in arrays["about"].ravel())
    return found


def _from_mat(path: Path) -> tuple[dict[str, Any], Array]:
    found = read_mat(path)
    views, labels = _first(found, VIEWS_IN_MAT), _first(found, LABELS_IN_MAT)
    if views is None or labels is None or views.dtype != object or not labels.size:
        there = ", ".join(name for name in found if not name.startswith("_")) or "nothing"
        wanted = f"a cell of views ({', '.join(VIEWS_IN_MAT)}) and labels ({', '.join(LABELS_IN_MAT)})"
        raise ReproduceError(f"{path}: expected {wanted}, got {there}; rename them, or save the file as npz.")
    labels = labels.ravel()[0] if labels.dtype == object else labels
    return {f"view_{k}": view for k, view in enumerate(views.ravel())}, np.asarray(labels)


def _first(found: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((found[name] for name in names if name in found), None)


def _table(path: Path, name: str, view: Any, n_rows: int) -> Array:
    """One view as a table (n, q); where it has rows for columns it is turned."""
    if hasattr(view, "toarray") and 8 * math.prod(view.shape) > DENSEST * path.stat().st_size:
        told = f"{name} is sparse, and with all its zeros, {view.shape}, larger than expected of a file of this size"
        raise ReproduceError(f"{path}: {told}; take out columns of zeros.")
    dense = view.toarray() if hasattr(view, "toarray") else np.asarray(view)
    if dense.ndim != 2 or not dense.size or dense.dtype.kind not in "buif" or n_rows not in dense.shape:
        told = (
            f"{name} must be a table of numbers with {n_rows} rows, as many as y, got shape {dense.shape} of {dense.dtype}"
        )
        raise ReproduceError(f"{path}: {told}; {FORM}: turn it into one.")
    with np.errstate(over="ignore", invalid="ignore"):  # too large for float32, or no numbers: told below
        table = (dense if len(dense) == n_rows else dense.T).astype(np.float32)
    if not np.isfinite(table).all():
        raise ReproduceError(
            f"{path}: {name} holds numbers that are not finite; take out the rows or columns that have them."
        )
    return np.ascontiguousarray(table)


def _mark(found: ViewsFile) -> str:
    """A short text that tells rows, their labels and their use apart by what is in them."""
    mark = hashlib.blake2b(repr([found.labels.shape, found.same_units]).encode(), digest_size=8)
    if found.labels.ndim == 1:
        mark.update(repr(found.labels.tolist()).encode())
    for name, table in found.tables.items():
        mark.update(f"{name} {table.shape}".encode())
        mark.update(table.tobytes())
    more = {"worth": found.labels if found.labels.ndim == 2 else None, "tested": found.tested, "scores": found.scores}
    for name, array in {**more, "groups": found.groups}.items():
        if array is not None:
            mark.update(f"{name} {array.dtype}".encode())
            mark.update(array.tobytes())
    return mark.hexdigest()


def _departures(path: Path, found: ViewsFile, n_train: int, n_test: int) -> tuple[str, ...]:
    which = "the file says which" if found.tested is not None else "the same number of each class where there are as many"
    order = "of the largest scores first" if found.scores is not None else "drawn at random"
    told = [
        f"Data: {path.name} in place of segments of PASCAL VOC, {n_train:,} rows to learn from and {n_test:,} to test on "
        f"({which}); rows to learn from are taken {order}, as many of each class as of others.",
        "Rows of all classes are learned from together, one class against the rest, with the squared loss; " + WEIGHTS,
        "Kernels are exponentiated chi2 where no view has negative values, and Gaussian else; one kernel is Gaussian on "
        "roots, or on values of unit spread (as they are, where the file says so).",
        "The penalty of RFF-GL is chosen on held-out rows; GMKL has the cost of the same problem by the "
        "paper's equivalence. Both end at a duality gap of 0.003 of the objective.",
    ]
    return (*told, *([found.about] if found.about else []))
