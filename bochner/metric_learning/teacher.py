"""How kernels are learned on some rows: scales first, then the metrics that grow from them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bochner.arrays import Array, dense, fetch64, is_foreign, namespace
from bochner.criteria import Criterion
from bochner.descent import Descent, Level, Plan, descend
from bochner.engines.devices import DeviceFolds
from bochner.evidence import learn_by_evidence
from bochner.features import FeatureChoices
from bochner.folds import FoldedRows, Folds
from bochner.full_ridge import FullHeldOutError
from bochner.kernels import Gaussian, Kernel, MetricKernel, get_kernel
from bochner.kernels.bandwidth import median_scale
from bochner.metric_learning import sizes
from bochner.metric_learning.candidates import Candidate, brought_together
from bochner.metric_learning.centre_space import CentreSpace, Measure
from bochner.metric_learning.plan import MetricPlan
from bochner.metric_learning.search import Starts, search
from bochner.metric_learning.stages import Stage
from bochner.single_kernel import FeatureSpace, default_levels

EVIDENCE_ROWS = 800
"""Rows on which scales are learned by evidence."""
EVIDENCE_FAMILIES = {"evidence": "matern32", "smooth evidence": "gaussian"}
"""Families whose scales of the largest evidence are starts, under their names; where rows are many, the first alone."""
ROUGH = 3e-3
"""How precisely penalties are searched while candidates with every row a centre are compared: by this part of the error."""
MANY_COLUMNS = 50
"""Columns from which on their own units are a start too: they may be pixels, or other numbers of one kind. So is a metric
that brings columns together which vary together, of rows as they are and of their directions from zero."""
TOGETHER_ROWS = 4000
"""Rows that say which columns do."""
ITERATED_CENTRES, ITERATED_ROWS = 2000, 2
"""Centres, for each target, from which a regression by iterations is quicker than one by sums of products on the host, where
there are so many rows for each centre."""
START_FEATURES, START_ROWS = 512, 12_000
"""Random features and rows on which scales are learned before the metric is."""
SCALED_FAMILIES = 1
"""Families whose scales are, the first ones."""
FEW_FEATURES, FEW_STEPS = 256, 15
"""The same of few rows, and most steps."""


class Steps:
    """What is done now, and how many steps there are, for who follows a fit."""

    def __init__(self, tell: Callable[[int, int, str], None] | None = None) -> None:
        self.tell = tell
        self.n_steps = 0
        self.began = time.monotonic()
        self._now = 0

    def enter(self, what: str) -> None:
        """Say what the next step is."""
        self._now = min(self._now + 1, self.n_steps or self._now + 1)  # one that is done again in less room may be no more
        if self.tell is not None:
            self.tell(self._now, self.n_steps, what)

    def enter_last(self, what: str) -> None:
        """The same of the last step; those that proved needless are skipped."""
        self._now = self.n_steps - 1
        self.enter(what)


class Ladder:
    """Records of everything that was compared, in order: what ``selection_`` shows."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._started = time.perf_counter()

    def add(self, candidate: Candidate, stage: str, finish: str, **size: Any) -> None:
        """One more candidate with its error at some size."""
        family, start, kind = candidate.recipe
        self.records.append(
            {
                "stage": stage,
                "kernel": family,
                "start": start,
                "metric": kind,
                "finish": finish,
                **size,
                "error": float(candidate.value),
                "alpha": np.exp(candidate.log_alpha).tolist(),
                "seconds": time.perf_counter() - self._started,
                "chosen": False,
            }
        )


def start_levels(n_rows: int, n_columns: int, *, briefly: bool = False) -> tuple[Level, ...]:
    """The sizes at which scales are learned on random features, before metrics are."""
    if briefly:
        return (Level(FEW_FEATURES, min(n_rows, START_ROWS // 2), FEW_STEPS, most_validated=1),)
    if n_rows < sizes.FEW_ROWS:
        return (Level(FEW_FEATURES, n_rows, FEW_STEPS, most_validated=2),)
    rows = min(n_rows, START_ROWS)
    return tuple(replace(level, most_validated=1) for level in default_levels(rows, START_FEATURES, n_columns))


@dataclass(frozen=True)
class Teacher:
    """How kernels are learned on some folds: what :func:`learn_metric_kernel` hands around."""

    plan: Plan
    metric: MetricPlan
    rng: np.random.Generator
    criterion: Callable[[Any], Criterion]
    choices: FeatureChoices
    place: Callable[[Folds], FoldedRows]
    iterated: Callable[[Any], Criterion] | None = None
    """The criterion of regressions on many centres; None: the same as of all others."""
    units: Array | None = None
    """The spread of each column before it was standardised: scales at which columns count as they came."""
    origin: Array | None = None
    """Where the zero of columns as they came is among standardised rows."""
    measure: Measure | None = None
    """What candidates are compared by; None: the squared error."""
    ladder: Ladder = field(default_factory=Ladder)
    steps: Steps = field(default_factory=Steps)
    earlier: Kernel | None = None
    """The kernel of an earlier fit, which is a start too."""

    def criterion_on_centres(self, folds: FoldedRows, stage: Stage) -> Callable[[Any], Criterion]:
        """What makes held-out errors on the centres of a stage: iterations on the host, where these are many, or sums."""
        in_memory = isinstance(folds, Folds) and not isinstance(folds, DeviceFolds)
        many = stage.n_centres >= ITERATED_CENTRES * folds.n_targets
        enough = min(stage.n_rows, folds.n) >= ITERATED_ROWS * stage.n_centres
        if self.iterated is not None and in_memory and many and enough and self.metric.way == "products":
            return self.iterated
        return self.criterion

    def descend(self, folds: FoldedRows) -> Descent:
        """Scales by the gradient of the held-out error on random features.

        They are those of a few families, where metrics of all families are to grow from them.
        """
        few = "centres" in self.metric.finishes and folds.n >= sizes.FEW_ROWS
        plan = replace(self.plan, families=self.plan.families[:SCALED_FAMILIES]) if few else self.plan
        return descend(FeatureSpace(folds, self.criterion, self.choices, self.rng), plan)

    def starts(self, folds: FoldedRows, descent: Descent) -> Starts:
        """Equal scales, those of a descent, of an earlier fit, and of the largest evidence."""
        n_columns = folds.n_columns
        scales = {
            "isotropic": np.ones(n_columns),
            "scales": descent.best.kernel.scales(n_columns),
        }
        metrics = {}
        on_centres = "centres" in self.metric.finishes  # the only finish of kernels with an origin
        if isinstance(self.earlier, MetricKernel) and self.metric.kinds != ("diagonal",):
            metrics["earlier"] = self.earlier if on_centres else self.earlier.replace(origin=None)
        elif self.earlier is not None:
            scales["earlier"] = self.earlier.scales(n_columns)
        if self.units is not None and n_columns >= MANY_COLUMNS:
            units = self.units / self.units.max()
            scales["units"] = units
            if "full" in self.metric.kinds:
                sample = dense(folds.in_memory.parts[0].X[:TOGETHER_ROWS])
                together = brought_together(sample.astype(np.float64, copy=False), units)
                metrics["together"] = MetricKernel(base=Gaussian(), metric=together)
                if on_centres:
                    metrics["directions"] = metrics["together"].replace(origin=self.origin)
        some = folds.head(EVIDENCE_ROWS).astype(np.float64)
        chunks = [rows for _, rows in some.chunks()]
        xp = namespace(chunks[0].targets)
        X = xp.concat([rows.X if is_foreign(rows.X) else dense(rows.X) for rows in chunks])
        targets = xp.concat([rows.targets for rows in chunks])
        for name in list(EVIDENCE_FAMILIES)[: 2 if folds.n < sizes.FEW_ROWS else 1]:
            family = get_kernel(EVIDENCE_FAMILIES[name])
            start = family.replace(scale=np.full(n_columns, median_scale(family, fetch64(X[:128, :]))))
            learned = learn_by_evidence(start, X, targets - xp.mean(targets, axis=0))
            scales[name] = learned.scales(n_columns)
        return Starts(self.metric.families, scales, metrics)

    def candidates(self, folds: FoldedRows, starts: Starts) -> list[Candidate]:
        """What the stages of the search leave."""

        def begin(space: CentreSpace) -> None:
            size = space.size
            self.steps.enter(f"metrics on {size['n_rows']:,} rows, {size['n_centres']:,} centres")

        def record(space: CentreSpace, candidate: Candidate, number: int) -> None:
            self.ladder.add(candidate, f"search {number}", "centres", **space.size)

        every_row, full = self.metric.every_row(folds), partial(FullHeldOutError, precision=ROUGH)
        return search(
            folds,
            starts,
            self.metric.stages(folds),
            self.metric.kinds,
            criterion=(lambda _: full) if every_row else partial(self.criterion_on_centres, folds),
            every_row=every_row,
            rng=self.rng,
            rank=self.metric.rank,
            way=self.metric.way,
            must=self.metric.must,
            measure=self.measure,
            begin=begin,
            record=record,
        )
