"""The contract of a feature map: rows to features, and the gradient back to the kernel's parameters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from bochner.arrays import Array, fetch64, place

FEW_ROWS = 16
"""Rows from which a step over rows is worth its while, for maps of which no row costs more by itself."""


@dataclass(frozen=True)
class FeatureGradient:
    """Gradient of <Phi(X), G> = sum(Phi(X) * G); those of several blocks of rows add up.

    ``parameters`` holds the derivative in each learnable parameter of the kernel ("scale": one per column),
    ``frequencies`` the derivative in every frequency, (inputs, frequencies), where the map has frequencies. All float64.
    ``pending`` is a part of the derivative that is cheaper to find once for all blocks: :meth:`named` adds it.
    """

    parameters: dict[str, Array] = field(default_factory=dict)
    frequencies: Array | None = None
    pending: PendingGradient | None = None

    def __add__(self, other: FeatureGradient) -> FeatureGradient:
        parameters = {name: value + other.parameters[name] for name, value in self.parameters.items()}
        frequencies = None if self.frequencies is None else self.frequencies + other.frequencies
        both = [some.pending for some in (self, other) if some.pending is not None]
        return FeatureGradient(parameters, frequencies, sum(both[1:], start=both[0]) if both else None)

    def beside(self, other: FeatureGradient) -> FeatureGradient:
        """The same in arrays that are where those of another gradient are."""
        parameters = {name: place(value, like=other.parameters[name]) for name, value in self.parameters.items()}
        frequencies = None if self.frequencies is None else place(self.frequencies, like=other.frequencies)
        return FeatureGradient(parameters, frequencies, self.pending)

    def on_host(self) -> FeatureGradient:
        """The same in NumPy arrays."""
        return replace(self.named(), frequencies=None if self.frequencies is None else fetch64(self.frequencies))

    def named(self) -> FeatureGradient:
        """The same with its parameters in NumPy arrays; the frequencies, which are many, stay where they are."""
        parameters = {name: fetch64(value)[()] for name, value in self.parameters.items()}
        for name, value in ({} if self.pending is None else self.pending.finish()).items():
            parameters[name] = parameters[name] + fetch64(value)[()]
        return replace(self, parameters=parameters, pending=None)


class PendingGradient(Protocol):
    """A sum over blocks of rows from which a part of a gradient follows, linearly."""

    def __add__(self, other: Any) -> PendingGradient:
        """The sum over the rows of both."""

    def finish(self) -> dict[str, Array]:
        """The derivative in every learnable parameter of the kernel."""


class FeatureMap(Protocol):
    """A map from rows (n, m) to features (n, d) whose inner products approximate ``kernel``.

    Maps are immutable, hold NumPy arrays until :meth:`place` moves them, and treat each row by itself: the features of a
    table are those of its blocks of rows, stacked.
    """

    @property
    def kernel(self) -> Any:
        """The kernel that is approximated."""

    @property
    def n_columns(self) -> int:
        """Number m of columns of the rows."""

    @property
    def n_features(self) -> int:
        """Number d of features."""

    @property
    def widest(self) -> int:
        """Numbers per row of the largest temporary: what a block of rows costs in memory."""

    @property
    def least_rows(self) -> int:
        """Rows that :meth:`forward` should be given at a time, or more, where there are as many."""

    def place(self, like: Array) -> Self:
        """The same map with its arrays in the namespace, on the device and in the dtype of ``like``."""

    def with_kernel(self, kernel: Any) -> Self:
        """The same base points under another kernel of the same family (other parameters)."""

    def scratch(self, n_rows: int, like: Array) -> Array | None:
        """Memory for the temporaries of :meth:`forward` on up to ``n_rows`` NumPy rows in the dtype of ``like``."""

    def forward(self, X: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        """Features (n, d) of the rows X (n, m), written to ``out`` where it is given."""

    def adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        """Gradient of <Phi(X), G> for G (n, d); ``features`` = Phi(X) spares the forward map if it is at hand."""

    def local_adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        """The same in arrays that stay where the rows are, so that no block of rows waits for the one before."""

    def feature_names(self, columns: Array) -> list[str]:
        """A name for each feature, given those of the columns."""
