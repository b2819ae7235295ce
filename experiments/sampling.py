"""Error of random Fourier features against their number, for each way to draw the frequencies.

    python experiments/sampling.py            measure: experiments/results/sampling.csv and its manifest sampling.json
    python experiments/sampling.py --quick    the same with few seeds, to sampling-quick.csv
    python experiments/sampling.py --draw     no measuring: docs/figures/sampling-error.png and the table of docs/sampling.md

The error is that of phi(x) . phi(z) in the paired form, as a root mean square over pairs of rows and over seeds. With
f = d / 2 independent frequencies its square is known: the mean over the pairs of (1 + k(2 delta) - 2 k(delta)^2) / (2 f),
k(2 delta) being the kernel at twice the difference, that is at twice the scale.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bochner import FourierFeatures
from bochner.kernels import Kernel, get_kernel
from bochner.kernels.bandwidth import median_scale

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results, write_text

RESULTS = ROOT / "experiments" / "results"
FIGURE = ROOT / "docs" / "figures" / "sampling-error.png"
TITLES = {
    "gaussian": "Gaussian",
    "matern32": "Matérn 3/2",
    "laplacian": "Laplacian",
    "cauchy": "Cauchy",
    "skewed_chi2": "skewed chi2",
}
COLOURS = {"iid": "#777777", "orthogonal": "#d95f02", "qmc": "#1f6fb4"}
MARKERS = {"iid": "o", "orthogonal": "s", "qmc": "^"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured. ``features`` are drawn as a curve; ``default_features``, no power of two, is in the table only."""

    kernels: tuple[str, ...] = tuple(TITLES)
    columns: tuple[int, ...] = (1, 3, 10, 30)
    features: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    default_features: int = 1000
    n_pairs: int = 200
    n_seeds: int = 80
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One point of a curve: ``rms`` over pairs and seeds, its standard error, and the value of theory for iid points."""

    kernel: str
    columns: int
    sampling: str
    features: int
    rms: float
    standard_error: float
    theory: float


def measure(config: Config) -> Iterator[Row]:
    """All points of all curves."""
    for name in config.kernels:
        for m in config.columns:
            kernel, X, Z = pairs_of_rows(get_kernel(name), m, config)
            exact = np.diagonal(kernel.exact(X, Z))
            doubled = np.diagonal(kernel.replace(scale=2 * kernel.scale).exact(X, Z))
            variance = float(np.mean(1 + doubled - 2 * exact**2)) / 2
            for sampling in samplings(kernel):
                for d in sorted({*config.features, config.default_features}):
                    choices = {"n_features": d, "sampling": sampling}
                    squares = [
                        float(np.mean((approximate(kernel, X, Z, seed=(config.seed, d, i), **choices) - exact) ** 2))
                        for i in range(config.n_seeds)
                    ]
                    rms = float(np.mean(squares)) ** 0.5
                    error = float(np.std(squares, ddof=1)) / config.n_seeds**0.5 / (2 * rms)
                    theory = (variance / (d / 2)) ** 0.5
                    yield Row(
                        kernel=name, columns=m, sampling=sampling, features=d, rms=rms, standard_error=error, theory=theory
                    )


def pairs_of_rows(kernel: Kernel, m: int, config: Config) -> tuple[Kernel, Any, Any]:
    """Pairs of standard normal rows (of gamma ones for a kernel of positive values), and the kernel at its median scale."""
    rng = np.random.default_rng(config.seed)
    shape = (2 * config.n_pairs, m)
    rows = rng.standard_normal(shape) if np.isinf(kernel.lower) else rng.standard_gamma(2.0, shape)
    kernel = kernel.replace(scale=median_scale(kernel, rows[:128]))
    return kernel, rows[: config.n_pairs], rows[config.n_pairs :]


def samplings(kernel: Kernel) -> tuple[str, ...]:
    """The ways to draw frequencies that exist for the kernel."""
    return ("iid", "orthogonal", "qmc") if kernel.geometry == "radial" else ("iid", "qmc")


def approximate(kernel: Kernel, X: Any, Z: Any, *, seed: tuple[int, ...], **choices: Any) -> Any:
    """phi(x) . phi(z) of every pair of rows."""
    transformer = FourierFeatures(kernel, random_state=np.random.default_rng(seed), **choices)
    features = transformer.fit_transform(np.concatenate([X, Z]))
    return np.einsum("ij,ij->i", features[: len(X)], features[len(X) :])


def write_rows(rows: list[Row], config: Config, name: str) -> None:
    """Write the rows as CSV, and the config and manifest beside them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in asdict(row).items()})
    write_text(RESULTS / f"{name}.csv", text.getvalue())
    write_results(name, {"config": asdict(config)}, manifest(config.seed), RESULTS)


def read_rows(name: str) -> list[Row]:
    """The rows of a CSV file."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    kinds = {"kernel": str, "sampling": str, "columns": int, "features": int}
    return [Row(**{key: kinds.get(key, float)(value) for key, value in line.items()}) for line in lines]


def draw(rows: list[Row], config: Config, path: Path) -> None:
    """Small multiples: a kernel a row, a number of columns a column."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shape = (len(config.kernels), len(config.columns))
    figure, grid = plt.subplots(*shape, figsize=(10, 11.5), sharex=True, sharey=True, squeeze=False)
    for axes_of_kernel, kernel in zip(grid, config.kernels, strict=True):
        for axes, m in zip(axes_of_kernel, config.columns, strict=True):
            panel = [r for r in rows if (r.kernel, r.columns) == (kernel, m) and r.features in config.features]
            _draw_panel(axes, panel)
            if axes in grid[0]:
                axes.set_title(f"{m} column{'s' if m > 1 else ''}", fontsize=11)
        axes_of_kernel[0].set_ylabel(f"{TITLES[kernel]}\nRMS error", fontsize=10)
    for axes in grid[-1]:
        axes.set_xlabel("features d", fontsize=10)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = config.features[::2]
        axes.set_xticks(ticks, [str(d) for d in ticks], fontsize=9)
    handles = {line.get_label(): line for axes in grid.flat for line in axes.get_lines()}
    figure.legend(list(handles.values()), list(handles), loc="upper center", ncols=len(handles), frameon=False, fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_panel(axes: Any, rows: list[Row]) -> None:
    """The curves of one kernel in one number of columns."""
    for sampling, colour in COLOURS.items():
        points = [row for row in rows if row.sampling == sampling]
        if not points:
            continue
        d, rms = [row.features for row in points], [row.rms for row in points]
        axes.plot(d, rms, color=colour, marker=MARKERS[sampling], markersize=4, linewidth=1.5, label=sampling)
        if sampling == "iid":
            theory = [row.theory for row in points]
            axes.plot(d, theory, color="black", linestyle="--", linewidth=1, label="theory for iid", zorder=3)
    axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def table(rows: list[Row], config: Config) -> str:
    """Factors by which each sampling lowers the error below that of iid points, and how far the figures can be trusted."""
    factors = {(r.kernel, r.columns, r.sampling, r.features): r.theory / r.rms for r in rows}
    d = 1024 if 1024 in config.features else config.features[-1]
    picks = [("orthogonal", d), ("orthogonal", config.default_features), ("qmc", d), ("qmc", config.default_features)]
    header = ["kernel", "columns", *(f"{sampling}, d = {size}" for sampling, size in picks)]
    lines = []
    for kernel in config.kernels:
        for m in config.columns:
            values = [factors.get((kernel, m, *pick)) for pick in picks]
            lines.append([TITLES[kernel], str(m), *("" if value is None else f"{value:.2f}" for value in values)])
    shown = [r for r in rows if r.features in (d, config.default_features) and r.sampling != "iid"]
    spread = max(r.standard_error / r.rms for r in shown)
    off = float(np.mean([(r.rms / r.theory - 1) ** 2 for r in rows if r.sampling == "iid"])) ** 0.5
    note = (
        f"Error of iid points, from theory, over the measured error: {config.n_pairs} pairs of rows and {config.n_seeds} "
        f"seeds. Standard errors are at most {100 * spread:.0f} % of a figure. The measured error of iid points differs "
        f"from theory by {100 * off:.0f} % (root mean square over all kernels, columns and sizes)."
    )
    return f"{markdown_table(header, lines)}\n\n{note}"


def main() -> None:
    """Parse the options; measure and write, or read and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few seeds and few features")
    parser.add_argument("--draw", action="store_true", help="draw the figure and write the table, without measuring")
    arguments = parser.parse_args()
    name = "sampling-quick" if arguments.quick else "sampling"
    if arguments.draw:
        stored, about = read_results(name, RESULTS)
        options: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in stored["config"].items()}
        config = Config(**options)
        rows = read_rows(name)
        figure = RESULTS / f"{name}.png" if arguments.quick else FIGURE
        draw(rows, config, figure)
        print(text := f"{table(rows, config)} {describe(about)}")
        if not arguments.quick:
            replace_table(ROOT / "docs" / "sampling.md", "sampling", text)
        return
    config = Config()
    if arguments.quick:
        config = replace(config, features=config.features[:7], n_pairs=100, n_seeds=5)
    with threadpool_limits(1, user_api="blas"):  # the products are small: more threads would only wait for each other
        rows = list(measure(config))
    write_rows(rows, config, name)


if __name__ == "__main__":
    main()
