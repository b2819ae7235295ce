"""Draw the figures of the documentation: kernels.png, and one picture for each kernel.

Run it with ``make figures``. Nothing here is random from one run to the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from bochner import FourierFeatures
from bochner.kernels import KERNELS, Kernel, get_kernel
from bochner.plots import plot_kernel

HERE = Path(__file__).parent
COLUMNS = 5
N_FEATURES = 100
RATIO_REACH = 9.0
"""How far the kernels of ratios are drawn: their tails are long."""
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": matplotlib.cycler(color=["#1f6fb4", "#d1601f"]),
    "axes.edgecolor": "#5b6675",
    "text.color": "#1c2430",
}


def main() -> None:
    """Draw them all."""
    with matplotlib.rc_context(STYLE):
        save(overview(), "kernels.png")
        for name in KERNELS:
            save(portrait(name), f"kernel_{name}.png")


def overview() -> Figure:
    """Every kernel in one column, exact and from a few features."""
    n_rows = -(-(len(KERNELS) + 1) // COLUMNS)
    figure = Figure(figsize=(2.1 * COLUMNS, 1.75 * n_rows), layout="constrained")
    cells = figure.subplots(n_rows, COLUMNS).ravel()
    for ax, name in zip(cells, KERNELS, strict=False):
        draw_line(get_kernel(name), ax)
        ax.set_title(name.replace("exponentiated_", "exponentiated\n"))
        ax.set(xlabel="", ylabel="")
        ax.get_legend().remove()
    for ax in cells[len(KERNELS) :]:
        ax.set_axis_off()
    lines = cells[0].get_lines()
    labels = ["exact", f"{N_FEATURES} features\n(additive ones: 5)"]
    cells[len(KERNELS)].legend(lines, labels, loc="center", frameon=False, fontsize=10)
    return figure


def portrait(name: str) -> Figure:
    """One kernel: in one column, in two columns, and the law of its frequencies."""
    kernel = get_kernel(name)
    figure = Figure(figsize=(8.4, 2.5), layout="constrained")
    line, plane, law = figure.subplots(1, 3)
    draw_line(kernel, line)
    line.set_title("one column")
    draw_plane(kernel, plane, line.get_xlim())
    draw_law(kernel, law)
    return figure


def one_column_map(kernel: Kernel) -> Any:
    """A feature map of few features for rows of one column."""
    choices = {} if kernel.geometry == "additive" else {"n_features": N_FEATURES, "sampling": "qmc"}
    return FourierFeatures(kernel, random_state=0, **choices).fit(np.ones((2, 1))).feature_map_


def draw_line(kernel: Kernel, ax: Any) -> None:
    """The kernel of one column, exact and from a few features."""
    of_ratios = kernel.geometry == "product" and np.isfinite(kernel.lower)
    plot_kernel(kernel, one_column_map(kernel), ax, reach=RATIO_REACH if of_ratios else None)
    ax.set_ylim(min(-0.1, ax.get_ylim()[0]), None)


def draw_plane(kernel: Kernel, ax: Any, limits: tuple[float, float]) -> None:
    """Contours of k(centre, x) for rows x of two columns."""
    x = np.linspace(*limits, 121)
    rows = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    centre = np.full((1, 2), 1.0 if np.isfinite(kernel.lower) else 0.0)
    ax.contourf(x, x, kernel(centre, rows).reshape(121, 121), levels=9, cmap="viridis")
    ax.plot(*centre[0], marker="+", color="white")
    ax.set(aspect="equal", title="two columns", xlabel="x, first column", ylabel="x, second column")


def draw_law(kernel: Any, ax: Any) -> None:
    """Density of one frequency at scale one, on one column."""
    if kernel.geometry in ("additive", "exponentiated"):
        additive = getattr(kernel, "additive", kernel)
        frequency = np.linspace(-2, 2, 401)
        ax.plot(frequency, additive.spectrum(frequency), color="C0")
        ax.set(title="spectrum of the signature", xlabel="frequency")
        return
    u = np.linspace(0.5, 1, 4001)[1:-1]
    positive = kernel.quantile(2 * u - 1, 1) if kernel.geometry == "radial" else kernel.quantile(u)
    density = np.gradient(u, positive)
    keep = positive < 5
    ax.plot(
        np.concatenate([-positive[keep][::-1], positive[keep]]),
        np.concatenate([density[keep][::-1], density[keep]]),
        color="C0",
    )
    ax.set(title="density of a frequency", xlabel="frequency", ylim=(0, None))


def save(figure: Figure, name: str) -> None:
    """Write one picture, without the date and version that would change its bytes."""
    figure.savefig(HERE / name, dpi=130, metadata={"Software": None})
    print(f"docs/figures/{name}")


if __name__ == "__main__":
    main()
