"""Figure B: accuracy of RFF-GL and GMKL against the number of training segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bochner.reproduce.experiments.base import EXACT_GL, GL, Experiment
from bochner.reproduce.figures import log_axis, say_nothing_there, style_of
from bochner.reproduce.options import GMKL, RFF_GL, ExactMultiple, GroupLasso
from bochner.reproduce.rows import Row, Run
from bochner.reproduce.selection import measured, of_learner, spread
from bochner.reproduce.tables import MISSING, Table, number, seconds


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of both learners, and of GMKL for one class alone."""

    sizes: tuple[int, ...]
    exact_sizes: tuple[int, ...]
    features: GroupLasso
    exact: ExactMultiple


SIZES = {
    "smoke": Config(sizes=(60, 120, 240), exact_sizes=(60, 120), features=GL["smoke"], exact=EXACT_GL["smoke"]),
    "laptop": Config(
        sizes=(625, 1250, 2500, 5000, 10_000, 20_000, 60_000),
        exact_sizes=(625, 1250, 2500),
        features=GL["laptop"],
        exact=EXACT_GL["laptop"],
    ),
    "paper": Config(
        sizes=(1000, 2500, 5000, 10_000, 20_000, 60_000, 100_000),
        exact_sizes=(1000, 2500, 5000, 10_000),
        features=GL["paper"],
        exact=EXACT_GL["paper"],
    ),
}


def runs(config: Config) -> list[Run]:
    """Both learners at their sizes, small ones first."""
    found = [Run(learner=RFF_GL, n=n, options=config.features) for n in config.sizes]
    return found + [Run(learner=GMKL, n=n, options=config.exact) for n in config.exact_sizes]


def tables(rows: Sequence[Row]) -> list[Table]:
    """Accuracy of both."""
    found = {learner: of_learner(rows, learner) for learner in (RFF_GL, GMKL)}
    lines = []
    for n in sorted({*found[RFF_GL], *found[GMKL]}):
        line = [f"{n:,}", _features_of(found[RFF_GL].get(n))]
        for row in (found[RFF_GL].get(n), found[GMKL].get(n)):
            if row is None or "skipped" in row:
                line += [MISSING if row is None else "too long", MISSING]
            else:
                line += [number(row["result"]["accuracy"]), seconds(row["seconds"]["total"])]
        lines.append(line)
    caption = "Figure B in numbers. Accuracy (mean over classes), and seconds to learn all classes."
    return [Table("figure_b", caption, ["training rows", "features of a kernel", RFF_GL, "s", GMKL, "s"], lines)]


def _features_of(row: Row | None) -> str:
    """The features that a row of RFF-GL has of each kernel."""
    number_of = None if row is None else row.get("result", {}).get("n_features")
    return MISSING if number_of is None else f"{number_of:,}"


def draw(rows: Sequence[Row], ax: Any) -> None:
    """One line for each learner, bars of one standard error over classes."""
    for learner in (RFF_GL, GMKL):
        found = measured(rows, learner)
        if found:
            heights = [row["result"]["accuracy"] for row in found.values()]
            ax.errorbar(list(found), heights, [spread(row) for row in found.values()], label=learner, **style_of(learner))
    say_nothing_there(ax)
    log_axis(ax)
    ax.set(xlabel="training rows", ylabel="accuracy")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    name="figure_b",
    title="Figure B: accuracy of many kernels",
    finding="GMKL is slightly ahead on few samples, RFF-GL ahead by scale.",
    sizes=SIZES,
    runs=runs,
    tables=tables,
    draw=draw,
)
