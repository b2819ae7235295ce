"""Rows that come in blocks (:class:`bochner.rows.RowSource`): the first pass of a fit, and methods that go over blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from scipy import sparse

from bochner.arrays import Array, is_foreign
from bochner.estimators.folds import FOLDS, LARGE, is_fraction
from bochner.estimators.validation import check_weights, refuse_masked
from bochner.folds import FoldedRows, Rows
from bochner.kernels import Kernel
from bochner.memory import as_bytes, readable
from bochner.rows import Block, RowSource, Sample, from_arrays
from bochner.rows.source import Sampler
from bochner.standardise import ColumnSums
from bochner.streamed import HashCut, PassRecord, StreamedFolds, watched_pass

BLOCK_BYTES = 2**26
"""Size of the blocks that are read at a time, where memory allows."""
BLOCKS_AT_A_TIME = 12
"""Blocks' worth of memory that a pass takes: three are read ahead, and rows are standardised and shared out in copies."""
COPIES = 4
"""How often a table in memory is there at a time while it is learned from."""
IN_BLOCKS = "these rows come in blocks (or are more than max_memory has room for)"
SAMPLE_SHARE = BLOCK_SHARE = 0.25
"""The parts of the memory that the sample may take, with its copies, and the blocks of a pass."""


@dataclass(frozen=True)
class FirstPass:
    """What a pass over all rows tells before anything is learned."""

    columns: ColumnSums
    sample: Sample
    weight_unit: float
    """Mean of the positive weights."""
    n_used: int
    """Rows of positive weight."""


def on_disk(X: Any) -> bool:
    """Whether rows come in blocks, or lie in a file that is mapped to memory."""
    return isinstance(X, RowSource | np.memmap)


def learned_in_blocks(X: Any, max_memory: Any) -> bool:
    """Whether rows are a source, or a dense array that would take more than ``max_memory`` with the copies of a fit."""
    if isinstance(X, RowSource):
        return True
    return isinstance(X, np.ndarray) and not is_foreign(X) and COPIES * X.nbytes > as_bytes(max_memory)


def as_source(X: Any, y: Any = None, sample_weight: Any = None) -> RowSource:
    """Rows with targets and weights as a source, with errors where they are given twice."""
    if not isinstance(X, RowSource):
        for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            refuse_masked(name, values)
        return from_arrays(X, y, None if sample_weight is None else check_weights(sample_weight, X))
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


def refuse_no_targets(block: Block) -> None:
    """An error where a block comes without targets."""
    if block.y is None:
        raise ValueError("These rows come without targets: open them with target=, or give y beside an array.")


def first_pass(
    source: RowSource,
    sampler: Sampler,
    *,
    block_rows: int,
    kernel: Kernel,
    see: Callable[[Block], None],
    watch: Callable[[PassRecord], None] | None = None,
) -> FirstPass:
    """Sums of the columns, a sample, and whatever ``see`` takes of every block; rows must be in the kernel's domain.

    Rows of weight zero are not in the sample. ``watch`` hears how far the pass is.
    """
    columns = ColumnSums(source.n_columns)
    weight, n_used = 0.0, 0
    with closing(watched_pass(source, block_rows, 1, watch)) as blocks:
        for block in blocks:
            refuse_no_targets(block)
            try:
                kernel.check_rows(block.X, names=source.names)
            except ValueError as error:
                raise ValueError(f"In the {block.n_rows} rows from row {block.start} on: {error}") from error
            weights = weights_of(block)
            weight, n_used = weight + float(weights.sum()), n_used + int(np.count_nonzero(weights))
            columns.add(block.X, weights)
            sampler.add(block, among=weights > 0)
            see(block)
    if weight == 0:
        raise ValueError("There are no rows of positive weight to learn from: give at least two rows a positive weight.")
    return FirstPass(columns, sampler.sample(), weight / n_used, n_used)


def hash_cut(criterion: str, validation: Any, n_rows: int, seed: int) -> HashCut:
    """The parts that ``criterion`` and ``validation`` ask for, by hashes of row numbers."""
    if criterion == "loo":
        raise ValueError(f"criterion='loo' needs all features in memory, and {IN_BLOCKS}: use 'holdout' or 'kfold'.")
    whole = isinstance(validation, int | np.integer) and not isinstance(validation, bool)
    if not (validation is None or (whole and validation >= 2) or is_fraction(validation)):
        raise ValueError(
            "validation must be a number of folds (2 or more) or a fraction (between 0 and 1), got "
            f"{type(validation).__name__} {validation!r:.60}: {IN_BLOCKS}, in parts by the hash of their number."
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


def cut_source(
    source: RowSource,
    first: FirstPass,
    cut: HashCut,
    *,
    prepare: Callable[[Block], Rows],
    block_rows: int,
    watch: Callable[[PassRecord], None] | None = None,
) -> FoldedRows:
    """Rows in blocks in their parts, after a first pass; in memory where all of them are in its sample."""
    shuffle = np.random.default_rng(cut.seed + 2)  # of its own: frequencies are the same for a sample of any size
    order = shuffle.permutation(len(first.sample.numbers))
    rows = prepare(Block(0, first.sample.X, first.sample.y, first.sample.weight).take(order))
    folds = cut.folds(first.sample.numbers[order], rows)
    if folds.n == first.n_used:
        return folds
    return StreamedFolds(
        source=source,
        n=first.n_used,
        prepare=prepare,
        cut=cut,
        in_memory=folds,
        block_rows=block_rows,
        smallest_value=first.columns.smallest,
        watch=watch,
    )


def sample_size(source: RowSource, wanted: int, limit: float, n_columns: int | None = None) -> int:
    """How many rows a sample may have, at most ``wanted``; an error where there is no room for any.

    ``n_columns`` are those that rows have where they are learned from, if not those of the source.
    """
    n_columns = n_columns or source.n_columns
    room = int(SAMPLE_SHARE * limit / (COPIES * 8 * n_columns))
    if room < min(wanted, 100):
        needed = 100 * COPIES * 8 * n_columns / SAMPLE_SHARE
        raise ValueError(
            f"Of max_memory, {readable(max(limit, 0.0))} are left beside the features, and learning from rows of "
            f"{n_columns} columns needs at least {readable(needed)}: raise max_memory, or use fewer features."
        )
    return min(wanted, room)


def block_size(source: RowSource, limit: float, n_columns: int | None = None) -> int:
    """How many rows to read at a time; ``n_columns`` as for a sample."""
    share = source.n_columns / (n_columns or source.n_columns)
    return source.rows_of(share * min(BLOCK_BYTES, max(limit, 0.0) * BLOCK_SHARE / BLOCKS_AT_A_TIME))


def new_blocks(estimator: Any, source: RowSource) -> Generator[Block, None, None]:
    """One pass over rows for a fitted estimator, within its ``max_memory`` if it has one."""
    if hasattr(estimator, "n_features_in_"):
        check_columns(estimator, source, reset=False)
    n_rows = block_size(source, as_bytes(getattr(estimator, "max_memory", None)))
    with closing(source.blocks(n_rows)) as blocks:
        yield from blocks


def block_by_block(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of rows take a source too: block after block, with the results one under the other."""

    @wraps(method)
    def each(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not on_disk(X):
            return method(self, X, *args, **options)
        with closing(new_blocks(self, as_source(X))) as blocks:
            return _stack([method(self, block, *args, **options) for block in blocks])

    return each


def compared(estimator: Any, source: RowSource) -> tuple[Array, Array, Array]:
    """The targets of all rows, what an estimator predicts, and the weights, in one pass."""
    found = []
    with closing(new_blocks(estimator, source)) as blocks:
        for block in blocks:
            refuse_no_targets(block)
            found.append((block.y, estimator.predict(block), weights_of(block)))
    y, predictions, weights = _stack(found)
    return y, predictions, weights


def _stack(parts: Sequence[Any]) -> Any:
    """Several results as one: arrays, sparse matrices, or tuples of them."""
    if not parts:
        raise ValueError("There are no rows: at least one is needed.")
    if isinstance(parts[0], tuple):
        return tuple(_stack(some) for some in zip(*parts, strict=True))
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
