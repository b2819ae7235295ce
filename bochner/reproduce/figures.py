"""Figures of rows, as PNG and PDF. Matplotlib is imported when something is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bochner.durable import replace_file, write_all
from bochner.plots.axes import plain_ticks
from bochner.reproduce.errors import ReproduceError
from bochner.reproduce.options import GMKL, KRR_GD, RFF_GL, RFF_SKL
from bochner.reproduce.rows import Row

COLOURS = {RFF_SKL: "#1f6fb4", RFF_GL: "#1f6fb4", KRR_GD: "#d1601f", GMKL: "#d1601f"}
"""Learners on random features are blue, exact ones orange."""
Draw = Callable[[Sequence[Row], Any], None]
"""Draws rows on axes."""


def check_matplotlib() -> None:
    """An error in one line where there is no Matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ReproduceError("figures need Matplotlib, which is not installed: pip install 'bochner[plots]'") from error


def write_figure(name: str, draw: Draw, rows: Sequence[Row], folder: Path, *, pdf: bool = True) -> None:
    """Write NAME.png, and NAME.pdf if wanted, without dates, so that equal rows make equal files."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 3.6), layout="constrained")
    ax = figure.subplots()
    draw(rows, ax)
    ax.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    kinds = ((".png", {"Software": None}), (".pdf", {"CreationDate": None}))
    for suffix, metadata in kinds[: 2 if pdf else 1]:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], dpi=150, metadata=metadata)
        data = buffer.getvalue()
        replace_file(folder / f"{name}{suffix}", lambda file, data=data: write_all(file, data))  # type: ignore[misc]


def style_of(learner: str) -> dict[str, Any]:
    """How the line of a learner looks."""
    return {"color": COLOURS[learner], "marker": "o", "markersize": 4, "capsize": 2, "linewidth": 1.4}


def log_axis(ax: Any) -> None:
    """A logarithmic axis of x with plain numbers, of which few enough to read."""
    ax.set_xscale("log")
    plain_ticks(ax.xaxis)
    ax.tick_params(axis="x", labelsize=8)


def say_nothing_there(ax: Any) -> None:
    """Axes without lines say so."""
    if not ax.has_data():
        ax.text(0.5, 0.5, "no rows yet", ha="center", va="center", transform=ax.transAxes)
