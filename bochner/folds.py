"""Rows with targets and weights, in the parts that are held out in turn."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from scipy import sparse

from bochner.arrays import Array, dense

T = TypeVar("T")


@dataclass(frozen=True)
class Rows:
    """Rows X (n, m) with targets Y (n, c) and weights (n,), the last two in float64."""

    X: Array
    targets: Array
    weights: Array

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    def take(self, index: Array) -> Rows:
        """Some of the rows."""
        return Rows(self.X[index], self.targets[index], self.weights[index])

    def in_form_of(self, other: Rows) -> Rows:
        """The same with X sparse or dense, and in the precision, as that of other rows."""
        X = sparse.csr_array(self.X) if sparse.issparse(other.X) else dense(self.X)
        return replace(self, X=X.astype(other.X.dtype, copy=False))

    @classmethod
    def stack(cls, parts: list[Rows]) -> Rows:
        """Several sets of rows as one."""
        if len(parts) == 1:
            return parts[0]
        X = [part.X for part in parts]
        return cls(
            sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X),
            np.concatenate([part.targets for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )


@dataclass(frozen=True)
class HeldOut:
    """Rows and what models that have not seen them predict: (n, c)."""

    rows: Rows
    predictions: Array


class RunningSums(Protocol):
    """What a pass over rows adds up, as arrays that can be saved on the way and taken up again."""

    name: str

    def state(self) -> dict[str, Array]:
        """The sums so far, in NumPy arrays."""

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from sums that :meth:`state` gave."""


class FoldedRows(Protocol):
    """Rows in parts that are held out in turn, in memory (:class:`Folds`) or not."""

    @property
    def validated(self) -> tuple[int, ...]:
        """The parts that are predicted from all the others."""

    @property
    def fitted(self) -> tuple[int, ...] | None:
        """The parts that the final regression is fitted on; None: all of them."""

    @property
    def n(self) -> int:
        """Number of rows in all."""

    @property
    def n_to_fit(self) -> int:
        """Number of rows that the final regression is fitted on."""

    @property
    def n_parts(self) -> int:
        """Number of parts."""

    @property
    def n_columns(self) -> int:
        """Columns of X."""

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""

    @property
    def dtype(self) -> Any:
        """The precision of X."""

    def chunks(self) -> Iterator[tuple[int, Rows]]:
        """All rows, once: the number of a part, and rows of it that are in memory at a time."""

    @property
    def in_memory(self) -> Folds:
        """All rows, or as many as there is room for, in the same parts: a sample where the others are not in memory."""

    @property
    def smallest_value(self) -> float:
        """The smallest entry of X."""

    def head(self, n_rows: int, most_validated: int | None = None) -> FoldedRows:
        """Some of the rows of every part, in proportion, about ``n_rows`` in all."""

    def astype(self, dtype: Any) -> FoldedRows:
        """The same with X in another precision."""


@runtime_checkable
class RemoteFolds(Protocol):
    """Folded rows on other machines, to which a function of them is brought: they offer this beside ``chunks``."""

    @property
    def n_pieces(self) -> int:
        """In how many pieces the rows are; the chunks of each are in the same order in every pass."""

    def map_reduce(self, function: Callable[..., T], add: Callable[[T, T], T], *, beside: Sequence[Any] | None = None) -> T:
        """The sum of ``function(chunks)`` over the pieces, in an order that is always the same.

        ``beside`` has something for each piece, which the function gets after its chunks.
        """


@runtime_checkable
class ResumableFolds(Protocol):
    """Folded rows whose passes can be gone on with where they were cut short: they offer this beside ``chunks``."""

    def stretches(self, sums: RunningSums) -> Generator[Iterable[tuple[int, Rows]], None, None]:
        """All rows, once, in stretches of chunks; all of one must be added to ``sums`` before the next is asked for.

        Sums that were saved are restored first, and the rows that they are of are left out.
        """


def stretches(folds: FoldedRows, sums: RunningSums) -> Generator[Iterable[tuple[int, Rows]], None, None]:
    """All rows, once, to be added to ``sums``: in one stretch where none of them can be left out."""
    if isinstance(folds, ResumableFolds):
        yield from folds.stretches(sums)
    else:
        yield folds.chunks()


@dataclass(frozen=True)
class Folds:
    """Parts of the rows, and which of them are predicted from all the others."""

    parts: tuple[Rows, ...]
    validated: tuple[int, ...]
    fitted: tuple[int, ...] | None = None
    """The parts that the final regression is fitted on; None: all of them."""

    @property
    def n(self) -> int:
        """Number of rows in all."""
        return sum(part.n for part in self.parts)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.parts)

    @property
    def n_columns(self) -> int:
        """Columns of X."""
        return int(self.parts[0].X.shape[1])

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""
        return int(self.parts[0].targets.shape[1])

    @property
    def dtype(self) -> Any:
        """The precision of X."""
        return self.parts[0].X.dtype

    def chunks(self) -> Iterator[tuple[int, Rows]]:
        """The parts, with their numbers."""
        return enumerate(self.parts)

    @property
    def in_memory(self) -> Folds:
        """These."""
        return self

    @property
    def smallest_value(self) -> float:
        """The smallest entry of X."""
        return min(float(part.X.min()) for part in self.parts)

    def head(self, n_rows: int, most_validated: int | None = None) -> Folds:
        """The first rows of every part, in proportion, about ``n_rows`` in all: rows must be in random order.

        Of the parts to predict, the first ``most_validated`` stay so.
        """
        share = min(1.0, n_rows / self.n)
        validated = self.validated[:most_validated]
        return replace(
            self, validated=validated, parts=tuple(p.take(slice(0, max(1, int(np.ceil(share * p.n))))) for p in self.parts)
        )

    def pooled(self) -> Folds:
        """The same with all parts that are not predicted as one, the first; these where some parts are never fitted."""
        others = [k for k in range(len(self.parts)) if k not in self.validated]
        if self.fitted is not None or len(others) < 2:
            return self
        parts = (self._joined([self.parts[k] for k in others]), *(self.parts[k] for k in self.validated))
        return replace(self, parts=parts, validated=tuple(range(1, len(parts))))

    def _joined(self, parts: list[Rows]) -> Rows:
        return Rows.stack(parts)

    def astype(self, dtype: Any) -> Folds:
        """The same with X in another precision."""
        return replace(self, parts=tuple(replace(p, X=p.X.astype(dtype)) for p in self.parts))

    @property
    def n_to_fit(self) -> int:
        """Number of rows that the final regression is fitted on."""
        return sum(part.n for part in self.to_fit)

    @property
    def rows_to_fit(self) -> Rows:
        """The same as one, where the parts are."""
        return self._joined(self.to_fit)

    @property
    def to_fit(self) -> list[Rows]:
        """The parts that the final regression is fitted on."""
        return [self.parts[k] for k in range(len(self.parts)) if self.fitted is None or k in self.fitted]


def clearly_less(one: Array, other: Array, weights: Array) -> bool:
    """Whether losses (n,) are less than others of the same rows, weighted, by more than a standard error of the mean."""
    share = weights / weights.sum()
    gain = other - one
    mean = float(share @ gain)
    return mean > float(np.sum(share**2 * (gain - mean) ** 2) ** 0.5)
