"""Which kernel, metric and finish: chosen together by the error on rows that the learning of none of them has seen.

Rows are set aside first. On the others kernels descend on random features (the paper's single-kernel learning), scales are
learned by evidence on few rows, and metrics grow from both and from equal scales (:mod:`bochner.metric_search`). What comes
out of it, on centres or on random features, is fitted once more at one size and compared on the rows set aside; with few
rows, every part of them is set aside in turn, errors add up, and the winner is learned again on all rows. The winner is then
fitted on all rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, dense, fetch64, gpu_of, is_foreign, namespace
from bochner.criteria import Criterion
from bochner.descent import Descent, Level, Plan, descend
from bochner.engines.devices import DeviceFolds, free_room
from bochner.evidence import learn_by_evidence
from bochner.features import FeatureChoices, FeatureMap
from bochner.folds import FoldedRows, Folds, Rows
from bochner.full_ridge import FullHeldOutError
from bochner.kernels import Kernel, MetricKernel, get_kernel
from bochner.kernels.bandwidth import median_scale
from bochner.metric_search import (
    LARGER_FACTOR,
    Candidate,
    CentreSpace,
    Measure,
    Stage,
    Starts,
    base_of,
    can_have_metric,
    search,
)
from bochner.single_kernel import FeatureSpace, LearnedKernel, default_levels
from bochner.solvers.penalty_search import HIGHEST_PENALTY, LOWEST_PENALTY

METRIC_FAMILIES = ("gaussian", "matern32", "matern12", "cauchy")
"""Families tried by kernel="auto", on centres; the last is not radial, and keeps its scales."""
FEW_ROWS = 2000
"""Below it one part that is set aside says little: several are, in turn."""
MOST_SPLITS = 3
""""Several": so many."""
FEW_STAGE = Stage(2000, 400, 2, keep=40, worse=3.0, every=True)
"""The only stage of the search where rows are few: nearly all candidates stay, so that each is judged on every part."""
MOST_UNSEEN, MANY_UNSEEN = 4000, 12_000
"""Most rows that are set aside to choose by; and where every row is a centre, on a GPU."""
EVIDENCE_ROWS = 800
"""Rows on which scales are learned by evidence."""
EVIDENCE_FAMILIES = {"evidence": "matern32", "smooth evidence": "gaussian"}
"""Families whose scales of the largest evidence are starts, under their names; where rows are many, the first alone."""
INNER_PARTS = 5
"""Parts of the rows to learn from, where the rows set aside leave only one."""
MOST_VALIDATED = 2
"""Most parts that the final regression is validated on."""
CHEAP = 1e11
"""Rows x centres squared below which the width is searched once more at full size."""
BY_SUMS = 2e11
"""Rows x centres squared up to which the last regression is solved from sums of products on the host, else by iterations."""
MATRICES = 6
"""Matrices of all pairs of centres that half of the room on a device must hold for it to make such sums, which take twice
as many; it does so wherever it can."""
ITERATED_MATRICES = 3
"""The same where the host iterates, in all the room there is."""
FULL_ROWS = 65_000
"""Rows up to which a device makes them all centres, from a factor of the whole kernel matrix."""
FULL_MATRICES = 2.2
"""Matrices of all pairs of rows that half of the room on a device must hold for that."""
ROUGH = 3e-3
"""How precisely penalties are searched there while candidates are compared: by this part of the error."""
TRIAL_ROWS = 10_000
"""Rows of them on which width, metric and penalty are searched once more: all rows take a few factorisations then."""
AT_ONCE = 20_000
"""Rows up to which the search goes on with all of them."""
LAST_FACTOR = 1.15
"""By how much distances change at the very last, where every row is a centre and there are few enough of them."""
STILL_HELPS = 0.005
"""The metric takes a step at full size where the step before lowered the error by this part."""
MANY_COLUMNS = 50
"""Columns from which on their own units are a start too: they may be pixels, or other numbers of one kind. So is a metric
that brings columns together which vary together."""
TOGETHER_ROWS = 4000
"""Rows that say which columns do."""
START_FEATURES, START_ROWS = 512, 12_000
"""Random features and rows on which scales are learned before the metric is."""
SCALED_FAMILIES = 1
"""Families whose scales are, the first ones."""
JUDGED_FEATURES = 2400
"""Most random features on which the kernel of learned scales is compared with others on centres."""
FEW_FEATURES, FEW_STEPS = 256, 15
"""The same of few rows, and most steps."""


@dataclass(frozen=True)
class Effort:
    """How much is tried: stages of the search, most centres of the finish, and how many steps the metric takes there."""

    stages: tuple[Stage, ...]
    most_centres: int
    finish_steps: int
    entries: float
    """Most rows x centres of the finish, as long as there are 2000 centres."""
    of_every_row: tuple[Stage, ...]
    """Stages of the search where every row is a centre, on a GPU."""

    def n_centres(self, n_rows: int) -> int:
        """Centres of the finish for so many rows."""
        return int(min(n_rows, self.most_centres, max(FEWEST_CENTRES, self.entries / max(n_rows, 1))))


FEWEST_CENTRES = 2000
"""Centres of the finish, however many rows there are."""
EFFORTS = {
    "default": Effort(
        stages=(Stage(2500, 600, 1, keep=4), Stage(6000, 1200, 2, keep=2), Stage(14_000, 2400, 1, keep=2)),
        most_centres=10_000,
        finish_steps=2,
        entries=4.2e8,
        of_every_row=(Stage(2000, 2000, 1, keep=3), Stage(6000, 6000, 2, keep=2)),
    ),
    "best": Effort(
        stages=(Stage(4000, 1000, 2, keep=6), Stage(10_000, 2000, 2, keep=3), Stage(30_000, 5000, 2, keep=2)),
        most_centres=50_000,
        finish_steps=1,
        entries=2e9,
        of_every_row=(Stage(4000, 4000, 2, keep=6), Stage(10_000, 10_000, 2, keep=3), Stage(24_000, 24_000, 2, keep=2)),
    ),
}


@dataclass(frozen=True)
class MetricPlan:
    """What is tried: families, kinds of metric, finishes, effort; ``n_centres`` and ``rank`` where somebody gave them.

    ``way`` says how metrics are learned, one of WAYS.
    """

    families: tuple[Kernel, ...]
    kinds: tuple[str, ...]
    finishes: tuple[str, ...]
    effort: Effort
    must: bool = False
    """Whether only the kinds named will do, and no kernel as it started."""
    n_centres: int | None = None
    rank: int | None = None
    way: str = "products"
    n_features: int = 2
    """Random features of the finish."""
    room: float = np.inf
    """Bytes that a fit may take."""
    matrices: float = ITERATED_MATRICES
    """Matrices of all pairs of centres that are that many bytes, where the last regression is solved from sums."""

    def stages(self, folds: FoldedRows) -> tuple[Stage, ...]:
        """The stages of the search among these rows."""
        if folds.n < FEW_ROWS:
            return (FEW_STAGE,)
        return self.effort.of_every_row if self.every_row(folds) else self.effort.stages

    def every_row(self, folds: FoldedRows) -> bool:
        """Whether all rows become centres: on a GPU that has the room, where nobody says how many centres."""
        gpu = gpu_of(folds.parts[0].X) if isinstance(folds, DeviceFolds) else None
        if gpu is None or self.n_centres is not None or self.way != "products" or folds.n_to_fit > FULL_ROWS:
            return False
        return FULL_MATRICES * 8 * folds.n_to_fit**2 <= free_room(gpu)

    def centres_for(self, n_rows: int, *, by_sums: bool) -> int:
        """Centres of the finish for so many rows: no more than there is room for matrices of all pairs of."""
        if self.n_centres is not None:
            return min(self.n_centres, n_rows)
        matrices = self.matrices if by_sums else ITERATED_MATRICES
        return int(min(self.effort.n_centres(n_rows), max(2.0, (self.room / (8 * matrices)) ** 0.5)))


@dataclass(frozen=True)
class Choice:
    """What was compared, and the kernel learned in the end; None: scales alone are to be learned, on random features."""

    ladder: list[dict[str, Any]]
    learned: LearnedKernel | None


class Steps:
    """What is done now, and how many steps there are, for who follows a fit."""

    def __init__(self, tell: Callable[[int, int, str], None] | None = None) -> None:
        self.tell = tell
        self.n_steps = 0
        self._now = 0

    def enter(self, what: str) -> None:
        """Say what the next step is."""
        self._now += 1
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
    if n_rows < FEW_ROWS:
        return (Level(FEW_FEATURES, n_rows, FEW_STEPS, most_validated=2),)
    rows = min(n_rows, START_ROWS)
    return tuple(replace(level, most_validated=1) for level in default_levels(rows, START_FEATURES, n_columns))


def brought_together(X: Array, units: Array) -> Array:
    """The metric (m, m) of standardised rows (n, m) that averages columns, in their units, by how they vary together.

    Column j becomes sum_i u_i x_i r_ij^2 / sum_i r_ij^2, r the correlations and u the units: neighbouring pixels, or
    moments of a signal, become smooth. What varies alone stays as it is, and what does not vary is left out.
    """
    spread = X.std(axis=0)
    there = spread > 0
    some = np.where(there, (X - X.mean(axis=0)) / np.where(there, spread, 1.0), 0.0)
    shares = (some.T @ some / len(X)) ** 2
    shares /= np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny)
    return np.asarray(units[:, None] * shares)


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
    """The criterion of a last regression on many centres; None: the same as of all others."""
    units: Array | None = None
    """The spread of each column before it was standardised: scales at which columns count as they came."""
    measure: Measure | None = None
    """What candidates are compared by; None: the squared error."""
    ladder: Ladder = field(default_factory=Ladder)
    steps: Steps = field(default_factory=Steps)
    earlier: Kernel | None = None
    """The kernel of an earlier fit, which is a start too."""

    def descend(self, folds: FoldedRows) -> Descent:
        """Scales by the gradient of the held-out error on random features.

        They are those of a few families, where metrics of all families are to grow from them.
        """
        few = "centres" in self.metric.finishes and folds.n >= FEW_ROWS
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
        if isinstance(self.earlier, MetricKernel) and self.metric.kinds != ("diagonal",):
            metrics["earlier"] = self.earlier.metric
        elif self.earlier is not None:
            scales["earlier"] = self.earlier.scales(n_columns)
        if self.units is not None and n_columns >= MANY_COLUMNS:
            scales["units"] = self.units
            if "full" in self.metric.kinds:
                sample = dense(folds.in_memory.parts[0].X[:TOGETHER_ROWS])
                metrics["together"] = brought_together(sample.astype(np.float64, copy=False), self.units)
        some = folds.head(EVIDENCE_ROWS).astype(np.float64)
        chunks = [rows for _, rows in some.chunks()]
        xp = namespace(chunks[0].targets)
        X = xp.concat([rows.X if is_foreign(rows.X) else dense(rows.X) for rows in chunks])
        targets = xp.concat([rows.targets for rows in chunks])
        for name in list(EVIDENCE_FAMILIES)[: 2 if folds.n < FEW_ROWS else 1]:
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

        return search(
            folds,
            starts,
            self.metric.stages(folds),
            self.metric.kinds,
            criterion=partial(FullHeldOutError, precision=ROUGH) if self.metric.every_row(folds) else self.criterion,
            every_row=self.metric.every_row(folds),
            rng=self.rng,
            rank=self.metric.rank,
            way=self.metric.way,
            must=self.metric.must,
            measure=self.measure,
            begin=begin,
            record=record,
        )


def unseen_parts(folds: Folds, most: int = MOST_UNSEEN) -> Iterator[tuple[Folds, Rows]]:
    """Rows to learn from, in parts of their own, and rows set aside: once, or every validated part in turn of few rows."""
    in_turn = folds.validated[: MOST_SPLITS if folds.n < FEW_ROWS else 1]
    for k in in_turn:
        others = tuple(part for j, part in enumerate(folds.parts) if j != k)
        if len(others) == 1:
            others = tuple(others[0].take(slice(j, None, INNER_PARTS)) for j in range(INNER_PARTS))
        yield Folds(others, validated=tuple(range(len(others)))), folds.parts[k].take(slice(0, most))


def learn_metric_kernel(folds: FoldedRows, teacher: Teacher) -> Choice:
    """Learn kernel, metric and finish on ``folds`` of rows, and fit the chosen ones on all rows to fit.

    Ctrl-C ends learning early: the kernel whose scales were learned last is fitted.
    """
    contest = Contest(folds, teacher)
    try:
        candidate, finish = contest.winner()
    except KeyboardInterrupt:
        if contest.descent is None:
            raise
        contest.descent = replace(contest.descent, interrupted=True)
        candidate, finish = contest.scales_alone(), "centres" if "centres" in teacher.metric.finishes else "fourier"
    for row in teacher.ladder.records:
        chosen = (row["kernel"], row["start"], row["metric"], row["finish"]) == (*candidate.recipe, finish)
        row["chosen"] = chosen and row["stage"] == "unseen rows"
    plain = finish == "fourier" and candidate.is_descended and not contest.descent.interrupted
    teacher.steps.enter_last(f"the best, on {finish}, of all rows")
    if plain:
        return Choice(teacher.ladder.records, None)
    learned = finished(folds, candidate, finish, contest.descent, teacher)
    return Choice(teacher.ladder.records, learned)


class Contest:
    """Candidates and their errors on rows set aside, over one split or several."""

    def __init__(self, folds: FoldedRows, teacher: Teacher) -> None:
        self.folds = folds
        self.teacher = teacher
        self.descent: Any = None
        """The latest one, a Descent."""

    def scales_alone(self) -> Candidate:
        """The kernel of the latest descent."""
        return Candidate(self.descent.best.kernel, "scales", "given", log_alpha=self.descent.best.log_alpha)

    def winner(self) -> tuple[Candidate, str]:
        """The candidate of the least error on unseen rows, and its finish."""
        errors: dict[tuple[str, ...], list[float]] = {}
        latest: dict[tuple[str, ...], Candidate] = {}
        most = MANY_UNSEEN if self.teacher.metric.every_row(self.folds) else MOST_UNSEEN
        splits = list(unseen_parts(self.folds.in_memory, most))
        self.teacher.steps.n_steps = self._count_steps([self.teacher.place(learned_on) for learned_on, _ in splits])
        for learned_on, unseen in splits:
            learning = self.teacher.place(learned_on)
            starts = self._starts(learning)
            finalists = self.teacher.candidates(learning, starts)
            self.teacher.steps.enter(f"the best {len(finalists)} on {unseen.n:,} unseen rows")
            for key, candidate in judged(finalists, self.descent, learned_on, unseen, self.teacher):
                errors.setdefault(key, []).append(candidate.value)
                latest[key] = candidate
        most = max(len(values) for values in errors.values())
        chosen = min((key for key in errors if len(errors[key]) == most), key=lambda key: float(np.mean(errors[key])))
        candidate, finish = latest[chosen], chosen[-1]
        return (self._again(candidate, finish) if len(splits) > 1 else candidate), finish

    def _count_steps(self, splits: list[FoldedRows]) -> int:
        """Scales, stages and comparison of each split; scales and stages of all rows, after several; the last fit."""
        learned_on = [*splits, self.folds] if len(splits) > 1 else splits
        return len(splits) + sum(1 + len(self.teacher.metric.stages(some)) for some in learned_on) + 1

    def _starts(self, folds: FoldedRows) -> Starts:
        self.teacher.steps.enter(f"scales on {folds.n:,} rows")
        earlier = [] if self.descent is None else self.descent.history
        descent = self.teacher.descend(folds)
        self.descent = replace(descent, history=[*earlier, *descent.history])
        if self.descent.interrupted:
            raise KeyboardInterrupt
        return self.teacher.starts(folds, self.descent)

    def _again(self, candidate: Candidate, finish: str) -> Candidate:
        """A candidate of some of the rows, learned again on all of them."""
        starts = self._starts(self.folds)
        if finish == "fourier" and candidate.is_descended:
            return self.scales_alone()
        kinds = () if candidate.kind == "given" else (candidate.kind,)
        teacher = replace(self.teacher, metric=replace(self.teacher.metric, kinds=kinds))
        found = teacher.candidates(self.folds, starts.only(candidate.recipe))
        return next((each for each in found if each.recipe == candidate.recipe), found[0])


def judged(
    finalists: list[Candidate], descent: Descent, learned_on: Folds, unseen: Rows, teacher: Teacher
) -> Iterator[tuple[tuple[Any, ...], Candidate]]:
    """Finalists with their errors on unseen rows: each on centres, and the kernel of the descent on random features too."""
    stage = teacher.metric.stages(teacher.place(learned_on))[-1]
    if teacher.metric.every_row(teacher.place(learned_on)):
        stage = replace(stage, n_rows=max(stage.n_rows, TRIAL_ROWS))
    judge = teacher.place(Folds((Rows.stack(list(learned_on.head(stage.n_rows).parts)), unseen), validated=(1,)))
    stage = replace(stage, n_rows=judge.n, n_centres=judge.n if judge.n < FEW_ROWS else stage.n_centres)
    every_row = judge.n >= FEW_ROWS and teacher.metric.every_row(judge)
    criterion = FullHeldOutError if every_row else teacher.criterion
    space = CentreSpace(judge, stage, criterion, teacher.rng, every_row=every_row, measure=teacher.measure)
    if "centres" in teacher.metric.finishes:
        for candidate in finalists:
            found = space.evaluate(candidate)
            teacher.ladder.add(found, "unseen rows", "centres", **space.size)
            yield (*found.recipe, "centres"), found
    for candidate in _for_features(finalists, descent, teacher, few=judge.n < FEW_ROWS):
        level = Level(2 * (min(stage.n_centres, JUDGED_FEATURES) // 2), judge.n, 0)
        objective = FeatureSpace(judge, teacher.criterion, teacher.choices, teacher.rng).objective(candidate.kernel, level)
        bounds = LOWEST_PENALTY, HIGHEST_PENALTY
        point = objective.evaluate(candidate.kernel, candidate.log_alpha, gradient=False, bounds=bounds)
        value = point.value
        if teacher.measure is not None:
            value = teacher.measure(objective.criterion.held_out(objective.feature_map, point.evaluation))
        found = replace(candidate, value=value, error=point.value, log_alpha=point.log_alpha)
        teacher.ladder.add(found, "unseen rows", "fourier", n_rows=judge.n, n_features=level.n_features)
        yield (*found.recipe, "fourier"), found


def _for_features(finalists: list[Candidate], descent: Descent, teacher: Teacher, *, few: bool) -> list[Candidate]:
    """What is tried on random features: the kernel of the descent, but not with few rows, where centres are all of them.

    Where nothing else is to be tried, all finalists too.
    """
    scales = Candidate(descent.best.kernel, "scales", "given", log_alpha=descent.best.log_alpha)
    if teacher.metric.finishes == ("fourier",):
        others = [each for each in finalists if each.recipe != scales.recipe]
        return others if teacher.metric.must else [*others, scales]
    return [scales] if "fourier" in teacher.metric.finishes and not few else []


def finished(folds: FoldedRows, candidate: Candidate, finish: str, descent: Descent, teacher: Teacher) -> LearnedKernel:
    """The chosen kernel fitted on all rows, on centres or on random features."""
    found, criterion = (_on_centres if finish == "centres" else _on_features)(folds, candidate, teacher)
    return LearnedKernel.of(criterion, cast(FeatureMap, found.feature_map), found.evaluation, descent)


def _on_centres(folds: FoldedRows, candidate: Candidate, teacher: Teacher) -> tuple[Candidate, Criterion]:
    """The candidate on the centres of the finish; its metric takes steps there if the ones before still helped.

    On the host it does so only where that takes little time.
    """
    if teacher.metric.every_row(folds):
        return _on_every_row(folds, candidate, teacher)
    n_centres = teacher.metric.centres_for(folds.n_to_fit, by_sums=False)
    by_sums = _by_sums(folds, float(folds.n) * n_centres**2, n_centres)
    n_centres = teacher.metric.centres_for(folds.n_to_fit, by_sums=by_sums)
    work = float(folds.n) * n_centres**2
    criterion = teacher.criterion if by_sums or teacher.iterated is None else teacher.iterated
    stage = Stage(folds.n, n_centres, 0, keep=1)
    options: dict[str, Any] = {"most_validated": MOST_VALIDATED, "last": True, "measure": teacher.measure}
    space = CentreSpace(folds, stage, criterion, teacher.rng, **options)
    cheap = work < CHEAP or isinstance(folds, DeviceFolds)
    found = space.best_width(candidate, LARGER_FACTOR, narrower_only=True) if cheap else space.evaluate(candidate)
    return (_improved(found, candidate, space, teacher) if cheap else found), space.criterion


def _improved(found: Candidate, before: Candidate, space: CentreSpace, teacher: Teacher) -> Candidate:
    """A candidate with the next steps of its metric, where those ``before`` still helped.

    One that stayed as it started has another chance to grow a full metric, which must clearly help: few rows say little of
    many directions.
    """
    plan = teacher.metric
    if plan.way == "gradient":
        return found
    found = replace(found, power=None)
    if before.kind == "given":
        grows = "full" in plan.kinds and can_have_metric(base_of(found.kernel))
        grown = space.improve(found, "full", 1, plan.rank) if grows else found
        return grown if grown.value < (1 - STILL_HELPS) * found.value else found
    return space.improve(found, before.kind, plan.effort.finish_steps, plan.rank) if before.gain > STILL_HELPS else found


def _on_every_row(folds: FoldedRows, candidate: Candidate, teacher: Teacher) -> tuple[Candidate, Criterion]:
    """The candidate with every row a centre: searched once more on some of the rows, then one regression of all.

    From some rows to all, rows x penalty stays, which is the variance of noise in units of that of the function.
    """
    options: dict[str, Any] = {"every_row": True, "measure": teacher.measure}
    stage = Stage(folds.n if folds.n <= AT_ONCE else TRIAL_ROWS, folds.n, 0, keep=1)
    space = CentreSpace(folds, stage, FullHeldOutError, teacher.rng, **options)
    found = _improved(space.best_width(candidate, LARGER_FACTOR, narrower_only=True), candidate, space, teacher)
    if space.folds.n == folds.n:
        found = space.width_around(found, LAST_FACTOR)
    teacher.ladder.add(found, "finish", "centres", **space.size)
    if space.folds.n == folds.n:
        return found, space.criterion
    whole = CentreSpace(folds, replace(stage, n_rows=folds.n), FullHeldOutError, teacher.rng, **options)
    carried = found.log_alpha + float(np.log(space.folds.n / folds.n))
    return whole.evaluate(replace(found, log_alpha=carried)), whole.criterion


def _by_sums(folds: FoldedRows, work: float, n_centres: int) -> bool:
    """Whether the last regression is solved from sums of products: always of rows that are not all in memory."""
    if isinstance(folds, DeviceFolds):
        gpu = gpu_of(folds.parts[0].X)
        return gpu is None or MATRICES * 8 * n_centres**2 <= free_room(gpu)
    return not isinstance(folds, Folds) or work <= BY_SUMS


def _on_features(folds: FoldedRows, candidate: Candidate, teacher: Teacher) -> tuple[Candidate, Criterion]:
    """The candidate on random features."""
    n_features = teacher.metric.n_features
    space = FeatureSpace(folds, teacher.criterion, teacher.choices, teacher.rng)
    objective = space.objective(candidate.kernel, Level(n_features, folds.n, 0, most_validated=MOST_VALIDATED))
    bounds = LOWEST_PENALTY, HIGHEST_PENALTY
    point = objective.evaluate(candidate.kernel, candidate.log_alpha, gradient=False, bounds=bounds)
    found = replace(candidate, error=point.value, log_alpha=point.log_alpha, evaluation=point.evaluation)
    return replace(found, feature_map=objective.feature_map), objective.criterion
