"""Every formula in its slowest and most obvious form: loops over rows and columns, one number at a time.

The names are those of :data:`bochner.kernels.KERNELS`. A kernel that joins that list needs its formula in ``FORMULAS``.
"""

import math

import mpmath
import numpy as np


def gaussian(x, z, s):
    return math.exp(-0.5 * sum((s[i] * (x[i] - z[i])) ** 2 for i in range(len(x))))


def laplacian(x, z, s):
    return math.exp(-sum(s[i] * abs(x[i] - z[i]) for i in range(len(x))))


def matern(x, z, s, nu):
    r = mpmath.sqrt(sum((mpmath.mpf(s[i]) * (x[i] - z[i])) ** 2 for i in range(len(x))))
    return float(matern_profile(r, nu))


def matern_profile(r, nu):
    """2^(1-nu) / Gamma(nu) t^nu K_nu(t), t = sqrt(2 nu) r, in the precision that mpmath works in now."""
    if r == 0:
        return mpmath.mpf(1)
    nu = mpmath.mpf(nu)
    t = mpmath.sqrt(2 * nu) * mpmath.mpf(r)
    return mpmath.mpf(2) ** (1 - nu) / mpmath.gamma(nu) * t**nu * mpmath.besselk(nu, t)


def cauchy(x, z, s):
    value = 1.0
    for i in range(len(x)):
        value *= 1 / (1 + (s[i] * (x[i] - z[i])) ** 2)
    return value


def skewed_chi2(x, z, s, c):
    value = 1.0
    for i in range(len(x)):
        a, b = (x[i] + c) ** s[i], (z[i] + c) ** s[i]
        value *= 2 * a * b / (a * a + b * b)
    return value


def skewed_intersection(x, z, s, c):
    value = 1.0
    for i in range(len(x)):
        a, b = (x[i] + c) ** s[i], (z[i] + c) ** s[i]
        value *= min(a / b, b / a)
    return value


def chi2(x, z, s):
    value = 0.0
    for i in range(len(x)):
        if x[i] + z[i] > 0:
            value += s[i] ** 2 * 2 * x[i] * z[i] / (x[i] + z[i])
    return value


def intersection(x, z, s):
    return sum(s[i] ** 2 * min(x[i], z[i]) for i in range(len(x)))


def jensen_shannon(x, z, s):
    value = 0.0
    for i in range(len(x)):
        whole = x[i] + z[i]
        for part in (x[i], z[i]):
            if part > 0:
                value += s[i] ** 2 / 2 * part * math.log2(whole / part)
    return value


def exponentiated(additive):
    """exp(-distance / 2), where distance = k(x, x) + k(z, z) - 2 k(x, z)."""

    def formula(x, z, s):
        return math.exp(-0.5 * (additive(x, x, s) + additive(z, z, s) - 2 * additive(x, z, s)))

    return formula


FORMULAS = {
    "gaussian": gaussian,
    "laplacian": laplacian,
    "matern12": matern,
    "matern32": matern,
    "matern52": matern,
    "cauchy": cauchy,
    "skewed_chi2": skewed_chi2,
    "skewed_intersection": skewed_intersection,
    "chi2": chi2,
    "intersection": intersection,
    "jensen_shannon": jensen_shannon,
    "exponentiated_chi2": exponentiated(chi2),
    "exponentiated_intersection": exponentiated(intersection),
    "exponentiated_jensen_shannon": exponentiated(jensen_shannon),
}


def with_metric(formula, x, z, A, **parameters):
    """A formula of scale one for the rows x A and z A."""
    m, r = A.shape
    rows = [[math.fsum(float(row[i]) * float(A[i, j]) for i in range(m)) for j in range(r)] for row in (x, z)]
    return formula(*rows, [1.0] * r, **parameters)


def of_directions(formula, x, z, A, origin, scale, **parameters):
    """A formula of one scale for the directions, of length one, of (x - origin) A and (z - origin) A."""
    seen = [[math.fsum((row[i] - origin[i]) * A[i, j] for i in range(len(A))) for j in range(A.shape[1])] for row in (x, z)]
    units = [[value / math.sqrt(math.fsum(other**2 for other in row)) for value in row] for row in seen]
    return formula(*units, [scale] * A.shape[1], **parameters)


def kernel_matrix(name, kernel, X, Z):
    """k(x, z) for every pair of rows, one pair at a time."""
    parameters = {key: getattr(kernel, key) for key in ("nu", "c") if hasattr(kernel, key)}
    s = [float(v) for v in np.broadcast_to(kernel.scale, (X.shape[1],))]
    formula = FORMULAS[name]
    return np.array([[formula([float(v) for v in x], [float(v) for v in z], s, **parameters) for z in Z] for x in X])


def paired_features(rows, frequencies):
    """[cos(g_1 . x), ..., cos(g_f . x), sin(g_1 . x), ..., sin(g_f . x)] / sqrt(f); frequencies (m, f) by column."""
    f = frequencies.shape[1]
    result = np.empty((len(rows), 2 * f))
    for r, row in enumerate(rows):
        for j in range(f):
            angle = math.fsum(float(row[i]) * float(frequencies[i, j]) for i in range(len(row)))
            result[r, j] = math.cos(angle) / math.sqrt(f)
            result[r, f + j] = math.sin(angle) / math.sqrt(f)
    return result


def phase_features(rows, frequencies, phases):
    """cos(g_j . x + b_j) sqrt(2 / f)."""
    f = frequencies.shape[1]
    result = np.empty((len(rows), f))
    for r, row in enumerate(rows):
        for j in range(f):
            angle = math.fsum([*(float(row[i]) * float(frequencies[i, j]) for i in range(len(row))), float(phases[j])])
            result[r, j] = math.cos(angle) * math.sqrt(2 / f)
    return result


def whitened(between, K):
    """L^-1 k for each row k of ``between`` (n, M), L L' = K by Cholesky's formulas, one entry at a time."""
    M = len(K)
    L = np.zeros((M, M))
    for i in range(M):
        for j in range(i + 1):
            left = float(K[i, j]) - math.fsum(L[i, p] * L[j, p] for p in range(j))
            L[i, j] = math.sqrt(left) if i == j else left / L[j, j]
    result = np.zeros(between.shape)
    for r, row in enumerate(between):
        for i in range(M):
            result[r, i] = (float(row[i]) - math.fsum(L[i, j] * result[r, j] for j in range(i))) / L[i, i]
    return result


def homogeneous_map(X, spectrum, order, interval):
    """psi of every value: all sqrt first, then all cos 1, all sin 1, all cos 2, ... (Vedaldi and Zisserman, 2012)."""
    n, m = X.shape
    result = np.zeros((n, (2 * order + 1) * m))
    for r in range(n):
        for i in range(m):
            x = float(X[r, i])
            if x == 0:
                continue
            result[r, i] = math.sqrt(x * interval * float(spectrum(0.0)))
            for j in range(1, order + 1):
                weight = math.sqrt(2 * x * interval * float(spectrum(j * interval)))
                angle = j * interval * math.log(x)
                result[r, (2 * j - 1) * m + i] = weight * math.cos(angle)
                result[r, 2 * j * m + i] = weight * math.sin(angle)
    return result


def group_lasso_objective(
    X, Y, groups, coef, intercept, *, alpha, l1_ratio=1.0, group_weights=None, shared=False, sample_weight=None
):
    """(1/W) sum_i w_i |x_i w + b - y_i|^2 + alpha (l1_ratio sum_t weight_t |w_t| + (1 - l1_ratio) |w|^2)."""
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    of_group = np.ones(groups.max() + 1) if group_weights is None else group_weights
    loss = np.sum(weights[:, None] * (X @ coef + intercept - Y) ** 2) / weights.sum()
    lengths = 0.0
    for t in np.unique(groups):
        w = coef[groups == t]
        lengths += of_group[t] * (np.linalg.norm(w) if shared else np.linalg.norm(w, axis=0).sum())
    return loss + alpha * (l1_ratio * lengths + (1 - l1_ratio) * np.sum(coef**2))


def group_lasso(X, Y, groups, *, alpha, l1_ratio=1.0, group_weights=None, shared=False, sample_weight=None, steps=20_000):
    """Coefficients (D, c) and intercept (c,) of least objective, by accelerated proximal gradient steps that restart."""
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    weights = weights / weights.sum()
    of_group = np.ones(groups.max() + 1) if group_weights is None else group_weights
    mean, target_mean = weights @ X, weights @ Y
    A = 2 * (X - mean).T @ (weights[:, None] * (X - mean)) + 2 * alpha * (1 - l1_ratio) * np.eye(X.shape[1])
    B = 2 * (X - mean).T @ (weights[:, None] * (Y - target_mean))
    size = 1 / np.linalg.eigvalsh(A)[-1]
    coef = ahead = np.zeros_like(B)
    pace, change = 1.0, np.inf
    for _ in range(steps):
        if change < 1e-13 * np.abs(coef).max():
            break
        new = ahead - size * (A @ ahead - B)
        for t in np.unique(groups):
            norm = np.linalg.norm(new[groups == t], axis=None if shared else 0)
            new[groups == t] *= np.maximum(1 - size * alpha * l1_ratio * of_group[t] / np.maximum(norm, 1e-300), 0)
        uphill = np.sum((ahead - new) * (new - coef)) > 0
        pace, before = (1.0, 1.0) if uphill else ((1 + np.sqrt(1 + 4 * pace**2)) / 2, pace)
        ahead = new if uphill else new + (before - 1) / pace * (new - coef)
        change, coef = np.abs(new - coef).max(), new
    return coef, target_mean - mean @ coef
