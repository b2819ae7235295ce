"""The part of the demo on kernels: each one exact and through features, and what both cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from demo_figures import TWO, matrix, themed
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bochner import FourierFeatures
from bochner.kernels import KERNELS, get_kernel
from bochner.plots import plot_approximation, plot_convergence, rms_error
from bochner.report import Section, Table, Text

N_FEATURES = 1000
SIZES = (50, 200, 800, 3200)
ORDERS = (0, 1, 2, 3, 4, 5)
SEEDS = (0, 1, 2)
SHOWN_ROWS = 100
COST_ROWS = (500, 1000, 2000, 4000, 8000, 16000)
COST_EXACT_ROWS = 4000

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


@dataclass(frozen=True)
class Study:
    """What was measured of one kernel."""

    name: str
    transformer: FourierFeatures
    data: str
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
            len(s.exact),
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
    data, X = rows_for(name)
    few = X[shown(len(X))]
    additive = get_kernel(name).geometry == "additive"
    transformer = FourierFeatures(name, n_features=None if additive else N_FEATURES, random_state=0).fit(X)
    kernel = transformer.kernel_
    features, exact = transformer.transform(X), kernel(few)
    sizes, errors = [], []
    with threadpool_limits(1, user_api="blas"):  # many small problems: threads would only wait for each other
        for choice in ORDERS if additive else SIZES:
            options = {"order": choice} if additive else {"n_features": choice}
            maps = [FourierFeatures(kernel, random_state=seed, **options) for seed in SEEDS[: 1 if additive else None]]
            found = [map_.fit_transform(few) for map_ in maps]
            sizes.append(found[0].shape[1])
            errors.append(float(np.mean([rms_error(exact, phi @ phi.T) for phi in found])))
    return Study(
        name=name,
        transformer=transformer,
        data=data,
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
    chosen = shown(len(s.exact))
    exact, approximate = (K[np.ix_(chosen, chosen)] for K in (s.exact, s.approximate))
    limits = (float(exact.min()), float(exact.max()))
    random = kernel.geometry != "additive"
    trend = "Error against number of features" + (" (dotted line: falling as one over its square root)" if random else "")
    slope = partial(plot_convergence, s.sizes, s.errors, guide=random)

    def dots(ax: Any) -> None:
        plot_approximation(exact, approximate, ax).set_title(f"RMS error {s.error:.2g}")  # of all entries

    bright = f"{limits[0]:.2g} is dark, {limits[1]:.2g} is bright"
    return Section(
        s.name,
        [
            Text(SENTENCES.get(s.name, (type(kernel).__doc__ or "").split("\n")[0])),
            matrix(exact, f"Exact {s.name} matrix", f"Exact: {bright}", limits),
            matrix(approximate, f"Approximate {s.name} matrix", f"From {n} features, same colours", limits),
            themed(dots, f"Approximate against exact entries, {s.name}", "Entry by entry"),
            themed(slope, f"Error against number of features, {s.name}", trend),
        ],
    )


def cost() -> Iterator[Section]:
    """Time of the exact matrix and of the features against the number of rows."""
    print("Cost against the number of rows")
    _, digits = rows_for("chi2")
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
        ax.set_xticks(COST_ROWS, [str(n) for n in COST_ROWS])
        ax.minorticks_off()
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
            themed(draw, "Seconds against rows, exact matrix and features", size=TWO),
        ],
    )


@cache
def data_sets() -> dict[str, tuple[str, Any]]:
    """Names and rows by kind, sorted by class: a third of the digits as histograms of ink, tumours standardised."""
    digits, label = load_digits(return_X_y=True)
    digits = (digits / digits.sum(axis=1, keepdims=True))[np.argsort(label, kind="stable")][::3]
    tumours, label = load_breast_cancer(return_X_y=True)
    tumours = StandardScaler().fit_transform(tumours)[np.argsort(label, kind="stable")]
    return {"histograms": ("digits", digits), "measurements": ("breast cancer", tumours)}


def rows_for(name: str) -> tuple[str, Any]:
    """Name and rows of the data set that suits the kernel of that name."""
    return data_sets()["histograms" if np.isfinite(get_kernel(name).lower) else "measurements"]


def shown(n_rows: int) -> Any:
    """Positions of the rows that are drawn, evenly spread."""
    return np.linspace(0, n_rows - 1, SHOWN_ROWS).astype(int)


def best_time(function: Callable[[], object]) -> float:
    """Seconds of the fastest of several calls: three or more, until a quarter of a second is spent."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < 0.25:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)
