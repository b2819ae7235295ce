"""From a kernel and a few choices to a feature map: the only place where base points are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.features.base import FeatureMap
from bochner.features.fourier import FourierMap
from bochner.features.homogeneous import HomogeneousMap
from bochner.features.inputs import HomogeneousInput, InputMap, TransformInput, best_interval
from bochner.kernels import AdditiveKernel, Gaussian, Kernel
from bochner.sampling import MAX_SOBOL_COLUMNS, SAMPLINGS, directions_and_lengths, uniforms

DEFAULT_FEATURES = 1000
DEFAULT_ORDER = 2
FORMS = ("paired", "phase")
ORTHOGONAL_FROM = 10
"""Inputs from which orthogonal frequencies beat quasi-Monte Carlo ones for radial laws (docs/sampling.md)."""


@dataclass(frozen=True, kw_only=True)
class FeatureChoices:
    """How a kernel is approximated.

    ``n_features``: number d of features (None: 1000, or what ``order`` gives for an additive kernel). ``sampling``: "iid",
    "orthogonal", "qmc", or "auto" (orthogonal for radial laws of ten or more inputs, qmc else). ``form``: "paired" or
    "phase".
    ``order``: order p of the homogeneous map (None: 2), for kernels that have one.
    """

    n_features: int | None = None
    sampling: str = "auto"
    form: str = "paired"
    order: int | None = None

    def __post_init__(self) -> None:
        n = self.n_features
        if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1):
            raise InputError(f"n_features must be a positive whole number or None, got {n!r}.")
        if self.form not in FORMS:
            raise InputError(f"form must be 'paired' or 'phase', got {self.form!r}.")
        if self.sampling not in (*SAMPLINGS, "auto"):
            raise InputError(f"sampling must be one of {', '.join(map(repr, SAMPLINGS))} or 'auto', got {self.sampling!r}.")
        p = self.order
        if p is not None and (isinstance(p, bool) or not isinstance(p, int | np.integer) or p < 0):
            raise InputError(f"order must be a whole number, zero or more, or None, got {p!r}.")


def build_map(kernel: Kernel, n_columns: int, choices: FeatureChoices, rng: np.random.Generator) -> FeatureMap:
    """The feature map of ``kernel`` on rows of ``n_columns`` columns."""
    kernel.scales(n_columns)
    return _BUILDERS[kernel.geometry](kernel, n_columns, choices, rng)


def _stationary(kernel: Kernel, n_columns: int, choices: FeatureChoices, rng: np.random.Generator) -> FeatureMap:
    if choices.order is not None:
        raise InputError(
            f"order={choices.order}, but {type(kernel).__name__} has no homogeneous map: leave order out, it belongs to the "
            "additive kernels and their exponentiated forms."
        )
    return _fourier(kernel, kernel, TransformInput(kernel), n_columns, choices, rng)


def _exponentiated(kernel: Any, n_columns: int, choices: FeatureChoices, rng: np.random.Generator) -> FeatureMap:
    inputs = _homogeneous_input(kernel.additive, choices)
    return _fourier(kernel, Gaussian(), inputs, n_columns, choices, rng)


def _additive(kernel: Any, n_columns: int, choices: FeatureChoices, _rng: np.random.Generator) -> FeatureMap:
    inputs = _homogeneous_input(kernel, choices)
    size = inputs.width * n_columns
    if choices.n_features not in (None, size):
        raise InputError(
            f"n_features={choices.n_features}, but {type(kernel).__name__} of order {inputs.order} makes {inputs.width} "
            f"features of each of {n_columns} columns, {size} in all: leave n_features out and set order."
        )
    if choices.sampling != "auto":
        raise InputError(
            f"sampling={choices.sampling!r}, but the features of {type(kernel).__name__} are not random: leave it out."
        )
    if choices.form != "paired":
        raise InputError(f"form={choices.form!r}, but {type(kernel).__name__} has no random phases: leave it out.")
    return HomogeneousMap(kernel, n_columns, inputs)


def _homogeneous_input(kernel: AdditiveKernel, choices: FeatureChoices) -> HomogeneousInput:
    order = DEFAULT_ORDER if choices.order is None else int(choices.order)
    return HomogeneousInput(kernel, order, best_interval(kernel, order))


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
    if choices.form == "paired" and n_features % 2:
        raise InputError(
            f"n_features must be even, since features come as pairs of cosine and sine, got {n_features}: use "
            f"{n_features + 1}, or form='phase' for any number."
        )
    n_frequencies = n_features // 2 if choices.form == "paired" else n_features
    points = draw_points(
        law, n_frequencies, kernel.point_columns(n_columns) * inputs.width, sampling=choices.sampling, rng=rng
    )
    phases = rng.uniform(0, 2 * np.pi, n_frequencies) if choices.form == "phase" else None
    return FourierMap(kernel, n_columns, inputs, points.T.copy(), phases)


def draw_points(law: Any, n: int, n_columns: int, *, sampling: str, rng: np.random.Generator) -> Array:
    """n base points h (n, n_columns) of a kernel's law at scale one.

    A product law is drawn coordinate by coordinate; a radial one never is (that would be another kernel), but as a
    direction times a length.
    """
    if sampling == "auto":
        sampling = "orthogonal" if law.geometry == "radial" and n_columns >= ORTHOGONAL_FROM else "qmc"
        sampling = "iid" if sampling == "qmc" and n_columns >= MAX_SOBOL_COLUMNS else sampling
    if law.geometry == "radial":
        directions, u = directions_and_lengths(n, n_columns, sampling=sampling, rng=rng)
        return directions * _checked_quantile(law, law.quantile(u, n_columns), u)[:, None]
    if sampling == "orthogonal":
        raise InputError(
            f"sampling='orthogonal' needs a radial law, and the frequencies of {type(law).__name__} are independent by "
            "column: use sampling='qmc' or 'iid'."
        )
    u = uniforms(n, n_columns, sampling=sampling, rng=rng)
    return _checked_quantile(law, law.quantile(u), u)


def _checked_quantile(law: Any, values: Array, u: Array) -> Array:
    """Frequencies as a kernel's quantile gave them, if they are finite and as many as the uniform numbers."""
    if np.shape(values) != u.shape or not np.isfinite(values).all():
        raise InputError(
            f"{type(law).__name__}.quantile must turn numbers in (0, 1) of shape {u.shape} into finite ones of that shape, "
            f"got shape {np.shape(values)}{'' if np.isfinite(values).all() else ' with NaN or infinite values'}: correct it."
        )
    return values
