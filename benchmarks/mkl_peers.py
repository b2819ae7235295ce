"""What a process of ``mkl.py`` does: one peer on kernel matrices that lie in a folder, tuned, fitted and asked for labels.

This module needs NumPy and scikit-learn alone, for the peers live in an environment of their own. Every peer takes kernel
matrices (r, n, n) and (r, n_test, n), labels (n,) and a seed, and returns labels (n_test,) and its settings.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

Answer = tuple[np.ndarray, dict[str, Any]]
ABSENT = 3
"""The exit status of a process whose peer is not installed."""
HELD_OUT = 0.2
LAMBDAS, COSTS = (0.1, 0.5, 0.9), (10.0, 1.0, 100.0)
"""Values of EasyMKL's lam, and of the C of its machines; the first of these while lam is chosen."""
RIDGES = np.logspace(-6, 3, 10)
SEARCH_STEPS, SEARCH_FOLDS = 20, 3


def easymkl(grams: np.ndarray, grams_test: np.ndarray, y: np.ndarray, seed: int) -> Answer:
    """EasyMKL, one class against the rest, with support vector machines; lam, then C, by accuracy on a fifth of the rows."""
    import torch
    from MKLpy.algorithms import EasyMKL
    from MKLpy.preprocessing import kernel_normalization

    kernels = [kernel_normalization(torch.tensor(gram)) for gram in grams]
    fit, rest = train_test_split(np.arange(len(y)), test_size=HELD_OUT, stratify=y, random_state=seed)

    def labels(rows: np.ndarray, others: list[Any], lam: float, cost: float) -> np.ndarray:
        model = EasyMKL(lam=lam, learner=SVC(C=cost), multiclass_strategy="ova")
        return np.asarray(model.fit([gram[rows][:, rows] for gram in kernels], torch.tensor(y[rows])).predict(others))

    def accuracy(lam: float, cost: float) -> float:
        return float(np.mean(labels(fit, [gram[rest][:, fit] for gram in kernels], lam, cost) == y[rest]))

    lam = max(LAMBDAS, key=lambda lam: accuracy(lam, COSTS[0]))
    cost = max(COSTS, key=lambda cost: accuracy(lam, cost))
    others = [torch.tensor(gram) for gram in grams_test]
    return labels(np.arange(len(y)), others, lam, cost), {"lam": lam, "C": cost}


def himalaya(grams: np.ndarray, grams_test: np.ndarray, y: np.ndarray, seed: int) -> Answer:
    """MultipleKernelRidgeCV on indicators -1 and +1 of the classes, by random search; the class of the largest one."""
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    search = {"n_iter": SEARCH_STEPS, "alphas": RIDGES, "progress_bar": False}
    model = MultipleKernelRidgeCV(
        kernels="precomputed", solver_params=search, fit_intercept=True, cv=SEARCH_FOLDS, random_state=seed
    )
    model.fit(grams, np.where(y[:, None] == np.arange(y.max() + 1), 1.0, -1.0))
    weights = np.exp(model.deltas_)
    return model.predict(grams_test).argmax(axis=1), {"weights": (weights / weights.sum(axis=0)).mean(axis=1).tolist()}


PEERS: dict[str, tuple[str, Callable[..., Answer]]] = {"easymkl": ("MKLpy", easymkl), "himalaya": ("himalaya", himalaya)}
"""The package and the function of each peer."""


def child(folder: str, name: str, seed: int) -> None:
    """One peer on the matrices of ``folder``: its labels to predicted.npy, its time and settings as one line of JSON."""
    here = Path(folder)
    package, solve = PEERS[name]
    try:
        __import__(package)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}))
        raise SystemExit(ABSENT) from None
    grams, grams_test, y = (np.load(here / f"{part}.npy") for part in ("grams", "grams_test", "y"))
    start = time.perf_counter()
    predicted, settings = solve(grams, grams_test, y, seed)
    seconds = time.perf_counter() - start
    np.save(here / "predicted.npy", predicted)
    print(json.dumps({"seconds": seconds, "settings": settings | {package: version(package)}}))
