"""One kernel of the columns of many in place of their sum, where held-out rows say that interactions count."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from bochner.arrays import Array
from bochner.estimators.dictionary import joint_features
from bochner.estimators.multiple_rounds import Round, Rounds
from bochner.folds import HeldOut, clearly_less
from bochner.weight_search import NOT_WORTH

MOST_NARROWED = 20
"""Most kernels of which each is left out in turn."""
NARROWING_FEATURES = 1000
"""Features of a joint kernel while kernels are left out in turn."""


@dataclass(frozen=True)
class Joining:
    """Joint kernels beside what was found before; ``losses`` says what each held-out row counts: (n,)."""

    rounds: Rounds
    losses: Callable[[HeldOut], Array]

    def of_chosen(self, found: Round, *, asked: bool) -> Round:
        """One kernel in place of those that are in, where that is asked for or clearly better; they must be joinable."""
        joint = self.rounds.join(found)
        return joint if asked else self._better(found, joint)

    def of_all(self, found: Round, sizes: list[int]) -> Round:
        """One kernel in place of all there are, where that is clearly better, less those that it can do without.

        ``sizes`` are the features of each kernel. A sum of kernels can have no use for columns that count in an interaction
        alone: group lasso leaves them out.
        """
        everything = np.ones(len(self.rounds.kernels), dtype=bool)
        if not self.rounds.can_join(everything):
            return found
        rounds = replace(self.rounds, rng=deepcopy(self.rounds.rng))  # so that nothing else is drawn for what is only tried
        size = joint_features(sizes, rounds.folds.n_to_fit)
        wide = found if found.is_in.all() else self._better(found, rounds.widen(found, everything, size))
        unchosen = wide.learned.chosen.refit == "joint" and wide.learned.chosen.l1_ratio == 0  # by group lasso
        fewer = _narrowed(rounds, found, min(size, NARROWING_FEATURES)) if unchosen else everything
        if fewer.all():
            return wide
        narrow = rounds.widen(wide, fewer, size)
        return narrow if _is_enough(narrow, wide) else wide

    def _better(self, before: Round, after: Round) -> Round:
        """The second of two where it predicts the same held-out rows better by more than a standard error, or the first."""
        one, two = after.learned.held_out, before.learned.held_out
        if clearly_less(self.losses(one), self.losses(two), one.rows.weights):
            return after
        return replace(before, learned=replace(before.learned, trials=after.learned.trials))


def _narrowed(rounds: Rounds, found: Round, size: int) -> Array:
    """The kernels that a joint one of all needs, a mask (r,): each is left out in turn, those of least weight first."""
    kept = np.ones(len(rounds.kernels), dtype=bool)
    if len(kept) > MOST_NARROWED or rounds.folds.in_memory.n < rounds.folds.n:  # where each takes a pass over all rows
        return kept
    least = rounds.widen(found, kept, size)
    for t in np.argsort(found.learned.norms.max(axis=1), kind="stable").tolist():
        without = kept & (np.arange(len(kept)) != t)
        if without.sum() < 2:
            break
        fewer = rounds.widen(found, without, size)
        if _is_enough(fewer, least):
            kept = without
        least = min(least, fewer, key=lambda tried: tried.learned.chosen.error)
    return kept


def _is_enough(fewer: Round, more: Round) -> bool:
    """Whether more kernels lower the held-out error by next to nothing."""
    return fewer.learned.chosen.error <= (1 + NOT_WORTH) * more.learned.chosen.error
