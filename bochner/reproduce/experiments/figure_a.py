"""Figure A: time against accuracy for RFF-SKL and KRR-GD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bochner.reproduce.experiments.base import KRR, SKL, Experiment, none_of
from bochner.reproduce.figures import log_axis, say_nothing_there, style_of
from bochner.reproduce.options import KRR_GD, RFF_SKL, ExactSingleKernel, SingleKernel
from bochner.reproduce.rows import Row, Run
from bochner.reproduce.selection import class_time, class_times, measured, slope, spread


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of both learners; those of Table A are drawn too."""

    sizes: tuple[int, ...]
    features: SingleKernel
    exact: ExactSingleKernel


SIZES = {
    "smoke": Config(sizes=(60,), features=SKL["smoke"], exact=KRR["smoke"]),
    "laptop": Config(sizes=(1000,), features=SKL["laptop"], exact=KRR["laptop"]),
    "paper": Config(sizes=(1000,), features=SKL["paper"], exact=KRR["paper"]),
}


def runs(config: Config) -> list[Run]:
    """Both learners at the sizes that Table A does not have."""
    pairs = ((RFF_SKL, config.features), (KRR_GD, config.exact))
    return [Run(learner=learner, n=n, options=options) for n in config.sizes for learner, options in pairs]


def draw(rows: Sequence[Row], ax: Any) -> None:
    """One line for each learner: a point for each n, bars of one standard error over classes."""
    for learner in (RFF_SKL, KRR_GD):
        found = measured(rows, learner)
        if not found:
            continue
        times = [class_time(row).mean for row in found.values()]
        heights = [row["result"]["accuracy"] for row in found.values()]
        power = slope(class_times(rows, learner))
        told = "" if power is None else f", time grows as n^{power:.2f}"
        ax.errorbar(times, heights, [spread(row) for row in found.values()], label=learner + told, **style_of(learner))
        for n, x, y in zip(found, times, heights, strict=True):
            ax.annotate(f"{n:,}", (x, y), textcoords="offset points", xytext=(3, -10), fontsize=7)
    say_nothing_there(ax)
    log_axis(ax)
    ax.set(xlabel="seconds", ylabel="accuracy")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    name="figure_a",
    title="Figure A: time against accuracy of one learned kernel",
    finding="Time is linear in n for RFF-SKL and cubic for KRR-GD, which is not feasible beyond 10,000 rows.",
    sizes=SIZES,
    runs=runs,
    tables=none_of,
    draw=draw,
)
