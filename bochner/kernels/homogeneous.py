"""Additive kernels of histograms, and their exponentiated (generalised radial basis) forms.

An additive homogeneous kernel is a sum over columns of k(a, b) with k(ta, tb) = t k(a, b) and k(a, a) = a. It equals
sqrt(ab) K(log(b/a)), and the Fourier transform of its signature K is what the feature map samples (Vedaldi and Zisserman,
"Efficient additive kernels via explicit feature maps", 2012). Its distance a + b - 2 k(a, b) is the squared length of a
difference of features, so exp(-distance / 2) is again a kernel: the exponentiated form.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bochner.arrays import Array, namespace, place
from bochner.errors import InputError
from bochner.kernels.base import Gradient, Kernel


class AdditiveKernel(Kernel):
    """k(x, z) = sum_i s_i^2 pair(x_i, z_i) for values that are not negative; ``scale`` weighs the columns.

    A kernel of one's own needs two methods: ``pair``, the formula for one column, and ``spectrum``, the density of its
    frequencies.
    """

    geometry = "additive"
    has_bandwidth = False

    @abstractmethod
    def pair(self, a: Array, b: Array) -> Array:
        """The kernel of two columns, homogeneous of degree one: arrays that broadcast together."""

    @abstractmethod
    def spectrum(self, frequency: Array) -> Array:
        """Density whose Fourier transform is the signature: K(w) = integral of spectrum(f) cos(f w) over all f."""

    def signature(self, w: Array) -> Array:
        """K(w) = k(exp(-w/2), exp(w/2)): the kernel of two columns whose ratio is exp(w)."""
        return self.pair(np.exp(-w / 2), np.exp(w / 2))

    def pair_distance(self, a: Array, b: Array) -> Array:
        """a + b - 2 pair(a, b), the squared distance of the features of two columns."""
        return a + b - 2 * self.pair(a, b)

    @property
    def lower(self) -> float:
        return 0.0

    def exact(self, X: Array, Z: Array) -> Array:
        return weighted_sum(self.pair, X, Z, self.scales(X.shape[1]) ** 2)

    def exact_adjoint(self, X: Array, Z: Array, G: Array) -> Gradient:
        return {"scale": 2 * self.scales(X.shape[1]) * column_products(self.pair, X, Z, G)}


class Chi2(AdditiveKernel):
    """k(x, z) = sum_i s_i^2 2 x_i z_i / (x_i + z_i).

    Its distance sum_i (x_i - z_i)^2 / (x_i + z_i) is minus scikit-learn's ``additive_chi2_kernel``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Chi2
    >>> float(Chi2()(np.array([[1.0, 0.0]]), np.array([[3.0, 5.0]]))[0, 0])
    1.5
    """

    def pair(self, a: Array, b: Array) -> Array:
        return 2 * a * _share(b, a + b)

    def pair_distance(self, a: Array, b: Array) -> Array:
        return (a - b) * _share(a - b, a + b)

    def spectrum(self, frequency: Array) -> Array:
        return _sech(np.pi * frequency)


class Intersection(AdditiveKernel):
    """k(x, z) = sum_i s_i^2 min(x_i, z_i).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Intersection
    >>> float(Intersection()(np.array([[1.0, 4.0]]), np.array([[3.0, 2.0]]))[0, 0])
    3.0
    """

    def pair(self, a: Array, b: Array) -> Array:
        return namespace(a).minimum(a, b)

    def pair_distance(self, a: Array, b: Array) -> Array:
        return namespace(a).abs(a - b)

    def spectrum(self, frequency: Array) -> Array:
        return 2 / (np.pi * (1 + 4 * frequency**2))


class JensenShannon(AdditiveKernel):
    """k(x, z) = sum_i s_i^2 / 2 [x_i log2((x_i + z_i) / x_i) + z_i log2((x_i + z_i) / z_i)].

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import JensenShannon
    >>> float(JensenShannon()(np.array([[2.0]]), np.array([[2.0]]))[0, 0])
    2.0
    """

    def pair(self, a: Array, b: Array) -> Array:
        xp = namespace(a)
        half_nats = -a * _log_share(a, a + b) - b * _log_share(b, a + b)
        return xp.clip(half_nats / (2 * float(np.log(2))), min=0.0)

    def spectrum(self, frequency: Array) -> Array:
        return 2 / np.log(4) * _sech(np.pi * frequency) / (1 + 4 * frequency**2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Exponentiated(Kernel):
    """k(x, z) = exp(-1/2 sum_i s_i^2 D(x_i, z_i)), D the distance of an additive kernel.

    With one shared scale this is exp(-D(x, z) / A) for A = 2 / s^2.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Exponentiated, Intersection
    >>> kernel = Exponentiated(additive=Intersection(), scale=2.0)
    >>> round(float(kernel(np.array([[1.0]]), np.array([[2.0]]))[0, 0]), 6)
    0.135335
    """

    additive: AdditiveKernel = field(default_factory=Chi2)
    geometry = "exponentiated"

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.any(np.asarray(self.additive.scale) != 1.0):
            inner = type(self.additive).__name__
            raise InputError(
                f"{type(self).__name__}.additive is a {inner} with a scale of its own: give the scale to the exponentiated "
                f"kernel, {type(self).__name__}(additive={inner}(), scale=...)."
            )

    @property
    def lower(self) -> float:
        return self.additive.lower

    def exact(self, X: Array, Z: Array) -> Array:
        distance = weighted_sum(self.additive.pair_distance, X, Z, self.scales(X.shape[1]) ** 2)
        return namespace(X).exp(-0.5 * distance)

    def exact_adjoint(self, X: Array, Z: Array, G: Array) -> Gradient:
        products = column_products(self.additive.pair_distance, X, Z, G * self.exact(X, Z))
        return {"scale": -self.scales(X.shape[1]) * products}


class ExponentiatedChi2(Exponentiated):
    """k(x, z) = exp(-1/2 sum_i s_i^2 (x_i - z_i)^2 / (x_i + z_i)); scikit-learn's ``chi2_kernel`` with gamma = s^2 / 2."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExponentiatedIntersection(Exponentiated):
    """k(x, z) = exp(-1/2 sum_i s_i^2 |x_i - z_i|), a Laplacian kernel of histograms."""

    additive: AdditiveKernel = field(default_factory=Intersection)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExponentiatedJensenShannon(Exponentiated):
    """k(x, z) = exp(-1/2 sum_i s_i^2 (x_i + z_i - 2 k_JS(x_i, z_i)))."""

    additive: AdditiveKernel = field(default_factory=JensenShannon)


def weighted_sum(pair: Any, X: Array, Z: Array, weights: Array) -> Array:
    """sum_i weights_i pair(x_i, z_i) for the rows of X (n, m) and Z (k, m), one column at a time: (n, k)."""
    result = place(np.zeros((X.shape[0], Z.shape[0])), like=X)
    for i, weight in enumerate(weights):
        result = result + float(weight) * pair(X[:, i, None], Z[None, :, i])
    return result


def column_products(pair: Any, X: Array, Z: Array, G: Array) -> Array:
    """sum(G * pair(x_i, z_i)) for each column i: (m,) in float64."""
    xp = namespace(X, Z)
    return np.array([float(xp.sum(G * pair(X[:, i, None], Z[None, :, i]))) for i in range(X.shape[1])])


def _share(part: Array, whole: Array) -> Array:
    """part / whole, and zero where the whole is zero."""
    xp = namespace(part)
    zero = whole == 0
    return xp.where(zero, xp.zeros_like(whole), part / xp.where(zero, xp.ones_like(whole), whole))


def _log_share(part: Array, whole: Array) -> Array:
    """log(part / whole), and zero where the part is zero."""
    xp = namespace(part)
    share = _share(part, whole)
    return xp.log(xp.where(share == 0, xp.ones_like(share), share))


def _sech(t: Array) -> Array:
    """1 / cosh(t) without overflow."""
    decay = np.exp(-np.abs(t))
    return 2 * decay / (1 + decay * decay)
