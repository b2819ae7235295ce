"""What a fit depends on, in short texts: two fits with the same ones have the same result."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import importlib.metadata
import numbers
from contextlib import closing
from typing import Any

import numpy as np
import scipy
from scipy import sparse

from bochner.arrays import Array, fetch, is_foreign
from bochner.engines.dask_rows import DaskRows
from bochner.rows import RowSource
from bochner.rows.files import FileMark

WITHOUT_EFFECT = ("verbose", "callback", "checkpoint")
"""Parameters that change no result."""
HASHED_BYTES, HASHED_ROWS = 2**28, 4096
"""Arrays up to so many bytes are hashed as a whole; of larger ones so many rows, and of rows in blocks the first of them."""


def fingerprint(estimator: Any, before: Any, **data: Any) -> dict[str, str]:
    """The parameters of an estimator, its data by name, the kernel to start from, and the versions of what computes."""
    parameters = estimator.get_params(deep=False)
    return {
        "estimator": type(estimator).__name__,
        **{name: describe(value) for name, value in parameters.items() if name not in WITHOUT_EFFECT},
        **{name: describe(value) for name, value in data.items()},
        "the kernel of an earlier fit": describe(before),
        "the version of bochner": _version("bochner"),
        "the version of NumPy": np.__version__,
        "the version of SciPy": scipy.__version__,
    }


def describe(value: Any) -> str:
    """A short text that is the same for equal values, in any process."""
    if value is None or isinstance(value, str | bool | numbers.Number):
        return repr(value)
    if isinstance(value, RowSource | DaskRows):
        return _describe_source(value)
    if sparse.issparse(value):
        rows = value.tocsr()
        return f"sparse {rows.shape} {rows.dtype} {_hash(rows.data, rows.indices, rows.indptr)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(describe(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{describe(name)}: {describe(item)}' for name, item in value.items())}}}"
    if isinstance(value, slice):
        return repr(value)
    if hasattr(value, "__code__"):
        code = value.__code__
        return f"{value.__module__}.{value.__qualname__} {_hash(repr(code.co_code), repr(code.co_consts))}"
    if isinstance(value, np.random.Generator):
        return f"Generator {_hash(repr(value.bit_generator.state))}"
    if isinstance(value, np.random.RandomState):
        return f"RandomState {_hash(repr([describe(item) for item in value.get_state()]))}"
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        array = fetch(value) if is_foreign(value) else np.asarray(value)
        return f"array {array.shape} {array.dtype} {_hash(array)}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ", ".join(f"{f.name}={describe(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__name__}({fields})"
    return f"{type(value).__name__}{describe(vars(value)) if hasattr(value, '__dict__') else ''}"


def _describe_source(source: RowSource | DaskRows) -> str:
    """Shape, names, files with their sizes and times (or the number of partitions), and the first rows."""
    known: list[Any]
    if isinstance(source, DaskRows):
        first, known = source.head(HASHED_ROWS), [len(source.partitions)]
        where = f" in {len(source.partitions)} partitions"
    else:
        with closing(source.blocks(HASHED_ROWS)) as blocks:
            first = next(blocks)
        files = source.fingerprint()
        known = [source.target_names, files]
        where = _describe_files(files) if files else ""
    n_rows, n_columns = source.n_rows, source.n_columns
    known += [n_rows, n_columns, str(source.dtype), source.names, *map(describe, (first.X, first.y, first.weight))]
    return f"{n_rows} rows of {n_columns} columns{where} {_hash(repr(known))}"


def _describe_files(files: tuple[FileMark, ...]) -> str:
    """How many files there are, their size, and which was written last: what differs where one of them has changed."""
    newest = max(files, key=lambda file: file.modified)
    written = datetime.datetime.fromtimestamp(newest.modified / 1e9).isoformat(" ", "milliseconds")
    many = "a file" if len(files) == 1 else f"{len(files)} files"
    return f" in {many} of {sum(file.size for file in files)} bytes, {newest.path!r} written last, at {written}, hash"


def _hash(*values: str | Array) -> str:
    hashed = hashlib.blake2b(digest_size=8)
    for value in values:
        if isinstance(value, str):
            hashed.update(value.encode())
        elif value.dtype.hasobject:
            hashed.update(repr(value.tolist()).encode())
        else:
            few = value[:: len(value) // HASHED_ROWS + 1] if value.nbytes > HASHED_BYTES else value
            hashed.update(np.ascontiguousarray(few).tobytes())
    return hashed.hexdigest()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # run from its files
        return "unknown"
