"""Which kernel, metric and finish: chosen together by the error on rows that the learning of none of them has seen.

Rows are set aside first. On the others kernels descend on random features (the paper's single-kernel learning), scales are
learned by evidence on few rows, and metrics grow from both and from equal scales (:mod:`.search`). What comes
out of it, on centres or on random features, is fitted once more at one size and compared on the rows set aside; with few
rows, every part of them is set aside in turn, errors add up, and the winner is learned again on all rows. The winner is then
fitted on all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from bochner.descent import Descent, Level
from bochner.features import FeatureMap
from bochner.folds import FoldedRows, Folds, Rows
from bochner.full_ridge import FullHeldOutError
from bochner.metric_learning import sizes
from bochner.metric_learning.candidates import Candidate, as_descended
from bochner.metric_learning.centre_space import CentreSpace
from bochner.metric_learning.finish import finished, on_features
from bochner.metric_learning.room import or_on_host, with_fewer
from bochner.metric_learning.search import Starts
from bochner.metric_learning.stages import Stage
from bochner.metric_learning.teacher import Steps, Teacher
from bochner.single_kernel import LearnedKernel

MOST_SPLITS = 3
"""Most parts of few rows that are set aside in turn."""
MOST_UNSEEN, MANY_UNSEEN = 4000, 12_000
"""Most rows that are set aside to choose by; and where every row is a centre, on a GPU."""
INNER_PARTS = 5
"""Parts of the rows to learn from, where the rows set aside leave only one."""
JUDGED_FEATURES = 2400
"""Most random features on which the kernel of learned scales is compared with others on centres."""


@dataclass(frozen=True)
class Choice:
    """What was compared, and the kernel learned in the end; None: scales alone are to be learned, on random features."""

    ladder: list[dict[str, Any]]
    learned: LearnedKernel | None
    steps: Steps | None = None
    """The steps that were taken, of which learning these scales is the last."""


def unseen_parts(folds: Folds, most: int = MOST_UNSEEN) -> Iterator[tuple[Folds, Rows]]:
    """Rows to learn from, in parts of their own, and rows set aside: once, or every validated part in turn of few rows."""
    in_turn = folds.validated[: MOST_SPLITS if folds.n < sizes.FEW_ROWS else 1]
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
    descent = cast(Descent, contest.descent)
    for row in teacher.ladder.records:
        chosen = (row["kernel"], row["start"], row["metric"], row["finish"]) == (*candidate.recipe, finish)
        row["chosen"] = chosen and row["stage"] == "unseen rows"
    plain = finish == "fourier" and contest.is_descended(candidate) and not descent.interrupted
    teacher.steps.enter_last(f"the best, on {finish}, of all rows")
    if plain:
        return Choice(teacher.ladder.records, None, teacher.steps)
    learned = finished(folds, candidate, finish, descent, teacher)
    return Choice(teacher.ladder.records, learned)


class Contest:
    """Candidates and their errors on rows set aside, over one split or several."""

    def __init__(self, folds: FoldedRows, teacher: Teacher) -> None:
        self.folds = folds
        self.teacher = teacher
        self.descent: Descent | None = None
        """The latest one."""

    def scales_alone(self) -> Candidate:
        """The kernel of the latest descent."""
        return as_descended(cast(Descent, self.descent))

    def is_descended(self, candidate: Candidate) -> bool:
        """Whether a candidate is the kernel of the latest descent, as it came from there."""
        return candidate.recipe == self.scales_alone().recipe

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
            finalists = self._candidates(self.teacher, learning, starts)
            self.teacher.steps.enter(f"the best {len(finalists)} on {unseen.n:,} unseen rows")
            plan = self.teacher.metric
            pair = Pair(learned_on, unseen, plan.stages(learning)[-1], plan.every_row(learning))
            for key, candidate in self._judged(finalists, pair, learning):
                errors.setdefault(key, []).append(candidate.value)
                latest[key] = candidate
        n_judged = max(len(values) for values in errors.values())
        everywhere = [key for key, values in errors.items() if len(values) == n_judged]
        chosen = min(everywhere, key=lambda key: float(np.mean(errors[key])))
        candidate, finish = latest[chosen], chosen[-1]
        return (self._again(candidate, finish) if len(splits) > 1 else candidate), finish

    def _count_steps(self, splits: list[FoldedRows]) -> int:
        """Scales, stages and comparison of each split; scales and stages of all rows, after several; the last fit."""
        learned_on = [*splits, self._all_rows] if len(splits) > 1 else splits
        return len(splits) + sum(1 + len(self.teacher.metric.stages(some)) for some in learned_on) + 1

    def _candidates(self, teacher: Teacher, folds: FoldedRows, starts: Starts) -> list[Candidate]:
        ladder = teacher.ladder.records
        before = len(ladder)

        def of(some: FoldedRows) -> list[Candidate]:
            del ladder[before:]  # what a device told before it had no more room
            return teacher.candidates(some, starts)

        return or_on_host(folds, of)

    def _judged(self, finalists: list[Candidate], pair: Pair, folds: FoldedRows) -> list[tuple[tuple[Any, ...], Candidate]]:
        """All finalists with their errors on unseen rows, at one size: a smaller one where a device has no room."""
        ladder = self.teacher.ladder.records
        before, scales = len(ladder), self.scales_alone()

        def on(some: FoldedRows) -> list[tuple[tuple[Any, ...], Candidate]]:
            teacher = self.teacher if some is folds else replace(self.teacher, place=lambda there: there)

            def of(stage: Stage) -> list[tuple[tuple[Any, ...], Candidate]]:
                del ladder[before:]
                whole = pair.every_row and stage is pair.stage
                return list(judged(finalists, scales, replace(pair, stage=stage, every_row=whole), teacher))

            return with_fewer(pair.stage, pair.learned_on.n, of)

        return or_on_host(folds, on)

    def _starts(self, folds: FoldedRows) -> Starts:
        self.teacher.steps.enter(f"scales on {folds.n:,} rows")
        descent = or_on_host(folds, self.teacher.descend)
        if self.descent is not None:
            descent = descent.after(self.descent)
        self.descent = descent
        if self.descent.interrupted:
            raise KeyboardInterrupt
        return or_on_host(folds, lambda some: self.teacher.starts(some, descent))

    @property
    def _all_rows(self) -> FoldedRows:
        """All rows that kernels are learned on: those in memory."""
        return self.teacher.place(self.folds.in_memory)

    def _again(self, candidate: Candidate, finish: str) -> Candidate:
        """A candidate of some of the rows, learned again on all of them."""
        folds = self._all_rows
        starts = self._starts(folds)
        if finish == "fourier" and self.is_descended(candidate):
            return self.scales_alone()
        kinds = () if candidate.kind == "given" else (candidate.kind,)
        teacher = replace(self.teacher, metric=replace(self.teacher.metric, kinds=kinds))
        found = self._candidates(teacher, folds, starts.only(candidate.recipe))
        return next((each for each in found if each.recipe == candidate.recipe), found[0])


@dataclass(frozen=True)
class Pair:
    """Rows that kernels were learned on and rows that they have not seen; how the learning ended."""

    learned_on: Folds
    unseen: Rows
    stage: Stage
    """The last stage of the search."""
    every_row: bool
    """Whether all rows are to be centres."""


def judged(
    finalists: list[Candidate], scales: Candidate, pair: Pair, teacher: Teacher
) -> Iterator[tuple[tuple[Any, ...], Candidate]]:
    """Finalists with their errors on unseen rows: each on centres, and that of learned ``scales`` on random features too."""
    n_rows = max(pair.stage.n_rows, sizes.TRIAL_ROWS) if pair.every_row else pair.stage.n_rows
    judge = teacher.place(Folds((Rows.stack(list(pair.learned_on.head(n_rows).parts)), pair.unseen), validated=(1,)))
    stage = replace(pair.stage, n_rows=judge.n)
    if judge.n < sizes.FEW_ROWS:
        stage = replace(stage, n_centres=judge.n)
    every_row = judge.n >= sizes.FEW_ROWS and teacher.metric.every_row(judge)
    criterion = FullHeldOutError if every_row else teacher.criterion_on_centres(judge, stage)
    space = CentreSpace(judge, stage, criterion, teacher.rng, every_row=every_row, measure=teacher.measure)
    if "centres" in teacher.metric.finishes:
        for candidate in finalists:
            found = space.evaluate(candidate)
            teacher.ladder.add(found, "unseen rows", "centres", **space.size)
            yield (*found.recipe, "centres"), found
    for candidate in _for_features(finalists, scales, teacher, few=judge.n < sizes.FEW_ROWS):
        level = Level(2 * (min(stage.n_centres, JUDGED_FEATURES) // 2), judge.n, 0)
        found, judged_by = on_features(judge, candidate, level, teacher)
        if teacher.measure is not None:
            predictions = judged_by.held_out(cast(FeatureMap, found.feature_map), found.evaluation)
            found = replace(found, value=teacher.measure(predictions))
        teacher.ladder.add(found, "unseen rows", "fourier", n_rows=judge.n, n_features=level.n_features)
        yield (*found.recipe, "fourier"), found


def _for_features(finalists: list[Candidate], scales: Candidate, teacher: Teacher, *, few: bool) -> list[Candidate]:
    """What is tried on random features: learned ``scales``, but not with few rows, where centres are all of them.

    Where nothing else is to be tried, all finalists too.
    """
    if teacher.metric.finishes == ("fourier",):
        others = [each for each in finalists if each.recipe != scales.recipe]
        return others if teacher.metric.must else [*others, scales]
    return [scales] if "fourier" in teacher.metric.finishes and not few else []
