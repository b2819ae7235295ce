"""Styles of pictures for light paper and for dark screens, for ``matplotlib.rc_context``."""

from __future__ import annotations

from typing import Any

_BOTH = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9}
_INKS = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
_COLOURS = {
    "light": ("#1c2430", ["#1f6fb4", "#d1601f", "#3a8a4d", "#8a4fa8", "#a8862a", "#3d8f96"]),
    "dark": ("#cfd6de", ["#6cb2ee", "#f0975a", "#7cc98c", "#c79be0", "#dcc06a", "#7fd0d6"]),
}


def theme(name: str) -> dict[str, Any]:
    """The style "light" or "dark".

    Examples
    --------
    >>> from bochner.plots.themes import theme
    >>> theme("dark")["text.color"]
    '#cfd6de'
    """
    from matplotlib.rcsetup import cycler

    ink, colours = _COLOURS[name]
    return {**_BOTH, **dict.fromkeys(_INKS, ink), "axes.prop_cycle": cycler(color=colours)}
