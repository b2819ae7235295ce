"""Part a of ``skl.py``: whole fits of two real data sets, beside one fit of a fixed kernel and a grid search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from harness import TimerOptions, markdown_table, time_in_turn
from skl_common import SEED, WARM_UP_ROWS, Config, goal, say
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from uci_data import Split, regression_split
from uci_methods import ALPHAS, FOLDS, gammas

from bochner import KernelRegressor

DATA_SETS = ("kin40k", "protein")
ONE_FIT, OURS, OURS_GAUSSIAN = "one fixed kernel", "KernelRegressor", 'KernelRegressor("gaussian")'
GRID, PLAIN = "grid search", "plain run of the paper"
MOST_FITS, LEAST_GAIN = 3.0, 10.0
"""The goals: a whole fit costs at most so many fixed-kernel fits, and the grid search at least so many whole fits."""


def fits(config: Config, folder: Path) -> dict[str, Any]:
    """Whole fits on every data set: seconds, test error, ratios."""
    data_sets = {}
    for name in DATA_SETS:
        split = read_split(folder, name, config.most_rows)
        n, m = split.X.shape
        say(f"a: {name}, {n} x {m}, d = {config.fit_features}")
        entries = fit_all(split, config)
        for entry in entries.values():
            entry["ratio_to_one_fit"] = entry["median_s"] / entries[ONE_FIT]["median_s"]
        data_sets[name] = {"rows": n, "columns": m, "learners": entries}
    return {"features": config.fit_features, "data_sets": data_sets}


def read_split(folder: Path, name: str, most_rows: int | None) -> Split:
    """Split 0 of a UCI data set, with at most so many training rows, in memory as a user would have it: row after row."""
    split = regression_split(folder, name, 0)
    X, X_test, y, y_test = map(np.ascontiguousarray, (split.X[:most_rows], split.X_test, split.y[:most_rows], split.y_test))
    return Split(X, X_test, y, y_test)


def learners(X: np.ndarray, d: int) -> dict[str, Callable[[], Any]]:
    """What makes each contestant. The grid is that of ``uci.py``, by scikit-learn's own search."""
    grid = {"rbfsampler__gamma": gammas(X).tolist(), "ridge__alpha": list(ALPHAS)}

    def one_fit() -> Any:
        return make_pipeline(
            RBFSampler(gamma=1 / X.shape[1], n_components=d, random_state=SEED), Ridge(alpha=1e-3, solver="cholesky")
        )

    return {
        ONE_FIT: one_fit,
        OURS: lambda: KernelRegressor(n_features=d, random_state=SEED),
        OURS_GAUSSIAN: lambda: KernelRegressor("gaussian", n_features=d, random_state=SEED),
        GRID: lambda: GridSearchCV(one_fit(), grid, scoring="neg_mean_squared_error", cv=FOLDS),
        PLAIN: lambda: KernelRegressor("gaussian", schedule="full", criterion="holdout", n_features=d, random_state=SEED),
    }


def fit_all(split: Split, config: Config) -> dict[str, Any]:
    """Every learner on one data set: cheap ones in turn and several times, costly ones once."""
    models: dict[str, Any] = {}

    def fit(name: str, make: Callable[[], Any]) -> Callable[[], object]:
        def call() -> object:
            models[name] = make().fit(split.X, split.y)
            say(f"a:   {name}")
            return models[name]

        return call

    made = learners(split.X, config.fit_features)
    calls = {name: fit(name, make) for name, make in made.items() if config.grid or name != GRID}
    costly = {name: calls.pop(name) for name in (GRID, PLAIN) if name in calls}
    for name in calls:
        made[name]().fit(split.X[:WARM_UP_ROWS], split.y[:WARM_UP_ROWS])
    timings = time_in_turn(calls, TimerOptions(repeats=config.repeats, warmups=0))
    timings |= time_in_turn(costly, TimerOptions(repeats=1, warmups=0))
    return {
        name: {**timings[name].to_dict(), "test_rmse": test_rmse(model, split), **outcome(model)}
        for name, model in models.items()
    }


def test_rmse(model: Any, split: Split) -> float:
    """Root mean squared error on the test rows."""
    return float(np.sqrt(np.mean((model.predict(split.X_test) - split.y_test) ** 2)))


def outcome(model: Any) -> dict[str, Any]:
    """What was learned, as far as the model says."""
    if isinstance(model, KernelRegressor):
        return {"kernel": type(model.kernel_).__name__, "alpha": model.alpha_, "evaluations": len(model.history_)}
    return {"best": model.best_params_} if isinstance(model, GridSearchCV) else {}


def fits_table(results: Mapping[str, Any]) -> str:
    """Every learner on every data set, and whether the goals are reached."""
    header = ["data set", "learner", "seconds", "ratio to one fit", "test RMSE"]
    rows, verdicts = [], []
    for name, entry in results["data_sets"].items():
        title = f"{name}, {entry['rows']} x {entry['columns']}"
        for learner, figures in entry["learners"].items():
            numbers = [f"{figures['median_s']:.1f}", f"{figures['ratio_to_one_fit']:.2f}", f"{figures['test_rmse']:.4f}"]
            rows.append([title, learner, *numbers])
        ours, grid = entry["learners"][OURS], entry["learners"].get(GRID)
        ratio = ours["ratio_to_one_fit"]
        verdict = f"- {name}: {OURS} costs {ratio:.2f} fixed-kernel fits, {goal(ratio, MOST_FITS)}; the grid search "
        if grid:
            gain = grid["median_s"] / ours["median_s"]
            verdict += f"costs {gain:.1f} times as much as {OURS}, {goal(gain, LEAST_GAIN, at_least=True)}."
        verdicts.append(verdict if grid else f"{verdict}was not measured.")
    return f"{markdown_table(header, rows, n_text=2)}\n\n" + "\n".join(verdicts)
