"""The contestants of ``mkl.py``: how each is tuned and fitted, which sets it takes, and about how long that lasts.

All of them have the same Gaussian kernels of median width (but for ``bochner, learned`` and ``stacked``). Those on random
features choose their penalty by the folds of MultipleKernelClassifier.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mkl_data import Problem, ViewSet
from mkl_process import Environment, peer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from bochner import MultipleKernelClassifier
from bochner.exact import GMKLClassifier
from bochner.kernels import Gaussian

GMKL_COSTS = (1.0, 10.0, 100.0)
HELD_OUT = 0.2
OURS, LEARNED, AVERAGE = "bochner", "bochner, learned", "average"


@dataclass(frozen=True)
class Fitted:
    """Labels of the test rows, the seconds of the fit with its tuning, and what was chosen."""

    predicted: np.ndarray
    seconds: float
    settings: dict[str, Any]


Fit = Callable[[Problem, Environment], Fitted]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A contestant: its fit, its rough seconds, and whether it is also fitted beside views of noise."""

    name: str
    fit: Fit
    cost: Callable[[ViewSet], float]
    noise: bool = False


def _multiple(problem: Problem, start: float, kernels: Any, tables: list[int], **options: Any) -> tuple[Any, Fitted]:
    """MultipleKernelClassifier on some tables; ``start`` is when the clock was started."""
    options = {"standardize": False, "random_state": problem.split} | options
    model = MultipleKernelClassifier(kernels, **options)
    model.fit([problem.tables[t] for t in tables], problem.y)
    seconds = time.perf_counter() - start
    weights = model.kernel_weights_.max(axis=1)
    settings = {
        "alpha": model.alpha_,
        "l1_ratio": model.l1_ratio_,
        "refit": model.refit_,
        "refit_alpha": model.refit_alpha_,
        "validation_error": model.validation_error_,
        "weights": weights.tolist(),
    }
    if problem.noise and len(tables) > 1:
        settings["noise_out"] = bool(np.all(weights[-problem.noise * len(problem.factors) :] == 0))
    return model, Fitted(model.predict([problem.tables_test[t] for t in tables]), seconds, settings)


def _triples(problem: Problem, kernels: list[Gaussian]) -> list[tuple[str, Gaussian, int]]:
    return [(f"kernel {i}", kernel, view) for i, (kernel, view) in enumerate(zip(kernels, problem.views, strict=True))]


def ours(problem: Problem, _: Environment) -> Fitted:
    """MultipleKernelClassifier, its settings by default."""
    start = time.perf_counter()
    return _multiple(problem, start, _triples(problem, problem.kernels()), list(range(len(problem.tables))))[1]


def learned(problem: Problem, _: Environment) -> Fitted:
    """The same with the scales and the family of each view learned; one kernel a view."""
    start = time.perf_counter()
    model, fitted = _multiple(problem, start, "auto", list(range(len(problem.tables))), scale="learned")
    fitted.settings["families"] = [type(kernel).__name__ for kernel in model.kernels_]
    return fitted


def average(problem: Problem, _: Environment) -> Fitted:
    """Ridge regression on the features of all kernels: their plain average."""
    start = time.perf_counter()
    kernels = _triples(problem, problem.kernels())
    return _multiple(problem, start, kernels, list(range(len(problem.tables))), l1_ratio=0.0)[1]


def best_single(problem: Problem, _: Environment) -> Fitted:
    """The kernel that is best by itself on held-out rows."""
    start = time.perf_counter()
    each = [
        _multiple(problem, start, [kernel], [view], l1_ratio=0.0)[1]
        for kernel, view in zip(problem.kernels(), problem.views, strict=True)
    ]
    best = min(range(len(each)), key=lambda i: each[i].settings["validation_error"])
    return Fitted(each[best].predicted, each[-1].seconds, each[best].settings | {"kernel": best})


def stacked(problem: Problem, _: Environment) -> Fitted:
    """One kernel of median width on all columns, with as many features as the others have in all."""
    whole = Problem(
        name=problem.name,
        split=problem.split,
        tables=[np.hstack(problem.tables)],
        tables_test=[np.hstack(problem.tables_test)],
        y=problem.y,
        y_test=problem.y_test,
    )
    start = time.perf_counter()
    return _multiple(
        whole,
        start,
        whole.kernels(),
        [0],
        l1_ratio=0.0,
        n_features=len(problem.views) * problem.d,
    )[1]


def gmkl(problem: Problem, _: Environment) -> Fitted:
    """GMKLClassifier on the kernel matrices, C by accuracy on a fifth of the rows."""
    start = time.perf_counter()
    grams, y = problem.grams(), problem.y
    fit, rest = train_test_split(np.arange(len(y)), test_size=HELD_OUT, stratify=y, random_state=problem.split)

    def model(cost: float, rows: np.ndarray) -> GMKLClassifier:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return GMKLClassifier("precomputed", C=cost).fit(grams[:, rows[:, None], rows], y[rows])

    cost = max(
        GMKL_COSTS, key=lambda cost: float(np.mean(model(cost, fit).predict(grams[:, rest[:, None], fit]) == y[rest]))
    )
    found = model(cost, np.arange(len(y)))
    seconds = time.perf_counter() - start
    weights = found.kernel_weights_.max(axis=1)
    settings = {"C": cost, "weights": weights.tolist(), "converged": found.converged_}
    if problem.noise:
        settings["noise_out"] = bool(np.all(weights[-problem.noise * len(problem.factors) :] == 0))
    return Fitted(found.predict(problem.grams_test()), seconds, settings)


def _peer(name: str) -> Fit:
    return lambda problem, environment: Fitted(*peer(name, problem, environment))


METHODS = (
    Method(name=AVERAGE, fit=average, cost=lambda data: 1e-6 * data.d**2, noise=True),
    Method(name="best single", fit=best_single, cost=lambda data: 0.3 * data.kernels, noise=True),
    Method(
        name="stacked",
        fit=stacked,
        cost=lambda data: 1e-6 * data.d**2,
        noise=True,
    ),
    Method(name=OURS, fit=ours, cost=lambda data: 1.5e-5 * data.d**2, noise=True),
    Method(name=LEARNED, fit=learned, cost=lambda data: 8e-3 * data.n * data.kernels + 50, noise=True),
    Method(name="himalaya", fit=_peer("himalaya"), cost=lambda data: 2e-8 * data.n**3),
    Method(name="easymkl", fit=_peer("easymkl"), cost=lambda data: 1e-6 * data.n**2 * data.classes * data.kernels),
    Method(name="gmkl", fit=gmkl, cost=lambda data: 5e-6 * data.n**2 * data.classes * data.kernels),
)
