"""The criterion that a kernel on random features reaches, against their number, beside that of the exact kernel.

    python experiments/exact_limit.py           measure: experiments/results/exact_limit.json
    python experiments/exact_limit.py --quick   the same with two seeds and few sizes, to exact_limit-quick.json
    python experiments/exact_limit.py --draw    no measuring: docs/figures/exact_limit.png and the table of docs/learning.md

``KernelRegressor`` and ``bochner.exact.KernelRidgeGD`` learn the scales of one kernel family on the same rows, cut into the
same folds: both cut first, with the same seed. Every seed has its own folds, order of rows and frequencies.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from threadpoolctl import threadpool_limits

from bochner import KernelRegressor
from bochner.exact import KernelRidgeGD

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results

RESULTS = ROOT / "experiments" / "results"
FIGURE = ROOT / "docs" / "figures" / "exact_limit.png"
COLOURS = {"features": "#1f6fb4", "exact": "#d1601f"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured: sizes, seeds, the family, and how many rows of the digits."""

    kernel: str = "gaussian"
    features: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    n_seeds: int = 5
    digits: int = 400


def data(config: Config) -> dict[str, tuple[Any, Any]]:
    """All rows of the diabetes set, and some of the digits with ten targets: +1 for a row's class, -1 for the others."""
    X, y = load_digits(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(X))[: config.digits]
    targets = np.where(y[some, None] == np.arange(10), 1.0, -1.0)
    return {"diabetes": load_diabetes(return_X_y=True), "digits": (X[some], targets)}


def measure(config: Config) -> dict[str, Any]:
    """For each data set: the criterion of the exact kernel (seeds) and of features (sizes, seeds), and seconds likewise."""
    found: dict[str, Any] = {}
    for name, (X, y) in data(config).items():
        exact, sizes = [], []
        for seed in range(config.n_seeds):
            exact.append(learn(KernelRidgeGD(config.kernel, scale="per-column", random_state=seed), X, y))
            models = [
                KernelRegressor(config.kernel, scale="per-column", n_features=d, random_state=seed) for d in config.features
            ]
            sizes.append([learn(model, X, y) for model in models])
            print(f"{name}, seed {seed}: exact {exact[-1][0]:.4f}, features", *(f"{value:.4f}" for value, _ in sizes[-1]))
        errors, seconds = np.array(sizes).transpose(2, 1, 0).tolist()
        exact_errors, exact_seconds = np.array(exact).T.tolist()
        found[name] = {"rows": len(X), "columns": X.shape[1], "errors": errors, "seconds": seconds} | {
            "exact_errors": exact_errors,
            "exact_seconds": exact_seconds,
        }
    return found


def learn(model: Any, X: Any, y: Any) -> tuple[float, float]:
    """The criterion that a fit ends with, and its seconds."""
    start = time.perf_counter()
    model.fit(X, y)
    return model.validation_error_, time.perf_counter() - start


def draw(found: dict[str, Any], config: Config, path: Path) -> None:
    """One panel for each data set: mean and standard deviation over the seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.3), layout="constrained")
    for ax, (name, one) in zip(figure.subplots(1, len(found)), found.items(), strict=True):
        errors, exact = np.array(one["errors"]), np.array(one["exact_errors"])
        ax.axhline(exact.mean(), color=COLOURS["exact"], linewidth=1.4, label="exact kernel")
        band = exact.mean() - exact.std(ddof=1), exact.mean() + exact.std(ddof=1)
        ax.axhspan(*band, color=COLOURS["exact"], alpha=0.15, linewidth=0)
        style = {"color": COLOURS["features"], "marker": "o", "markersize": 4, "capsize": 2}
        ax.errorbar(config.features, errors.mean(axis=1), errors.std(axis=1, ddof=1), label="random features", **style)
        ax.set_xscale("log", base=2)
        ax.set_xticks(config.features, [str(d) for d in config.features], fontsize=9)
        ax.minorticks_off()
        ax.set_ylim(0, 1.1 * max(errors.max(), exact.max()))
        ax.set(title=f"{name}: {one['rows']} rows, {one['columns']} columns", xlabel="features", ylabel="held-out error")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="best")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})


def table(found: dict[str, Any], config: Config) -> str:
    """Held-out errors, their spread over seeds, and how far features are from the exact kernel on the same folds."""
    lines = []
    for name, one in found.items():
        exact = np.array(one["exact_errors"])
        for size, errors, seconds in zip(config.features, one["errors"], one["seconds"], strict=True):
            ratio = np.array(errors) / exact
            lines.append([name, str(size), spread(errors), spread(ratio), f"{np.mean(seconds):.1f}"])
        lines.append([name, "exact", spread(exact), "1", f"{np.mean(one['exact_seconds']):.1f}"])
    header = ["data", "features", "held-out error", "ratio to exact", "seconds"]
    note = (
        f"Mean and standard deviation over {config.n_seeds} seeds, the kernel {config.kernel} with a scale for each column; "
        "ratios are taken on the same folds. One BLAS thread."
    )
    return f"{markdown_table(header, lines)}\n\n{note}"


def spread(values: Any) -> str:
    """Mean ± standard deviation."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def main() -> None:
    """Parse the options; measure and write, or read and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="two seeds and few sizes")
    parser.add_argument("--draw", action="store_true", help="draw the figure and write the table, without measuring")
    arguments = parser.parse_args()
    name = "exact_limit-quick" if arguments.quick else "exact_limit"
    if arguments.draw:
        stored, about = read_results(name, RESULTS)
        config = Config(**(stored["config"] | {"features": tuple(stored["config"]["features"])}))
        draw(stored["data"], config, RESULTS / f"{name}.png" if arguments.quick else FIGURE)
        print(text := f"{table(stored['data'], config)} {describe(about)}")
        if not arguments.quick:
            replace_table(ROOT / "docs" / "learning.md", "exact_limit", text)
        return
    config = Config()
    if arguments.quick:
        config = replace(config, features=config.features[:3], n_seeds=2)
    with threadpool_limits(1, user_api="blas"):
        found = measure(config)
        about = manifest(seed=0)
    write_results(name, {"config": asdict(config), "data": found}, about, RESULTS)


if __name__ == "__main__":
    main()
