"""Pictures of the demo: each is drawn twice, for light screens and for dark ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas

from bochner.plots import plot_gram
from bochner.plots.themes import theme
from bochner.report import Figure, figure_bytes

FOUR, THREE, TWO, TALL = (3.0, 2.5), (3.4, 2.8), (4.0, 3.2), (4.0, 4.0)
"""Sizes of pictures that share a line with so many, in inches: the fewer, the wider, so that letters look alike.
TALL ones have many bars."""


def themed(draw: Callable[[Any], object], alt: str, caption: str = "", size: tuple[float, float] = FOUR) -> Figure:
    """What ``draw`` draws on axes, for light screens and for dark ones."""
    return Figure(picture(draw, "light", size=size), alt, caption, dark=picture(draw, "dark", size=size))


def matrix(values: Any, alt: str, caption: str, limits: tuple[float, float] | None = None) -> Figure:
    """A small picture of a matrix, without axes."""

    def draw(ax: Any) -> None:
        plot_gram(values, ax, limits=limits, colorbar=False)

    return Figure(picture(draw, "light", size=(1.875, 1.875), bare=True), alt, caption, small=True)


def picture(draw: Callable[[Any], object], name: str, *, size: tuple[float, float], bare: bool = False) -> bytes:
    """The bytes of a PNG of what ``draw`` draws in the style ``name``; ``bare`` leaves out axes and margins."""
    with matplotlib.rc_context(theme(name)):
        canvas = Canvas(figsize=size)
        left, bottom, top = 0.72 / size[0], 0.45 / size[1], 0.25 / size[1]
        ax = canvas.add_axes((0, 0, 1, 1) if bare else (left, bottom, 1 - left - 0.1 / size[0], 1 - bottom - top))
        draw(ax)
        if bare:
            ax.set_axis_off()
        return figure_bytes(canvas)
