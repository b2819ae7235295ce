"""What ``KernelRegressor`` and ``KernelClassifier`` share: from checked rows and targets to a learned kernel."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array, double, dtype_of, gpu_of, is_foreign
from bochner.checkpoint import NoCheckpoint
from bochner.criteria import Criterion, Evaluation, HeldOutError
from bochner.engines import moments
from bochner.engines.dask_rows import DaskRows, dask_rows, is_dask
from bochner.engines.devices import check_device, on_device
from bochner.errors import InputError
from bochner.estimators.block_by_block import new_blocks
from bochner.estimators.blocks import (
    FirstPass,
    as_source,
    check_columns,
    count_rows,
    cut_source,
    first_pass,
    kept_rows,
    learned_in_blocks,
    passes_over,
    refuse_no_targets,
    sample_size,
    source_cut,
    travelling,
    weights_of,
)
from bochner.estimators.metrics import check_metric_choices, metric_plan
from bochner.estimators.predicted import predicted, refuse_device
from bochner.estimators.resuming import check_checkpoint, generator, resuming
from bochner.estimators.sized import FEWEST_FEATURES, MOST_FEATURES, SCHEDULES, SizedLearner
from bochner.estimators.validation import check_flags, check_option, check_rows, check_weights, on_host
from bochner.features import CentreMap, FeatureChoices
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.iterated_ridge import IteratedHeldOutError
from bochner.kernels import Kernel, MetricKernel
from bochner.leave_one_out import LeaveOneOutError
from bochner.memory import as_bytes
from bochner.metric_learning import Choice, Steps, Teacher, learn_metric_kernel, start_levels
from bochner.progress import PassLine, entering, note
from bochner.rows import Block, RowSource
from bochner.rows.source import Sampler
from bochner.single_kernel import LOWEST_IN_FLOAT32, LearnedKernel, learn_kernel
from bochner.solvers.normal_equations import CentredMoments
from bochner.spectra import with_spectrum
from bochner.standardise import Standardiser
from bochner.statistics import Moments

FEWEST_SAMPLED = 32_000
"""Rows in blocks of which all are read into memory where there are no more, and where memory allows."""
DEVIATION_CENTRES = 1000
"""Centres that deviations are read off where the model has many more of them."""


class KernelMachine(SizedLearner):
    """A linear model on the features of a kernel whose parameters it learns by the gradient of held-out error.

    Subclasses have the parameters of a SizedLearner, and those below.
    """

    _encodes_tables = True
    metric: str
    rank: int | None
    metric_by: str
    spectrum: str
    finish: str
    n_centres: int | None
    effort: str
    sampling: str
    device: str | None
    checkpoint: Any
    random_state: Any

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _check_fit_rows(self, X: Any, sample_weight: Any) -> tuple[Array, Array]:
        self._learned_on = gpu_of(X) if self.device is None and not self._computed_on_host else self.device
        return super()._check_fit_rows(X, sample_weight)

    @property
    def _computed_on_host(self) -> bool:
        """Whether the criterion is one that knows of no devices."""
        return self.criterion == "loo"

    def _learn(self, X: Array, y: Any, targets: Array, weights: Array) -> LearnedKernel:
        """Learn kernel, penalty and coefficients from rows (n, m), targets (n, c) made from y, and weights (n,)."""
        self._check_choices()
        before = self._earlier_kernel()
        with resuming(self, before, X=X, y=targets, sample_weight=weights) as kept:
            rng = generator(self.random_state, kept)
            rows = self._prepare(X, targets, weights)
            folds = self._folds(rows, rng, X, on_host(y), weights > 0)
            return self._learn_folds(folds, rows, rng, before, kept)

    def _learn_source(self, source: RowSource | DaskRows, sums: Any) -> LearnedKernel:
        """The same from rows in blocks: kernels are tried on a sample, and the regression is fitted to all rows.

        ``sums`` takes down their targets in a first pass, with ``see(block)``, and can be saved on the way.
        """
        self._check_choices()
        self._learned_on = self.device
        before = self._earlier_kernel()
        check_columns(self, source, reset=True)
        count_rows(source, sums, self.verbose)
        with resuming(self, before, X=source) as kept, closing(PassLine()) as line:
            rng = generator(self.random_state, kept)
            folds = self._sampled(source, sums, rng, line if self.verbose else None, kept)
            return self._learn_folds(folds, Rows.stack(list(folds.in_memory.parts)), rng, before, kept)

    def _sampled(
        self, source: RowSource | DaskRows, sums: Any, rng: np.random.Generator, watch: Any, kept: NoCheckpoint
    ) -> FoldedRows:
        """Rows in blocks in their parts, after a first pass over them; in memory where all of them are in the sample."""
        n_rows, seed = source.n_rows, int(rng.integers(2**62))
        n_parts = source_cut(self.criterion, self.validation, n_rows, n_rows, seed).n_parts
        levels = self._levels(n_rows, source.n_columns)
        size = levels[-1].n_features, n_rows, n_parts
        self._check_memory(*size)  # before a pass that may take long
        limit = kept.constant("max_memory", lambda: as_bytes(self.max_memory))
        beside = limit - self._matrix_bytes(*size)
        limit = beside if self._makes_many_passes else min(limit, 2 * beside)  # of which rows and their sample have half
        wanted = max([level.n_rows for level in levels if level.n_rows < n_rows], default=0)
        passes = passes_over(source, limit, watch, keeper=kept.passes)
        n_sampled = (kept_rows if self._makes_many_passes else sample_size)(source, max(wanted, FEWEST_SAMPLED), limit)
        if n_sampled < n_rows:
            self._refuse_many_rows(n_rows, 1, 1, limit)
        first = first_pass(passes, FirstPass(source, Sampler(n_sampled, seed + 1), sums, self._strictest()))
        self._prepare_source(first, sparse.issparse(first.sample.X))
        cut = source_cut(self.criterion, self.validation, n_rows, first.n_used, seed)
        folds = cut_source(passes, first, cut, self)
        if folds.in_memory.n < folds.n:
            self._refuse_many_rows(folds.n, folds.n_targets, len(folds.validated), limit)
        return folds

    @property
    def _makes_many_passes(self) -> bool:
        """Whether coefficients take many passes over all rows, instead of one."""
        return False

    def _refuse_many_rows(self, n_rows: int, n_outputs: int, n_validated: int, limit: float) -> None:
        """An error where numbers of all rows must be in memory, and half of ``limit`` has no room for them."""

    def _prepare_targets(self, sums: Any) -> None:
        """Take over what a first pass took down of the targets."""
        raise NotImplementedError

    def _prepare_source(self, first: FirstPass, are_sparse: bool) -> None:
        """Standardisers of rows and targets, and the unit of weights, from the first pass over all rows."""
        self._prepare_targets(first.targets)
        self._weight_unit = first.weight_unit
        self.standardiser_ = (
            Standardiser.identity(len(first.columns.mean))
            if self._as_they_are
            else Standardiser.of_sums(first.columns, centred=not are_sparse)
        )

    def _prepared(self, block: Block) -> Rows:
        """Standardised rows of a block, with targets and weights."""
        targets = self._target_standardiser(self._targets_of(block.X, block.y))
        weights = weights_of(block) * self._weights_of(block.X, block.y) / self._weight_unit
        return Rows(self._standardised(block.X), targets, weights)

    def _learn_folds(
        self, folds: FoldedRows, rows: Rows, rng: np.random.Generator, before: Kernel | None, kept: NoCheckpoint
    ) -> LearnedKernel:
        """Learn from rows in parts; ``rows`` are those in memory, and ``kept`` is what is known of this fit already."""
        self._n_rows = folds.n_to_fit
        folds = folds if self._learned_on is None else on_device(folds, self._learned_on)
        plan = self._plan(folds.n, folds.n_columns, before)
        if folds.in_memory.n < folds.n and self.schedule != "full":  # kernels are tried on the sample alone
            sampled = tuple(replace(level, n_rows=min(level.n_rows, folds.in_memory.n)) for level in plan.levels)
            plan = replace(plan, levels=sampled)
        self._check_memory(plan.levels[-1].n_features, folds.n, folds.n_parts)
        if self.verbose and kept.resumed:
            note(f"{type(self).__name__} {kept.resumed}")
        criterion = kept.logged(self._criterion()) if self._has_log else self._criterion()
        choices = FeatureChoices(n_features=self.n_features, sampling=self.sampling)
        chosen = self._choose(folds, rng, criterion, choices, before)
        self.selection_, learned = chosen.ladder, chosen.learned
        if learned is None:
            steps = chosen.steps
            n_before, began = (0, None) if steps is None else (steps.n_steps - 1, steps.began)
            with self._watching(plan, n_before, began) as callback:
                learned = learn_kernel(
                    folds,
                    replace(plan, callback=callback),
                    rng,
                    criterion=criterion,
                    squared=kept.logged(HeldOutError),
                    choices=choices,
                    other_ties=self._other_ties(folds, plan),
                )
        learned = self._with_spectrum(replace(learned, evaluation=kept.evaluation(learned.evaluation)), folds)
        self.finish_ = "centres" if isinstance(learned.feature_map, CentreMap) else "fourier"
        self.feature_map_ = learned.feature_map
        self._keep_kernel(learned.feature_map.kernel)
        self._keep_descent(learned.descent)
        if chosen.learned is not None:  # of which the descent was but a start
            self.n_scales_ = self._count_scales(learned.feature_map.kernel, folds.n_columns)
            self.converged_ = not learned.descent.interrupted
        self.converged_ = self.converged_ and learned.fit.converged
        self._keep(learned, folds)
        self._keep_relevance(rows, rng)
        if isinstance(self.feature_map_, CentreMap):  # without its factor, which predictions do without
            self.feature_map_ = CentreMap(self.feature_map_.kernel, self.feature_map_.centres)
        if not learned.descent.interrupted:  # by Ctrl-C, after which a fit goes on
            kept.finish()
        return learned

    def _count_scales(self, kernel: Kernel, n_columns: int) -> int:
        """How many scales a kernel of standardised rows has: one where they are all equal."""
        alike = not isinstance(kernel, MetricKernel) and np.ptp(kernel.scales(n_columns)) == 0
        return 1 if alike else n_columns

    def _with_spectrum(self, learned: LearnedKernel, folds: FoldedRows) -> LearnedKernel:
        """The same with learned frequencies, where they are asked for, and better on unseen rows."""
        self.spectrum_: list[dict[str, Any]] = []
        feature_map = learned.feature_map
        if self.spectrum == "prior" or isinstance(feature_map, CentreMap) or learned.descent.interrupted:
            return learned
        learned, self.spectrum_ = with_spectrum(
            learned, folds, self.spectrum, criterion=self._criterion(), place=self._placed
        )
        return learned

    def _placed(self, folds: Folds) -> FoldedRows:
        """Rows in memory where they are learned from."""
        return folds if self._learned_on is None else on_device(folds, self._learned_on)

    def _choose(
        self,
        folds: FoldedRows,
        rng: np.random.Generator,
        criterion: Any,
        choices: FeatureChoices,
        before: Kernel | None,
    ) -> Choice:
        """Metric and finish, and the kernel learned with them; none where scales alone are learned, on random features."""
        metric = metric_plan(self, folds)
        if metric is None:
            return Choice([], None)
        plan = replace(
            self._plan(folds.in_memory.n, folds.n_columns, None),
            levels=start_levels(folds.in_memory.n, folds.n_columns, briefly=metric.every_row(folds)),
            n_starts=1,
        )
        budget = metric.room if np.isfinite(metric.room) else None
        with self._watching_steps() as callback:
            teacher = Teacher(
                plan=replace(plan, callback=callback),
                metric=metric,
                rng=rng,
                criterion=criterion,
                choices=choices,
                place=self._placed,
                iterated=None if self._needs_sums else partial(IteratedHeldOutError, budget=budget),
                units=self.standardiser_.spread,
                origin=-self.standardiser_.centre / self.standardiser_.spread,
                measure=self._measure,
                steps=Steps(entering(callback)),
                earlier=None if before is None else self._resumed(before, folds.n_columns),
            )
            return learn_metric_kernel(folds, teacher)

    _measure: Callable[[HeldOut], float] | None = None
    """What metrics and finishes are compared by, where that is not the squared error."""
    _needs_sums = False
    """Whether the sums over all rows must be kept, since more rows are to come."""

    @contextmanager
    def _keeping_sums(self) -> Iterator[None]:
        """A fit within it keeps them."""
        self._needs_sums = True
        try:
            yield
        finally:
            del self._needs_sums

    @property
    def loss_name(self) -> str:
        """The loss that is fitted."""
        return "squared"

    @property
    def _has_log(self) -> bool:
        """Whether the criterion remembers nothing from one evaluation to the next, so that a log can stand for it."""
        return True

    def _criterion(self) -> Callable[[Any], Criterion]:
        """What makes the held-out error from folds."""
        per_target = self.alpha == "per-target"
        fixed = float(self.alpha) if isinstance(self.alpha, numbers.Real) else None
        if self.criterion == "loo":
            if per_target:
                raise InputError("alpha='per-target' needs criterion='kfold' or 'holdout', not 'loo': give one of these.")
            return partial(LeaveOneOutError, penalty=fixed)
        return partial(HeldOutError, penalty=fixed, per_target=per_target)

    def _keep(self, learned: LearnedKernel, folds: FoldedRows) -> None:
        """The regression as fitted attributes, in the units of the data."""
        self._keep_coefficients(learned.fit.coef, learned.fit.intercept, at_centres=learned.fit.at_centres)
        self.alpha_ = learned.alpha if np.ndim(learned.alpha) == 0 else np.asarray(learned.alpha)
        self.validation_error_ = learned.value
        self.moments_ = None
        if self.keep_moments and isinstance(learned.evaluation, Evaluation):
            rows = Rows.stack(folds.in_memory.to_fit) if learned.evaluation.basis is not None else None
            self.moments_ = (
                learned.evaluation.totals
                if rows is None
                else moments(self.feature_map_, self._exact_enough(rows.X), rows.targets, rows.weights)
            )
        self._keep_deviations(folds)

    def _keep_deviations(self, folds: FoldedRows) -> None:
        """The map and the sums of some centres, where the model has so many that there are no sums of them."""
        self._few_centres = None
        if self.keep_moments and self.moments_ is None and isinstance(self.feature_map_, CentreMap):
            few = CentreMap(self.feature_map_.kernel, self.feature_map_.centres[:DEVIATION_CENTRES])
            rows = folds.rows_to_fit if isinstance(folds, Folds) else Rows.stack(folds.in_memory.to_fit)
            self._few_centres = few, moments(few, rows.X, rows.targets, rows.weights).on_host()

    def _keep_coefficients(self, coef: Array, intercept: Array, *, at_centres: bool = False) -> None:
        self.coef_ = coef * self._target_standardiser.spread
        self.intercept_ = self._target_standardiser.undo(intercept)
        self._at_centres = self.coef_ if at_centres else None
        if isinstance(self.feature_map_, CentreMap) and not at_centres:
            self._at_centres = self.feature_map_.dual(self.coef_)

    def _grow(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Add rows to the normal equations of a fitted model and solve them again; kernel and penalty stay."""
        if self.moments_ is None:
            advice = "fit with keep_moments=True, and save a model that is to keep them with compact=False"
            if self.keep_moments and isinstance(self.feature_map_, CentreMap):
                n = self.feature_map_.n_features
                advice = f"they are not made of {n} centres; begin with partial_fit, or fit with n_features=2000"
            raise InputError(f"partial_fit needs the sums over earlier rows: {advice}.")
        if is_dask(X):
            source = dask_rows(X, y, sample_weight)
            check_columns(self, source, reset=False)
            self.moments_ = self.moments_ + source.map_reduce(travelling(self)._moments_of, operator.add)
        else:
            with closing(self._further_rows(X, y, sample_weight)) as further:
                for rows in further:
                    self.moments_ = self.moments_ + self._moments(rows)
        self._keep_coefficients(*CentredMoments(self.moments_).coefficients(self.alpha_))

    def _moments_of(self, block: Block) -> Moments:
        """Moments of the rows of a block like those of the fit."""
        refuse_no_targets(block)
        return self._moments(self._prepared(replace(block, X=self._check_new_rows(block))))

    def _moments(self, rows: Rows) -> Moments:
        return moments(self.feature_map_, self._exact_enough(rows.X), rows.targets, rows.weights)

    def _further_rows(self, X: Any, y: Any, sample_weight: Any) -> Generator[Rows, None, None]:
        """Checked and standardised rows like those of the fit, in one piece or in blocks."""
        if not learned_in_blocks(X, self.max_memory):
            X = self._check_new_rows(X)
            yield self._prepared(Block(0, X, y, check_weights(sample_weight, X)))
            return
        with closing(new_blocks(self, as_source(X, y, sample_weight))) as blocks:
            for block in blocks:
                refuse_no_targets(block)
                yield self._prepared(replace(block, X=self._check_new_rows(block)))

    def _exact_enough(self, rows: Array) -> Array:
        """Rows in float64 where the fitted penalty is one that sums of float32 products cannot carry."""
        return rows.astype(np.float64, copy=False) if np.min(self.alpha_) < LOWEST_IN_FLOAT32 else rows

    def _families(self) -> tuple[Kernel, ...]:
        families = super()._families()
        if self._automatic and self.sampling == "orthogonal":  # which exists for radial laws only
            return tuple(family for family in families if family.geometry == "radial")
        return families

    def _check_choices(self) -> None:
        super()._check_choices()
        check_flags(self, "keep_moments")
        if self.device is not None:
            check_device(self.device)
        if self.criterion == "loo":
            refuse_device(self, "criterion='loo'", "criterion='kfold'")
        as_bytes(self.max_memory)  # which refuses what is no size
        self._warn_of_few_features()
        check_checkpoint(self.checkpoint)
        check_option("schedule", self.schedule, SCHEDULES)
        check_metric_choices(self)
        n = self.n_features
        whole = isinstance(n, numbers.Integral) and not isinstance(n, bool) and n > 0
        if n is not None and not (whole and (n % 2 == 0 or self._families()[0].geometry == "additive")):
            raise InputError(
                f"n_features must be an even whole number, or None (four for each row, at least {FEWEST_FEATURES} and at "
                f"most {MOST_FEATURES}), got {n!r}: features come as pairs of cosine and sine."
            )

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _outputs(self, X: Array) -> Array:
        """Predictions (n, c) for checked rows, in the units of the targets; in float64, also where features are float32."""
        return self._predicted(self._standardised(X), self.coef_, self._at_centres, self.intercept_)

    def _outputs_of(self, rows: Array) -> Array:
        spread = self._target_standardiser.spread
        at_centres = None if self._at_centres is None else self._at_centres / spread
        return self._predicted(rows, self.coef_ / spread, at_centres, np.zeros(len(spread)))

    def _predicted(self, rows: Array, coef: Array, at_centres: Array | None, intercept: Array) -> Array:
        """Predictions of standardised rows: from features, or in float64 from the kernel at the centres."""
        if at_centres is not None and isinstance(self.feature_map_, CentreMap):
            return predicted(self.device, self.feature_map_.kernels, double(rows), at_centres, intercept)
        return predicted(self.device, self.feature_map_, rows, coef, intercept)

    def _check_seen_rows(self, X: Any) -> Array:
        """New rows to predict: on the host, or on their GPU."""
        if gpu_of(X) is None:
            return self._check_new_rows(X)
        check_is_fitted(self)
        return check_rows(self, X, kernel=self.kernel_, reset=False)

    def _standardised(self, X: Array) -> Array:
        if not is_foreign(X):
            return super()._standardised(X)
        return self.standardiser_(X if dtype_of(X) == np.float32 else double(X))
