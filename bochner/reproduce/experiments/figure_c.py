"""Figure C: running times of RFF-GL and GMKL against the number of training segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bochner.reproduce.experiments.base import EXACT_GL, Experiment
from bochner.reproduce.figures import log_axis, say_nothing_there, style_of
from bochner.reproduce.options import GMKL, RFF_GL, ExactMultiple
from bochner.reproduce.rows import Row, Run
from bochner.reproduce.selection import SLOPE_FROM, SLOPE_SIZES, class_times, slope
from bochner.reproduce.tables import MISSING, Table, number, seconds


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes at which GMKL learns one class alone; those of Figure B are drawn too."""

    one_class_sizes: tuple[int, ...]
    exact: ExactMultiple


SIZES = {
    "smoke": Config(one_class_sizes=(180,), exact=EXACT_GL["smoke"]),
    "laptop": Config(one_class_sizes=(5000,), exact=EXACT_GL["laptop"]),
    "paper": Config(one_class_sizes=(5000, 10_000), exact=EXACT_GL["paper"]),
}


def runs(config: Config) -> list[Run]:
    """GMKL of one class, where all would take too long."""
    one = replace(config.exact, one_class=True)
    return [Run(learner=GMKL, n=n, options=one) for n in config.one_class_sizes]


def tables(rows: Sequence[Row]) -> list[Table]:
    """Seconds of both, and the powers of n with which they grow."""
    times = {learner: class_times(rows, learner) for learner in (RFF_GL, GMKL)}
    lines = []
    for n in sorted({*times[RFF_GL], *times[GMKL]}):
        line = [f"{n:,}"]
        for learner in (RFF_GL, GMKL):
            time = times[learner].get(n)
            line.append(seconds(None if time is None else time.mean))
            line.append(MISSING if time is None or not time.deviation else seconds(time.deviation))
        lines.append(line)
    lines.append(["slope", number(slope(times[RFF_GL]), 2), MISSING, number(slope(times[GMKL]), 2), MISSING])
    caption = (
        "Figure C in numbers. Seconds of RFF-GL for all classes in one run; of GMKL for one class, kernel matrices "
        "included, mean and standard deviation over classes. Slopes are powers of n, by least squares on logarithms, "
        f"over sizes from {SLOPE_FROM:,} on with as many features as the largest where there are {SLOPE_SIZES} or more, "
        "else over all."
    )
    header = ["training rows", f"{RFF_GL} s, all classes", "±", f"{GMKL} s, one class", "± "]
    return [Table("figure_c", caption, header, lines)]


def draw(rows: Sequence[Row], ax: Any) -> None:
    """One line for each learner, with its slope."""
    for learner, which in ((RFF_GL, "all classes"), (GMKL, "one class")):
        times = class_times(rows, learner)
        if times:
            power = slope(times)
            told = "" if power is None else f", slope {power:.2f}"
            means, bars = [time.mean for time in times.values()], [time.deviation for time in times.values()]
            ax.errorbar(list(times), means, bars, label=f"{learner}, {which}{told}", **style_of(learner))
    say_nothing_there(ax)
    log_axis(ax)
    ax.set_yscale("log")
    ax.set(xlabel="training rows", ylabel="seconds")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    name="figure_c",
    title="Figure C: running times of many kernels",
    finding="RFF-GL scales linearly, GMKL quadratically: slopes of 1 against 2.",
    sizes=SIZES,
    runs=runs,
    tables=tables,
    draw=draw,
)
