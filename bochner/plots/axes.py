"""What all pictures share: axes to draw on, the colour of lines, ticks of logarithmic axes, dots and their error."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Array, fetch64
from bochner.errors import MissingPackageError

Axes = Any
"""A ``matplotlib.axes.Axes``."""

MAX_DOTS = 4000
"""Dots of a scatter; the errors in its title count every entry."""


def given_or_new(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingPackageError("Drawing needs Matplotlib: pip install 'bochner[plots]'.") from error
    return pyplot.subplots(layout="constrained")[1]


def ink() -> str:
    """The colour of text in the current style: dark on light paper, light on dark."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def draw_diagonal(ax: Axes, x: Array, y: Array) -> None:
    """The line y = x from the smallest value of both to the largest."""
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(ends, ends, color=ink(), linewidth=0.9)


def evenly(n: int, most: int) -> Array:
    """Positions of at most ``most`` out of n entries, evenly spread."""
    return np.linspace(0, n - 1, min(n, most)).astype(int)


def plain_ticks(axis: Any, places: Array | None = None) -> None:
    """Plain numbers (0.02, not powers of ten) on a logarithmic axis: at 1, 2 and 5 of each decade unless told where."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)) if places is None else ticker.FixedLocator(places))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(ticker.NullLocator())


def few_ticks(low: float, high: float) -> Array:
    """A few round numbers from low to high, for a logarithmic axis that may span less than a decade."""
    from matplotlib import ticker

    locator = ticker.LogLocator(subs=(1, 2, 5)) if high / low > 20 else ticker.MaxNLocator(6)
    ticks = np.asarray(locator.tick_values(low, high))
    return ticks[(ticks >= low) & (ticks <= high)]


def rms_error(exact: Array, approximate: Array) -> float:
    """Root of the mean squared difference of two arrays of the same shape."""
    return float(np.sqrt(np.mean((fetch64(approximate) - fetch64(exact)) ** 2)))


def colours() -> int:
    """How many colours lines have before they repeat."""
    import matplotlib as mpl

    return len(mpl.rcParams["axes.prop_cycle"])
