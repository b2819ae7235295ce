"""Candidates: kernels with where they come from and how well they did, and how one metric becomes another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from bochner.arrays import Array
from bochner.descent import Descent, family_name
from bochner.features import FeatureMap
from bochner.kernels import Kernel, MetricKernel, StationaryKernel

STEP_UNIT = 0.2
"""A metric A becomes A (I + STEP_UNIT T): an entry of T that is one is a large change."""
KEPT_SHARE = 0.999
"""The part of the trace of G that a low rank keeps, where nobody says how many directions."""


@dataclass(frozen=True)
class Candidate:
    """A kernel, where it comes from, and its held-out error at the size where it was tried last."""

    kernel: Kernel
    start: str
    """Where it began: "isotropic", "scales" (by the gradient of the held-out error), "evidence", "units",
    "together" or "directions"."""
    kind: str
    """"given", as it started; "diagonal", "low-rank" or "full"."""
    value: float = np.inf
    """What candidates are compared by: the squared error, or the measure of the space that they were tried in."""
    error: float = np.inf
    """The squared error."""
    log_alpha: Any = None
    n_rows: int | None = None
    """The rows that this penalty is for; None: not known."""
    gain: float = 0.0
    """By which part the last step lowered its error."""
    power: float | None = None
    """One of POWERS; None: not chosen yet."""
    evaluation: Any = field(default=None, repr=False)
    feature_map: FeatureMap | None = field(default=None, repr=False)

    def penalty_for(self, n_rows: int) -> Any:
        """The penalty to begin with for so many rows: rows x penalty stays, the noise in units of the function."""
        if self.log_alpha is None or self.n_rows is None:
            return self.log_alpha
        return self.log_alpha + float(np.log(self.n_rows / n_rows))

    @property
    def recipe(self) -> tuple[str, str, str]:
        """What is needed to learn it again on other rows."""
        return family_name(base_of(self.kernel)), self.start, self.kind


def as_descended(descent: Descent) -> Candidate:
    """The kernel of a descent, as it came from there."""
    return Candidate(descent.best.kernel, "scales", "given", log_alpha=descent.best.log_alpha)


def base_of(kernel: Kernel) -> Kernel:
    """The kernel inside a metric, or itself."""
    return kernel.base if isinstance(kernel, MetricKernel) else kernel


def can_have_metric(kernel: Kernel) -> bool:
    """Whether a kernel is one of distances and nothing else, so that these may be those of a metric."""
    return kernel.geometry == "radial" and not kernel.has_input_map and kernel.learnable == ("scale",)


def rescaled(kernel: Kernel, factor: float) -> Kernel:
    """The kernel with distances multiplied by a number."""
    if isinstance(kernel, MetricKernel):
        return kernel.rescaled(factor)
    return kernel.replace(scale=factor * np.asarray(kernel.scale))


def with_metric(kernel: Kernel, G: Array, kind: str, rank: int | None = None, power: float = 1.0) -> Kernel:
    """The kernel's family with the metric A A' = G^power of a kind, G (m, m) the mean outer product of gradients."""
    base = cast(StationaryKernel, base_of(kernel).replace(scale=1.0))
    origin = kernel.origin if isinstance(kernel, MetricKernel) else None
    half = power / 2
    if kind == "diagonal":
        scales = np.maximum(np.diagonal(G), 0.0) ** half
        return base.replace(scale=np.maximum(scales, 1e-12 * max(float(scales.max()), np.finfo(np.float64).tiny)))
    values, vectors = np.linalg.eigh(G)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if kind == "low-rank":
        shares = np.cumsum(values) / max(float(values.sum()), np.finfo(np.float64).tiny)
        rank = int(np.searchsorted(shares, KEPT_SHARE) + 1) if rank is None else rank
        return MetricKernel(base=base, metric=vectors[:, :rank] * values[:rank] ** half, origin=origin)
    return MetricKernel(base=base, metric=vectors * values**half @ vectors.T, origin=origin)


def as_kind(kernel: Kernel, kind: str, n_columns: int, rank: int | None = None) -> Kernel:
    """The kernel as one of a kind of metric: with the same distances, or with those along its strongest directions."""
    if kind == "diagonal":
        return base_of(kernel).replace(scale=kernel.scales(n_columns))
    if not isinstance(kernel, MetricKernel):
        base = cast(StationaryKernel, kernel.replace(scale=1.0))
        kernel = MetricKernel(base=base, metric=np.diag(kernel.scales(n_columns)))
    if kind != "low-rank" or rank is None or rank >= kernel.metric.shape[1]:
        return kernel
    vectors, strengths, _ = np.linalg.svd(kernel.metric, full_matrices=False)
    return kernel.replace(metric=vectors[:, :rank] * strengths[:rank])


def moved(kernel: Kernel, change: Array) -> tuple[Kernel, Callable[[Array], Array]]:
    """A kernel changed by numbers without units, none of which change nothing; and how gradients in theta become theirs.

    A metric A becomes A (I + STEP_UNIT T), T the numbers; logarithms of scales change by STEP_UNIT times the numbers.
    """
    if not isinstance(kernel, MetricKernel):
        return kernel.with_theta(kernel.theta + STEP_UNIT * change), lambda gradient: STEP_UNIT * gradient
    metric, rank = kernel.metric, kernel.metric.shape[1]

    def back(gradient: Array) -> Array:
        return np.asarray(STEP_UNIT * (metric.T @ gradient.reshape(metric.shape)).ravel())

    return kernel.replace(metric=metric @ (np.eye(rank) + STEP_UNIT * change.reshape(rank, rank))), back


def brought_together(X: Array, units: Array) -> Array:
    """The metric (m, m) of standardised rows (n, m) that averages columns, in their units, by how they vary together.

    Column j becomes sum_i u_i x_i r_ij^4 / sum_i r_ij^4, r the correlations and u the units: neighbouring pixels, or
    moments of a signal, become smooth. What varies alone stays as it is, and what does not vary is left out.
    """
    spread = X.std(axis=0)
    there = spread > 0
    some = np.where(there, (X - X.mean(axis=0)) / np.where(there, spread, 1.0), 0.0)
    shares = (some.T @ some / len(X)) ** 4
    shares /= np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny)
    return np.asarray(units[:, None] * shares)
