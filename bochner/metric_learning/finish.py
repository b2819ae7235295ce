"""The chosen kernel fitted on all rows, on data centres or on random features."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, cast

from bochner.arrays import gpu_of
from bochner.criteria import Criterion
from bochner.descent import Descent, Level
from bochner.engines.devices import DeviceFolds, free_room
from bochner.engines.smaller_blocks import SmallerBlocksWarning, is_out_of_memory
from bochner.features import FeatureMap
from bochner.folds import FoldedRows, Folds
from bochner.full_ridge import FullHeldOutError
from bochner.metric_learning import sizes
from bochner.metric_learning.candidates import Candidate, base_of, can_have_metric
from bochner.metric_learning.centre_space import LARGER_FACTOR, CentreSpace
from bochner.metric_learning.room import LEAST_CENTRES
from bochner.metric_learning.stages import Stage
from bochner.metric_learning.teacher import Teacher
from bochner.single_kernel import FeatureSpace, LearnedKernel
from bochner.solvers.penalty_search import PENALTIES

MOST_VALIDATED = 2
"""Most parts that the final regression is validated on."""
CHEAP = 1e11
"""Rows x centres squared below which the width is searched once more at full size."""
BY_SUMS = 2e11
"""Rows x centres squared up to which the last regression is solved from sums of products on the host, else by iterations."""
MATRICES = 6
"""Matrices of all pairs of centres that half of the room on a device must hold for it to make such sums, which take twice
as many; it does so wherever it can."""
LAST_FACTOR = 1.15
"""By how much distances change at the very last, where every row is a centre and there are few enough of them."""
STILL_HELPS = 0.005
"""The metric takes a step at full size where the step before lowered the error by this part."""


def finished(folds: FoldedRows, candidate: Candidate, finish: str, descent: Descent, teacher: Teacher) -> LearnedKernel:
    """The chosen kernel fitted on all rows, on centres or on random features."""
    if finish == "centres":
        return _on_as_many_as_fit(folds, candidate, descent, teacher)
    level = Level(teacher.metric.n_features, folds.n, 0, most_validated=MOST_VALIDATED)
    return _learned(on_features(folds, candidate, level, teacher), descent)


def _learned(found: tuple[Candidate, Criterion], descent: Descent) -> LearnedKernel:
    candidate, criterion = found
    return LearnedKernel.of(criterion, cast(FeatureMap, candidate.feature_map), candidate.evaluation, descent)


def _on_as_many_as_fit(folds: FoldedRows, candidate: Candidate, descent: Descent, teacher: Teacher) -> LearnedKernel:
    """The candidate on every row or some centres, and on half of them while a device has no room for all of their pairs.

    A number of centres that somebody gave is kept, or refused.
    """
    plan = teacher.metric
    every_row, n_centres = plan.every_row(folds), plan.centres_for(folds.n_to_fit, by_sums=False)
    while True:
        try:
            if every_row:
                return _learned(_on_every_row(folds, candidate, teacher), descent)
            return _learned(_on_centres(folds, candidate, teacher, n_centres), descent)
        except RuntimeError as error:
            if not is_out_of_memory(error) or plan.n_centres is not None or n_centres < 2 * LEAST_CENTRES:
                raise
        n_centres = n_centres if every_row else n_centres // 2
        every_row = False
        warnings.warn(
            f"The device has no room for all pairs of so many data centres: going on with {n_centres:,} of them at most, "
            "which may be less accurate. To have room, let go of other arrays there.",
            SmallerBlocksWarning,
            stacklevel=2,
        )


def _on_centres(folds: FoldedRows, candidate: Candidate, teacher: Teacher, most: int) -> tuple[Candidate, Criterion]:
    """The candidate on ``most`` centres or fewer; its metric takes steps there if the ones before still helped.

    On the host it does so only where that takes little time.
    """
    by_sums = teacher.iterated is None or _by_sums(folds, float(folds.n) * most**2, most)
    n_centres = min(most, teacher.metric.centres_for(folds.n_to_fit, by_sums=by_sums))
    work = float(folds.n) * n_centres**2
    criterion = teacher.criterion if by_sums else cast(Any, teacher.iterated)
    stage = Stage(folds.n, n_centres, 0, keep=1)
    options: dict[str, Any] = {"most_validated": MOST_VALIDATED, "last": True, "measure": teacher.measure}
    space = CentreSpace(folds, stage, criterion, teacher.rng, **options)
    cheap = work < CHEAP or isinstance(folds, DeviceFolds)
    if cheap:
        found = _improved(space.best_width(candidate, LARGER_FACTOR, narrower_only=True), candidate, space, teacher)
    else:
        found = space.evaluate(candidate)
    teacher.ladder.add(found, "finish", "centres", **space.size)
    return found, space.criterion


def _improved(found: Candidate, before: Candidate, space: CentreSpace, teacher: Teacher) -> Candidate:
    """A candidate with the next steps of its metric, where those ``before`` still helped.

    One that stayed as it started has another chance to grow a full metric, which must clearly help. It has none where rows
    are few for that: they say little of many directions, and none are left that have not been seen.
    """
    plan = teacher.metric
    if plan.way == "gradient":
        return found
    found = replace(found, power=None)
    if before.kind == "given":
        enough = min(sizes.FEW_ROWS, sizes.ROWS_A_NUMBER * space.sample.shape[1] ** 2)
        grows = space.folds.n >= enough and "full" in plan.kinds and can_have_metric(base_of(found.kernel))
        grown = space.improve(found, "full", 1, plan.rank) if grows else found
        return grown if grown.value < (1 - STILL_HELPS) * found.value else found
    return space.improve(found, before.kind, plan.effort.finish_steps, plan.rank) if before.gain > STILL_HELPS else found


def _on_every_row(folds: FoldedRows, candidate: Candidate, teacher: Teacher) -> tuple[Candidate, Criterion]:
    """The candidate with every row a centre: searched once more on some of the rows, then one regression of all."""
    options: dict[str, Any] = {"every_row": True, "measure": teacher.measure}
    stage = Stage(folds.n if folds.n <= sizes.AT_ONCE else sizes.TRIAL_ROWS, folds.n, 0, keep=1)
    space = CentreSpace(folds, stage, FullHeldOutError, teacher.rng, **options)
    found = _improved(space.best_width(candidate, LARGER_FACTOR, narrower_only=True), candidate, space, teacher)
    if space.folds.n == folds.n:
        found = space.width_around(found, LAST_FACTOR)
    teacher.ladder.add(found, "finish", "centres", **space.size)
    if space.folds.n == folds.n:
        return found, space.criterion
    whole = CentreSpace(folds, replace(stage, n_rows=folds.n), FullHeldOutError, teacher.rng, **options)
    return whole.evaluate(found), whole.criterion


def _by_sums(folds: FoldedRows, work: float, n_centres: int) -> bool:
    """Whether the last regression is solved from sums of products: always of rows that are not all in memory."""
    if isinstance(folds, DeviceFolds):
        gpu = gpu_of(folds.parts[0].X)
        return gpu is None or MATRICES * 8 * n_centres**2 <= free_room(gpu)
    return not isinstance(folds, Folds) or work <= BY_SUMS


def on_features(folds: FoldedRows, candidate: Candidate, level: Level, teacher: Teacher) -> tuple[Candidate, Criterion]:
    """The candidate with its squared error on as many random features as a level has, and what it was found by."""
    objective = FeatureSpace(folds, teacher.criterion, teacher.choices, teacher.rng).objective(candidate.kernel, level)
    start = candidate.penalty_for(level.n_rows)
    point = objective.evaluate(candidate.kernel, start, gradient=False, bounds=PENALTIES)
    found = replace(candidate, value=point.value, error=point.value, log_alpha=point.log_alpha, n_rows=level.n_rows)
    return replace(found, evaluation=point.evaluation, feature_map=objective.feature_map), objective.criterion
