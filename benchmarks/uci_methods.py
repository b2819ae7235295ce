"""The contestants of ``uci.py``: how each is tuned and fitted, which sets it takes, and about how long that lasts.

Every method is a function of the training rows and a seed. It returns a model that predicts, and the
settings that were chosen; all tuning happens inside, so that its time is counted. Where searching in the plain way would
repeat work, the peer is spared it: the features of a ``grid`` are computed once for each gamma instead of once for each
point and fold (the frequencies do not depend on the rows, so they are the same), and one Ridge solves all penalties from
one Gram matrix. The scores are those of GridSearchCV, in less time than it would take.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from harness import ROOT
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from uci_data import DataSet, Task
from uci_gp import fit_process

sys.path.append(str(ROOT))  # for a copy of the repository that is not installed
from bochner import KernelClassifier, KernelRegressor

N_FEATURES = 4000
FOLDS = 3
GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Multiples of scikit-learn's gamma="scale", which is 1 / m for standardised columns."""
ALPHAS = (1e-5, 1e-3, 1e-1)
"""Penalties of Ridge and KernelRidge, whose loss is a sum over rows.

Chosen for the peer's benefit: among triples of powers of ten, by cross-validation on the training rows of the very sets that
are measured, so that the grid loses little against one of all those powers.
"""
LOGISTIC_C = (1.0, 100.0, 10_000.0)
SVC_C = (1.0, 10.0, 100.0)
TREES = {"learning_rate": (0.05, 0.15), "max_leaf_nodes": (8, 31, 127)}
TREE_OPTIONS = {"max_iter": 1000, "early_stopping": True, "n_iter_no_change": 20}
CLASS_TREES = {"learning_rate": (0.05, 0.1), "max_leaf_nodes": (8, 31)}
CLASS_TREE_OPTIONS = {"max_iter": 500, "early_stopping": True, "n_iter_no_change": 10}
CLASS_TUNING_ROWS, LOGISTIC_TUNING_ROWS = 8000, 5000
SVC_ALL_ROWS, SVC_TUNING_ROWS, SVC_MOST_ROWS = 8000, 5000, 20_000
KERNEL_RIDGE_ROWS, GP_CPU_ROWS, XRFM_CPU_ROWS = 5000, 2000, 10_000
DEVICE_ROWS = 2000
"""Rows from which on ours computes on a GPU, where there is one."""
BEST_SETS = ("kin40k", "protein", "mnist")
"""Sets of effort="best"."""

Fitted = tuple[Any, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """The seed of a fit, and how many processes a search may use that has no threads of its own."""

    seed: int
    jobs: int | None = None


Fit = Callable[[np.ndarray, np.ndarray, Run], Fitted]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A contestant: ``fit(X, y, run)``, the sets it takes, its rough seconds on two cores, its number of features."""

    name: str
    task: Task
    fit: Fit
    cost: Callable[[DataSet], float]
    takes: Callable[[DataSet], bool] = lambda _: True
    one_split: bool = False
    d: int | None = None


def gammas(X: np.ndarray) -> np.ndarray:
    """The values of gamma that grids search: GAMMAS / (m var(X))."""
    return np.array(GAMMAS) / (X.shape[1] * X.var())


def fit_bochner(X: np.ndarray, y: np.ndarray, run: Run, **options: Any) -> Fitted:
    """KernelRegressor with effort="default", or with options."""
    options = {"effort": "default", "device": _device(X)} | options
    model = KernelRegressor(**options, random_state=run.seed).fit(X, y)
    return model, _learned(model)


def fit_bochner_classes(X: np.ndarray, y: np.ndarray, run: Run, **options: Any) -> Fitted:
    """KernelClassifier with effort="default", or with options."""
    options = {"effort": "default", "device": _device(X)} | options
    model = KernelClassifier(**options, random_state=run.seed).fit(X, y)
    return model, _learned(model)


def _device(X: np.ndarray) -> str | None:
    """Where ours computes: on a GPU where there is one, and many rows."""
    return "cuda" if len(X) >= DEVICE_ROWS and _has_gpu() else None


def _has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def _learned(model: Any) -> dict[str, Any]:
    base = getattr(model.kernel_, "base", model.kernel_)
    return {
        "kernel": type(base).__name__,
        "metric": "full" if base is not model.kernel_ else "diagonal",
        "finish": model.finish_,
        "size": model.feature_map_.n_features,
        "device": model.device,
        "alpha": float(model.alpha_),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "validation_error": float(model.validation_error_),
    }


def fit_grid(X: np.ndarray, y: np.ndarray, run: Run, n_components: int = N_FEATURES) -> Fitted:
    """RBFSampler and Ridge by Cholesky, GAMMAS x ALPHAS by three folds, then refitted on all rows."""
    folds = list(KFold(FOLDS, shuffle=True, random_state=run.seed).split(X))
    errors = {}
    for gamma in gammas(X):
        F = RBFSampler(gamma=gamma, n_components=n_components, random_state=run.seed).fit_transform(X)
        errors[float(gamma)] = np.mean([_ridge_errors(F[a], y[a], F[b], y[b]) for a, b in folds], axis=0)
    gamma, alpha, error = min(
        ((gamma, alpha, error) for gamma in errors for alpha, error in zip(ALPHAS, errors[gamma], strict=True)),
        key=lambda point: point[2],
    )
    sampler = RBFSampler(gamma=gamma, n_components=n_components, random_state=run.seed)
    model = make_pipeline(sampler, Ridge(alpha=alpha, solver="cholesky")).fit(X, y)
    return model, {"gamma": gamma, "alpha": alpha, "validation_error": float(error)}


def _ridge_errors(F: np.ndarray, y: np.ndarray, F_out: np.ndarray, y_out: np.ndarray) -> np.ndarray:
    """Held-out mean squared error for each of ALPHAS, from one Gram matrix."""
    copies = np.column_stack([y] * len(ALPHAS))
    predictions = Ridge(alpha=np.array(ALPHAS), solver="cholesky").fit(F, copies).predict(F_out)
    return np.mean((predictions - y_out[:, None]) ** 2, axis=0)


def fit_kernel_ridge(X: np.ndarray, y: np.ndarray, run: Run) -> Fitted:
    """KernelRidge on the full kernel matrix, the same grid and the same folds."""
    grid = {"gamma": list(gammas(X)), "alpha": list(ALPHAS)}
    folds = KFold(FOLDS, shuffle=True, random_state=run.seed)
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, scoring="neg_mean_squared_error", cv=folds).fit(X, y)
    return search, _plain(search.best_params_)


def fit_gp(X: np.ndarray, y: np.ndarray, run: Run, smoothness: float | None = None) -> Fitted:
    """Exact Gaussian process with one length scale a column, by marginal likelihood: Gaussian, or Matern of a smoothness."""
    return fit_process(X, y, run.seed, smoothness)


def fit_trees(X: np.ndarray, y: np.ndarray, run: Run) -> Fitted:
    """Histogram gradient boosting, stopped early, TREES by three folds."""
    trees = HistGradientBoostingRegressor(**TREE_OPTIONS, random_state=run.seed)
    folds = KFold(FOLDS, shuffle=True, random_state=run.seed)
    search = GridSearchCV(trees, TREES, scoring="neg_mean_squared_error", cv=folds).fit(X, y)
    return search, _plain(search.best_params_ | {"n_trees": search.best_estimator_.n_iter_})


def fit_tree_classes(X: np.ndarray, y: np.ndarray, run: Run) -> Fitted:
    """The same for classes: CLASS_TREES by accuracy on at most 8000 rows, then all rows."""
    trees = HistGradientBoostingClassifier(**CLASS_TREE_OPTIONS, random_state=run.seed)
    search = GridSearchCV(trees, CLASS_TREES, cv=_class_folds(run.seed), refit=False)
    search.fit(*_part(X, y, CLASS_TUNING_ROWS, run.seed))
    trees.set_params(**search.best_params_).fit(X, y)
    return trees, _plain(search.best_params_ | {"n_trees": trees.n_iter_})


def fit_xrfm(X: np.ndarray, y: np.ndarray, run: Run) -> Fitted:
    """XRFM with its default settings; a fifth of the training rows chooses among its iterations, as in its documentation."""
    import torch
    from xrfm import xRFM  # type: ignore[import-not-found]

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    X, X_val, y, y_val = train_test_split(X.astype(np.float32), y.astype(np.float32), test_size=0.2, random_state=run.seed)
    model = xRFM(device=device, tuning_metric="mse", random_state=run.seed, verbose=False)
    model.fit(X, y[:, None], X_val, y_val[:, None])
    return model, {"device": str(device)}


def fit_xrfm_classes(X: np.ndarray, y: np.ndarray, run: Run) -> Fitted:
    """The same for classes, by accuracy."""
    import torch
    from xrfm import xRFM

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    X, X_val, y, y_val = train_test_split(X.astype(np.float32), y, test_size=0.2, random_state=run.seed, stratify=y)
    model = xRFM(device=device, tuning_metric="accuracy", random_state=run.seed, verbose=False)
    model.fit(X, y, X_val, y_val)
    return model, {"device": str(device)}


def fit_logistic_grid(X: np.ndarray, y: np.ndarray, run: Run) -> Fitted:
    """RBFSampler and LogisticRegression, GAMMAS x LOGISTIC_C by accuracy on at most 5000 rows, then all rows."""
    X_tune, y_tune = _part(X, y, LOGISTIC_TUNING_ROWS, run.seed)
    best: tuple[float, float, float] = (-1.0, 0.0, 0.0)
    logistic = LogisticRegression()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for gamma in gammas(X):
            F = RBFSampler(gamma=gamma, n_components=N_FEATURES, random_state=run.seed).fit_transform(X_tune)
            grid = {"C": LOGISTIC_C}
            search = GridSearchCV(logistic, grid, cv=_class_folds(run.seed), n_jobs=run.jobs, refit=False).fit(F, y_tune)
            best = max(best, (float(search.best_score_), float(gamma), search.best_params_["C"]))
        accuracy, gamma, C = best
        sampler = RBFSampler(gamma=gamma, n_components=N_FEATURES, random_state=run.seed)
        model = make_pipeline(sampler, logistic.set_params(C=C)).fit(X, y)
    return model, {"gamma": gamma, "C": C, "validation_accuracy": accuracy, "n_iter": int(model[-1].n_iter_.max())}


def fit_svc(X: np.ndarray, y: np.ndarray, run: Run) -> Fitted:
    """SVC with a Gaussian kernel, GAMMAS x SVC_C by accuracy; beyond 8000 rows tuned on 5000 of them, then all rows."""
    X_tune, y_tune = (X, y) if len(X) <= SVC_ALL_ROWS else _part(X, y, SVC_TUNING_ROWS, run.seed)
    grid = {"gamma": list(gammas(X)), "C": list(SVC_C)}
    svc = SVC(cache_size=1000)
    search = GridSearchCV(svc, grid, cv=_class_folds(run.seed), n_jobs=run.jobs, refit=False).fit(X_tune, y_tune)
    return svc.set_params(**search.best_params_).fit(X, y), _plain(search.best_params_)


def _class_folds(seed: int) -> StratifiedKFold:
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def _part(X: np.ndarray, y: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """At most n rows, each class in proportion."""
    if len(X) <= n:
        return X, y
    X, _, y, _ = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
    return X, y


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON can hold them."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}


def _xrfm_takes(data: DataSet) -> bool:
    """Whether xrfm can be imported and, for large sets, a GPU is there."""
    return find_spec("xrfm") is not None and (data.n <= XRFM_CPU_ROWS or _has_gpu())


def _gp_takes(data: DataSet) -> bool:
    """The same of GPyTorch."""
    return find_spec("gpytorch") is not None and (data.n <= GP_CPU_ROWS or _has_gpu())


METHODS: tuple[Method, ...] = (
    Method(name="bochner", task="regression", fit=fit_bochner, cost=lambda data: 15 + 0.01 * data.n_train),
    Method(
        name="bochner fast",
        task="regression",
        fit=partial(fit_bochner, effort="fast", n_features=N_FEATURES, device=None),
        cost=lambda data: 20 + 0.015 * data.n_train,
        d=N_FEATURES,
    ),
    Method(
        name="bochner best",
        task="regression",
        fit=partial(fit_bochner, effort="best"),
        cost=lambda data: 0.1 * data.n_train,
        takes=lambda data: data.name in BEST_SETS and _has_gpu(),
    ),
    Method(name="grid", task="regression", fit=fit_grid, cost=lambda data: 2 + 0.01 * data.n_train, d=N_FEATURES),
    Method(
        name="kernel ridge",
        task="regression",
        fit=fit_kernel_ridge,
        cost=lambda data: 2e-6 * data.n_train**2,
        takes=lambda data: data.n_train <= KERNEL_RIDGE_ROWS,
    ),
    Method(
        name="gp gaussian",
        task="regression",
        fit=fit_gp,
        cost=lambda data: 2e-6 * data.n_train**2,
        takes=_gp_takes,
    ),
    Method(
        name="gp matern32",
        task="regression",
        fit=partial(fit_gp, smoothness=1.5),
        cost=lambda data: 2e-6 * data.n_train**2,
        takes=_gp_takes,
    ),
    Method(name="boosted trees", task="regression", fit=fit_trees, cost=lambda data: 15 + 0.005 * data.n_train),
    Method(
        name="xrfm",
        task="regression",
        fit=fit_xrfm,
        cost=lambda data: 1 + 1e-6 * data.n_train**2,
        takes=_xrfm_takes,
    ),
    Method(name="bochner", task="classification", fit=fit_bochner_classes, cost=lambda data: 20 + 0.01 * data.n_train),
    Method(
        name="bochner fast",
        task="classification",
        fit=partial(fit_bochner_classes, effort="fast", n_features=N_FEATURES, device=None),
        cost=lambda data: 100 + 0.02 * data.n_train,
        d=N_FEATURES,
    ),
    Method(
        name="bochner best",
        task="classification",
        fit=partial(fit_bochner_classes, effort="best"),
        cost=lambda data: 0.1 * data.n_train,
        takes=lambda data: data.name in BEST_SETS and _has_gpu(),
    ),
    Method(
        name="grid",
        task="classification",
        fit=fit_logistic_grid,
        cost=lambda data: 0.05 * min(data.n_train, 8000) + 0.01 * data.n_train,
        d=N_FEATURES,
    ),
    Method(
        name="svc",
        task="classification",
        fit=fit_svc,
        cost=lambda data: 1e-5 * min(data.n_train, 8000) ** 2,
        takes=lambda data: data.n_train <= SVC_MOST_ROWS,
    ),
    Method(
        name="boosted trees",
        task="classification",
        fit=fit_tree_classes,
        cost=lambda data: 60 + 1e-3 * data.n_train * data.m**0.5,
    ),
    Method(
        name="xrfm",
        task="classification",
        fit=fit_xrfm_classes,
        cost=lambda data: 1 + 1e-6 * data.n_train**2,
        takes=_xrfm_takes,
    ),
)
"""All contestants, ours first in each task."""
