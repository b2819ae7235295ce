"""Multiple-kernel learning (RFF-GL): which kernels count, and by how much, by group lasso over their stacked features.

The features of all kernels stand side by side, a group for each. Group lasso on a path of penalties brings in one kernel
after the other; held-out rows choose among the penalties, among shares of a ridge penalty (all of it is the plain average
of the kernels), and whether the kernels that are in are fitted again without the shrinkage that chose them. With the
squared loss everything comes from one matrix of moments for each part of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.engines import predict_folds
from bochner.engines.devices import brought
from bochner.features import StackedMap
from bochner.fold_problems import FoldProblems, RowProblems, column_counts
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.kernel_penalties import KernelPenalties
from bochner.losses import Loss
from bochner.solvers.group_path import GroupLassoPath
from bochner.solvers.groups import Groups
from bochner.weight_search import Final, Search, Trial, WeightChoices, choose

MATRICES = 6
"""Matrices of all pairs of features that are there at a time, beside four for each part of the rows."""
SCORE_SHARE = 0.5
"""The part of the memory beside matrices that scores of rows in blocks may take; blocks and a sample have the rest."""


@dataclass(frozen=True)
class LearnedWeights:
    """The end of multiple-kernel learning: a model on stacked features, and how it was chosen."""

    coef: Array
    """(D, c)."""
    intercept: Array
    """(c,)."""
    norms: Array
    """The length of each kernel's coefficients: (r, c) or (r, 1).

    In the group lasso, whatever the refit, but for learned weights and the plain average: in the model itself.
    """
    gap: Array
    """Duality gaps of the group lasso: (c,) or (1,)."""
    chosen: Trial
    trials: list[Trial]
    path: GroupLassoPath | None
    """The path on all rows at the chosen share: the chosen penalty as exact as asked for, the others to ROUGH.

    Its coefficients are of the features that weights were learned on, whatever those of ``coef`` are.
    """
    variance_shares: Array
    """The share of the variance of the predictions that each kernel explains: (r, c)."""
    held_out: HeldOut
    converged: bool
    n_iter: int
    cut_short: bool = False
    """Whether the error still fell at the chosen penalty, and no smaller one may be tried."""

    def among(self, chosen: Array) -> LearnedWeights:
        """The same among more kernels, of which these are the ``chosen`` ones, a mask (r,), and the others are out."""
        if chosen.all():
            return self

        def spread(values: Array) -> Array:
            whole = np.zeros((*values.shape[:-2], len(chosen), values.shape[-1]))
            whole[..., chosen, :] = values
            return whole

        path = None if self.path is None else replace(self.path, norms=spread(self.path.norms))
        return replace(self, norms=spread(self.norms), variance_shares=spread(self.variance_shares), path=path)


def learn_weights(
    folds: FoldedRows,
    feature_map: StackedMap,
    choices: WeightChoices,
    *,
    loss: Loss | None = None,
    max_memory: float = np.inf,
    callback: Callable[[dict[str, Any]], None] | None = None,
) -> LearnedWeights:
    """Choose among the kernels of ``feature_map`` by group lasso; ``loss`` None: the squared one.

    Losses other than the squared one keep features of all rows where rows are in memory and features fit into what
    :func:`matrix_bytes` leaves of ``max_memory``; of rows that are not in memory they keep scores, in half of that. The
    callback hears of every path of penalties.
    """
    problems: FoldProblems
    if loss is None:
        problems = FoldProblems(folds, feature_map, together=choices.shared, most=choices.n_coordinates)
    else:
        spare = max_memory - matrix_bytes(sum(column_counts(feature_map, folds, choices.n_coordinates)), folds.n_parts)
        spare *= 1.0 if isinstance(folds, Folds) else SCORE_SHARE
        most = choices.n_coordinates
        problems = RowProblems(folds, feature_map, loss, together=choices.shared, spare=spare, most=most)
    groups = Groups(problems.sizes, shared=choices.shared)
    search = Search(folds, problems, groups, choices, callback)
    trials = list(search.trials())
    if choices.learned:  # which weighs kernels itself, and needs no rule that leaves some out
        chosen = min(trials, key=lambda trial: trial.error)
    else:
        chosen = choose(trials, one_standard_error=choices.one_standard_error)
    final = search.final(chosen)
    if choices.learned and (better := _with_learned_weights(chosen, final, problems, groups)) is not None:
        chosen, final = better
        trials.append(chosen)
    return LearnedWeights(
        coef=problems.expand(final.coef),
        intercept=final.intercept,
        norms=final.norms,
        gap=final.gap,
        chosen=chosen,
        trials=trials,
        path=None if final.path is None else _expanded(final.path, problems),
        variance_shares=problems.variance_shares(final.coef),
        held_out=_held_out(chosen, folds, feature_map, problems),
        converged=final.converged,
        n_iter=final.n_iter,
        cut_short=chosen.refit is None and (chosen.l1_ratio, chosen.alpha) in search.cut_short,
    )


def _with_learned_weights(chosen: Trial, final: Final, problems: FoldProblems, groups: Groups) -> tuple[Trial, Final] | None:
    """The kernels of a trial with weights learned on held-out rows, for all targets or for each; None where no better."""
    validated, ridge = problems.folds.validated, chosen.alpha if chosen.ridge is None else chosen.ridge
    found = [_learned_weights(problems, groups, norms > 0, ridge, c) for c, norms in enumerate(final.norms.T)]
    models = [
        (np.concatenate(coefs, axis=1), np.concatenate(intercepts))
        for coefs, intercepts in (zip(*of_each, strict=True) for of_each in zip(*found, strict=True))
    ]
    (coef, intercept), held_out = models[0], models[1:]
    errors = np.array([problems.error(k, *model) for k, model in zip(validated, held_out, strict=True)])
    if not errors.mean() < chosen.error:  # nor where it is not a number
        return None
    trial = replace(chosen, refit="learned", ridge=ridge, errors=errors, models=held_out)
    return trial, replace(final, coef=coef, intercept=intercept, norms=groups.norms(coef[:, None, :])[:, 0])


def _learned_weights(
    problems: FoldProblems, groups: Groups, is_in: Array, ridge: float, target: int
) -> list[tuple[Array, Array]]:
    """Models of all rows to fit, and of all but each validated part, on the kernels that are in for a target, or for all."""
    parts, own = (None, *problems.folds.validated), slice(None) if groups.shared else slice(target, target + 1)
    if not is_in.any():
        means = [problems.target_mean(without)[own] for without in parts]
        return [(np.zeros((groups.n_columns, len(mean))), mean) for mean in means]
    chosen, used = groups.take(is_in)
    moments = problems.scaled_moments(used, np.ones((chosen.n_columns, 1)))
    regressions = KernelPenalties(moments, chosen.sizes, problems.folds.validated)
    if not groups.shared:
        regressions = regressions.of_target(target)
    penalties = regressions.learn(np.full(len(chosen.sizes), ridge))
    models = []
    for without in parts:
        some, intercept = regressions.model(without, penalties)
        coef = np.zeros((len(used), some.shape[1]))
        coef[used] = some
        models.append((coef, intercept))
    return models


def refit_jointly(
    learned: LearnedWeights, folds: FoldedRows, feature_map: StackedMap, choices: WeightChoices
) -> LearnedWeights:
    """The kernels that are in as before, and ridge regression on the features of one kernel in their place."""
    joint = _one_kernel(folds, feature_map, choices)
    alpha, l1_ratio = learned.chosen.alpha, learned.chosen.l1_ratio

    def told(trial: Trial) -> Trial:
        return replace(trial, alpha=alpha, l1_ratio=l1_ratio, refit="joint", ridge=trial.alpha, n_in=learned.chosen.n_in)

    return replace(
        learned,
        coef=joint.coef,
        intercept=joint.intercept,
        chosen=told(joint.chosen),
        trials=learned.trials + [told(trial) for trial in joint.trials],
        held_out=joint.held_out,
        cut_short=False,
    )


def fit_jointly(
    learned: LearnedWeights, folds: FoldedRows, feature_map: StackedMap, choices: WeightChoices, is_in: Array
) -> LearnedWeights:
    """Ridge regression on the features of one kernel in place of some, a mask (r,), that group lasso need not have chosen.

    They are in, the others out: there is no group lasso of them. The one kernel cannot be shared out, so that each of them
    has its weight, and the same share of the variance.
    """
    joint = _one_kernel(folds, feature_map, choices)
    n_in = float(is_in.sum() * joint.norms.shape[1])

    def told(trial: Trial) -> Trial:
        return replace(trial, refit="joint", ridge=trial.alpha, n_in=n_in)

    return replace(
        joint,
        norms=is_in[:, None] * joint.norms,
        chosen=told(joint.chosen),
        trials=learned.trials + [told(trial) for trial in joint.trials],
        variance_shares=is_in[:, None] / is_in.sum() * joint.variance_shares,
    )


def _one_kernel(folds: FoldedRows, feature_map: StackedMap, choices: WeightChoices) -> LearnedWeights:
    """Ridge regression on the features of one kernel."""
    plain = replace(choices, weights=np.ones(1), alpha=None, l1_ratios=(0.0,), refits=(None,))
    return learn_weights(folds, feature_map, plain)


def refit_finely(
    learned: LearnedWeights, folds: Folds, feature_map: StackedMap, choices: WeightChoices
) -> LearnedWeights | None:
    """The kernels that are in as before, and ridge regression on more features of them, those of ``feature_map``.

    None where no refit is asked for, or none is better on held-out rows. It takes :func:`fine_bytes` beside the features.
    """
    chosen, is_in = learned.chosen, np.any(learned.norms > 0, axis=1)
    kinds = tuple(refit for refit in choices.refits if refit is not None) if chosen.l1_ratio > 0 else ("ridge",)
    if not kinds:
        return None
    problems = FoldProblems(folds, feature_map, together=choices.shared)
    groups = Groups(problems.sizes, shared=choices.shared)
    search = Search(
        folds, problems, groups, replace(choices, weights=choices.weights[is_in], l1_ratios=(1.0,), refits=kinds)
    )
    trials = list(search.refits(chosen, learned.norms[is_in]))
    best = min(trials, key=lambda trial: trial.error)
    if best.error >= chosen.error:
        return None
    coef, intercept = search.refitted(best, learned.norms[is_in])
    shares = np.zeros((len(is_in), coef.shape[1]))
    shares[is_in] = problems.variance_shares(coef)
    norms = learned.norms
    if chosen.l1_ratio == 0 and best.ridge is not None:  # the plain average, which is no refit
        best = replace(best, alpha=best.ridge, refit=None, ridge=None)
        norms = np.zeros_like(norms)
        norms[is_in] = groups.norms(coef[:, None, :])[:, 0]
    return replace(
        learned,
        coef=problems.expand(coef),
        intercept=intercept,
        norms=norms,
        chosen=best,
        trials=[*learned.trials, *trials],
        variance_shares=shares,
        held_out=_held_out(best, folds, feature_map, problems),
        cut_short=False,
    )


def matrix_bytes(n_features: int, n_parts: int) -> float:
    """What the matrices of all pairs of features take, or of coordinates in their place."""
    return 8.0 * (4 * n_parts + MATRICES) * n_features**2


def fine_bytes(n_rows: int, n_parts: int, n_sets: int) -> float:
    """What the matrices of all pairs of rows take in :func:`refit_finely`, for so many sets of kernels, one for a target."""
    return 8.0 * (n_sets * (n_parts + 2) + 3) * n_rows**2


def _held_out(chosen: Trial, folds: FoldedRows, feature_map: StackedMap, problems: FoldProblems) -> HeldOut:
    """The validated parts, and what models that have not seen them predict; of parts that are not in memory, a sample."""
    models = zip(folds.validated, chosen.models, strict=True)
    expanded = {k: (problems.expand(coef), intercept) for k, (coef, intercept) in models}
    predictions = predict_folds(feature_map, brought(folds), expanded)
    rows = Rows.stack([folds.in_memory.parts[k] for k in predictions])
    return HeldOut(rows, np.concatenate(list(predictions.values())))


def _expanded(path: GroupLassoPath, problems: FoldProblems) -> GroupLassoPath:
    """A path with coefficients of the features."""
    return replace(path, coef=problems.expand(path.coef.transpose(1, 0, 2)).transpose(1, 0, 2))
