"""Kernels of differences between rows: Gaussian, Laplacian, Matérn, Cauchy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from bochner.arrays import Array, fetch64, namespace, place
from bochner.errors import InputError
from bochner.kernels.base import ProductKernel, RadialKernel

LARGE_NU = 80.0
"""Smoothness from which a Matérn kernel is computed by an expansion in 1/nu, right to 1e-12 there and better above."""


class Gaussian(RadialKernel):
    """k(x, z) = exp(-1/2 sum_i s_i^2 (x_i - z_i)^2). Frequencies are normal.

    scikit-learn's ``gamma`` is s^2 / 2, a length scale l is 1 / s.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian
    >>> round(float(Gaussian(scale=2.0)(np.array([[0.0]]), np.array([[1.0]]))[0, 0]), 6)
    0.135335
    """

    def quantile(self, u: Array, n_columns: int) -> Array:
        return np.sqrt(2 * special.gammaincinv(n_columns / 2, u))  # the chi law with n_columns degrees of freedom

    def profile(self, t: Array) -> Array:
        return namespace(t).exp(-0.5 * t * t)

    def slope(self, t: Array) -> Array:
        return -t * self.profile(t)


class Laplacian(ProductKernel):
    """k(x, z) = exp(-sum_i s_i |x_i - z_i|). Frequencies are Cauchy, independent by column.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Laplacian
    >>> round(float(Laplacian(scale=2.0)(np.array([[0.0, 0.0]]), np.array([[1.0, 0.5]]))[0, 0]), 6)
    0.049787
    """

    def quantile(self, u: Array) -> Array:
        return np.tan(np.pi * (u - 0.5))

    def profile(self, t: Array) -> Array:
        xp = namespace(t)
        return xp.exp(-xp.abs(t))

    def slope(self, t: Array) -> Array:
        return -namespace(t).sign(t) * self.profile(t)


@dataclass(frozen=True, kw_only=True, eq=False)
class Matern(RadialKernel):
    """k(x, z) = 2^(1-nu) / Gamma(nu) (sqrt(2 nu) r)^nu K_nu(sqrt(2 nu) r), r = ||s * (x - z)||.

    Frequencies follow a multivariate t law with 2 nu degrees of freedom. ``nu`` is how often the functions of the kernel
    can be differentiated: 1/2 gives exp(-r), 3/2 and 5/2 have closed forms, infinity is the Gaussian kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Matern
    >>> round(float(Matern(nu=1.5)(np.zeros((1, 3)), np.ones((1, 3)))[0, 0]), 6)
    0.199148
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.nu > 0:
            raise InputError(f"Matern.nu must be positive, got {self.nu!r}: 0.5, 1.5 and 2.5 are the usual choices.")

    def quantile(self, u: Array, n_columns: int) -> Array:
        if np.isinf(self.nu):
            return Gaussian().quantile(u, n_columns)
        return np.sqrt(n_columns * special.fdtri(n_columns, 2 * self.nu, u))  # |t|^2 / m has an F law

    def profile(self, t: Array) -> Array:
        if np.isinf(self.nu):
            return Gaussian().profile(t)
        x = (2 * self.nu) ** 0.5 * abs(t)
        decay = namespace(t).exp(-x)
        if self.nu == 0.5:
            return decay
        if self.nu == 1.5:
            return (1 + x) * decay
        if self.nu == 2.5:
            return (1 + x + x * x / 3) * decay
        return place(_matern_profile(self.nu, fetch64(x)), like=t)

    def slope(self, t: Array) -> Array:
        if np.isinf(self.nu):
            return Gaussian().slope(t)
        xp = namespace(t)
        root = (2 * self.nu) ** 0.5
        x = root * xp.abs(t)
        decay = xp.exp(-x)
        if self.nu == 0.5:
            return -xp.sign(t) * decay
        if self.nu == 1.5:
            return -xp.sign(t) * root * x * decay
        if self.nu == 2.5:
            return -xp.sign(t) * root * x * (1 + x) / 3 * decay
        x = fetch64(x)
        if self.nu > 1:
            size = x / (2 * (self.nu - 1)) * _matern_profile(self.nu - 1, x)
        else:
            size = _matern_term(self.nu, self.nu - 1, x, np.zeros(x.shape))
        return -xp.sign(t) * place(root * size, like=t)


class Cauchy(ProductKernel):
    """k(x, z) = prod_i 1 / (1 + s_i^2 (x_i - z_i)^2). Frequencies follow the Laplace law, independent by column.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Cauchy
    >>> float(Cauchy()(np.array([[0.0, 0.0]]), np.array([[1.0, 2.0]]))[0, 0])
    0.1
    """

    def quantile(self, u: Array) -> Array:
        return np.sign(u - 0.5) * -np.log(2 * np.minimum(u, 1 - u))

    def profile(self, t: Array) -> Array:
        with np.errstate(over="ignore"):  # one over infinity is right
            return 1 / (1 + t * t)

    def slope(self, t: Array) -> Array:
        return -2 * t * self.profile(t) ** 2


def _matern_profile(nu: float, x: Array) -> Array:
    """2^(1-nu) / Gamma(nu) x^nu K_nu(x), one at zero."""
    if nu >= LARGE_NU:
        return _matern_expansion(nu, x)
    near_zero = 1 - x**2 / (4 * (nu - 1)) if nu > 1 else np.ones(x.shape)
    return _matern_term(nu, nu, x, near_zero)


def _matern_expansion(nu: float, x: Array) -> Array:
    """The same for large nu, where x^nu and K_nu overflow: Debye's expansion over that of Gamma (DLMF 10.41.4, 5.11.3).

    With w = sqrt(1 + (x/nu)^2) - 1 the leading term is exp(nu (log(1 + w/2) - w)) / sqrt(1 + w), and the next ones are
    polynomials in p = 1 / (1 + w) over powers of nu; those of Gamma are the same at p = 1, where x = 0.
    """
    z = x / nu
    root = np.hypot(1, z)
    w = z / (1 + root) * z
    return np.exp(nu * (np.log1p(w / 2) - w)) / np.sqrt(root) * _debye_sum(nu, 1 / root) / _debye_sum(nu, 1.0)


def _debye_sum(nu: float, p: Array) -> Array:
    """sum_k (-1/nu)^k U_k(p) up to k = 4."""
    q = p * p
    terms = (
        p * (3 - 5 * q) / 24,
        q * (81 + q * (-462 + q * 385)) / 1152,
        p * q * (30375 + q * (-369603 + q * (765765 - q * 425425))) / 414720,
        q * q * (4465125 + q * (-94121676 + q * (349922430 + q * (-446185740 + q * 185910725)))) / 39813120,
    )
    return 1 + sum(term / (-nu) ** (k + 1) for k, term in enumerate(terms))


def _matern_term(nu: float, order: float, x: Array, near_zero: Array) -> Array:
    """2^(1-nu) / Gamma(nu) x^nu K_order(x), and ``near_zero`` where that product is zero times infinity.

    Beyond x = 1e9 or so the Bessel function comes back as NaN, and the product is zero.
    """
    safe = np.where(x > 0, x, 1.0)
    bessel = special.kve(order, safe)
    log_factor = (1 - nu) * np.log(2) - special.gammaln(nu) + nu * np.log(safe) - safe
    with np.errstate(invalid="ignore", over="ignore"):
        term = np.exp(log_factor) * bessel
    return np.where((x > 0) & np.isfinite(term), term, np.where(x < 1, near_zero, 0.0))
