"""What goes past the paper: the schedule, a learned metric, all classes in one pass, ridge after group lasso, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bochner.reproduce.experiments.base import GL, SKL, Experiment
from bochner.reproduce.options import LABELLING, RFF_GL, RFF_SKL, GroupLasso, Labelling, SingleKernel
from bochner.reproduce.rows import Row, Run
from bochner.reproduce.selection import measured
from bochner.reproduce.tables import Table, number, seconds


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of each comparison."""

    full_schedule: tuple[int, ...]
    metrics: tuple[int, ...]
    one_class: tuple[int, ...]
    refits: tuple[int, ...]
    labellings: tuple[int, ...]
    single: SingleKernel
    multiple: GroupLasso
    labelling: Labelling


SIZES = {
    "smoke": Config(
        full_schedule=(120,),
        metrics=(),
        one_class=(240,),
        refits=(240,),
        labellings=(240,),
        single=SKL["smoke"],
        multiple=GL["smoke"],
        labelling=Labelling(n_features=16, n_pictures=2),
    ),
    "laptop": Config(
        full_schedule=(2500,),
        metrics=(2500,),
        one_class=(20_000,),
        refits=(5000, 20_000),
        labellings=(20_000,),
        single=SKL["laptop"],
        multiple=GL["laptop"],
        labelling=Labelling(n_features=250),
    ),
    "paper": Config(
        full_schedule=(10_000, 100_000),
        metrics=(10_000, 100_000),
        one_class=(20_000,),
        refits=(20_000, 100_000),
        labellings=(60_000,),
        single=SKL["paper"],
        multiple=GL["paper"],
        labelling=Labelling(n_features=500),
    ),
}


def runs(config: Config) -> list[Run]:
    """Each variant, and what it is compared with."""
    full, refitted = replace(config.single, schedule="full", draws=1), replace(config.multiple, refit=True)
    alone = replace(config.multiple, one_class=True)
    metric = replace(config.single, metric="full", draws=1)
    found = [Run(learner=RFF_SKL, n=n, options=some) for n in config.full_schedule for some in (config.single, full)]
    found += [Run(learner=RFF_SKL, n=n, options=some) for n in config.metrics for some in (config.single, metric)]
    found += [Run(learner=RFF_GL, n=n, options=some) for n in config.one_class for some in (config.multiple, alone)]
    found += [Run(learner=RFF_GL, n=n, options=some) for n in config.refits for some in (config.multiple, refitted)]
    return found + [Run(learner=LABELLING, n=n, options=config.labelling) for n in config.labellings]


VARIANTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("one kernel, small sizes first", RFF_SKL, {}),
    ("one kernel, full size from the start (paper)", RFF_SKL, {"schedule": "full"}),
    ("one kernel, a learned metric of all columns on data centres", RFF_SKL, {"metric": "full"}),
    ("many kernels, all classes in one pass", RFF_GL, {}),
    ("many kernels, one class alone", RFF_GL, {"one_class": True}),
    ("many kernels, ridge regression after group lasso", RFF_GL, {"refit": True}),
)


def tables(rows: Sequence[Row]) -> list[Table]:
    """Variants side by side, and intersection over union of every class."""
    found = []
    others = {(learner, n) for _, learner, options in VARIANTS if options for n in measured(rows, learner, **options)}
    lines = []
    for text, learner, options in VARIANTS:
        for n, row in measured(rows, learner, **options).items():
            if (learner, n) in others:
                device = row["run"]["device"] or "host"
                lines.append(
                    [text, f"{n:,}", number(row["result"].get("accuracy")), seconds(row["seconds"]["total"]), device]
                )
    if lines:
        caption = "Past the paper. Accuracy and seconds of variants."
        found.append(Table("ours", caption, ["variant", "training rows", "accuracy", "s", "device"], lines))
    return found + [_labelling(row) for row in measured(rows, LABELLING).values()]


def _labelling(row: Row) -> Table:
    result = row["result"]
    lines = [[name, number(value)] for name, value in zip(result["classes"], result["intersection_over_union"], strict=True)]
    lines.append(["mean", number(result["mean_intersection_over_union"])])
    caption = (
        f"Intersection over union of pixels (PASCAL VOC's measure) on {result['images']} test images, from scores of their "
        f"segments that were learned from {result['n']:,} training segments: {seconds(row['seconds']['total'])} s to learn, "
        f"{seconds(row['seconds']['predict'])} s to label."
    )
    return Table("labelling", caption, ["class", "intersection over union"], lines)


EXPERIMENT = Experiment(
    name="ours",
    title="Past the paper",
    finding="",
    sizes=SIZES,
    runs=runs,
    tables=tables,
)
