"""Kernels: their formulas, the laws of their frequencies, and their learnable parameters.

Every kernel is a small immutable class; ``kernel(X, Z)`` is its exact matrix. :data:`KERNELS` lists the built-in ones by
name, and an object of a class of your own goes wherever a name goes (see :class:`ProductKernel`, :class:`RadialKernel`
and :class:`AdditiveKernel`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial

from bochner.errors import InputError
from bochner.kernels.base import Kernel, ProductKernel, RadialKernel, StationaryKernel
from bochner.kernels.homogeneous import (
    AdditiveKernel,
    Chi2,
    Exponentiated,
    ExponentiatedChi2,
    ExponentiatedIntersection,
    ExponentiatedJensenShannon,
    Intersection,
    JensenShannon,
)
from bochner.kernels.metric import MetricKernel
from bochner.kernels.skewed import SkewedChi2, SkewedIntersection
from bochner.kernels.stationary import Cauchy, Gaussian, Laplacian, Matern

KERNELS: dict[str, Callable[..., Kernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern12": partial(Matern, nu=0.5),
    "matern32": partial(Matern, nu=1.5),
    "matern52": partial(Matern, nu=2.5),
    "cauchy": Cauchy,
    "skewed_chi2": SkewedChi2,
    "skewed_intersection": SkewedIntersection,
    "chi2": Chi2,
    "intersection": Intersection,
    "jensen_shannon": JensenShannon,
    "exponentiated_chi2": ExponentiatedChi2,
    "exponentiated_intersection": ExponentiatedIntersection,
    "exponentiated_jensen_shannon": ExponentiatedJensenShannon,
}
"""The built-in kernels by name; each value makes one from ``scale`` (and ``c`` where there is one)."""

_OTHER_NAMES = {
    "rbf": "gaussian",
    "squared_exponential": "gaussian",
    "laplace": "laplacian",
    "exponential": "matern12",
    "matern": "matern32",
    "additive_chi2": "chi2",
    "js": "jensen_shannon",
}
"""What kernels are called elsewhere."""


def kernel_name(name: str) -> str | None:
    """The name in :data:`KERNELS` of what is called so here or elsewhere, in any case and spacing; None: there is none."""
    name = name.strip().lower().replace("-", "_").replace(" ", "_")
    name = _OTHER_NAMES.get(name, name)
    return name if name in KERNELS else None


def get_kernel(kernel: str | Kernel) -> Kernel:
    """The kernel of that name (see :data:`KERNELS`), or the given object itself.

    Examples
    --------
    >>> from bochner.kernels import get_kernel
    >>> get_kernel("gaussian")
    Gaussian(scale=1.0)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise InputError(
            f"An object is needed, and kernel is the class {kernel.__name__}: give an object of it, {kernel.__name__}()."
        )
    if not isinstance(kernel, str):
        raise InputError(f"kernel must be a name or a Kernel object, got {kernel!r}.")
    name = kernel_name(kernel)
    if name is None:
        near = difflib.get_close_matches(kernel.lower(), [*KERNELS, *_OTHER_NAMES], n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"Unknown kernel {kernel!r}: {hint}Known names: {', '.join(KERNELS)}; or give a Kernel object.")
    return KERNELS[name]()


__all__ = [
    "KERNELS",
    "AdditiveKernel",
    "Cauchy",
    "Chi2",
    "Exponentiated",
    "ExponentiatedChi2",
    "ExponentiatedIntersection",
    "ExponentiatedJensenShannon",
    "Gaussian",
    "Intersection",
    "JensenShannon",
    "Kernel",
    "Laplacian",
    "Matern",
    "MetricKernel",
    "ProductKernel",
    "RadialKernel",
    "SkewedChi2",
    "SkewedIntersection",
    "StationaryKernel",
    "get_kernel",
]
