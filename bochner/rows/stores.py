"""Files of arrays: NumPy's .npy and .npz, HDF5 and Zarr. Rows are read as they come, never a whole array at a time."""

from __future__ import annotations

import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bochner.archives import check_archive, check_header, read_header
from bochner.arrays import Array
from bochner.errors import InputError
from bochner.rows.checks import as_targets, common_dtype
from bochner.rows.columns import Choice, Wanted, as_list, shown
from bochner.rows.files import find_files, guarded, need, reading, suggest
from bochner.rows.source import Block, Layout, Part, RowSource

X_NAMES, Y_NAMES, WEIGHT_NAMES = ("X",), ("y",), ("weight", "sample_weight")
"""Names of arrays in a file, where none are given."""


@dataclass(frozen=True)
class Stored:
    """An array in a file: its shape and dtype, and ``rows(step)``: all its rows, ``step`` at a time."""

    shape: tuple[int, ...]
    dtype: Any
    rows: Callable[[int], Iterator[Array]]


Store = Mapping[str, Stored]


class StoreFile(ABC):
    """A file of arrays by name."""

    what: str

    def __init__(self, path: Path, beside: Mapping[str, Path] | None = None) -> None:
        self.path = path
        self.beside = dict(beside or {})
        """Files of single arrays that belong to it."""

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        return [self.path, *self.beside.values()]

    @abstractmethod
    def open(self) -> AbstractContextManager[Store]:
        """Its arrays, until the context is left."""


class NpyFile(StoreFile):
    """A .npy file: X; and those of y and weight. They are read as streams, so that pages of a map do not pile up in memory.

    An array in Fortran order, of which rows are not in one piece, is memory-mapped.
    """

    what = "a NumPy array"

    @contextmanager
    def open(self) -> Iterator[Store]:
        with ExitStack() as stack:
            store = {}
            for name, path in {"X": self.path, **self.beside}.items():
                with reading(path, self.what):
                    mapped = partial(np.load, path, mmap_mode="r", allow_pickle=False)
                    store[name] = _streamed(name, path.stat().st_size, partial(path.open, "rb"), stack, mapped)
            yield store


class NpzFile(StoreFile):
    """A .npz file, compressed or not; an array in Fortran order is the only one that is read whole."""

    what = "a NumPy archive"

    @contextmanager
    def open(self) -> Iterator[Store]:
        with ExitStack() as stack:
            with reading(self.path, self.what):
                archive = stack.enter_context(zipfile.ZipFile(self.path))
                check_archive(archive, self.path.stat().st_size)
                members = [name for name in archive.namelist() if name.endswith(".npy")]
                store = {name.removesuffix(".npy"): self._member(archive, name, stack) for name in members}
            if {"indptr", "indices", "data", "shape"} <= store.keys():
                raise InputError(
                    f"{self.path} is a sparse matrix: read it by X = scipy.sparse.load_npz(path), and "
                    "give bochner.rows.from_arrays(X, y)."
                )
            yield store

    @staticmethod
    def _member(archive: zipfile.ZipFile, name: str, stack: ExitStack) -> Stored:
        def whole() -> Array:
            with archive.open(name) as file:
                return np.lib.format.read_array(file, allow_pickle=False)

        size = archive.getinfo(name).file_size
        return _streamed(name.removesuffix(".npy"), size, lambda: archive.open(name), stack, whole)


class Hdf5File(StoreFile):
    """An HDF5 file; arrays in groups have names such as ``train/X``."""

    what = "HDF5"

    @contextmanager
    def open(self) -> Iterator[Store]:
        h5py = need("h5py", "HDF5 files")
        with ExitStack() as stack:
            store = {}
            with reading(self.path, self.what):
                file = stack.enter_context(h5py.File(self.path, "r"))
                file.visititems(lambda name, node: store.update({name: node}) if isinstance(node, h5py.Dataset) else None)
            yield {name: _sliced(node, (node.chunks or (1,))[0]) for name, node in store.items()}


class ZarrFile(StoreFile):
    """A Zarr store: a group of arrays, or one array, which is X."""

    what = "Zarr"

    @contextmanager
    def open(self) -> Iterator[Store]:
        zarr = need("zarr", "Zarr stores")
        with reading(self.path, self.what):
            root = zarr.open(self.path, mode="r")
            nodes = {"X": root} if isinstance(root, zarr.Array) else _below(root, "")
        yield {name: _sliced(node, node.chunks[0] if node.chunks else 1) for name, node in nodes.items()}


def _sliced(array: Any, together: int = 1) -> Stored:
    """An array that can be sliced, of which ``together`` rows are unpacked at a time; what is read of it is copied."""

    def rows(step: int) -> Iterator[Array]:
        span = step * max(1, together // step)
        for start in range(0, array.shape[0], span):
            read = np.array(array[start : start + span])
            yield from (read[i : i + step] for i in range(0, len(read), step))

    return Stored(tuple(array.shape), array.dtype, rows)


def _streamed(label: str, size: int, open_it: Callable[[], Any], stack: ExitStack, whole: Callable[[], Array]) -> Stored:
    """An array in NumPy's format, read as a stream of bytes; one in Fortran order is made by ``whole``."""
    with open_it() as file:
        shape, fortran, dtype = read_header(file)
    check_header(label, shape, dtype, size)

    def rows(step: int) -> Iterator[Array]:
        if fortran and len(shape) > 1:
            yield from _sliced(whole()).rows(step)
            return
        file = stack.enter_context(open_it())
        read_header(file)
        for start in range(0, shape[0], step):
            stop = min(start + step, shape[0])
            values = np.empty((stop - start, *shape[1:]), dtype=dtype)
            if file.readinto(values.reshape(-1).view(np.uint8)) != values.nbytes:
                raise EOFError(f"the array {label!r} ends before row {stop} of {shape[0]}")
            yield values

    return Stored(shape, dtype, rows)


def _below(group: Any, prefix: str) -> dict[str, Any]:
    """All arrays of a group and of those below."""
    found = {prefix + name: array for name, array in group.arrays()}
    for name, inner in group.groups():
        found.update(_below(inner, f"{prefix}{name}/"))
    return found


@dataclass(frozen=True)
class Roles:
    """Which arrays of a store are X (several are put side by side), targets and weights."""

    X: tuple[str, ...]
    y: str | None = None
    weight: str | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.X, *(name for name in (self.y, self.weight) if name is not None))


class StorePart(Part):
    """The rows of one file of arrays. ``choice`` says which columns of X are X indeed, and which are targets and weight."""

    def __init__(self, store_file: StoreFile, roles: Roles, choice: Choice, n_rows: int) -> None:
        super().__init__(str(store_file.path), store_file.files, n_rows)
        self.file, self.roles, self.choice = store_file, roles, choice

    def pieces(self, step: int) -> Generator[Block, None, None]:
        start = 0
        with closing(guarded(self.file.path, self.file.what, self._read(step))) as parts:
            for arrays in parts:
                yield self._block(start, arrays)
                start += len(arrays[self.roles.X[0]])

    def _read(self, step: int) -> Generator[dict[str, Array], None, None]:
        names = self.roles.used
        with self.file.open() as store:
            for arrays in zip(*(store[name].rows(step) for name in names), strict=True):
                yield dict(zip(names, arrays, strict=True))

    def _block(self, start: int, arrays: dict[str, Array]) -> Block:
        roles, choice = self.roles, self.choice
        columns = [arrays[name].reshape(len(arrays[name]), -1) for name in roles.X]
        X = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
        y = None if roles.y is None else as_targets(arrays[roles.y])
        weight = None if roles.weight is None else np.array(arrays[roles.weight], dtype=np.float64)
        if choice.targets is not None:
            y = as_targets(X[:, choice.targets[0]] if choice.one_target else X[:, list(choice.targets)])
        if choice.weight is not None:
            weight = np.array(X[:, choice.weight], dtype=np.float64)
        if tuple(range(X.shape[1])) != choice.X:
            X = X[:, list(choice.X)]
        return Block(start, X, y, weight)


def open_stores(files: Sequence[StoreFile], wanted: Wanted, dtype: Any) -> RowSource:
    """A row source of files of arrays: X, y and weight, unless columns, target and weight name others.

    Numbers instead of names are columns of X.
    """
    parts: list[Part] = []
    dtypes, widths = [], []
    for file in files:
        with file.open() as store:
            roles, numbered = _roles(store, wanted, file.path)
            n_rows, width = _check_shapes(store, roles, file.path)
            dtypes += [store[name].dtype for name in roles.X]
        choice = numbered.among(width, str(file.path))
        widths.append(width)
        if width != widths[0]:
            raise InputError(
                f"{file.path} has {width} columns, and {files[0].path} has {widths[0]}: all files must have the same, "
                "so open them apart."
            )
        parts.append(StorePart(file, roles, choice, n_rows))
    return RowSource(parts, Layout(len(choice.X), dtype or common_dtype(dtypes)))


def npy_files(files: Sequence[Path], wanted: Wanted) -> tuple[list[StoreFile], Wanted]:
    """Files of X, with the .npy files of targets and weights that belong to them; and what is left to choose."""
    beside = {"y": _beside(wanted.target, "target", files), "weight": _beside(wanted.weight, "weight", files)}
    stores: list[StoreFile] = []
    for k, path in enumerate(files):
        stores.append(NpyFile(path, {name: found[k] for name, found in beside.items() if found}))
    target = None if beside["y"] else wanted.target
    return stores, Wanted(wanted.columns, target, None if beside["weight"] else wanted.weight)


def _beside(given: Any, role: str, files: Sequence[Path]) -> list[Path]:
    """The files that a target or weight names, one for each file of X; none where it is given by numbers."""
    paths = [item for item in as_list(given) if isinstance(item, str | os.PathLike)]
    if not paths:
        return []
    found = find_files(paths)
    if len(found) != len(files):
        raise InputError(
            f"{role} must be a column's number, or .npy files, one for each of X: got {len(found)} for {len(files)} of X."
        )
    return found


def _roles(store: Store, wanted: Wanted, path: Path) -> tuple[Roles, Wanted]:
    """The arrays that are X, y and weight by name, and what is asked for by number: columns of X."""
    named = [c for c in as_list(wanted.columns) if isinstance(c, str)]
    if named and len(named) < len(as_list(wanted.columns)):
        raise InputError(f"columns must be names of arrays or numbers of columns of X, not both, got {wanted.columns!r}.")
    only = [name for name, array in store.items() if len(array.shape) == 2]
    X = named or [_default(store, X_NAMES) or (only[0] if len(only) == 1 else "X")]
    y = wanted.target if isinstance(wanted.target, str) else None
    weight = wanted.weight if isinstance(wanted.weight, str) else None
    if wanted.target is None:
        y = _default(store, Y_NAMES)
    if wanted.weight is None:
        weight = _default(store, WEIGHT_NAMES)
    for name, role in [*((name, "columns") for name in X), (y, "target"), (weight, "weight")]:
        if name is not None and name not in store:
            hint = suggest(name, list(store))
            raise InputError(
                f"{path} has no array {name!r} (for {role}=).{hint} Its arrays are {shown(list(store))}: "
                f"give one by {role}=."
            )
    for name, role in ((y, "target"), (weight, "weight")):
        if name in X:
            raise InputError(
                f"Array {name!r} is the {role} and also among columns: give another name by {role}= or columns=."
            )
    numbered = Wanted(
        None if named else wanted.columns,
        None if y is not None else wanted.target,
        None if weight is not None else wanted.weight,
    )
    return Roles(tuple(X), y, weight), numbered


def _default(store: Store, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in store), None)


def _check_shapes(store: Store, roles: Roles, path: Path) -> tuple[int, int]:
    """Numbers of rows and columns of X, or an error where arrays do not fit each other or hold no numbers."""
    n_rows = store[roles.X[0]].shape[0] if store[roles.X[0]].shape else 0
    width = 0
    for name in roles.used:
        array, is_x = store[name], name in roles.X
        label = f"{path}, array {name!r}"
        most = 1 if name == roles.weight else 2
        if not 1 <= len(array.shape) <= most or (is_x and len(roles.X) == 1 and len(array.shape) != 2):
            expected = "(rows, columns)" if is_x else "(rows,)" if most == 1 else "(rows,) or (rows, targets)"
            raise InputError(
                f"{label} has shape {array.shape}, and {expected} was expected: reshape it before it is written."
            )
        if array.shape[0] != n_rows:
            raise InputError(
                f"{label} has {array.shape[0]} rows, and {roles.X[0]!r} has {n_rows}: leave it out, or write as many."
            )
        if array.dtype.kind not in ("biuf" if name != roles.y else "biufUSOT"):
            raise InputError(
                f"{label} holds {array.dtype}, not numbers: encode text as numbers, and name fields one by one."
            )
        width += int(np.prod(array.shape[1:])) if is_x else 0
    return n_rows, width
