"""What a process of ``grouplasso.py`` does: one solver, alone in its process, on a problem that lies in a folder.

This module needs NumPy alone, for some solvers live in environments of their own. Every solver takes features (n, D),
targets (n, c), the number of columns of each group, penalties (L,) in the scaling of the benchmark, a tolerance and a number
of threads, and returns coefficients (c, L, D) and intercepts (c, L). Those of the libraries minimise
(1/2n) |y - Fw - b|^2 + lambda sum_t |w_t|, so that their penalty is half of ours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Solution = tuple[np.ndarray, np.ndarray]
WARM_UP_ROWS, WARM_UP_ALPHAS = 300, 3
ABSENT = 3
"""The exit status of a process whose solver is not installed."""


def bochner(F: np.ndarray, Y: np.ndarray, sizes: np.ndarray, alphas: np.ndarray, tol: float, _threads: int) -> Solution:
    """All classes and penalties in one call."""
    from bochner.solvers import group_lasso_path

    path = group_lasso_path(F, Y, np.repeat(np.arange(len(sizes)), sizes), alphas=alphas, tol=tol)
    return path.coef.transpose(2, 0, 1), path.intercept.T


def adelie(F: np.ndarray, Y: np.ndarray, sizes: np.ndarray, alphas: np.ndarray, tol: float, threads: int) -> Solution:
    """``grpnet`` on the features, one call a class: the path to its end (``early_exit=False``), all groups of weight one."""
    import adelie as ad

    coef, intercept, options = [], [], _adelie_options(sizes, alphas, tol, threads)
    X = ad.matrix.dense(np.asfortranarray(F), method="naive", n_threads=threads)
    for y in np.ascontiguousarray(Y.T):
        state = ad.grpnet(X, ad.glm.gaussian(y), **options)
        coef.append(state.betas.toarray())
        intercept.append(np.asarray(state.intercepts))
    return np.array(coef), np.array(intercept)


def _adelie_options(sizes: np.ndarray, alphas: np.ndarray, tol: float, threads: int) -> dict[str, Any]:
    """The path to its end, all groups of weight one."""
    return {
        "groups": np.cumsum(sizes) - sizes,
        "penalty": np.ones(len(sizes)),
        "lmda_path": alphas / 2,
        "tol": tol,
        "n_threads": threads,
        "early_exit": False,
        "progress_bar": False,
    }


def adelie_gram(F: np.ndarray, Y: np.ndarray, sizes: np.ndarray, alphas: np.ndarray, tol: float, threads: int) -> Solution:
    """``gaussian_cov`` on the Gram matrix of centred features, which is formed once for all classes."""
    import adelie as ad

    X, mean, Yc = _centred(F, Y)
    A = np.asfortranarray(X.T @ X / len(X))
    coef, options = [], _adelie_options(sizes, alphas, tol, threads)
    for v in np.ascontiguousarray((X.T @ Yc / len(X)).T):
        state = ad.gaussian_cov(A, v, **options)
        coef.append(state.betas.toarray())
    return _with_intercept(coef, mean, Y)


def skglm(F: np.ndarray, Y: np.ndarray, sizes: np.ndarray, alphas: np.ndarray, tol: float, _threads: int) -> Solution:
    """``GroupBCD`` on centred features, warm starts down the path."""
    from skglm.datafits import QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD
    from skglm.utils.data import grp_converter

    X, mean, Yc = _centred(F, Y)
    indices, bounds = grp_converter(sizes.tolist(), X.shape[1])
    solver = GroupBCD(max_iter=1000, max_epochs=50_000, tol=tol, warm_start=True)
    coef = []
    for y in np.ascontiguousarray(Yc.T):
        w, Xw, path = np.zeros(X.shape[1]), np.zeros(len(y)), []
        for alpha in alphas:  # w and Xw are updated in place
            penalty = WeightedGroupL2(alpha / 2, np.ones(len(sizes)), bounds, indices)
            path.append(solver.solve(X, y, QuadraticGroup(bounds, indices), penalty, w, Xw)[0].copy())
        coef.append(np.array(path))
    return _with_intercept(coef, mean, Y)


def celer(F: np.ndarray, Y: np.ndarray, sizes: np.ndarray, alphas: np.ndarray, tol: float, _threads: int) -> Solution:
    """``celer_path`` on centred features, pruning as its estimator does."""
    from celer import celer_path

    X, mean, Yc = _centred(F, Y)
    coef = []
    for y in np.ascontiguousarray(Yc.T):
        path = celer_path(X, y, "grouplasso", alphas=alphas / 2, groups=sizes.tolist(), tol=tol, max_iter=100, prune=1)
        coef.append(path[1].T)
    return _with_intercept(coef, mean, Y)


SOLVERS: dict[str, Callable[..., Solution]] = {
    "bochner": bochner,
    "adelie": adelie,
    "adelie, Gram": adelie_gram,
    "skglm": skglm,
    "celer": celer,
}


def _centred(F: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean = F.mean(axis=0)
    return np.asfortranarray(F - mean), mean, Y - Y.mean(axis=0)


def _with_intercept(coef: list[np.ndarray], mean: np.ndarray, Y: np.ndarray) -> Solution:
    paths = np.array(coef)
    return paths, Y.mean(axis=0)[:, None] - paths @ mean


def child(folder: str, job: dict[str, Any]) -> None:
    """One solver on the problem of ``folder``: a warm-up on few rows, the measured calls, its path, one line of JSON.

    It calls again, up to ``repeats`` times, while all calls together take less than ``again_s`` seconds.
    """
    here = Path(folder)
    features, targets, sizes, alphas = (np.load(here / f"{name}.npy") for name in ("features", "targets", "sizes", "alphas"))
    targets = np.ascontiguousarray(targets[:, : job["classes"]])
    solve = SOLVERS[job["solver"]]
    options = (job["tol"], job["threads"])
    try:
        solve(features[:WARM_UP_ROWS], targets[:WARM_UP_ROWS], sizes, alphas[:WARM_UP_ALPHAS], *options)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}))
        raise SystemExit(ABSENT) from None
    seconds: list[float] = []
    while not seconds or (len(seconds) < job["repeats"] and sum(seconds) < job["again_s"]):
        start = time.perf_counter()
        coef, intercept = solve(features, targets, sizes, alphas, *options)
        seconds.append(time.perf_counter() - start)
    np.save(here / "coef.npy", coef)
    np.save(here / "intercept.npy", intercept)
    package = job["solver"].split(",")[0]
    print(json.dumps({"seconds": seconds, "version": version(package), "numpy": np.__version__}))
