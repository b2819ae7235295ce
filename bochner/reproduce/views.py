"""Any set of several views with labels as a problem: files of NumPy (npz) or MATLAB (mat)."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.reproduce.errors import ReproduceError
from bochner.reproduce.protocol import Preference, Problem, Protocol, Views
from bochner.reproduce.rows import key_of

FORM = "expected arrays view_0, view_1, ... of the same number of rows and labels y (perhaps names, one for each view)"
VIEWS_IN_MAT, LABELS_IN_MAT = ("X", "fea", "data", "views"), ("Y", "y", "gt", "truth", "truelabel", "labels")
"""Names under which files of MATLAB keep views, in a cell, and labels."""
TEST_SHARE = 0.5
"""The part of the rows of each class that is tested on, at most."""


def views_problem(path: Path, protocol: Protocol, seed: int) -> Problem:
    """The problem of a file: of each class, half of the rows at most to test on, and the others to learn from."""
    tables, labels = read_views(path)
    classes, numbers = np.unique(labels, return_inverse=True)
    counts = np.bincount(numbers)
    if len(classes) < 2 or counts.min() < 4:
        told = f"expected two classes or more of four rows or more each, got {len(classes)} classes"
        few = f", of which {classes[counts.argmin()]} has {counts.min()} rows" if len(classes) > 1 else ""
        raise ReproduceError(f"{path}: {told}{few}; give other labels y.")
    rng = np.random.default_rng(seed)
    worth = np.eye(len(classes))[numbers]
    tested = np.zeros(len(numbers), dtype=bool)
    for k, count in enumerate(counts):
        n_test = min(protocol.test_per_class, max(1, round(TEST_SHARE * count)))
        tested[rng.permutation(np.flatnonzero(numbers == k))[:n_test]] = True
    rows = Views(tables, worth, np.arange(len(numbers)))
    train = rows.take(np.flatnonzero(~tested))
    order = rng.permutation(train.n)
    is_of = train.worth[order] > 0
    return Problem(
        name=path.stem,
        key=key_of({"file": path.name, "rows": _mark(tables, labels), "protocol": repr(protocol)}),
        classes=tuple(str(one) for one in classes),
        train=train,
        test=rows.take(np.flatnonzero(tested)),
        preferences=[Preference(order[own], order[~own]) for own in is_of.T],
        order=order,
        histograms=all(float(table.min()) >= 0 for table in tables.values()),
        protocol=protocol,
        seed=seed,
        departures=_departures(path, len(numbers), int(tested.sum())),
    )


def read_views(path: Path) -> tuple[dict[str, Array], Array]:
    """Tables (n, q) of float32 by name, and labels (n,)."""
    if not path.is_file():
        raise ReproduceError(f"{path}: there is no such file; --views takes a file .npz or .mat.")
    if path.suffix.lower() == ".mat":
        views, labels = _from_mat(path)
    elif path.suffix.lower() == ".npz":
        views, labels = _from_npz(path)
    else:
        raise ReproduceError(
            f"{path}: expected a file .npz or .mat, got {path.suffix or 'no suffix'}; save it by numpy.savez."
        )
    labels = np.asarray(labels).ravel()
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ReproduceError(f"{path}: y holds numbers that are not finite; take out the rows that have them.")
    return {name: _table(path, name, view, len(labels)) for name, view in views.items()}, labels


def _from_npz(path: Path) -> tuple[dict[str, Any], Array]:
    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("it is no archive of arrays")
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ReproduceError(f"{path}: this file cannot be read as npz ({error}); save it again by numpy.savez.") from error
    views = sorted((name for name in arrays if re.fullmatch("view_[0-9]+", name)), key=lambda name: int(name[5:]))
    if not views or "y" not in arrays:
        raise ReproduceError(f"{path}: {FORM}, got {', '.join(sorted(arrays)) or 'nothing'}; rename them.")
    names = [str(name) for name in arrays["names"].ravel()] if "names" in arrays else views
    if len(names) != len(views) or len(set(names)) < len(names):
        raise ReproduceError(f"{path}: expected {len(views)} different names, got {', '.join(names)}; rename them.")
    return {name: arrays[view] for name, view in zip(names, views, strict=True)}, arrays["y"]


def _from_mat(path: Path) -> tuple[dict[str, Any], Array]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        found = loadmat(path)
    except (OSError, ValueError, TypeError, NotImplementedError, MatReadError) as error:
        raise ReproduceError(f"{path}: this file cannot be read as MATLAB 5 ({error}); save it as npz.") from error
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
    dense = view.toarray() if hasattr(view, "toarray") else np.asarray(view)
    if dense.ndim != 2 or not dense.size or dense.dtype.kind not in "buif" or n_rows not in dense.shape:
        told = (
            f"{name} must be a table of numbers with {n_rows} rows, as many as y, got shape {dense.shape} of {dense.dtype}"
        )
        raise ReproduceError(f"{path}: {told}; {FORM}.")
    table = (dense if len(dense) == n_rows else dense.T).astype(np.float32)
    if not np.isfinite(table).all():
        raise ReproduceError(
            f"{path}: {name} holds numbers that are not finite; take out the rows or columns that have them."
        )
    return np.ascontiguousarray(table)


def _mark(tables: Mapping[str, Array], labels: Array) -> str:
    """A short text that tells rows and their labels apart by what is in them."""
    found = hashlib.blake2b(repr(labels.tolist()).encode(), digest_size=8)
    for name, table in tables.items():
        found.update(f"{name} {table.shape}".encode())
        found.update(table.tobytes())
    return found.hexdigest()


def _departures(path: Path, n_rows: int, n_test: int) -> tuple[str, ...]:
    return (
        f"Data: {path.name} in place of segments of PASCAL VOC, {n_rows:,} labelled rows, of which {n_test:,} are tested "
        "on; rows are drawn at random, the same number of each class where there are as many.",
        "Rows of all classes are learned from together, one class against the rest, with the squared loss.",
        "Kernels are exponentiated chi2 where no view has negative values, and Gaussian else; one kernel is Gaussian on "
        "roots, or on values of unit spread.",
        "The penalty of RFF-GL is chosen on held-out rows; GMKL has the cost of the same problem by the "
        "paper's equivalence.",
    )
