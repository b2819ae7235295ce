"""Rows that need not fit into memory, in parts that are held out in turn.

Which part a row is in follows from its number: from its hash, so that no list of rows is kept, or from a list that came with
the rows. Every engine finds the same parts.
A sample of the rows is in memory, where kernels are tried; sums over all rows read them block by block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.folds import Folds, Rows, RunningSums
from bochner.rows.hashing import fold_of, hash_numbers, in_part
from bochner.rows.source import Block, RowSource

PassRecord = dict[str, Any]
"""How far a pass is: ``pass`` (counted from 1), its ``first`` row, ``done`` and ``n_rows``, ``seconds`` since it began."""


class PassKeeper:
    """What a pass asks whether its sums are kept, so that it can be gone on with: this one keeps nothing."""

    def resume(self, sums: RunningSums) -> int:
        """Restore the sums of this pass, if some are kept; returns how many rows they are of."""
        return 0

    def is_due(self, done: int, n_rows: int) -> bool:
        """Whether the sums over the first ``done`` of all rows should be kept."""
        return False

    def keep(self, sums: RunningSums, done: int) -> None:
        """Keep the sums of this pass, which are those of the first ``done`` rows."""

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """A context in which passes are made for ``what``, and not gone on with for anything else."""
        yield


def watched_pass(
    source: RowSource, block_rows: int, number: int, watch: Callable[[PassRecord], None] | None, *, start: int = 0
) -> Generator[Block, None, None]:
    """The blocks of one pass over a source, from row ``start`` on; ``watch`` hears of each when it is done with."""
    begun = time.perf_counter()
    with closing(source.blocks(block_rows, start)) as blocks:
        for block in blocks:
            yield block
            if watch is not None:
                done, seconds = block.start + block.n_rows, time.perf_counter() - begun
                watch({"pass": number, "first": start, "done": done, "n_rows": source.n_rows, "seconds": seconds})


@dataclass(frozen=True)
class Cut:
    """Which part a row is in follows from its number."""

    seed: int
    """Chooses parts, and the order of a sample."""

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        raise NotImplementedError

    @property
    def validated(self) -> tuple[int, ...]:
        """The parts to predict from the others."""
        raise NotImplementedError

    def parts_of(self, numbers: Array) -> Array:
        """The part of each row, by the numbers of the rows (n,): (n,)."""
        raise NotImplementedError

    def chunks(self, start: int, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """Rows that follow on row number ``start`` in their parts, without those of weight zero; no part is empty."""
        parts = self.parts_of(np.arange(start, start + rows.n))
        for k in range(self.n_parts):
            some = np.flatnonzero((parts == k) & (rows.weights > 0))
            if len(some):
                yield k, rows.take(some)

    def folds(self, numbers: Array, rows: Rows) -> Folds:
        """Rows in memory in their parts, by the numbers of the rows (n,)."""
        parts = self.parts_of(numbers)
        each = tuple(rows.take(np.flatnonzero(parts == k)) for k in range(self.n_parts))
        if any(part.n == 0 for part in each):
            raise InputError(self._too_few(len(numbers)))
        return Folds(each, self.validated)

    def _too_few(self, n_rows: int) -> str:
        """What to say where a part has none of so many rows, and what to do about it."""
        raise NotImplementedError


@dataclass(frozen=True)
class HashCut(Cut):
    """Parts by hashes of row numbers: ``n_folds`` of them, or the rows to learn from and a ``fraction`` that is held out."""

    n_folds: int | None = None
    fraction: float = 0.2

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return 2 if self.n_folds is None else self.n_folds

    @property
    def validated(self) -> tuple[int, ...]:
        """The one that is held out, or all."""
        return (1,) if self.n_folds is None else tuple(range(self.n_folds))

    def parts_of(self, numbers: Array) -> Array:
        """The part of each row, by the numbers of the rows (n,): (n,)."""
        hashes = hash_numbers(numbers, self.seed)
        return in_part(hashes, self.fraction).astype(np.int64) if self.n_folds is None else fold_of(hashes, self.n_folds)

    def _too_few(self, n_rows: int) -> str:
        return (
            f"{n_rows} rows are too few for {self.n_parts} parts by the hash of their numbers: give more rows, or fewer "
            "folds as validation=2."
        )


@dataclass(frozen=True)
class ListedCut(Cut):
    """Parts from a list: that of every row of the source, of which the first ``n_validated`` are held out in turn."""

    parts: Array
    """(n,)."""
    n_validated: int

    @property
    def n_parts(self) -> int:
        """Number of parts: those held out, and the rows that never are."""
        return int(self.parts.max()) + 1

    @property
    def validated(self) -> tuple[int, ...]:
        """The parts to predict from the others."""
        return tuple(range(self.n_validated))

    def parts_of(self, numbers: Array) -> Array:
        """The part of each row, by the numbers of the rows (n,): (n,)."""
        return self.parts[numbers]

    def _too_few(self, n_rows: int) -> str:
        return (
            "validation has a split without a single validation or training row of positive weight among "
            f"the {n_rows} rows that are held in memory: leave that split out, make it larger, or raise max_memory."
        )


@dataclass(frozen=True, kw_only=True)
class SampledFolds:
    """Rows in parts, most of them elsewhere; ``in_memory`` holds a sample of them, in random order, in the same parts.

    Rows of weight zero count for nothing.
    """

    n: int
    """Number of rows of positive weight."""
    cut: Cut
    in_memory: Folds
    smallest_value: float
    """The smallest entry of X."""
    watch: Callable[[PassRecord], None] | None = None
    """Hears how far a pass is."""
    fitted: tuple[int, ...] | None = None
    _passes: list[int] = field(default_factory=lambda: [1])
    """Passes so far, that for the sample among them."""

    @property
    def validated(self) -> tuple[int, ...]:
        """The parts that are predicted from all the others."""
        return self.in_memory.validated

    @property
    def n_to_fit(self) -> int:
        """Number of rows that the final regression is fitted on: all."""
        return self.n

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.cut.n_parts

    @property
    def n_columns(self) -> int:
        """Columns of X."""
        return self.in_memory.n_columns

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""
        return self.in_memory.n_targets

    @property
    def dtype(self) -> Any:
        """The precision of X."""
        return self.in_memory.dtype

    def head(self, n_rows: int, most_validated: int | None = None) -> Self | Folds:
        """About ``n_rows`` rows: all of them, or as many of the sample."""
        if n_rows < self.n:
            return self.in_memory.head(n_rows, most_validated)
        return replace(self, in_memory=replace(self.in_memory, validated=self.validated[:most_validated]))

    def astype(self, dtype: Any) -> Self:
        """The same with X in another precision."""
        return replace(self, in_memory=self.in_memory.astype(dtype))


@dataclass(frozen=True, kw_only=True)
class StreamedFolds(SampledFolds):
    """Rows of a source in parts: every pass over them reads them anew, block by block."""

    source: RowSource
    prepare: Callable[[Block], Rows]
    """Standardised rows with targets and weights, from a block."""
    block_rows: int
    """Rows that are read at a time."""
    keeper: PassKeeper = field(default_factory=PassKeeper)

    def chunks(self) -> Iterator[tuple[int, Rows]]:
        """One pass over the source: of every block, the rows of each part."""
        with closing(self._blocks()) as blocks:
            for block in blocks:
                yield from self._chunks_of(block)

    def stretches(self, sums: RunningSums) -> Generator[Iterable[tuple[int, Rows]], None, None]:
        """The same in stretches, each up to the block after which the sums are due to be kept."""
        done, n_rows = self.keeper.resume(sums), self.source.n_rows

        def stretch() -> Iterator[tuple[int, Rows]]:
            nonlocal done
            for block in blocks:
                yield from self._chunks_of(block)
                done = block.start + block.n_rows
                if done < n_rows and self.keeper.is_due(done, n_rows):
                    return

        with closing(self._blocks(done)) as blocks:
            whole = False
            while not whole:
                yield stretch()
                whole = done >= n_rows
                if self.keeper.is_due(done, n_rows):
                    self.keeper.keep(sums, done)

    def _blocks(self, start: int = 0) -> Generator[Block, None, None]:
        self._passes[0] += 1
        return watched_pass(self.source, self.block_rows, self._passes[0], self.watch, start=start)

    def _chunks_of(self, block: Block) -> Iterator[tuple[int, Rows]]:
        rows = self.prepare(block)
        return self.cut.chunks(block.start, replace(rows, X=rows.X.astype(self.dtype, copy=False)))
