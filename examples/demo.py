"""Draw learned kernels, and every kernel beside its approximation: report/index.html.

Data comes with scikit-learn, or is made here. The page is a list of sections, each made by one of the functions in SECTIONS;
a new section is a new function there.

Run it with ``make demo``, or ``python examples/demo.py --output somewhere/index.html``.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import sklearn
from matplotlib.figure import Figure as Canvas
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import bochner
from bochner import FourierFeatures, KernelClassifier, KernelRegressor
from bochner.kernels import KERNELS, get_kernel
from bochner.plots import (
    plot_approximation,
    plot_calibration,
    plot_convergence,
    plot_gram,
    plot_history,
    plot_predictions,
    plot_relevance,
    rms_error,
)
from bochner.report import Figure, Page, Section, Table, Text, figure_bytes, write

N_FEATURES = 1000
SIZES = (50, 200, 800, 3200)
ORDERS = (0, 1, 2, 3, 4, 5)
SEEDS = (0, 1, 2)
SHOWN_ROWS = 100
COST_ROWS = (500, 1000, 2000, 4000, 8000, 16000)
COST_EXACT_ROWS = 4000
LEARNED_FEATURES = 500
GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Widths of the grid, as multiples of one over the number of columns."""

SENTENCES = {
    "gaussian": "The usual choice for smooth functions: near rows are alike, far ones are not, in every direction.",
    "laplacian": "Like the Gaussian kernel, but with a sharp peak and column by column: it suits rough functions.",
    "matern12": "The roughest Matérn kernel: its functions are continuous but have kinks everywhere.",
    "matern32": "Between rough and smooth: functions of this kernel can be differentiated once.",
    "matern52": "Close to the Gaussian kernel, for functions that can be differentiated twice.",
    "cauchy": "A bell with heavy tails in each column: far rows keep some influence.",
    "skewed_chi2": "A kernel of ratios for histograms; the constant c tempers the ratios of small values.",
    "skewed_intersection": "Ratios again, with a sharp peak: the skewed counterpart of histogram intersection.",
    "chi2": "A sum over the bins of two histograms of their harmonic means; its features are not random.",
    "intersection": "The mass that two histograms have in common; its features are not random.",
    "jensen_shannon": "How much two histograms share in the sense of information theory; its features are not random.",
    "exponentiated_chi2": "exp(-distance) for the chi-squared distance, a long-standing favourite for bags of visual words.",
    "exponentiated_intersection": (
        "A Laplacian kernel of histograms. Its inner map of order 2 sets a floor to the error: a higher order lowers it, "
        "and the laplacian kernel, which is the same, has none."
    ),
    "exponentiated_jensen_shannon": "exp(-distance) for the Jensen-Shannon distance between histograms.",
}

BOTH = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9}
INKS = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
LIGHT = {
    **BOTH,
    **dict.fromkeys(INKS, "#1c2430"),
    "axes.prop_cycle": matplotlib.cycler(color=["#1f6fb4", "#d1601f", "#3a8a4d"]),
}
DARK = {
    **BOTH,
    **dict.fromkeys(INKS, "#cfd6de"),
    "axes.prop_cycle": matplotlib.cycler(color=["#6cb2ee", "#f0975a", "#7cc98c"]),
}


def main() -> None:
    """Make the page and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("report/index.html"), help="where the page goes")
    output = parser.parse_args().output
    start = time.perf_counter()
    sections = [section for make in SECTIONS for section in make()]
    page = Page(
        title="Kernels and their features",
        lead="Kernels learned from data, and each kernel of bochner computed exactly and through features.",
        sections=sections,
        footer=(
            f"bochner {bochner.__version__}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}, "
            f"Python {platform.python_version()}, {platform.system()} {platform.machine()}. "
            f"Times are those of the fastest of several calls on this machine. "
            f"Made in {time.perf_counter() - start:.0f} seconds."
        ),
    )
    path = write(page, output)
    print(f"\nThe report is ready, open it in a browser: {path.resolve().as_uri()}")


# -- every kernel ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """What was measured of one kernel."""

    name: str
    transformer: FourierFeatures
    data: str
    n_rows: int
    exact: Any
    approximate: Any
    sizes: list[int]
    errors: list[float]
    exact_seconds: float
    feature_seconds: float

    @property
    def error(self) -> float:
        return rms_error(self.exact, self.approximate)


def kernels() -> Iterator[Section]:
    """A summary table, then a section for each kernel."""
    print(f"Kernels: {len(KERNELS)} of them, exact and approximate")
    studies = []
    for i, name in enumerate(KERNELS, start=1):
        print(f"  [{i:2d}/{len(KERNELS)}] {name:30s}", end="", flush=True)
        studies.append(study(name))
        print(f" {studies[-1].transformer.feature_map_.n_features:5d} features, RMS error {studies[-1].error:.2g}")
    header = ["kernel", "RMS error", "time, exact", "time, features", "features", "rows", "data"]
    rows = [
        [
            s.name,
            f"{s.error:.2g}",
            f"{1e3 * s.exact_seconds:.1f} ms",
            f"{1e3 * s.feature_seconds:.1f} ms",
            s.transformer.feature_map_.n_features,
            s.n_rows,
            s.data,
        ]
        for s in studies
    ]
    yield Section(
        "Summary",
        [
            Text(
                "A kernel matrix compares every row with every other, so its cost grows with the square of the number of "
                "rows. Features turn each row into a vector whose inner products are nearly the kernel, at a cost that "
                "grows with the number of rows alone. The RMS error is that of all pairs of rows."
            ),
            Table(header, rows, links=True),
        ],
    )
    for s in studies:
        yield kernel_section(s)


def study(name: str) -> Study:
    """Fit, time and compare one kernel on the rows that suit it."""
    data, X, shown = rows_for(name)
    additive = get_kernel(name).geometry == "additive"
    transformer = FourierFeatures(name, n_features=None if additive else N_FEATURES, random_state=0).fit(X)
    kernel = transformer.kernel_
    features, few = transformer.transform(X), kernel(shown)
    sizes, errors = [], []
    with threadpool_limits(1, user_api="blas"):  # many small problems: threads would only wait for each other
        for choice in ORDERS if additive else SIZES:
            options = {"order": choice} if additive else {"n_features": choice}
            maps = [FourierFeatures(kernel, random_state=seed, **options) for seed in SEEDS[: 1 if additive else None]]
            found = [map_.fit_transform(shown) for map_ in maps]
            sizes.append(found[0].shape[1])
            errors.append(float(np.mean([rms_error(few, phi @ phi.T) for phi in found])))
    return Study(
        name=name,
        transformer=transformer,
        data=data,
        n_rows=X.shape[0],
        exact=kernel(X),
        approximate=features @ features.T,
        sizes=sizes,
        errors=errors,
        exact_seconds=best_time(lambda: kernel(X)),
        feature_seconds=best_time(lambda: transformer.transform(X)),
    )


def kernel_section(s: Study) -> Section:
    """One kernel: both matrices, the scatter of their entries, the error against the number of features."""
    kernel = s.transformer.kernel_
    n = s.transformer.feature_map_.n_features
    chosen = np.linspace(0, s.n_rows - 1, SHOWN_ROWS).astype(int)
    exact, approximate = s.exact[np.ix_(chosen, chosen)], s.approximate[np.ix_(chosen, chosen)]
    limits = (float(exact.min()), float(exact.max()))

    def gram(values: Any) -> bytes:
        return picture(
            lambda ax: plot_gram(values, ax, limits=limits, colorbar=False), LIGHT, size=(1.875, 1.875), bare=True
        )

    random = kernel.geometry != "additive"
    trend = "Error against number of features" + (" (dotted line: falling as one over its square root)" if random else "")

    def slope(ax: Any) -> None:
        plot_convergence(s.sizes, s.errors, ax, guide=random)

    def dots(ax: Any) -> None:
        plot_approximation(exact, approximate, ax).set_title(f"RMS error {s.error:.2g}")

    bright = f"{limits[0]:.2g} is dark, {limits[1]:.2g} is bright"
    return Section(
        s.name,
        [
            Text(SENTENCES.get(s.name, (type(kernel).__doc__ or "").split("\n")[0])),
            Figure(gram(exact), f"Exact {s.name} matrix", f"Exact: {bright}", small=True),
            Figure(gram(approximate), f"Approximate {s.name} matrix", f"From {n} features, same colours", small=True),
            *two_themes(dots, f"Approximate against exact entries, {s.name}", "Entry by entry"),
            *two_themes(slope, f"Error against number of features, {s.name}", trend),
        ],
    )


# -- learning -------------------------------------------------------------------------------------------------------------


def learning() -> Iterator[Section]:
    """Learned kernels: a regression, a classification, and columns that count."""
    print("Learning kernels")
    with threadpool_limits(1, user_api="blas"):  # small problems again
        sections = [diabetes(), digits(), relevant_columns()]
    yield from sections


def diabetes() -> Section:
    """A regression beside a linear one and a grid search, on the same split."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    split = train_test_split(X, y, test_size=0.3, random_state=0)
    model = KernelRegressor(random_state=0)
    scores = [
        scored("KernelRegressor, all by default", model, split),
        scored("RBFSampler and Ridge, grid search", grid(Ridge(), X.shape[1], ridge__alpha=[0.01, 0.1, 1, 10]), split),
        scored("Ridge on the standardised columns", make_pipeline(StandardScaler(), Ridge()), split),
    ]
    return Section(
        "Learning: a regression",
        [
            Text(
                f"The diabetes data: {len(split[0])} rows to fit, {len(split[1])} to test. The kernel has a scale for each "
                "column, which follows the gradient of the held-out error; the grid search has one scale for all. The "
                "target is nearly a linear function with much noise: a linear model is hard to beat here."
            ),
            Table(["method", "R² on test rows", "time"], scores),
            *two_themes(
                lambda ax: plot_history(model, ax),
                "Criterion against seconds",
                "Every kernel tried, from few features to many",
                size=(4.6, 3.0),
            ),
            *two_themes(
                lambda ax: plot_relevance(model, ax), "Relevance of the columns", "Which columns the learned kernel looks at"
            ),
            *two_themes(
                lambda ax: plot_predictions(model, split[1], split[3], ax),
                "Predicted against true targets",
                "Test rows, with two standard deviations to each side",
            ),
        ],
    )


def digits() -> Section:
    """A classification and its probabilities, beside a grid search and a linear model."""
    X, y = load_digits(return_X_y=True)
    split = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    model = KernelClassifier("gaussian", n_features=LEARNED_FEATURES, random_state=0)
    logistic = LogisticRegression(max_iter=1000)
    scores = [
        scored("KernelClassifier, a scale for each column", model, split),
        scored(
            "KernelClassifier, one scale for all",
            KernelClassifier("gaussian", scale="shared", n_features=LEARNED_FEATURES, random_state=0),
            split,
        ),
        scored(
            "RBFSampler and LogisticRegression, grid search",
            grid(logistic, X.shape[1], logisticregression__C=[1, 10, 100]),
            split,
        ),
        scored("LogisticRegression", make_pipeline(StandardScaler(), logistic), split),
    ]
    return Section(
        "Learning: a classification",
        [
            Text(
                f"The digits: {len(split[0])} rows to fit, {len(split[1])} to test, {LEARNED_FEATURES} features each. "
                "Probabilities come from decisions about rows that a model has not seen."
            ),
            Table(["method", "accuracy on test rows", "time"], scores),
            *two_themes(
                lambda ax: plot_calibration(model, split[1], split[3], ax),
                "Reliability curve of the digits",
                "Test rows: how often the predicted class is right, and how many rows are in each bin",
                size=(4.0, 3.0),
            ),
            Figure(
                picture(
                    lambda ax: plot_gram(model.relevance_.reshape(8, 8), ax, colorbar=False),
                    LIGHT,
                    size=(3.0, 3.0),
                    bare=True,
                ),
                "Relevance of each pixel",
                "Relevance of each pixel: bright ones count most",
                small=True,
            ),
        ],
    )


def relevant_columns() -> Section:
    """Three columns that count among twenty."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1600, 20))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(len(X))
    split = train_test_split(X, y, test_size=1000, random_state=0)
    model = KernelRegressor(n_features=LEARNED_FEATURES, random_state=0)
    sparse = KernelRegressor(n_features=LEARNED_FEATURES, scale_penalty="sparse", random_state=0)
    scores = [
        scored("KernelRegressor", model, split),
        scored("KernelRegressor, sparse scales", sparse, split),
        scored("RBFSampler and Ridge, grid search", grid(Ridge(), X.shape[1], ridge__alpha=[0.01, 0.1, 1, 10]), split),
    ]
    best = 1 - 0.3**2 / float(np.var(y))
    return Section(
        "Learning: which columns count",
        [
            Text(
                f"y = sin(2 x0) + x1 x2 + noise, with 17 more columns that have no say; {len(split[0])} rows to fit. The "
                f"best possible R² is about {best:.2f}. A grid over one shared scale cannot tell the columns apart. The "
                f"sparse penalty gives {int(np.sum(sparse.relevance_ == 0))} columns a relevance of exactly zero."
            ),
            Table(["method", "R² on test rows", "time"], scores),
            *two_themes(
                lambda ax: plot_relevance(model, ax), "Relevance of the columns", "Without a penalty", size=(3, 3.4)
            ),
            *two_themes(
                lambda ax: plot_relevance(sparse, ax), "Relevance, sparse scales", "With a sparse penalty", size=(3, 3.4)
            ),
        ],
    )


def grid(last: Any, n_columns: int, **choices: Any) -> GridSearchCV:
    """scikit-learn's search over a shared width and a penalty, on as many random features."""
    sampler = RBFSampler(n_components=LEARNED_FEATURES, random_state=0)
    options = {"rbfsampler__gamma": [factor / n_columns for factor in GAMMAS], **choices}
    return GridSearchCV(make_pipeline(StandardScaler(), sampler, last), options, cv=3)


def scored(name: str, model: Any, split: Any) -> list[str]:
    """Name, score on the test rows, and seconds of the fit."""
    train, test, y_train, y_test = split
    start = time.perf_counter()
    model.fit(train, y_train)
    seconds = time.perf_counter() - start
    score = model.score(test, y_test)
    print(f"  {name:48s} {score:.3f} {seconds:6.1f} s")
    return [name, f"{score:.3f}", f"{seconds:.1f} s"]


# -- cost -----------------------------------------------------------------------------------------------------------------


def cost() -> Iterator[Section]:
    """Time of the exact matrix and of the features against the number of rows."""
    print("Cost against the number of rows")
    _, digits, _ = rows_for("chi2")
    rng = np.random.default_rng(0)
    transformer = FourierFeatures("gaussian", n_features=N_FEATURES, random_state=0).fit(digits)
    exact, features = [], []
    for n in COST_ROWS:
        X = digits[rng.integers(len(digits), size=n)]
        features.append(best_time(lambda X=X: transformer.transform(X)))
        if n <= COST_EXACT_ROWS:
            exact.append(best_time(lambda X=X: transformer.kernel_(X)))
        print(f"  {n:6d} rows")

    def draw(ax: Any) -> None:
        ax.loglog(COST_ROWS[: len(exact)], exact, marker="s", markersize=4, color="C1", label="exact matrix")
        ax.loglog(COST_ROWS, features, marker="o", markersize=4, color="C0", label=f"{N_FEATURES} features")
        ax.set_xlabel("rows")
        ax.set_ylabel("seconds")
        ax.legend(frameon=False)

    yield Section(
        "Cost",
        [
            Text(
                "Time to compute the Gaussian kernel matrix of rows drawn from the digits, and time to compute their "
                f"features. The exact matrix stops at {COST_EXACT_ROWS} rows, where it already holds "
                f"{COST_EXACT_ROWS**2 / 1e6:.0f} million numbers."
            ),
            *two_themes(draw, "Seconds against rows, exact matrix and features", size=(4.6, 3.0)),
        ],
    )


SECTIONS: list[Callable[[], Iterator[Section]]] = [learning, kernels, cost]
"""The page, from top to bottom."""


# -- data, time, pictures -------------------------------------------------------------------------------------------------


@cache
def _data() -> dict[str, tuple[str, Any, Any]]:
    """Rows by kind, sorted by class, and a few of them: a third of the digits as histograms of ink, tumours standardised."""
    digits, label = load_digits(return_X_y=True)
    digits = (digits / digits.sum(axis=1, keepdims=True))[np.argsort(label, kind="stable")][::3]
    tumours, label = load_breast_cancer(return_X_y=True)
    tumours = StandardScaler().fit_transform(tumours)[np.argsort(label, kind="stable")]
    few = {len(X): np.linspace(0, len(X) - 1, SHOWN_ROWS).astype(int) for X in (digits, tumours)}
    return {
        "histograms": ("digits", digits, digits[few[len(digits)]]),
        "measurements": ("breast cancer", tumours, tumours[few[len(tumours)]]),
    }


def rows_for(name: str) -> tuple[str, Any, Any]:
    """Name of the data set, all of its rows, and a few of them, for the kernel of that name."""
    return _data()["histograms" if np.isfinite(get_kernel(name).lower) else "measurements"]


def best_time(function: Callable[[], object]) -> float:
    """Seconds of the fastest of several calls: three or more, until a quarter of a second is spent."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < 0.25:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def two_themes(
    draw: Callable[[Any], None], alt: str, caption: str = "", size: tuple[float, float] = (3.0, 2.5)
) -> Iterator[Figure]:
    """The picture for light screens and for dark ones, as one figure."""
    yield Figure(picture(draw, LIGHT, size=size), alt, caption, dark=picture(draw, DARK, size=size))


def picture(draw: Callable[[Any], object], theme: dict[str, Any], *, size: tuple[float, float], bare: bool = False) -> bytes:
    """The bytes of a PNG of what ``draw`` draws; ``bare`` leaves out axes and margins."""
    with matplotlib.rc_context(theme):
        canvas = Canvas(figsize=size)
        left, bottom, top = 0.72 / size[0], 0.45 / size[1], 0.25 / size[1]
        ax = canvas.add_axes((0, 0, 1, 1) if bare else (left, bottom, 1 - left - 0.1 / size[0], 1 - bottom - top))
        draw(ax)
        if bare:
            ax.set_axis_off()
        return figure_bytes(canvas)


if __name__ == "__main__":
    main()
