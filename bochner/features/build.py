"""From a kernel and a few choices to a feature map: the only place where base points are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.features.base import FeatureMap
from bochner.features.fourier import FourierMap
from bochner.features.homogeneous import HomogeneousMap
from bochner.features.inputs import HomogeneousInput, InputMap, TransformInput, best_interval
from bochner.kernels import Gaussian, Kernel
from bochner.sampling import SAMPLINGS, directions_and_lengths, uniforms

DEFAULT_FEATURES = 1000
FORMS = ("paired", "phase")


@dataclass(frozen=True, kw_only=True)
class FeatureChoices:
    """How a kernel is approximated.

    ``n_features``: number d of features (None: 1000, or what ``order`` gives for an additive kernel). ``sampling``: "iid",
    "orthogonal", "qmc", or "auto" (orthogonal for radial laws, qmc for the others). ``form``: "paired" or "phase".
    ``order``: order p of the homogeneous map.
    """

    n_features: int | None = None
    sampling: str = "auto"
    form: str = "paired"
    order: int = 2

    def __post_init__(self) -> None:
        n = self.n_features
        if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1):
            raise ValueError(f"n_features must be a positive whole number or None, got {n!r}.")
        if self.form not in FORMS:
            raise ValueError(f"form must be 'paired' or 'phase', got {self.form!r}.")
        if n is not None and self.form == "paired" and n % 2:
            raise ValueError(
                f"n_features must be even, since features come as pairs of cosine and sine, got {n}: use {n + 1}, or "
                "form='phase' for any number."
            )
        if self.sampling not in (*SAMPLINGS, "auto"):
            raise ValueError(f"sampling must be one of {', '.join(map(repr, SAMPLINGS))} or 'auto', got {self.sampling!r}.")
        if isinstance(self.order, bool) or not isinstance(self.order, int | np.integer) or self.order < 0:
            raise ValueError(f"order must be a whole number, zero or more, got {self.order!r}.")


def build_map(kernel: Kernel, n_columns: int, choices: FeatureChoices, rng: np.random.Generator) -> FeatureMap:
    """The feature map of ``kernel`` on rows of ``n_columns`` columns."""
    kernel.scales(n_columns)
    return _BUILDERS[kernel.geometry](kernel, n_columns, choices, rng)


def _stationary(kernel: Kernel, n_columns: int, choices: FeatureChoices, rng: np.random.Generator) -> FeatureMap:
    return _fourier(kernel, kernel, TransformInput(kernel), n_columns, choices, rng)


def _exponentiated(kernel: Any, n_columns: int, choices: FeatureChoices, rng: np.random.Generator) -> FeatureMap:
    interval = best_interval(kernel.additive, choices.order)
    inputs = HomogeneousInput(kernel.additive, choices.order, interval)
    return _fourier(kernel, Gaussian(), inputs, n_columns, choices, rng)


def _additive(kernel: Any, n_columns: int, choices: FeatureChoices, _rng: np.random.Generator) -> FeatureMap:
    inputs = HomogeneousInput(kernel, choices.order, best_interval(kernel, choices.order))
    size = inputs.width * n_columns
    if choices.n_features not in (None, size):
        raise ValueError(
            f"n_features={choices.n_features}, but {type(kernel).__name__} of order {choices.order} makes {inputs.width} "
            f"features of each of {n_columns} columns, {size} in all: leave n_features out and set order."
        )
    if choices.sampling != "auto":
        raise ValueError(
            f"sampling={choices.sampling!r}, but the features of {type(kernel).__name__} are not random: leave it out."
        )
    return HomogeneousMap(kernel, n_columns, inputs)


_BUILDERS: dict[str, Callable[..., FeatureMap]] = {
    "product": _stationary,
    "radial": _stationary,
    "additive": _additive,
    "exponentiated": _exponentiated,
}


def _fourier(
    kernel: Kernel, law: Any, inputs: InputMap, n_columns: int, choices: FeatureChoices, rng: np.random.Generator
) -> FourierMap:
    n_features = DEFAULT_FEATURES if choices.n_features is None else int(choices.n_features)
    n_frequencies = n_features // 2 if choices.form == "paired" else n_features
    points = draw_points(law, n_frequencies, n_columns * inputs.width, sampling=choices.sampling, rng=rng)
    phases = rng.uniform(0, 2 * np.pi, n_frequencies) if choices.form == "phase" else None
    return FourierMap(kernel, n_columns, inputs, points.T.copy(), phases)


def draw_points(law: Any, n: int, n_columns: int, *, sampling: str, rng: np.random.Generator) -> Array:
    """n base points h (n, n_columns) of a kernel's law at scale one.

    A product law is drawn coordinate by coordinate; a radial one never is (that would be another kernel), but as a
    direction times a length.
    """
    if law.geometry == "radial":
        method = "orthogonal" if sampling == "auto" else sampling
        directions, u = directions_and_lengths(n, n_columns, sampling=method, rng=rng)
        return directions * law.quantile(u, n_columns)[:, None]
    if sampling == "orthogonal":
        raise ValueError(
            f"sampling='orthogonal' needs a radial law, and the frequencies of {type(law).__name__} are independent by "
            "column: use sampling='qmc' or 'iid'."
        )
    return law.quantile(uniforms(n, n_columns, sampling="qmc" if sampling == "auto" else sampling, rng=rng))
