"""A data set as blocks of rows: the contract that every format fills, and the one class that whoever reads rows sees."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.rows.checks import check_values, whole_number
from bochner.rows.files import FileMark, UnreadableError, mark, refuse_changed
from bochner.rows.hashing import hash_numbers, row_hash
from bochner.rows.reading import read_ahead

SAMPLE_BLOCK_BYTES, FEWEST_BLOCK_ROWS = 2**24, 256
"""Size of the blocks that a sample is taken from, and the fewest rows of a block of some size."""


Counted = tuple[int, float | None]
"""Rows so far, and the share of a file that they take, or None where that is not known."""


@dataclass(frozen=True)
class Block:
    """Some rows of a data set, one after the other; k of them."""

    start: int
    """Number of the first one in the whole."""
    X: Array
    """(k, m) of float32 or float64: a NumPy array, or a CSR matrix where the rows are sparse."""
    y: Array | None = None
    """Targets (k,), or (k, c) where several were asked for, of float64; text (objects) where a target holds text."""
    weight: Array | None = None
    """Weights (k,) of float64, zero or more."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    def take(self, index: Any) -> Block:
        """Some of the rows: a slice, row numbers or a mask. ``start`` stays as it is."""
        y, weight = self.y, self.weight
        return replace(
            self,
            X=self.X[index],
            y=None if y is None else y[index],
            weight=None if weight is None else weight[index],
        )


@dataclass(frozen=True)
class Sample:
    """Rows chosen at random, in memory: their numbers in the whole (k,), and X, y, weight as in a :class:`Block`."""

    numbers: Array
    X: Array
    y: Array | None
    weight: Array | None


@dataclass(frozen=True)
class Layout:
    """What the rows of all parts have in common."""

    n_columns: int
    dtype: Any
    names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None


class Part(ABC):
    """One file (or what stands for it): the only thing that a format has to write.

    ``pieces(step)`` starts a fresh pass and yields blocks of whatever length is cheap, about ``step`` rows or less if there
    is a choice; ``start`` is the number of the row in this part. Closing it closes whatever is open.
    """

    def __init__(self, name: str, files: Sequence[Path] = (), n_rows: int | None = None) -> None:
        self.name = name
        self.marks = tuple(mark(path) for path in files)
        self.n_rows = n_rows
        """Known, or None until they are counted."""

    @abstractmethod
    def pieces(self, step: int) -> Generator[Block, None, None]:
        """Blocks of this part, in the order of the rows."""

    def counting(self) -> Generator[Counted, None, None]:
        """Rows so far, up to all of them, by the cheapest means that the format has."""
        n_rows = 0
        with closing(self.pieces(2**12)) as pieces:
            for piece in pieces:
                n_rows += piece.n_rows
                yield n_rows, None


class RowSource:
    """Rows from disk or memory, in blocks, as often as one likes. Made by ``open_rows``, ``from_arrays`` or ``from_blocks``.

    Attributes
    ----------
    n_columns : int
        m, the number of columns of X; targets and weights are not among them.
    names : tuple of str or None
        Names of the columns of X.
    target_names : tuple of str or None
        Names of the targets.
    dtype : numpy.dtype
        float32 or float64: the precision of X.
    """

    def __init__(self, parts: Sequence[Part], layout: Layout) -> None:
        self._parts = tuple(parts)
        self.n_columns = layout.n_columns
        self.names = layout.names
        self.target_names = layout.target_names
        self.dtype = np.dtype(layout.dtype)

    def __repr__(self) -> str:
        rows = str(self.n_rows) if self.is_counted else "?"
        return f"RowSource({rows} rows, {self.n_columns} columns, {self.dtype}, {len(self._parts)} parts)"

    @property
    def n_rows(self) -> int:
        """Number of rows: from the headers of the files, or counted once in a pass of its own."""
        return self.count()

    def count(self, watch: Callable[[dict[str, Any]], None] | None = None) -> int:
        """The same; ``watch`` hears how far counting is, where rows are counted.

        A record has the rows that are ``done``, the ``share`` of the files that they take (None where that is not known),
        and the ``seconds`` since counting began.
        """
        begun = time.perf_counter()
        unknown = [part for part in self._parts if part.n_rows is None]
        sizes = [sum(found.size for found in part.marks) for part in unknown]
        done = 0
        for i, part in enumerate(unknown):
            refuse_changed(part.marks)
            n_rows = 0
            with closing(part.counting()) as counting:
                for n_rows, share in counting:
                    if watch is not None:
                        read = None if share is None else (sum(sizes[:i]) + share * sizes[i]) / max(1, sum(sizes))
                        watch({"done": done + n_rows, "share": read, "seconds": time.perf_counter() - begun})
            part.n_rows = n_rows
            done += n_rows
        return sum(part.n_rows or 0 for part in self._parts)

    @property
    def is_counted(self) -> bool:
        """Whether the number of rows is known."""
        return all(part.n_rows is not None for part in self._parts)

    def blocks(self, n_rows: int, start: int = 0) -> Generator[Block, None, None]:
        """A fresh pass: blocks of ``n_rows`` rows each, the last one perhaps of fewer, in the order of the rows.

        With ``start``, a multiple of ``n_rows``, or all rows, those before it are left out; files of them are not opened.
        Where blocks begin depends on ``n_rows`` alone, not on the files. A thread reads up to two blocks ahead, so three are
        in memory at a time. It ends, and files are closed, with the pass: at its end, at an error, where the loop is left,
        or by ``close()``.
        """
        n_rows = whole_number("n_rows", n_rows)
        return read_ahead(recut(self._pieces(n_rows, start), n_rows))

    def sample(self, n: int, seed: int = 0) -> Sample:
        """``n`` rows chosen at random (all where there are fewer), in memory, in the order of the rows; takes one pass.

        They are those of the smallest ``row_hash``: the same for any block size, and a small sample is part of a larger one.
        """
        sampler = Sampler(n, seed)
        with closing(self.blocks(self.rows_of(SAMPLE_BLOCK_BYTES))) as blocks:
            for block in blocks:
                sampler.add(block)
        return sampler.sample()

    def rows_of(self, n_bytes: float) -> int:
        """How many rows of X take about so many bytes in float64, but at least a few hundred."""
        return max(FEWEST_BLOCK_ROWS, int(n_bytes) // (8 * self.n_columns))

    def fingerprint(self) -> tuple[FileMark, ...]:
        """Path, size and time of modification of every file, as they were when the source was opened; empty in memory."""
        return tuple(found for part in self._parts for found in part.marks)

    def _pieces(self, step: int, first: int = 0) -> Generator[Block, None, None]:
        """The pieces of all parts from a row on, checked, in the dtype of the source, with ``start`` in the whole."""
        start = 0
        for part in self._parts:
            refuse_changed(part.marks)
            if part.n_rows is not None and start + part.n_rows <= first:
                start += part.n_rows
                continue
            n_rows = 0
            with closing(part.pieces(step)) as pieces:
                try:
                    for piece in pieces:
                        n_rows += piece.n_rows
                        left_out = min(max(first - start - piece.start, 0), piece.n_rows)
                        if left_out == piece.n_rows:
                            continue
                        if left_out:
                            piece = replace(piece.take(slice(left_out, None)), start=piece.start + left_out)
                        with np.errstate(over="ignore"):  # too large for float32: told as infinity
                            piece = replace(piece, X=piece.X.astype(self.dtype, copy=False))
                        check_values(piece, part.name, start, self.names, self.target_names)
                        yield replace(piece, start=start + piece.start)
                except (UnreadableError, ValueError):
                    refuse_changed(part.marks)  # which explains what is wrong with it
                    raise
            refuse_changed(part.marks)
            if part.n_rows not in (None, n_rows):
                raise InputError(
                    f"{part.name} had {n_rows} rows in this pass, and {part.n_rows} were expected: every pass must give the "
                    "same rows, so leave them as they are until the fit ends."
                )
            part.n_rows = n_rows
            start += n_rows


class Sampler:
    """A sample of ``n`` rows in the making: block after block, it keeps those of the smallest hashes.

    Of ``among`` rows in all, where that is given, rows are left out that are very unlikely to be in the sample: look at
    ``n_kept``, which is less than n where they would have been in it.
    """

    def __init__(self, n: int, seed: int = 0, among: int | None = None) -> None:
        self.n, self.seed = whole_number("n", n), seed
        self._kept: list[tuple[Array, Block]] = []
        share = 1.0 if among is None else min(1.0, (self.n + 6 * self.n**0.5 + 36) / among)  # six standard deviations
        self._limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))

    def add(self, block: Block, among: Array | bool = True) -> None:
        """One more block; rows are chosen where the mask ``among`` (k,) says so."""
        hashes = row_hash(block.start, block.start + block.n_rows, self.seed)
        chosen = np.flatnonzero((hashes <= self._limit) & among)
        self._kept.append((chosen + block.start, block.take(chosen)))
        self._thin_out()

    def __add__(self, other: Sampler) -> Sampler:
        """The sample of these rows and of others that come after them."""
        total = copy(self)
        total._kept = self._kept + other._kept
        total._limit = min(self._limit, other._limit)
        total._thin_out()
        return total

    @property
    def n_kept(self) -> int:
        """Rows that are held: n or more, or all that were added."""
        return sum(len(numbers) for numbers, _ in self._kept)

    def _thin_out(self) -> None:
        if self.n_kept > 2 * self.n:
            self._kept = [_smallest(self._kept, self.n, self.seed)]
            self._limit = hash_numbers(self._kept[0][0], self.seed).max()

    def state(self) -> dict[str, Array]:
        """The rows chosen so far, as arrays to go on from with :meth:`restore`."""
        if not self._kept:
            return {}
        rows = stack([block for _, block in self._kept])
        X = {"X": rows.X}
        if sparse.issparse(rows.X):
            csr = rows.X.tocsr()
            X = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": np.array(csr.shape)}
        beside = {"weight": rows.weight}
        if rows.y is not None:
            beside["text" if rows.y.dtype.hasobject else "y"] = rows.y.astype(str) if rows.y.dtype.hasobject else rows.y
        numbers = np.concatenate([some for some, _ in self._kept])
        given = {name: value for name, value in beside.items() if value is not None}
        return {"numbers": numbers, "limit": np.array(self._limit), **X, **given}

    def restore(self, state: dict[str, Array]) -> None:
        """Take over rows that :meth:`state` gave."""
        if not state:
            return
        X = state.get("X")
        if X is None:
            X = sparse.csr_array((state["data"], state["indices"], state["indptr"]), shape=tuple(state["shape"]))
        y = state["text"].astype(object) if "text" in state else state.get("y")
        self._kept = [(state["numbers"], Block(0, X, y, state.get("weight")))]
        self._limit = state["limit"][()]

    def sample(self) -> Sample:
        """The rows that were chosen, in their order."""
        if not any(len(numbers) for numbers, _ in self._kept):
            raise InputError("There are no rows to take a sample of: at least one is needed, so give a table that has some.")
        numbers, rows = _smallest(self._kept, self.n, self.seed)
        return Sample(numbers, rows.X, rows.y, rows.weight)


def recut(pieces: Generator[Block, None, None], n_rows: int) -> Generator[Block, None, None]:
    """Blocks of ``n_rows`` rows, the last one perhaps of fewer, from blocks of any length."""
    held: list[Block] = []
    missing = n_rows
    with closing(pieces):
        for piece in pieces:
            at = 0
            while at < piece.n_rows:
                cut = replace(piece.take(slice(at, at + missing)), start=piece.start + at)
                held.append(cut)
                at += cut.n_rows
                missing -= cut.n_rows
                if not missing:
                    yield stack(held)
                    held, missing = [], n_rows
    if held:
        yield stack(held)


def stack(blocks: list[Block]) -> Block:
    """Several blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    X = [block.X for block in blocks]
    first = blocks[0]
    return Block(
        first.start,
        sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X),
        None if first.y is None else np.concatenate([block.y for block in blocks]),
        None if first.weight is None else np.concatenate([block.weight for block in blocks]),
    )


def _smallest(kept: list[tuple[Array, Block]], n: int, seed: int) -> tuple[Array, Block]:
    """The ``n`` rows of the smallest hashes, with their numbers, in the order of the rows."""
    numbers, rows = np.concatenate([some for some, _ in kept]), stack([block for _, block in kept])
    chosen = np.sort(np.argsort(hash_numbers(numbers, seed), kind="stable")[:n])
    return numbers[chosen], rows.take(chosen)
