"""What learners of many kernels share: which kernels there are, the columns that each of them sees, and their scales."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from bochner.arrays import Array, dense
from bochner.errors import InputError
from bochner.estimators.dictionary import MOST_FEATURES, SEARCH_FEATURES, default_features, kernel_dictionary
from bochner.estimators.machine import KernelMachine
from bochner.estimators.multiple_choices import check_choices
from bochner.estimators.parts import ColumnsOfBlocks
from bochner.estimators.saving import Saved
from bochner.estimators.showing import Showing
from bochner.estimators.validation import on_host
from bochner.estimators.views import resolve
from bochner.features.stacked import consecutive
from bochner.folds import Rows
from bochner.kernels import KERNELS, Kernel, get_kernel
from bochner.kernels.bandwidth import median_scale
from bochner.losses import Loss
from bochner.standardise import Standardiser
from bochner.threads import row_blocks

SAMPLE_ROWS = 256
"""Rows whose distances make the median."""
STACKED_ROWS = 512
"""Rows that are standardised at a time."""


class KernelParts(Showing, Saved, BaseEstimator):
    """Kernels, each on columns of its own, and the parameters of those who learn from them."""

    _encodes_tables = True
    kernels: Any
    loss: str
    n_features: Any
    n_coordinates: int | None
    scale: str
    alpha: float | None
    l1_ratio: Any
    penalty_weights: Any
    shared_weights: bool
    n_alphas: int
    smallest: float
    selection: str
    refit: Any
    validation: Any
    standardize: bool
    sampling: str
    tol: float
    max_iter: int
    max_memory: Any
    device: str | None
    checkpoint: Any
    verbose: int
    random_state: Any
    _learner: type[KernelMachine]
    """What learns the scales of one kernel."""

    def _check_choices(self) -> None:
        """Errors that need no data."""
        check_choices(self)

    def _loss(self) -> Loss | None:
        """The loss, or None for the squared one."""
        raise NotImplementedError

    def _resolve(self, X: Any) -> list[Array]:
        """The rows of each kernel, checked; the kernels become fitted attributes."""
        self._check_choices()
        self._views, parts = resolve(self, X, self._named_kernels(ColumnsOfBlocks.of_table(X)), drop=self._automatic)
        self._drop_factors()
        self.kernel_names_ = np.array(self._views.names, dtype=object)
        return [on_host(part) for part in parts]

    def _named_kernels(self, X: Any) -> Any:
        """What ``kernels`` names, or the dictionary that "auto" stands for."""
        if not self._automatic:
            self._factors: list[float] = []
            return self.kernels
        kernels, self._factors = kernel_dictionary(X, learned=self._learns_scales)
        self._factor_names = [name for name, _, _ in kernels]
        return kernels

    def _drop_factors(self) -> None:
        """Keep the factors of kernels that are there: those of columns that are left out have gone."""
        if self._factors:
            names = set(self._views.names)
            self._factors = [factor for factor, name in zip(self._factors, self._factor_names, strict=True) if name in names]

    @property
    def _automatic(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "auto"

    @property
    def _is_dictionary(self) -> bool:
        """Whether there are many kernels of which few will count."""
        return self._automatic and not self._learns_scales

    @property
    def _learns_scales(self) -> bool:
        return self.scale.startswith("learned")

    @property
    def _sizes(self) -> list[int]:
        """Random features of each kernel."""
        n_kernels = len(self._views.parts)
        if np.ndim(self.n_features) == 0:
            return [self._features_of(n_kernels, SEARCH_FEATURES)] * n_kernels
        if len(self.n_features) != n_kernels:
            raise InputError(
                f"n_features must be one number, or one for each of the {n_kernels} kernels, got {len(self.n_features)}."
            )
        return [int(size) for size in self.n_features]

    def _features_of(self, n_kernels: int, most: int) -> int:
        """Random features of each of so many kernels; ``most`` in all where they are of a dictionary."""
        if self.n_features is not None:
            return int(self.n_features)
        refined = self._refines and not self._is_dictionary
        return default_features(n_kernels, self._n_rows, most if self._is_dictionary else MOST_FEATURES, refined=refined)

    @property
    def _refines(self) -> bool:
        """Whether the kernels that are in are fitted again on more features, where rows are few."""
        return self.n_features is None and self._loss() is None and self.refit not in (None, False)

    def _as_they_are(self, kernel: Kernel) -> bool:
        """Whether a kernel sees its columns without standardising them."""
        return not self.standardize or bool(np.isfinite(kernel.lower))

    def _stacked(self, parts: list[Array], numbers: Array | None = None) -> Array:
        """The standardised rows of all kernels side by side, in float64: small penalties need exact moments.

        All of them, or those of some ``numbers``.
        """
        pairs = list(zip(self._standardisers, parts, strict=True))
        numbers = np.arange(parts[0].shape[0]) if numbers is None else numbers
        if all(sparse.issparse(part) and not standardiser.centre.any() for standardiser, part in pairs):
            rows = [standardiser(part[numbers].astype(np.float64, copy=False)) for standardiser, part in pairs]
            return sparse.hstack(rows, format="csr")
        stacked = np.empty((len(numbers), sum(part.shape[1] for part in parts)))
        columns = consecutive([part.shape[1] for part in parts])
        for (standardiser, part), some in zip(pairs, columns, strict=True):
            for block in row_blocks(0, len(numbers), STACKED_ROWS):
                standardiser.write(dense(part[numbers[block]]), stacked[block, some])
        return stacked

    def _scaled(self, parts: list[Array], y: Any, used: Array, weights: Array, rng: np.random.Generator) -> list[Kernel]:
        """The kernels of standardised rows, each with its scale."""
        factors = self._factors or [1.0] * len(parts)
        kernels = []
        each = zip(parts, self._views.parts, self._standardisers, factors, self._sizes, strict=True)
        for rows, part, standardiser, factor, size in each:
            kernel = part.kernel
            if part.given or self.scale == "given":
                kernel = kernel.replace(scale=factor * kernel.scales(rows.shape[1]) * standardiser.spread)
            elif self._learns_scales:
                kernel = self._learned_kernel(kernel, size, Rows(rows, np.asarray(y)[used], weights), standardiser, rng)
            elif kernel.has_bandwidth:
                sample = dense(standardiser(rows[rng.permutation(rows.shape[0])[:SAMPLE_ROWS]])).astype(np.float64)
                kernel = kernel.replace(scale=factor * median_scale(kernel, sample))
            kernels.append(kernel)
        return kernels

    def _learned_kernel(
        self, kernel: Kernel, size: int, rows: Rows, standardiser: Standardiser, rng: np.random.Generator
    ) -> Kernel:
        """A kernel learned on its own columns, those of ``rows``, by single-kernel learning on so many features."""
        model = self._learner(
            "auto" if self._automatic else _name_of(kernel),
            n_features=None if kernel.geometry == "additive" else size,
            scale="shared" if self.scale == "learned" else "per-column",
            standardize=self.standardize,
            sampling="auto" if kernel.geometry == "additive" else self.sampling,
            device=self.device,
            random_state=int(rng.integers(2**31)),
        )
        learned = model.fit(rows.X, rows.targets, sample_weight=rows.weights).kernel_
        return learned.replace(scale=np.asarray(learned.scale) * standardiser.spread)


def _name_of(kernel: Kernel) -> str:
    """The name of a built-in kernel that came as a name."""
    return next(name for name in KERNELS if repr(get_kernel(name)) == repr(kernel))
