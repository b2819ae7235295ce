"""Figure D: the epsilon-insensitive gamma-logistic loss beside the exact one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.losses import EpsilonLogistic
from bochner.reproduce.experiments.base import SIZES as NAMES
from bochner.reproduce.experiments.base import Experiment
from bochner.reproduce.rows import Row, Run
from bochner.reproduce.tables import Table, number


@dataclass(frozen=True, kw_only=True)
class Config:
    """The width of the band, and how sharp its edges are."""

    epsilon: float = 0.1
    gammas: tuple[float, ...] = (1.0, 5.0, 10.0)
    reach: float = 1.0


CONFIG = Config()


def runs(_config: Config) -> list[Run]:
    """None: the loss is a formula."""
    return []


def tables(_rows: Sequence[Row]) -> list[Table]:
    """How far the smooth loss is from the exact one, at most."""
    residuals = np.linspace(-CONFIG.reach, CONFIG.reach, 2001)
    exact = np.maximum(np.abs(residuals) - CONFIG.epsilon, 0)
    lines = [[f"{gamma:g}", number(float(np.abs(smooth(gamma, residuals) - exact).max()))] for gamma in CONFIG.gammas]
    band = f"residuals up to {CONFIG.reach:g}, epsilon {CONFIG.epsilon:g}"
    caption = f"Figure D in numbers. Largest distance from the exact loss for {band}."
    return [Table("figure_d", caption, ["gamma", "largest distance"], lines)]


def smooth(gamma: float, residuals: Any) -> Any:
    """The smooth loss of residuals (n,)."""
    return EpsilonLogistic(epsilon=CONFIG.epsilon, gamma=gamma).values(residuals[:, None], np.zeros((len(residuals), 1)))


def draw(_rows: Sequence[Row], ax: Any) -> None:
    """The exact loss and the smooth ones."""
    residuals = np.linspace(-CONFIG.reach, CONFIG.reach, 401)
    ax.plot(residuals, np.maximum(np.abs(residuals) - CONFIG.epsilon, 0), color="0.2", linewidth=1.6, label="exact")
    for gamma, colour in zip(CONFIG.gammas, ("#9ec9e8", "#5aa0d2", "#1f6fb4"), strict=True):
        ax.plot(residuals, smooth(gamma, residuals), color=colour, linewidth=1.4, label=f"gamma = {gamma:g}")
    ax.set(xlabel="f(x) - y", ylabel="loss")
    ax.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    name="figure_d",
    title="Figure D: the smooth loss",
    finding="The smooth loss tends to the epsilon-insensitive one as gamma grows.",
    sizes=dict.fromkeys(NAMES, CONFIG),
    runs=runs,
    tables=tables,
    draw=draw,
)
