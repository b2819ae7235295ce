"""What learners of many kernels share: from checked rows and targets to kernels that count."""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array
from bochner.checkpoint import NoCheckpoint
from bochner.engines.dask_rows import DaskRows
from bochner.engines.devices import on_device
from bochner.errors import InputError
from bochner.estimators.blocks import (
    FirstPass,
    check_columns,
    count_rows,
    cut_source,
    first_pass,
    kept_rows,
    passes_over,
    refuse_many_rows,
    sample_size,
    source_cut,
    weights_of,
)
from bochner.estimators.dictionary import KEPT_FEATURES
from bochner.estimators.folds import (
    about_validation_set,
    cut_rows,
    hold_out,
    is_splitter,
    is_validation_set,
    split_rows,
)
from bochner.estimators.machine import FEWEST_SAMPLED
from bochner.estimators.multiple_choices import weight_choices
from bochner.estimators.multiple_joint import Joining
from bochner.estimators.multiple_parts import KernelParts
from bochner.estimators.multiple_rounds import Round, Rounds, refuse_beyond_memory
from bochner.estimators.parts import ColumnsOfBlocks
from bochner.estimators.predicted import predicted
from bochner.estimators.resuming import generator, resuming
from bochner.estimators.validation import check_weights, on_host, relative_weights
from bochner.estimators.views import by_name, is_views, resolve_columns
from bochner.fold_problems import row_bytes
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.kernels import Kernel
from bochner.memory import as_bytes
from bochner.multiple_kernel import SCORE_SHARE, LearnedWeights, matrix_bytes
from bochner.progress import PassLine, note
from bochner.rows import Block, RowSource
from bochner.rows.source import Sampler
from bochner.standardise import Standardiser
from bochner.weight_search import Trial

WORTH_MORE = 1.5
"""Weights are learned again where the kernels that are in can have this many times the features."""


class MultipleKernelMachine(KernelParts):
    """A linear model on the stacked features of many kernels, of which group lasso chooses some."""

    # -- rows in memory -----------------------------------------------------------------------------------------------

    def _learn(self, parts: list[Array], y: Any, targets: Array, weights: Array) -> LearnedWeights:
        """Learn from the rows (n, m_t) of each kernel, targets (n, c) made from y, and weights (n,)."""
        y = on_host(y)
        with resuming(self, X=parts, y=targets, sample_weight=weights) as kept:
            return self._learn_parts(parts, y, targets, weights, kept)

    def _learn_parts(self, parts: list[Array], y: Any, targets: Array, weights: Array, kept: NoCheckpoint) -> LearnedWeights:
        """The same with what is known of this fit: the source of chance."""
        rng = generator(self.random_state, kept)
        used = weights > 0
        parts = [part if used.all() else part[used] for part in parts]
        self._n_rows = parts[0].shape[0]
        weights, unit = relative_weights(weights[used])
        self._standardisers = [
            Standardiser.identity(part.shape[1]) if self._as_they_are(kernel) else Standardiser.of(part, weights)
            for part, kernel in zip(parts, self._views.kernels, strict=True)
        ]
        self._target_standardiser = self._standardise_targets(targets[used], weights)
        kernels = self._scaled(parts, y, used, weights, rng)
        targets = self._target_standardiser(targets[used])
        return self._learn_folds(self._folds(parts, targets, weights, rng, y, used, unit), kernels, rng, kept)

    def _folds(
        self, parts: list[Array], targets: Array, weights: Array, rng: np.random.Generator, y: Any, used: Array, unit: float
    ) -> Folds:
        """Stacked rows in the parts that ``validation`` asks for; ``unit`` is that of their weights.

        Their numbers are cut first, so that rows are copied once.
        """
        if is_validation_set(self.validation) or _is_set_of_views(self.validation):
            rows = Rows(self._stacked(parts), targets, weights)
            return hold_out(rows, rng, self._validation_rows(unit, *self.validation))
        numbers = Rows(np.arange(len(weights))[:, None], targets, weights)
        if is_splitter(self.validation):
            cut = split_rows(numbers, rng, self.validation, np.zeros(len(used)), y, used)
        else:
            cut = cut_rows(numbers, rng, "auto", self.validation)
        return replace(cut, parts=tuple(replace(some, X=self._stacked(parts, some.X[:, 0])) for some in cut.parts))

    def _validation_rows(self, unit: float, X: Any, y: Any, sample_weight: Any = None) -> Rows:
        """The user's own validation rows, standardised like those of fit; their weights are divided by ``unit``."""
        with about_validation_set():
            parts = [on_host(part) for part in self._views.take(self, X)]
            weights = check_weights(sample_weight, parts[0])
            targets, factors = self._targets_of(parts[0], y)
        return Rows(self._stacked(parts), self._target_standardiser(targets), weights * factors / unit)

    # -- rows in blocks -----------------------------------------------------------------------------------------------

    def _learn_source(self, source: RowSource | DaskRows, sums: Any) -> LearnedWeights:
        """The same from rows in blocks: scales come from a sample, and every set of features takes a pass over all rows.

        ``sums`` takes down their targets in a first pass, with ``see(block)``.
        """
        self._check_choices()
        check_columns(self, source, reset=True)
        count_rows(source, sums, self.verbose)
        with resuming(self, X=source) as kept:
            return self._learn_blocks(source, sums, kept)

    def _learn_blocks(self, source: RowSource | DaskRows, sums: Any, kept: NoCheckpoint) -> LearnedWeights:
        """The same with what is known of this fit: sums of passes among it."""
        rng = generator(self.random_state, kept)
        self._n_rows, seed = source.n_rows, int(rng.integers(2**62))
        table = ColumnsOfBlocks(source)
        self._views, together = resolve_columns(table, self._named_kernels(table), drop=self._automatic)
        self._drop_factors()
        self.kernel_names_ = np.array(self._views.names, dtype=object)
        width = sum(part.width(source.n_columns) for part in self._views.parts)
        cut = source_cut("auto", self.validation, source.n_rows, source.n_rows, seed)
        limit = kept.constant("room", lambda: self._room_beside_matrices(source.n_rows, cut.n_parts))  # before a long pass
        room_for = sample_size if self._loss() is None else kept_rows
        size = room_for(source, FEWEST_SAMPLED, limit, width, few_do=not self._learns_scales)
        if size < source.n_rows:
            self._refuse_many_rows(source.n_rows, 1, 1, limit)
        sampler = Sampler(size, seed + 1)
        with closing(PassLine()) as line:
            passes = passes_over(source, limit, line if self.verbose else None, width, kept.passes)
            first = first_pass(passes, FirstPass(source, sampler, sums, together))
            kernels = self._prepare_source(first, np.random.default_rng(seed + 3))
            self._n_rows = first.n_used
            cut = source_cut("auto", self.validation, source.n_rows, first.n_used, seed)
            folds = cut_source(passes, first, cut, self)
            if folds.in_memory.n < folds.n:
                self._refuse_many_rows(folds.n, folds.n_targets, len(folds.validated), limit)
            return self._learn_folds(folds, kernels, rng, kept)

    def _refuse_many_rows(self, n_rows: int, n_outputs: int, n_validated: int, limit: float) -> None:
        """An error where a loss needs scores of more rows than there is room for beside blocks and a sample."""
        if self._loss() is not None:
            refuse_many_rows(row_bytes(n_rows, n_outputs, n_validated), SCORE_SHARE * limit, n_rows, self.loss)

    def _room_beside_matrices(self, n_rows: int, n_parts: int) -> float:
        """Bytes of which rows in blocks and their sample have half; an error where there is no room for the features."""
        pairs = zip(self._views.kernels, self._sizes, strict=True)  # or coordinates of rows, where these are few
        random = [0 if kernel.geometry == "additive" else min(size, n_rows) for kernel, size in pairs]
        refuse_beyond_memory(random, n_parts, self._views.names, self.max_memory)
        limit = as_bytes(self.max_memory)
        beside = limit - matrix_bytes(sum(random), n_parts)
        return min(limit, 2 * beside) if self._loss() is None else beside  # of which scores have the other half

    def _prepare_source(self, first: FirstPass, rng: np.random.Generator) -> list[Kernel]:
        """Standardisers and the unit of weights from a first pass over all rows; the kernels, scaled by its sample."""
        self._prepare_targets(first.targets)
        self._weight_unit = first.weight_unit * self._mean_class_weight(first.targets)
        whole = Standardiser.of_sums(first.columns, centred=not sparse.issparse(first.sample.X))
        self._standardisers = [
            Standardiser.identity(part.width(len(whole.spread)))
            if self._as_they_are(part.kernel)
            else whole.take(part.columns)
            for part in self._views.parts
        ]
        sample = Block(0, first.sample.X, first.sample.y, first.sample.weight)
        parts = [part.rows(sample.X) for part in self._views.parts]
        factors = self._targets_of(parts[0], sample.y)[1]
        weights, _ = relative_weights(weights_of(sample) * factors)
        return self._scaled(parts, sample.y, np.ones(sample.n_rows, dtype=bool), weights, rng)

    def _prepared(self, block: Block) -> Rows:
        """Standardised rows of a block, with targets and weights."""
        parts = [part.rows(block.X) for part in self._views.parts]
        targets, factors = self._targets_of(parts[0], block.y)
        weights = weights_of(block) * factors / self._weight_unit
        return Rows(self._stacked(parts), self._target_standardiser(targets), weights)

    # -- learning -----------------------------------------------------------------------------------------------------

    def _learn_folds(
        self, folds: FoldedRows, kernels: list[Kernel], rng: np.random.Generator, kept: NoCheckpoint
    ) -> LearnedWeights:
        """Learn from rows in parts with kernels that have their scales."""
        rounds = Rounds(
            folds=folds if self.device is None else on_device(folds, self.device),
            kernels=kernels,
            names=self._views.names,
            widths=[len(standardiser.spread) for standardiser in self._standardisers],
            choices=weight_choices(self, squared=self._loss() is None),
            loss=self._loss(),
            sampling=self.sampling,
            max_memory=self.max_memory,
            verbose=self.verbose,
            rng=rng,
            keeper=kept.passes,
        )
        if self.verbose and kept.resumed:
            note(f"{type(self).__name__} {kept.resumed}")
        found = self._joined(self._weighed(rounds, kept), rounds)
        if self._refines:
            found = rounds.refine(found, WORTH_MORE)
        self.feature_map_ = found.feature_map
        self._keep(found.learned, kernels)
        kept.finish()
        return found.learned

    def _weighed(self, rounds: Rounds, kept: NoCheckpoint) -> Round:
        """All kernels with their features; once more, with more of them, those that count, unless somebody says how many."""
        sizes = np.array(self._sizes)
        known = kept.known("in")  # where a fit goes on that was in its second round
        if known is None:
            found = rounds.learn(sizes)
            if self.n_features is not None or not found.is_in.any():
                return found
            if self._features_of(int(found.is_in.sum()), KEPT_FEATURES) < WORTH_MORE * sizes[0]:
                return found
            known = kept.constant("in", found.is_in.tolist)
        else:
            rounds.skip(sizes)
        more = self._features_of(sum(known), KEPT_FEATURES)
        return rounds.learn(np.where(known, more, 0), turn=2)  # a better approximation of those that count

    def _joined(self, found: Round, rounds: Rounds) -> Round:
        """Ridge regression on one kernel of many columns, where that is asked for or better on held-out rows.

        Of those that are in, and, where a plain average is among the choices, of all.
        """
        asked = self.refit == "joint"
        tried = asked or (self.refit == "auto" and max(rounds.choices.l1_ratios) > 0)  # and no average is asked for
        if self._loss() is not None or not tried:
            return found
        joining = Joining(rounds, self._losses)
        if found.is_in.sum() > 1:
            if rounds.can_join(found.is_in):
                found = joining.of_chosen(found, asked=asked)
            elif asked:
                raise InputError(
                    "refit='joint' needs radial kernels of one family, such as 'gaussian' for all of them, and these are "
                    f"in: {', '.join(map(repr, self.kernel_names_[found.is_in].tolist()))}. Use refit='ridge' or 'weighted'."
                )
        return joining.of_all(found, self._sizes) if rounds.choices.averages else found

    def _losses(self, held_out: HeldOut) -> Array:
        """What each held-out row counts where two kinds of predictions are compared: (n,)."""
        return np.sum((held_out.predictions - held_out.rows.targets) ** 2, axis=1)

    def _keep(self, learned: LearnedWeights, kernels: list[Kernel]) -> None:
        """What was learned, as fitted attributes in the units of the data."""
        spread = self._target_standardiser.spread
        self.coef_ = learned.coef * spread
        self.intercept_ = self._target_standardiser.undo(learned.intercept)
        unit = spread if learned.norms.shape[1] == len(spread) else np.ones(1)
        self.kernel_weights_ = learned.norms * unit / np.sqrt(2)
        self.kernels_ = [
            kernel.replace(scale=np.asarray(kernel.scale) / standardiser.spread)
            for kernel, standardiser in zip(kernels, self._standardisers, strict=True)
        ]
        self.alpha_, self.l1_ratio_ = learned.chosen.alpha, learned.chosen.l1_ratio
        self.refit_, self.refit_alpha_ = learned.chosen.refit, learned.chosen.ridge
        self.duality_gap_ = learned.gap
        self.path_ = learned.path
        self.trials_ = [_record(trial) for trial in learned.trials]
        self.validation_error_ = learned.chosen.error
        self.explained_variance_ = learned.variance_shares
        self.n_iter_ = max(learned.n_iter, 1)
        self.converged_ = learned.converged
        self._cut_short = learned.cut_short

    def _warn_if_rough(self) -> None:
        """Warn where penalties or the solver did not come as far as they should; the last thing that a fit does."""
        if self._cut_short:
            warnings.warn(
                f"The held-out error still falls at alpha_={self.alpha_:.3g}, the least penalty that smallest="
                f"{self.smallest:g} allows: lower smallest, for instance to {self.smallest**2:.0e}.",
                UserWarning,
                stacklevel=4,
            )
        if not self.converged_:
            warnings.warn(
                f"The group lasso did not reach tol={self.tol:g} in max_iter={self.max_iter} rounds: its duality gap is "
                f"up to {np.max(self.duality_gap_):.3g}. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    # -- what regressors and classifiers say --------------------------------------------------------------------------

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        """Targets of zero mean and unit spread, unless they are classes."""
        return Standardiser.identity(targets.shape[1])

    def _targets_of(self, X: Array, y: Any) -> tuple[Array, Array]:
        """Targets (n, c) of y as in fit, and what multiplies the weights of rows (n,)."""
        raise NotImplementedError

    def _prepare_targets(self, sums: Any) -> None:
        """Take over what a first pass took down of the targets."""
        raise NotImplementedError

    def _mean_class_weight(self, sums: Any) -> float:
        """What multiplies the weights of rows, on average."""
        return 1.0

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _outputs(self, X: Any) -> Array:
        """Predictions (n, c) of new rows, in the units of the targets."""
        check_is_fitted(self)
        rows = self._stacked([on_host(part) for part in self._views.take(self, X)])
        return predicted(self.device, self.feature_map_, rows, self.coef_, self.intercept_)

    def kernel_weights_by_name(self) -> dict[str, Any]:
        """The weight of each kernel by its name, largest first: a number, or one for each target or class."""
        check_is_fitted(self)
        return by_name(self.kernel_names_, self.kernel_weights_)

    def explained_variance_by_name(self) -> dict[str, Any]:
        """The share of each kernel in the variance of the predictions by its name, largest first, like the weights."""
        check_is_fitted(self)
        return by_name(self.kernel_names_, self.explained_variance_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _is_set_of_views(validation: Any) -> bool:
    """Whether ``validation`` is a tuple (views, y) or (views, y, sample_weight)."""
    return isinstance(validation, tuple) and len(validation) in (2, 3) and is_views(validation[0])


def _record(trial: Trial) -> dict[str, Any]:
    """An entry of ``trials_``."""
    return {
        "alpha": trial.alpha,
        "l1_ratio": trial.l1_ratio,
        "refit": trial.refit,
        "refit_alpha": trial.ridge,
        "error": trial.error,
        "standard_error": trial.standard_error,
        "kernels_in": trial.n_in,
    }
