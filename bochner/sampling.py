"""Base points of random features: uniform numbers in (0, 1) and uniform directions on the sphere.

Three ways to draw them. ``iid``: independent. ``qmc``: scrambled Sobol points, spread more evenly than independent ones
yet each of them uniform. ``orthogonal``: directions at right angles to each other within blocks of m (Yu et al.,
"Orthogonal random features", 2016) and stratified lengths; they exist for radial laws only.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from bochner.arrays import Array
from bochner.errors import InputError

SAMPLINGS = ("iid", "orthogonal", "qmc")
"""The ways to draw base points."""

MAX_SOBOL_COLUMNS = 21_200
SMALLEST = 2.0**-53
"""Uniform numbers stay this far from zero and one, where quantiles are infinite."""


def uniforms(n: int, n_columns: int, *, sampling: str, rng: np.random.Generator) -> Array:
    """n points (n, n_columns) of the open unit cube, each of them uniform."""
    points = _sobol(n, n_columns, rng) if sampling == "qmc" else rng.random((n, n_columns))
    return np.clip(points, SMALLEST, 1 - SMALLEST)


def directions_and_lengths(n: int, n_columns: int, *, sampling: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """n directions (n, n_columns), each uniform on the sphere, and n uniform numbers (n,) for their lengths."""
    if sampling == "orthogonal":
        strata = (rng.permutation(n) + rng.random(n)) / n  # one length in each of n equal strata, in random order
        return _orthogonal_directions(n, n_columns, rng), np.clip(strata, SMALLEST, 1 - SMALLEST)
    points = uniforms(n, n_columns + 1, sampling=sampling, rng=rng)
    normal = special.ndtri(points[:, :-1])
    return normal / np.linalg.norm(normal, axis=1, keepdims=True), points[:, -1]


def _orthogonal_directions(n: int, n_columns: int, rng: np.random.Generator) -> Array:
    """Blocks of at most n_columns orthonormal rows, each block a piece of a uniform (Haar) rotation."""
    size = min(n, n_columns)
    normal = rng.standard_normal((-(-n // size), n_columns, size))
    whole = n // size
    directions = np.empty((n, n_columns))
    directions[: whole * size] = _haar(normal[:whole]).reshape(-1, n_columns)
    if n % size:
        directions[whole * size :] = _haar(normal[-1, :, : n % size])
    return directions


def _haar(normal: Array) -> Array:
    """Orthonormal rows (..., size, n_columns), uniform over all such, from normal columns (..., n_columns, size)."""
    q, r = np.linalg.qr(normal)
    return np.swapaxes(q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :], -1, -2)


def _sobol(n: int, n_columns: int, rng: np.random.Generator) -> Array:
    """The first n of a scrambled Sobol sequence."""
    from scipy.stats import qmc  # slow to import, and needed only here

    if n_columns > MAX_SOBOL_COLUMNS:
        raise InputError(
            f"sampling='qmc' draws at most {MAX_SOBOL_COLUMNS} coordinates a point, and this kernel needs {n_columns}: "
            "use sampling='iid'."
        )
    power = max(0, int(np.ceil(np.log2(n))))
    return qmc.Sobol(n_columns, scramble=True, rng=rng).random_base2(power)[:n]
