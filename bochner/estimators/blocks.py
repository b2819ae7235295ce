"""Rows that come in blocks (:class:`bochner.rows.RowSource`): what they are, and the first pass of a fit."""

from __future__ import annotations

import itertools
import operator
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from bochner.arrays import Array, is_foreign
from bochner.engines.dask_rows import DaskRows, dask_rows, is_dask
from bochner.errors import InputError, NotEnoughMemoryError
from bochner.estimators.encoding import ENCODER, encoder_of, keep_encoder
from bochner.estimators.folds import FOLDS, LARGE, is_fraction, is_splitter, is_validation_set, listed_parts
from bochner.estimators.validation import check_block, check_weights, refuse_masked
from bochner.folds import FoldedRows, Rows
from bochner.kernels import Kernel
from bochner.memory import as_bytes, readable
from bochner.progress import CountLine
from bochner.rows import Block, EncodedRows, RowSource, Sample, from_arrays
from bochner.rows.source import Layout, Sampler
from bochner.standardise import ColumnSums
from bochner.streamed import Cut, HashCut, ListedCut, PassKeeper, PassRecord, StreamedFolds, watched_pass

BLOCK_BYTES = 2**23
"""Size of the blocks that are read at a time, where memory allows: larger ones are no faster."""
BLOCKS_AT_A_TIME = 12
"""Blocks' worth of memory that a pass takes: three are read ahead, and rows are standardised and shared out in copies."""
COPIES = 4
"""How often a table in memory is there at a time while it is learned from."""
IN_BLOCKS = "these rows come in blocks (or are more than max_memory has room for)"
NO_TARGETS = "These rows come without targets: open them with target=, or give y beside an array."
FIRST_ROWS = 256
"""Rows that are looked at before all are counted."""
STAYS = ("callback", "validation", "random_state", "history_", "moments_", "_few_centres")
"""Attributes of learners that tasks on other machines do not need: some cannot go there, some are large."""
PARTS = ("columns", "sampler", "targets")
"""What a first pass consists of, beside two numbers."""
SAMPLE_SHARE = BLOCK_SHARE = 0.25
"""The parts of the memory that the sample may take, with its copies, and the blocks of a pass."""
FEW_SAMPLED, FEW_FOR_A_COLUMN = 2000, 10
"""A sample that max_memory makes smaller than this, in all or for each column, is warned of."""
KEPT_SHARE = 0.25
"""The part that all rows may take, with their copies, where many passes are made over them."""


class FirstPass:
    """What a pass over all rows tells before anything is learned: sums of columns and targets, and a sample.

    Blocks are added one by one, and what is known of some rows to what is known of those before them. Rows must be in the
    domain of ``kernel``; those of weight zero are not in the sample. ``targets`` takes down whatever it likes of a block,
    with ``see(block)``, and can be saved on the way.
    """

    name = "first"

    def __init__(self, layout: Any, sampler: Sampler, targets: Any, kernel: Kernel) -> None:
        self.names, self.kernel = layout.names, kernel
        self.columns = ColumnSums(layout.n_columns)
        self.sampler, self.targets = sampler, targets
        self.weight = 0.0
        self.n_used = 0
        """Rows of positive weight."""

    def add(self, block: Block) -> None:
        """One more block."""
        refuse_no_targets(block)
        check_block(block, self.kernel, self.names)
        weights = weights_of(block)
        self.weight, self.n_used = self.weight + float(weights.sum()), self.n_used + int(np.count_nonzero(weights))
        self.columns.add(block.X, weights)
        self.sampler.add(block, among=weights > 0)
        self.targets.see(block)

    def __add__(self, other: FirstPass) -> FirstPass:
        total = copy(self)
        for name in (*PARTS, "weight", "n_used"):
            setattr(total, name, getattr(self, name) + getattr(other, name))
        return total

    def state(self) -> dict[str, Array]:
        """All sums so far, to go on from with :meth:`restore`."""
        own = {"own/weight": np.array(self.weight), "own/n_used": np.array(self.n_used)}
        return {**own, **{f"{part}/{name}": value for part in PARTS for name, value in getattr(self, part).state().items()}}

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from sums that :meth:`state` gave."""
        self.weight, self.n_used = float(state["own/weight"]), int(state["own/n_used"])
        for part in PARTS:
            start = f"{part}/"
            some = {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
            getattr(self, part).restore(some)

    @property
    def sample(self) -> Sample:
        """The rows that were chosen."""
        return self.sampler.sample()

    @property
    def weight_unit(self) -> float:
        """Mean of the positive weights."""
        return self.weight / self.n_used


class Passes(Protocol):
    """How all rows are gone over: block after block, or on many machines."""

    def first(self, start: FirstPass) -> FirstPass:
        """What ``start`` becomes in a pass over all rows."""

    def folds(self, *, prepare: Callable[[Block], Rows], **common: Any) -> FoldedRows:
        """The rows in parts; ``prepare`` makes standardised rows of a block, the others are those of SampledFolds."""


@dataclass(frozen=True)
class SourcePasses:
    """Passes over a source, ``block_rows`` rows at a time; ``watch`` hears how far they are, ``keeper`` keeps their sums."""

    source: RowSource
    block_rows: int
    watch: Callable[[PassRecord], None] | None
    keeper: PassKeeper

    def first(self, start: FirstPass) -> FirstPass:
        done, n_rows = self.keeper.resume(start), self.source.n_rows
        with closing(watched_pass(self.source, self.block_rows, 1, self.watch, start=done)) as blocks:
            for block in blocks:
                start.add(block)
                done = block.start + block.n_rows
                if self.keeper.is_due(done, n_rows):
                    self.keeper.keep(start, done)
        return start

    def folds(self, *, prepare: Callable[[Block], Rows], **common: Any) -> StreamedFolds:
        return StreamedFolds(
            source=self.source,
            prepare=prepare,
            block_rows=self.block_rows,
            watch=self.watch,
            keeper=self.keeper,
            **common,
        )


@dataclass(frozen=True)
class DaskPasses:
    """Passes over partitions of Dask, each where it is; ``watch`` hears when they are done, ``keeper`` keeps the first."""

    rows: DaskRows
    watch: Callable[[PassRecord], None] | None
    keeper: PassKeeper

    def first(self, start: FirstPass) -> FirstPass:
        n_rows = self.rows.n_rows
        if self.keeper.resume(start) == n_rows:
            return start
        few = copy(start)  # few rows come here: those of a sample, and hardly any that are not in it
        few.sampler = Sampler(start.sampler.n, start.sampler.seed, among=self.rows.n_rows)
        begun = time.perf_counter()
        total = self.rows.map_reduce(partial(_seen, few), operator.add)
        if total.sampler.n_kept < min(start.sampler.n, total.n_used):  # as where most weights are zero
            total = self.rows.map_reduce(partial(_seen, start), operator.add)
        if self.watch is not None:
            self.watch({"pass": 1, "done": n_rows, "n_rows": n_rows, "seconds": time.perf_counter() - begun})
        if self.keeper.is_due(n_rows, n_rows):
            self.keeper.keep(total, n_rows)
        return total

    def folds(self, *, prepare: Callable[[Block], Rows], **common: Any) -> FoldedRows:
        return self.rows.folds(prepare=prepare, watch=self.watch, **common)


def _seen(start: FirstPass, block: Block) -> FirstPass:
    """What a first pass tells of one block."""
    first = deepcopy(start)
    first.add(block)
    return first


def passes_over(
    source: RowSource | DaskRows,
    limit: float,
    watch: Callable[[PassRecord], None] | None,
    n_columns: int | None = None,
    keeper: PassKeeper | None = None,
) -> Passes:
    """How to go over rows, within so many bytes; ``n_columns`` as in :func:`sample_size`."""
    keeper = PassKeeper() if keeper is None else keeper
    if isinstance(source, DaskRows):
        return DaskPasses(source, watch, keeper)
    return SourcePasses(source, block_size(source, limit, n_columns), watch, keeper)


def count_rows(source: RowSource | DaskRows, sums: Any, verbose: Any) -> None:
    """Count rows where files do not say how many they have; say how far that is if ``verbose``.

    Targets of the wrong kind are told before: ``sums`` takes those of a first pass down.
    """
    if isinstance(source, DaskRows):
        if not source.has_targets:
            raise InputError(NO_TARGETS)
    elif not source.is_counted:
        with closing(source.blocks(FIRST_ROWS)) as blocks:
            for block in itertools.islice(blocks, 1):
                refuse_no_targets(block)
                deepcopy(sums).see(block)
        with closing(CountLine()) as line:
            source.count(line if verbose else None)


def first_pass(passes: Passes, start: FirstPass) -> FirstPass:
    """What ``start`` becomes in a pass over all rows, some of which must have a positive weight."""
    first = passes.first(start)
    if first.weight == 0:
        raise InputError("There are no rows of positive weight to learn from: give at least two rows a positive weight.")
    return first


def travelling(estimator: Any, *needed: str) -> Any:
    """A copy of an estimator for other machines: without what its tasks there do not need, but for these attributes."""
    light = copy(estimator)
    for name in set(vars(light)) & set(STAYS) - set(needed):
        if name.endswith("_"):
            delattr(light, name)
        else:
            setattr(light, name, None)
    return light


def comes_in_blocks(X: Any) -> bool:
    """Whether rows are a source, or a collection of Dask's."""
    return isinstance(X, RowSource) or is_dask(X)


def on_disk(X: Any) -> bool:
    """Whether rows come in blocks, or lie in a file that is mapped to memory."""
    return isinstance(X, RowSource | np.memmap)


def learned_in_blocks(X: Any, max_memory: Any) -> bool:
    """Whether rows are a source, or a dense array that would take more than ``max_memory`` with the copies of a fit."""
    if comes_in_blocks(X):
        return True
    return isinstance(X, np.ndarray) and not is_foreign(X) and COPIES * X.nbytes > as_bytes(max_memory)


def mapped_in_blocks(X: Any, max_memory: Any) -> bool:
    """Whether rows are a source or Dask's, or lie in a file that is mapped to memory and have no room in ``max_memory``."""
    return is_dask(X) or (on_disk(X) and learned_in_blocks(X, max_memory))


def as_source(X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Rows with targets and weights as a source (or as DaskRows), with errors where they are given twice."""
    if is_dask(X):
        return dask_rows(X, y, sample_weight)
    if not isinstance(X, RowSource):
        for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            refuse_masked(name, values)
        return from_arrays(X, y, None if sample_weight is None else check_weights(sample_weight, X))
    for name, value, word in (("y", y, "target"), ("sample_weight", sample_weight, "weight")):
        if value is not None:
            raise InputError(f"Rows in blocks come with their own {word}s: leave {name} out, and open them with {word}=.")
    return X


def check_columns(estimator: Any, source: RowSource | DaskRows | Layout, *, reset: bool) -> None:
    """Learn the number and the names of a source's columns, or compare them with the learned ones."""
    if reset:
        vars(estimator).pop(ENCODER, None)
        if isinstance(source, EncodedRows):
            keep_encoder(estimator, source.encoder)
            return
        estimator.n_features_in_ = source.n_columns
        if source.names is not None:
            estimator.feature_names_in_ = np.array(source.names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):  # of an earlier fit
            del estimator.feature_names_in_
        return
    if encoder_of(estimator) is not None:
        if not isinstance(source, EncodedRows):
            raise InputError(
                f"{type(estimator).__name__} was fitted on a table that it encoded as numbers: open rows of files with "
                "encode=True, and give others as a table."
            )
        return
    advice = "open it with columns=" if isinstance(source, RowSource) else "give X[columns]"
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and source.names is not None and list(known) != list(source.names):
        missing = [name for name in known if name not in source.names]
        what = f"has no column {missing[0]!r}" if missing else "has its columns in another order, or more of them"
        raise InputError(f"The source {what}, and the model was fitted on {list(known)[:10]}: {advice}.")
    if source.n_columns != estimator.n_features_in_:
        raise InputError(
            f"The source has {source.n_columns} columns, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_}: {advice}."
        )


def weights_of(block: Block) -> Array:
    """The weights of a block's rows; ones where it has none."""
    return np.ones(block.n_rows) if block.weight is None else block.weight


def refuse_no_targets(block: Block) -> None:
    """An error where a block comes without targets."""
    if block.y is None:
        raise InputError(NO_TARGETS)


def source_cut(criterion: str, validation: Any, n_rows: int, n_used: int, seed: int) -> Cut:
    """The parts of ``n_rows`` rows, ``n_used`` of them of positive weight, that ``criterion`` and ``validation`` ask for.

    They come from hashes of row numbers, or from the row numbers of a splitter.
    """
    if criterion == "loo":
        raise InputError(f"criterion='loo' needs all features in memory, and {IN_BLOCKS}: use 'holdout' or 'kfold'.")
    if is_splitter(validation) and not is_validation_set(validation):
        return ListedCut(seed, *listed_parts(validation, np.zeros(n_rows), None))
    return _hash_cut(criterion, validation, n_used, seed)


def _hash_cut(criterion: str, validation: Any, n_rows: int, seed: int) -> HashCut:
    """Folds or a part that is held out, by hashes of row numbers."""
    whole = isinstance(validation, int | np.integer) and not isinstance(validation, bool)
    if not (validation is None or (whole and validation >= 2) or is_fraction(validation)):
        raise InputError(
            "validation must be a number of folds (2 or more), a fraction (between 0 and 1) or a list of pairs (training "
            f"rows, validation rows) of row numbers, got {type(validation).__name__} {validation!r:.60}: {IN_BLOCKS}."
        )
    if criterion == "auto":
        criterion = "kfold" if whole or (validation is None and n_rows < LARGE) else "holdout"
    if criterion == "kfold":
        if validation is not None and not whole:
            raise InputError(f"validation must be a whole number of folds, at least 2, for 'kfold', got {validation!r}.")
        return HashCut(seed, n_folds=FOLDS if validation is None else int(validation))
    if whole:
        raise InputError(f"validation must be a fraction between 0 and 1 for 'holdout', got {validation!r}.")
    return HashCut(seed, fraction=0.2 if validation is None else float(validation))


def cut_source(passes: Passes, first: FirstPass, cut: Cut, estimator: Any) -> FoldedRows:
    """Rows in their parts after a first pass, as an estimator prepares them; in memory where all are in the sample."""
    sample = first.sample
    shuffle = np.random.default_rng(cut.seed + 2)  # of its own: frequencies are the same for a sample of any size
    order = shuffle.permutation(len(sample.numbers))
    rows = estimator._prepared(Block(0, sample.X, sample.y, sample.weight).take(order))
    folds = cut.folds(sample.numbers[order], rows)
    if folds.n == first.n_used:
        return folds
    return passes.folds(
        n=first.n_used,
        prepare=travelling(estimator)._prepared,
        cut=cut,
        in_memory=folds,
        smallest_value=first.columns.smallest,
    )


def sample_size(
    source: RowSource | DaskRows, wanted: int, limit: float, n_columns: int | None = None, *, few_do: bool = False
) -> int:
    """How many rows a sample may have, at most ``wanted``; an error where there is no room for any.

    ``n_columns`` are those that rows have where they are learned from, if not those of the source. A warning says that there
    is room for few of them, unless ``few_do``.
    """
    n_columns = n_columns or source.n_columns
    room = int(SAMPLE_SHARE * limit / (COPIES * 8 * n_columns))
    if room < min(wanted, 100):
        needed = 100 * COPIES * 8 * n_columns / SAMPLE_SHARE
        raise NotEnoughMemoryError(
            f"Of max_memory, {readable(max(limit, 0.0))} are left beside the features, and learning from rows of "
            f"{n_columns} columns needs at least {readable(needed)}: raise max_memory, or use fewer features."
        )
    few = min(wanted, source.n_rows, max(FEW_SAMPLED, FEW_FOR_A_COLUMN * n_columns))
    if room < few and not few_do:
        warnings.warn(
            f"max_memory has room for {room:,} of {source.n_rows:,} rows to try kernels on: what is learned from so few may "
            f"be poor. For {few:,} rows it must leave {readable(few * COPIES * 8 * n_columns / SAMPLE_SHARE)} beside the "
            "features: raise it, or use fewer features.",
            UserWarning,
            stacklevel=6,
        )
    return min(wanted, room)


def kept_rows(
    source: RowSource | DaskRows, wanted: int, limit: float, n_columns: int | None = None, *, few_do: bool = False
) -> int:
    """The same where many passes are made: all rows if there is room for them, unless they are on other machines."""
    room = KEPT_SHARE * limit / (COPIES * 8 * (n_columns or source.n_columns))
    if isinstance(source, RowSource) and source.n_rows <= room:
        return source.n_rows
    return sample_size(source, wanted, limit, n_columns, few_do=few_do)


def refuse_many_rows(needed: float, room: float, n_rows: int, loss: str) -> None:
    """An error where a loss needs more bytes for numbers of all rows than there is room for."""
    if needed > room:
        raise NotEnoughMemoryError(
            f"loss={loss!r} keeps scores of all {n_rows:,} rows in memory, even where rows come in blocks: about "
            f"{readable(needed)}, and max_memory leaves {readable(max(room, 0.0))} for them. Raise max_memory, give fewer "
            "rows, or use loss='squared'."
        )


def block_size(source: RowSource, limit: float, n_columns: int | None = None) -> int:
    """How many rows to read at a time; ``n_columns`` as for a sample."""
    share = source.n_columns / (n_columns or source.n_columns)
    return source.rows_of(share * min(BLOCK_BYTES, max(limit, 0.0) * BLOCK_SHARE / BLOCKS_AT_A_TIME))
