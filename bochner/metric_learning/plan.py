"""What is tried beyond scales on random features: families, kinds of metric, finishes, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.arrays import gpu_of
from bochner.engines.devices import DeviceFolds, free_room
from bochner.folds import FoldedRows
from bochner.kernels import Kernel
from bochner.metric_learning import sizes
from bochner.metric_learning.stages import Stage

WAYS = ("products", "gradient", "both")
"""How metrics are learned: by outer products, by the gradient of the held-out error, or by this after those."""
METRIC_FAMILIES = ("gaussian", "matern32", "matern12", "cauchy")
"""Families tried by kernel="auto", on centres; the last is not radial, and keeps its scales."""
FEW_STAGE = Stage(2000, 400, 2, keep=40, worse=3.0, every=True)
"""The only stage of the search where rows are few: nearly all candidates stay, so that each is judged on every part."""
ITERATED_MATRICES = 2
"""Matrices of all pairs of centres that a last regression by iterations on the host holds at a time."""
FULL_ROWS = 65_000
"""Rows up to which a device makes them all centres, from a factor of the whole kernel matrix."""
FULL_MATRICES = 2.2
"""Matrices of all pairs of rows that half of the room on a device must hold for that."""


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
        entries=2.8e8,
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
    needs_sums: bool = False
    """Whether the last regression must leave sums over all rows, to which more rows are added."""
    n_features: int = 2
    """Random features of the finish."""
    room: float = np.inf
    """Bytes that a fit may take."""
    matrices: float = ITERATED_MATRICES
    """Matrices of all pairs of centres that are that many bytes, where the last regression is solved from sums."""

    def stages(self, folds: FoldedRows) -> tuple[Stage, ...]:
        """The stages of the search among these rows."""
        if folds.n < sizes.FEW_ROWS:
            return (FEW_STAGE,)
        return self.effort.of_every_row if self.every_row(folds) else self.effort.stages

    def every_row(self, folds: FoldedRows) -> bool:
        """Whether all rows become centres: on a GPU that has the room, where nobody says how many centres.

        Not where sums are needed, which are not made then.
        """
        gpu = gpu_of(folds.parts[0].X) if isinstance(folds, DeviceFolds) else None
        if gpu is None or self.needs_sums or self.n_centres is not None or self.way != "products":
            return False
        if folds.n_to_fit > FULL_ROWS:
            return False
        return FULL_MATRICES * 8 * folds.n_to_fit**2 <= free_room(gpu)

    def centres_for(self, n_rows: int, *, by_sums: bool) -> int:
        """Centres of the finish for so many rows: no more than there is room for matrices of all pairs of."""
        if self.n_centres is not None:
            return min(self.n_centres, n_rows)
        matrices = self.matrices if by_sums else ITERATED_MATRICES
        return int(min(self.effort.n_centres(n_rows), max(2.0, (self.room / (8 * matrices)) ** 0.5)))
