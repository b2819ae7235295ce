"""Time and memory of single-kernel learning: whole fits, growth with the rows, one evaluation against its floor.

    python benchmarks/skl.py                  all parts, about an hour
    python benchmarks/skl.py --parts b,c      some of them; the others stay as they are in the file of results
    python benchmarks/skl.py --quick          small sizes, to see that everything runs: nothing is kept
    python benchmarks/skl.py --table          no run: rewrite the tables of docs/benchmarks.md and their figures

Part a fits two real data sets: KernelRegressor beside one fit of a fixed kernel (RBFSampler and Ridge), a grid search over
that pipeline, and the plain run of the paper. Part b follows time and memory from a thousand rows to a hundred thousand.
Part c times one evaluation of the criterion with its gradient beside the matrix products that it cannot do without.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import (
    ROOT,
    TimerOptions,
    describe,
    manifest,
    markdown_table,
    read_results,
    replace_table,
    time_in_turn,
    write_results,
)
from scipy import linalg
from scipy.linalg.blas import dsyrk
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from bochner import KernelRegressor
from bochner.criteria import Folds, HeldOutError, Rows
from bochner.exact import KernelRidgeGD
from bochner.features import FeatureChoices, FeatureMap, build_map
from bochner.kernels import Gaussian

SEED = 0
DATA = ROOT.parent / "shared" / "data" / "uci"
DATA_SETS = ("kin40k", "protein")
PARTS = {"a": "fits", "b": "growth", "c": "floor"}

ONE_FIT, OURS, OURS_GAUSSIAN = "one fixed kernel", "KernelRegressor", 'KernelRegressor("gaussian")'
GRID, PLAIN = "grid search", "plain run of the paper"
MOST_FITS, LEAST_GAIN = 3.0, 10.0
"""Goals of part a: a whole fit costs at most so many fixed-kernel fits, and the grid search at least so many whole fits."""
MOST_SLOPE = 1.05
"""Goal of part b, for the exponent of time in the number of rows."""
MOST_FLOORS = 1.5
"""Goal of part c, for one evaluation over its floor."""

GAMMA_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Multiples of 1 / m in the grid."""
ALPHAS = (1e-5, 1e-3, 1e-1)
NOISE = 0.1
HELD_OUT = 0.2
PENALTY_STEP = 0.2
"""An evaluation starts this far from its best log penalty: about the change from one step of learning to the next."""
FLOOR_BLOCK = 2796
"""Rows of a block of the floor: 64 MiB of 3000 features."""
WARM_UP_ROWS = 64
IDLE_LOAD = 0.5
"""Above this load average a run warns that it is not alone."""

COLOURS = {"fit": "#1f6fb4", "exact": "#d1601f", "evaluation": "#777777"}
MARKERS = {"fit": "o", "exact": "s", "evaluation": "^"}
TITLES = {"fit": "KernelRegressor", "exact": "KernelRidgeGD", "evaluation": "one evaluation, all rows"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of all parts.

    ``most_rows`` cuts the data sets of part a; costly contestants run once, the others ``repeats`` times.
    """

    repeats: int = 3
    most_rows: int | None = None
    fit_features: int = 2000
    rows: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000)
    exact_rows: tuple[int, ...] = (300, 1_000, 2_000, 3_000)
    exact_limit_s: float = 180.0
    columns: int = 10
    features: int = 1000
    floor_rows: int = 100_000
    floor_columns: int = 100
    floor_features: int = 3000
    grid: bool = True


def quick_config(*, grid: bool) -> Config:
    """Sizes of a smoke test."""
    return Config(
        repeats=1,
        most_rows=1500,
        fit_features=200,
        rows=(300, 1_000, 3_000),
        exact_rows=(100, 200),
        exact_limit_s=60.0,
        features=200,
        floor_rows=6_000,
        floor_columns=20,
        floor_features=600,
        grid=grid,
    )


# -- data -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Training and test rows, standardised by the training rows: errors are in units of the target's spread."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def read_split(folder: Path, name: str, most_rows: int | None) -> Split:
    """Split 0 of a UCI data set, with at most so many training rows."""
    tables = []
    for kind in ("data", "test_mask"):
        with gzip.open(folder / f"{name}.{kind}.csv.gz", "rt", encoding="utf-8") as file:
            tables.append(np.loadtxt(file, delimiter=","))
    data, held = tables[0], tables[1][:, 0] > 0
    train, test = data[~held][:most_rows], data[held]
    mean, spread = train.mean(axis=0), train.std(axis=0)
    train, test = (train - mean) / spread, (test - mean) / spread
    return Split(train[:, :-1].copy(), train[:, -1].copy(), test[:, :-1].copy(), test[:, -1].copy())


def check_data(folder: Path) -> None:
    """Stop with a clear message where a data set of part a is not there."""
    for name in DATA_SETS:
        if not (folder / f"{name}.data.csv.gz").exists():
            raise SystemExit(
                f"{folder / name}.data.csv.gz does not exist: name the folder of the UCI data sets with --data FOLDER, or "
                "run the parts that need none with --parts b,c."
            )


def smooth_rows(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows (n, m) and y = sin(2 u) + cos(v) / 2 + noise, u and v weighted sums of all columns."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, m))
    falling = 1 / np.arange(1, m + 1)
    signal = np.sin(2 * X @ (falling / np.linalg.norm(falling))) + 0.5 * np.cos(X @ falling[::-1])
    return X, signal + NOISE * rng.standard_normal(n)


def held_out_problem(n: int, m: int, d: int) -> tuple[HeldOutError, FeatureMap]:
    """The criterion of one evaluation, with a fifth of the rows held out, and a Gaussian map of d features."""
    X, y = smooth_rows(n, m)
    rows = Rows(X, ((y - y.mean()) / y.std())[:, None], np.ones(n))
    held = round(HELD_OUT * n)
    folds = Folds((rows.take(slice(held, n)), rows.take(slice(0, held))), (1,))
    kernel = Gaussian(scale=np.full(m, (2 * m) ** -0.5))
    return HeldOutError(folds), build_map(kernel, m, FeatureChoices(n_features=d), np.random.default_rng(SEED))


# -- part a: whole fits -----------------------------------------------------------------------------------------------


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


def learners(m: int, d: int) -> dict[str, Callable[[], Any]]:
    """What makes each contestant of part a."""
    grid = {"rbfsampler__gamma": [factor / m for factor in GAMMA_FACTORS], "ridge__alpha": list(ALPHAS)}

    def one_fit() -> Any:
        return make_pipeline(
            RBFSampler(gamma=1 / m, n_components=d, random_state=SEED), Ridge(alpha=1e-3, solver="cholesky")
        )

    return {
        ONE_FIT: one_fit,
        OURS: lambda: KernelRegressor(n_features=d, random_state=SEED),
        OURS_GAUSSIAN: lambda: KernelRegressor("gaussian", n_features=d, random_state=SEED),
        GRID: lambda: GridSearchCV(one_fit(), grid, scoring="neg_mean_squared_error", cv=3),
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

    made = learners(split.X.shape[1], config.fit_features)
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


# -- part b: growth with the rows -------------------------------------------------------------------------------------


def growth(config: Config) -> dict[str, Any]:
    """Seconds and peak memory of whole fits, each in a process of its own, and seconds of one evaluation."""
    m, d = config.columns, config.features
    fit: list[list[dict[str, float]]] = [[] for _ in config.rows]
    for repeat in range(config.repeats):
        for i in range(len(config.rows)) if repeat % 2 == 0 else reversed(range(len(config.rows))):
            fit[i].append(in_process("fit", config.rows[i], m, d))
    curves = {"fit": [of_runs(n, runs) for n, runs in zip(config.rows, fit, strict=True)], "exact": []}
    for n in config.exact_rows:
        try:
            curves["exact"].append(of_runs(n, [in_process("exact", n, m, d, timeout=config.exact_limit_s)]))
        except subprocess.TimeoutExpired:
            say(f"b: exact, n = {n}: more than {config.exact_limit_s:.0f} s, left out")
            break
    calls = {str(n): evaluation_call(n, m, d) for n in config.rows}
    say("b: one evaluation at every size")
    timings = time_in_turn(calls, TimerOptions(repeats=config.repeats))
    curves["evaluation"] = [{"rows": int(n), **timing.to_dict()} for n, timing in timings.items()]
    return {"columns": m, "features": d, "exact_limit_s": config.exact_limit_s, "curves": curves}


def evaluation_call(n: int, m: int, d: int) -> Callable[[], object]:
    """One evaluation of the criterion and its gradient, as learning does it: its penalty starts near the best one."""
    criterion, feature_map = held_out_problem(n, m, d)
    start = criterion.evaluate(feature_map, gradient=False).log_alpha + PENALTY_STEP
    return lambda: criterion.evaluate(feature_map, start)


def in_process(kind: str, n: int, m: int, d: int, timeout: float | None = None) -> dict[str, float]:
    """One run in a fresh process: its seconds, and its peak of memory above what the process held before."""
    command = [sys.executable, __file__, "--child", kind, str(n), str(m), str(d)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=timeout)
    measured: dict[str, float] = json.loads(run.stdout)
    say(f"   {kind}, n = {n}: {measured['seconds']:.2f} s, {measured['peak_bytes'] / 1e6:.0f} MB")
    return measured


def child(kind: str, n: int, m: int, d: int) -> None:
    """What the process of ``in_process`` does: a warm-up on few rows, the run, one line of JSON."""

    def run_on(n: int) -> Callable[[], object]:
        if kind == "evaluation":
            criterion, feature_map = held_out_problem(n, m, d)
            return lambda: criterion.evaluate(feature_map, float(np.log(1e-5)))
        X, y = smooth_rows(n, m)
        if kind == "exact":
            return lambda: KernelRidgeGD(random_state=SEED).fit(X, y)
        return lambda: KernelRegressor(n_features=d, random_state=SEED).fit(X, y)

    run_on(WARM_UP_ROWS)()
    run = run_on(n)
    before = memory_bytes("VmRSS")
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_bytes": memory_bytes("VmHWM") - before}))


def memory_bytes(field: str) -> int:
    """Memory of this process now ("VmRSS") or at its peak ("VmHWM").

    Read from Linux where it can be: the peak of getrusage counts what the parent held when it started this process.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def of_runs(n: int, runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Several runs at one size as they are stored: all seconds, their best and median, the largest peak."""
    seconds = [run["seconds"] for run in runs]
    return {
        "rows": n,
        "best_s": min(seconds),
        "median_s": float(np.median(seconds)),
        "seconds": seconds,
        "peak_bytes": max(run["peak_bytes"] for run in runs),
    }


def log_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of y ~ x^p by least squares on logarithms; NaN from less than two points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(x) > 1 else float("nan")


def largest_decade(curve: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The points from a tenth of the most rows on (a hair less, so that 300 goes with 3000 after rounding)."""
    most = max((point["rows"] for point in curve), default=0)
    return [point for point in curve if point["rows"] >= 0.099 * most]


def slopes(curve: Sequence[Mapping[str, Any]], key: str = "median_s") -> tuple[float, float]:
    """Exponents in the number of rows: over the largest decade of rows, and over all."""
    one, every = (
        log_slope([point["rows"] for point in points], [point[key] for point in points])
        for points in (largest_decade(curve), curve)
    )
    return one, every


def growth_table(results: Mapping[str, Any]) -> str:
    """Seconds and memory at every size, the slopes, and whether the goal is reached."""
    curves = results["curves"]
    sizes = sorted({point["rows"] for curve in curves.values() for point in curve})
    by_rows = {kind: {point["rows"]: point for point in curve} for kind, curve in curves.items()}
    columns = [("fit", "median_s"), ("fit", "peak_bytes"), ("exact", "median_s"), ("exact", "peak_bytes")]
    columns.append(("evaluation", "median_s"))
    header = ["rows", *(f"{TITLES[kind]}, {'s' if key == 'median_s' else 'MB'}" for kind, key in columns)]
    rows = [[f"{n:,}", *(_cell(by_rows[kind].get(n), key) for kind, key in columns)] for n in sizes]
    both = [slopes(curves[kind], key) for kind, key in columns]
    rows.append(["exponent, largest decade", *(_exponent(pair[0]) for pair in both)])
    rows.append(["exponent, all sizes", *(_exponent(pair[1]) for pair in both)])
    verdicts = []
    for kind in ("fit", "evaluation"):
        slope, sizes = slopes(curves[kind])[0], [point["rows"] for point in largest_decade(curves[kind])]
        verdicts.append(
            f"- {TITLES[kind]}: exponent of time {slope:.2f} from {min(sizes):,} to {max(sizes):,} rows, "
            f"{goal(slope, MOST_SLOPE)}."
        )
    return f"{markdown_table(header, rows)}\n\n" + "\n".join(verdicts)


def _cell(point: Mapping[str, Any] | None, key: str) -> str:
    if point is None:
        return ""
    return f"{point[key] / 1e6:.0f}" if key == "peak_bytes" else f"{point[key]:.3g}"


def _exponent(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


def draw_growth(results: Mapping[str, Any], folder: Path) -> None:
    """Time and memory against the rows, on logarithmic axes: skl-time.png and skl-memory.png."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    pictures = (
        ("skl-time.png", "median_s", 1.0, "seconds", ("fit", "exact", "evaluation")),
        ("skl-memory.png", "peak_bytes", 1e6, "peak memory of a fit, MB", ("fit", "exact")),
    )
    for file, key, unit, label, kinds in pictures:
        figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
        for kind in kinds:
            curve = results["curves"][kind]
            rows, values = [point["rows"] for point in curve], [point[key] / unit for point in curve]
            name = f"{TITLES[kind]}, $n^{{{slopes(curve, key)[0]:.2f}}}$"
            axes.loglog(rows, values, color=COLOURS[kind], marker=MARKERS[kind], markersize=5, linewidth=1.5, label=name)
        axes.set_xlabel("rows n")
        axes.set_ylabel(label)
        title = f"{results['columns']} columns, {results['features']} features; exponents over the largest decade of rows"
        axes.set_title(title, fontsize=10)
        axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=len(kinds), frameon=False, fontsize=9)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / file, dpi=120, metadata={"Software": None})
        plt.close(figure)


# -- part c: one evaluation against its floor -------------------------------------------------------------------------


def floor(config: Config) -> dict[str, Any]:
    """One evaluation with its gradient, and the parts of its floor, in turn."""
    n, m, d = config.floor_rows, config.floor_columns, config.floor_features
    say(f"c: peak memory of one evaluation, {n} x {m}, d = {d}")
    peak = in_process("evaluation", n, m, d)["peak_bytes"]
    say("c: one evaluation and the parts of its floor, in turn")
    calls = floor_calls(n, m, d)
    timings = time_in_turn({"evaluation": evaluation_call(n, m, d), **calls}, TimerOptions(repeats=config.repeats))
    entries = {name: timing.to_dict() for name, timing in timings.items()}
    return {"rows": n, "columns": m, "features": d, "peak_bytes": peak, "held_out": HELD_OUT, "times": entries}


GRAM = ("Gram matrix, NumPy", "Gram matrix, dsyrk")
"""The same sum in two ways, of which the floor counts the faster."""


def floor_calls(n: int, m: int, d: int) -> dict[str, Callable[[], object]]:
    """Each matrix product of an evaluation by itself, in blocks of rows and into memory that is already there.

    The features are numbers of a random block, the same for every block of rows: a product takes no note of their values.
    """
    rng = np.random.default_rng(SEED)
    b, f = min(FLOOR_BLOCK, n), d // 2
    X = rng.standard_normal((n, m))
    features, angles = rng.standard_normal((b, d)), np.empty((b, f))
    frequencies, coef = rng.standard_normal((m, f)), rng.standard_normal((d, 2))
    gram, lower = np.empty((d, d)), np.zeros((d, d), order="F")
    turned, predictions = np.empty((m, f)), np.empty((b, 2))
    held = round(HELD_OUT * n)
    positive = np.asfortranarray(features.T @ features + n * np.eye(d))

    def blocks(product: Callable[[slice, int], object]) -> Callable[[], None]:
        def call() -> None:
            for start in range(0, n, b):
                rows = slice(start, min(start + b, n))
                product(rows, rows.stop - start)

        return call

    def predict(rows: slice, k: int) -> None:
        width = 1 if rows.stop <= held else 2  # rows held out meet the coefficients, the others the adjoint too
        np.matmul(features[:k], coef[:, :width], out=predictions[:k, :width])

    forward = blocks(lambda rows, k: np.matmul(X[rows], frequencies, out=angles[:k]))
    return {
        "X G, first pass": forward,
        GRAM[0]: blocks(lambda _, k: np.matmul(features[:k].T, features[:k], out=gram)),
        GRAM[1]: blocks(lambda _, k: dsyrk(1.0, features[:k].T, beta=1.0, c=lower, overwrite_c=1)),
        "Cholesky factor, one": lambda: linalg.cholesky(positive, lower=True, check_finite=False),
        "X G, second pass": forward,
        "features times coefficients": blocks(predict),
        "X' T of the gradient": blocks(lambda rows, k: np.matmul(X[rows].T, angles[:k], out=turned)),
    }


def slower_gram(times: Mapping[str, Mapping[str, float]]) -> str:
    """The way to make the Gram matrix that the floor leaves out."""
    return max(GRAM, key=lambda name: times[name]["best_s"])


def floor_seconds(times: Mapping[str, Mapping[str, float]], key: str) -> float:
    """The sum of all parts of the floor, with the faster Gram matrix."""
    return sum(entry[key] for name, entry in times.items() if name not in ("evaluation", slower_gram(times)))


def floor_table(results: Mapping[str, Any]) -> str:
    """The parts of the floor, their sum, the evaluation, its ratio, and whether the goal is reached."""
    times = results["times"]
    slower = slower_gram(times)
    keys = ("median_s", "best_s")
    sums = {key: floor_seconds(times, key) for key in keys}
    rows = [
        [name + (" (slower, not counted)" if name == slower else ""), *(f"{times[name][key]:.3f}" for key in keys)]
        for name in times
        if name != "evaluation"
    ]
    rows.append(["floor: their sum", *(f"{sums[key]:.3f}" for key in keys)])
    rows.append(["one evaluation with its gradient", *(f"{times['evaluation'][key]:.3f}" for key in keys)])
    ratios = {key: times["evaluation"][key] / sums[key] for key in keys}
    rows.append(["evaluation / floor", *(f"{ratios[key]:.2f}" for key in keys)])
    features_gb = 8e-9 * results["rows"] * results["features"]
    verdict = (
        f"- {results['rows']:,} x {results['columns']}, d = {results['features']}, float64: an evaluation takes "
        f"{ratios['best_s']:.2f} times its floor (best times), {goal(ratios['best_s'], MOST_FLOORS)}. Its peak of memory is "
        f"{results['peak_bytes'] / 1e9:.2f} GB; all features at once would be {features_gb:.2f} GB."
    )
    return f"{markdown_table(['', 'median s', 'best s'], rows)}\n\n{verdict}"


# -- tables and the run -----------------------------------------------------------------------------------------------


TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {"fits": fits_table, "growth": growth_table, "floor": floor_table}


def goal(value: float, bound: float, *, at_least: bool = False) -> str:
    """Whether a goal is reached, in words."""
    reached = value >= bound if at_least else value <= bound
    return f"goal at {'least' if at_least else 'most'} {bound:g}: {'reached' if reached else 'not reached'}"


def say(text: str) -> None:
    """A line of progress, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def write_tables() -> None:
    """Rewrite the tables of the documentation and their figures from the file of results."""
    results, _ = read_results("skl")
    for part, entry in results.items():
        text = f"{TABLES[part](entry)}\n\n{describe(entry['manifest'])}"
        if part == "growth":
            draw_growth(entry, ROOT / "docs" / "figures")
            text += "\n\n![Time against rows](figures/skl-time.png)\n\n![Peak memory against rows](figures/skl-memory.png)"
        replace_table(ROOT / "docs" / "benchmarks.md", f"skl-{part}", text)


def merge(part: str, entry: Mapping[str, Any], about: Mapping[str, Any]) -> Path:
    """Put one part, with its own manifest, into the file of results; the other parts stay."""
    try:
        results, _ = read_results("skl")
    except FileNotFoundError:
        results = {}
    results[part] = {"manifest": about, **entry}
    return write_results("skl", {name: results[name] for name in TABLES if name in results}, about)


def main() -> None:
    """Parse the options, run the parts one by one, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", default="a,b,c", help="which parts to run: a (fits), b (growth), c (floor)")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see that everything runs; results are not kept"
    )
    parser.add_argument("--no-grid", action="store_true", help="leave the grid search out of part a")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the UCI data sets")
    parser.add_argument(
        "--table", action="store_true", help="rewrite tables and figures from the last runs, without running"
    )
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], *map(int, arguments.child[1:]))
        return
    if arguments.table:
        write_tables()
        return
    parts = arguments.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts takes letters out of {','.join(PARTS)}, got {','.join(sorted(unknown))}.")
    if "a" in parts:
        check_data(arguments.data)
    config = quick_config(grid=not arguments.no_grid) if arguments.quick else Config(grid=not arguments.no_grid)
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "a": lambda: fits(config, arguments.data),
        "b": lambda: growth(config),
        "c": lambda: floor(config),
    }
    if (load := os.getloadavg()[0]) > IDLE_LOAD:
        say(f"load average {load:.1f}: other work on this machine disturbs the times")
    for letter in parts:
        about = manifest(SEED)
        entry = runs[letter]()
        print(f"\n{TABLES[PARTS[letter]](entry)}\n\n{describe(about)}\n", flush=True)
        if not arguments.quick:
            print(merge(PARTS[letter], entry, about).relative_to(ROOT))
        elif letter == "b":
            draw_growth(entry, folder := Path(tempfile.mkdtemp(prefix="skl-quick-")))
            print(f"figures in {folder}")


if __name__ == "__main__":
    main()
