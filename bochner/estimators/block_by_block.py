"""Methods of fitted estimators that go over rows in blocks, or over partitions of Dask's."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial, wraps
from typing import Any, cast

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array
from bochner.blas import same_bits
from bochner.engines.dask_rows import DaskRows, Place, dask_layout, is_dask, map_rows
from bochner.engines.smaller_blocks import told_of_devices
from bochner.errors import InputError
from bochner.estimators.blocks import (
    as_source,
    block_size,
    check_columns,
    on_disk,
    refuse_no_targets,
    travelling,
    weights_of,
)
from bochner.estimators.encoding import encoder_of
from bochner.estimators.validation import Method
from bochner.memory import as_bytes
from bochner.rows import Block, EncodedRows, RowSource
from bochner.rows.checks import check_values


def new_blocks(estimator: Any, source: RowSource) -> Generator[Block, None, None]:
    """One pass over rows for a fitted estimator, within its ``max_memory`` if it has one."""
    encoder = encoder_of(estimator)
    if encoder is not None and isinstance(source, EncodedRows):
        source = source.encoded_by(encoder)
    if hasattr(estimator, "n_features_in_"):
        check_columns(estimator, source, reset=False)
    n_rows = block_size(source, as_bytes(getattr(estimator, "max_memory", None)))
    with closing(source.blocks(n_rows)) as blocks:
        yield from blocks


def block_by_block(method: Method) -> Method:
    """Let a method of rows take a source too: block after block, with the results one under the other.

    That of a collection of Dask's is a dask.array, to be computed where the rows are.
    """

    @wraps(method)
    def each(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if is_dask(X):
            return _by_partition(method, self, X, *args, **options)
        if not on_disk(X):
            with same_bits(), told_of_devices():
                return method(self, X, *args, **options)
        with closing(new_blocks(self, as_source(X))) as blocks, same_bits(), told_of_devices():
            return _stack([method(self, block, *args, **options) for block in blocks])

    return cast(Method, each)


def _by_partition(method: Callable[..., Any], estimator: Any, X: Any, *args: Any, **options: Any) -> Any:
    """A method of rows of the partitions of X, as a dask.array."""
    check_is_fitted(estimator)
    rows = dask_layout(X)
    check_columns(estimator, rows, reset=False)
    light = travelling(estimator, *(("moments_", "_few_centres") if args or options else ()))
    function = partial(_of_rows, method, light, rows.names, args, options)
    return map_rows(function, X, like=function(np.zeros((1, rows.n_columns), dtype=rows.dtype), Place(0, 0)))


def _of_rows(method: Callable[..., Any], estimator: Any, names: Any, args: Any, options: Any, X: Array, place: Place) -> Any:
    """A method of the rows of one partition, whose columns were compared; there may be none."""
    X = np.asarray(X).astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
    start = place.start or 0
    rows = Block(start, X if len(X) else np.zeros((1, X.shape[1]), dtype=X.dtype))
    try:
        with same_bits():
            return _first(method(estimator, rows, *args, **options), len(X))
    except ValueError as error:
        where = f"partition {place.number}"
        check_values(replace(rows, start=0), where, start, names, None)  # which says more
        raise InputError(f"In {where}: {error}") from error


def _first(result: Any, n: int) -> Any:
    """The first n rows of a result, or of each where it is a tuple."""
    return tuple(_first(each, n) for each in result) if isinstance(result, tuple) else result[:n]


def compared(estimator: Any, source: RowSource | DaskRows) -> tuple[Array, Array, Array]:
    """The targets of all rows, what an estimator predicts, and the weights, in one pass."""
    if isinstance(source, DaskRows):
        check_is_fitted(estimator)
        check_columns(estimator, source, reset=False)
        found = source.map(partial(_compared, travelling(estimator)))
    else:
        with closing(new_blocks(estimator, source)) as blocks:
            found = [_compared(estimator, block) for block in blocks]
    y, predictions, weights = _stack(found)
    return y, predictions, weights


def _compared(estimator: Any, block: Block) -> tuple[Array, Array, Array]:
    refuse_no_targets(block)
    return block.y, estimator.predict(block), weights_of(block)


def _stack(parts: Sequence[Any]) -> Any:
    """Several results as one: arrays, sparse matrices, or tuples of them."""
    if not parts:
        raise InputError("There are no rows: at least one is needed, so give a table that has some.")
    if isinstance(parts[0], tuple):
        return tuple(_stack(some) for some in zip(*parts, strict=True))
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
