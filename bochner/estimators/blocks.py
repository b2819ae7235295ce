"""Rows that come in blocks (:class:`bochner.rows.RowSource`): the first pass of a fit, and methods that go over blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from scipy import sparse

from bochner.arrays import Array, is_foreign
from bochner.estimators.folds import FOLDS, LARGE, is_fraction
from bochner.kernels import Kernel
from bochner.memory import readable
from bochner.rows import Block, RowSource, Sample, from_arrays
from bochner.rows.source import Sampler
from bochner.standardise import ColumnSums
from bochner.streamed import HashCut

BLOCK_BYTES = 2**26
"""Size of the blocks that are read at a time, where memory allows."""
BLOCKS_AT_A_TIME = 12
"""Blocks' worth of memory that a pass takes: three are read ahead, and rows are standardised and shared out in copies."""
COPIES = 4
"""How often a table in memory is there at a time while it is learned from."""
SAMPLE_SHARE = 0.25
"""The part of the memory that the sample may take, with its copies."""


@dataclass(frozen=True)
class FirstPass:
    """What a pass over all rows tells before anything is learned."""

    columns: ColumnSums
    sample: Sample
    weight_unit: float
    """Mean of the positive weights."""


def is_source(X: Any) -> bool:
    """Whether rows come in blocks, or lie in a file."""
    return isinstance(X, RowSource | np.memmap)


def too_large(X: Any, limit: float) -> bool:
    """Whether a dense array and the copies that a fit makes of it would take more than ``limit`` bytes."""
    return isinstance(X, np.ndarray) and not is_foreign(X) and COPIES * X.nbytes > limit


def as_source(X: Any, y: Any, sample_weight: Any) -> RowSource:
    """Rows with targets and weights as a source, with errors where they are given twice or not at all."""
    if not isinstance(X, RowSource):
        return from_arrays(X, y, sample_weight)
    for name, value, word in (("y", y, "target"), ("sample_weight", sample_weight, "weight")):
        if value is not None:
            raise ValueError(f"Rows in blocks come with their own {word}s: leave {name} out, and open them with {word}=.")
    return X


def check_columns(estimator: Any, source: RowSource, *, reset: bool) -> None:
    """Learn the number and the names of a source's columns, or compare them with the learned ones."""
    if reset:
        estimator.n_features_in_ = source.n_columns
        if source.names is not None:
            estimator.feature_names_in_ = np.array(source.names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):  # of an earlier fit
            del estimator.feature_names_in_
        return
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and source.names is not None and list(known) != list(source.names):
        missing = [name for name in known if name not in source.names]
        what = f"has no column {missing[0]!r}" if missing else "has its columns in another order, or more of them"
        raise ValueError(f"The source {what}, and the model was fitted on {list(known)[:10]}: open it with columns=.")
    if source.n_columns != estimator.n_features_in_:
        raise ValueError(
            f"The source has {source.n_columns} columns, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_}: open it with columns=."
        )


def weights_of(block: Block) -> Array:
    """The weights of a block's rows; ones where it has none."""
    return np.ones(block.n_rows) if block.weight is None else block.weight


def first_pass(
    source: RowSource,
    *,
    n_sample: int,
    seed: int,
    block_rows: int,
    kernel: Kernel,
    see: Callable[[Block], None],
) -> FirstPass:
    """Sums of the columns, a sample, and whatever ``see`` takes of every block; rows must be in the kernel's domain."""
    columns, sampler = ColumnSums(source.n_columns), Sampler(n_sample, seed)
    weight, n_used = 0.0, 0
    with closing(source.blocks(block_rows)) as blocks:
        for block in blocks:
            try:
                kernel.check_rows(block.X, names=source.names)
            except ValueError as error:
                raise ValueError(f"In the {block.n_rows} rows from row {block.start} on: {error}") from error
            weights = weights_of(block)
            weight, n_used = weight + float(weights.sum()), n_used + int(np.count_nonzero(weights))
            columns.add(block.X, weights)
            sampler.add(block)
            see(block)
    if weight == 0:
        raise ValueError("The weights of all rows are zero: give at least two rows a positive weight.")
    return FirstPass(columns, sampler.sample(), weight / n_used)


def hash_cut(criterion: str, validation: Any, n_rows: int, seed: int) -> HashCut:
    """The parts that ``criterion`` and ``validation`` ask for, by hashes of row numbers."""
    if criterion == "loo":
        raise ValueError("criterion='loo' needs all features in memory, and these rows come in blocks: use 'holdout'.")
    whole = isinstance(validation, int | np.integer) and not isinstance(validation, bool)
    if not (validation is None or (whole and validation >= 2) or is_fraction(validation)):
        raise ValueError(
            "validation must be a number of folds (2 or more) or a fraction (between 0 and 1) for rows in blocks, whose "
            f"parts are told by the hash of their number, got {type(validation).__name__} {validation!r:.60}."
        )
    if criterion == "auto":
        criterion = "kfold" if whole or (validation is None and n_rows < LARGE) else "holdout"
    if criterion == "kfold":
        if validation is not None and not whole:
            raise ValueError(f"validation must be a whole number of folds, at least 2, for 'kfold', got {validation!r}.")
        return HashCut(seed, n_folds=FOLDS if validation is None else int(validation))
    if whole:
        raise ValueError(f"validation must be a fraction between 0 and 1 for 'holdout', got {validation!r}.")
    return HashCut(seed, fraction=0.2 if validation is None else float(validation))


def sample_size(source: RowSource, wanted: int, limit: float) -> int:
    """How many rows a sample may have, at most ``wanted``; an error where there is no room for any."""
    room = int(SAMPLE_SHARE * limit / (COPIES * 8 * source.n_columns))
    if room < min(wanted, 100):
        needed = 100 * COPIES * 8 * source.n_columns / SAMPLE_SHARE
        raise ValueError(
            f"max_memory is {readable(limit)}, and learning from rows of {source.n_columns} columns needs at least "
            f"{readable(needed)}: raise max_memory."
        )
    return min(wanted, room)


def block_size(source: RowSource, limit: float) -> int:
    """How many rows to read at a time."""
    return source.rows_of(min(BLOCK_BYTES, 0.25 * limit / BLOCKS_AT_A_TIME))


def block_by_block(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of rows take a source too: block after block, with the results one under the other."""

    @wraps(method)
    def each(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_source(X):
            return method(self, X, *args, **options)
        source = as_source(X, None, None)
        if hasattr(self, "n_features_in_"):
            check_columns(self, source, reset=False)
        with closing(source.blocks(source.rows_of(BLOCK_BYTES))) as blocks:
            results = [method(self, block, *args, **options) for block in blocks]
        if isinstance(results[0], tuple):
            return tuple(_stack(parts) for parts in zip(*results, strict=True))
        return _stack(results)

    return each


def _stack(parts: Sequence[Array]) -> Array:
    """Several results as one."""
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def targets_of(source: RowSource) -> tuple[Array, Array | None]:
    """The targets and the weights of all rows, in one pass."""
    with closing(source.blocks(source.rows_of(BLOCK_BYTES))) as blocks:
        pairs = [(block.y, block.weight) for block in blocks]
    if pairs[0][0] is None:
        raise ValueError("The source has no targets to compare with: open it with target=.")
    return np.concatenate([y for y, _ in pairs]), None if pairs[0][1] is None else np.concatenate([w for _, w in pairs])
