"""What learners of many kernels share: from checked rows and targets to kernels that count."""

from __future__ import annotations

import numbers
import reprlib
import warnings
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array, dense
from bochner.engines import predict
from bochner.engines.dask_rows import DaskRows, is_dask
from bochner.engines.devices import check_device, on_device, predict_on
from bochner.estimators.blocks import (
    IN_BLOCKS,
    FirstPass,
    check_columns,
    cut_source,
    first_pass,
    hash_cut,
    learned_in_blocks,
    on_disk,
    passes_over,
    sample_size,
    weights_of,
)
from bochner.estimators.dictionary import (
    KEPT_FEATURES,
    MOST_FEATURES,
    SEARCH_FEATURES,
    default_features,
    joint_features,
    kernel_dictionary,
)
from bochner.estimators.folds import cut_rows, hold_out, is_splitter, is_validation_set, split_rows
from bochner.estimators.machine import FEWEST_SAMPLED, KernelMachine, refuse_device
from bochner.estimators.validation import (
    as_generator,
    check_flags,
    check_option,
    check_verbose,
    check_weights,
    on_host,
    relative_weights,
)
from bochner.estimators.views import ColumnsOfBlocks, by_name, is_views, resolve, resolve_columns
from bochner.features import FeatureChoices, StackedMap, build_map
from bochner.fold_problems import column_counts
from bochner.folds import FoldedRows, Folds, HeldOut, Rows
from bochner.kernels import KERNELS, Kernel, get_kernel
from bochner.kernels.bandwidth import median_scale
from bochner.losses import Loss
from bochner.memory import as_bytes, readable
from bochner.multiple_kernel import (
    LearnedWeights,
    Refit,
    WeightChoices,
    learn_weights,
    matrix_bytes,
    n_paths,
    refit_jointly,
)
from bochner.progress import PassLine, PathLine
from bochner.rows import Block, RowSource
from bochner.rows.source import Sampler
from bochner.standardise import Standardiser

WORTH_MORE = 1.5
"""Weights are learned again where the kernels that are in can have this many times the features."""
SAMPLE_ROWS = 256
AUTO_RATIOS = (1.0, 0.0)
SCALES = ("median", "given", "learned", "learned-per-column")


class MultipleKernelMachine(BaseEstimator):
    """A linear model on the stacked features of many kernels, of which group lasso chooses some."""

    kernels: Any
    loss: str
    n_features: int | None
    scale: str
    alpha: float | None
    l1_ratio: Any
    penalty_weights: Any
    shared_weights: bool
    n_alphas: int
    smallest: float
    selection: str
    refit: Any
    validation: Any
    standardize: bool
    sampling: str
    tol: float
    max_iter: int
    max_memory: Any
    device: str | None
    verbose: int
    random_state: Any
    _learner: type[KernelMachine]
    """What learns the scales of one kernel."""

    # -- fitting ------------------------------------------------------------------------------------------------------

    def _learn(self, parts: list[Array], y: Any, targets: Array, weights: Array) -> LearnedWeights:
        """Learn from the rows (n, m_t) of each kernel, targets (n, c) made from y, and weights (n,)."""
        rng, y = as_generator(self.random_state), on_host(y)
        used = weights > 0
        parts = [part if used.all() else part[used] for part in parts]
        self._n_rows = parts[0].shape[0]
        weights, unit = relative_weights(weights[used])
        self._standardisers = [self._standardiser(part, kernel, weights) for part, kernel in self._with_kernels(parts)]
        self._target_standardiser = self._standardise_targets(targets[used], weights)
        stacked = self._stacked(parts)
        kernels = self._scaled(parts, y, used, weights, rng)
        rows = Rows(stacked, self._target_standardiser(targets[used]), weights)
        return self._learn_folds(self._folds(rows, rng, y, used, unit), kernels, rng)

    def _learn_source(self, source: RowSource | DaskRows, sums: Any) -> LearnedWeights:
        """The same from rows in blocks: scales come from a sample, and every set of features takes a pass over all rows.

        ``sums`` takes down their targets in a first pass, with ``see(block)``.
        """
        self._check_choices()
        if self._loss() is not None:
            raise ValueError(f"loss={self.loss!r} needs all rows in memory, and {IN_BLOCKS}: use loss='squared'.")
        rng = as_generator(self.random_state)
        check_columns(self, source, reset=True)
        self._n_rows, seed = source.n_rows, int(rng.integers(2**62))
        table = ColumnsOfBlocks(source)
        kernels = self._named_kernels(table)
        self._views, together = resolve_columns(table, kernels)
        self.kernel_names_ = np.array(self._views.names, dtype=object)
        width = sum(self._width(part, source) for part in self._views.parts)
        cut = hash_cut("auto", self.validation, source.n_rows, seed)
        each = min(self._features_each, source.n_rows)  # or coordinates of rows, where these are few
        random = [0 if kernel.geometry == "additive" else each for kernel in self._views.kernels]
        self._check_memory(random, cut.n_parts)  # before a pass that may take long
        limit = as_bytes(self.max_memory)
        limit = min(limit, 2 * (limit - matrix_bytes(sum(random), cut.n_parts)))  # of which rows and their sample have half
        sampler = Sampler(sample_size(source, FEWEST_SAMPLED, limit, width), seed + 1)
        with closing(PassLine()) as line:
            watch = line if self.verbose else None
            passes = passes_over(source, limit, watch, width)
            first = first_pass(passes, FirstPass(source, sampler, sums, together))
            kernels = self._prepare_source(first, np.random.default_rng(seed + 3))
            self._n_rows = first.n_used
            cut = hash_cut("auto", self.validation, first.n_used, seed)
            folds = cut_source(passes, first, cut, self)
            return self._learn_folds(folds, kernels, rng)

    def _prepare_source(self, first: FirstPass, rng: np.random.Generator) -> list[Kernel]:
        """Standardisers and the unit of weights from a first pass over all rows; the kernels, scaled by its sample."""
        self._prepare_targets(first.targets)
        self._weight_unit = first.weight_unit * self._mean_class_weight(first.targets)
        whole = Standardiser.of_sums(first.columns, centred=not sparse.issparse(first.sample.X))
        self._standardisers = []
        for part in self._views.parts:
            some = slice(None) if part.columns is None else list(part.columns)
            standardiser = Standardiser(whole.centre[some], whole.spread[some])
            as_they_are = self._as_they_are(part.kernel)
            self._standardisers.append(Standardiser.identity(len(standardiser.spread)) if as_they_are else standardiser)
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

    def _prepare_targets(self, sums: Any) -> None:
        """Take over what a first pass took down of the targets."""
        raise NotImplementedError

    def _mean_class_weight(self, sums: Any) -> float:
        """What multiplies the weights of rows, on average."""
        return 1.0

    @staticmethod
    def _width(part: Any, source: RowSource | DaskRows) -> int:
        return source.n_columns if part.columns is None else len(part.columns)

    def _learn_folds(self, folds: FoldedRows, kernels: list[Kernel], rng: np.random.Generator) -> LearnedWeights:
        """Learn from rows in parts with kernels that have their scales."""
        folds = folds if self.device is None else on_device(folds, self.device)
        choices = self._choices(len(kernels))
        learned = self._learn_weights(folds, choices, kernels, np.full(len(kernels), self._features_each), rng)
        is_in = np.any(learned.norms > 0, axis=1)
        more = self._features_of(int(is_in.sum()), KEPT_FEATURES)
        if is_in.any() and more >= WORTH_MORE * self._features_each:  # a better approximation of those that count
            learned = self._learn_weights(folds, choices, kernels, np.where(is_in, more, 0), rng, turn=2)
        learned = self._joined(learned, folds, choices, kernels, rng)
        self._keep(learned, kernels)
        return learned

    def _learn_weights(
        self,
        folds: FoldedRows,
        choices: WeightChoices,
        kernels: list[Kernel],
        sizes: Array,
        rng: np.random.Generator,
        turn: int = 1,
    ) -> LearnedWeights:
        """The weights of kernels, each with so many features (r,), from rows in folds; for the first time, or once more.

        Kernels without features are out.
        """
        has_some = sizes > 0
        self.feature_map_ = self._build(kernels, sizes, rng)
        counts = np.zeros(len(kernels), dtype=int)
        counts[has_some] = column_counts(self.feature_map_, folds)
        self._check_memory(counts.tolist(), folds.n_parts)
        choices = replace(choices, weights=choices.weights[has_some])
        with closing(PathLine(n_paths(choices), turn)) if self.verbose else nullcontext() as callback:
            learned = learn_weights(
                folds, self.feature_map_, choices, loss=self._loss(), max_memory=as_bytes(self.max_memory), callback=callback
            )
        return learned.among(has_some)

    def _joined(
        self,
        learned: LearnedWeights,
        folds: FoldedRows,
        choices: WeightChoices,
        kernels: list[Kernel],
        rng: np.random.Generator,
    ) -> LearnedWeights:
        """Ridge regression on one kernel of all columns that are in, where that is asked for or better on held-out rows."""
        some = np.flatnonzero(np.any(learned.norms > 0, axis=1)).tolist()
        tried = self.refit == "joint" or (self.refit == "auto" and max(choices.l1_ratios) > 0)  # and no average is asked for
        if self._loss() is not None or not tried or len(some) < 2:
            return learned
        if any(kernels[t].geometry != "radial" or not _alike(kernels[t], kernels[some[0]]) for t in some):
            if self.refit == "joint":
                raise ValueError(
                    "refit='joint' needs radial kernels of one family, such as 'gaussian' for all of them, and these are "
                    f"in: {', '.join(map(repr, self.kernel_names_[some].tolist()))}. Use refit='ridge' or 'weighted'."
                )
            return learned
        scales = [kernels[t].scales(len(self._standardisers[t].spread)) for t in some]
        kernel = kernels[some[0]].replace(scale=np.concatenate(scales) / len(some) ** 0.5)  # squares of distances add up
        ends = np.cumsum([len(standardiser.spread) for standardiser in self._standardisers])
        columns = np.concatenate([np.arange(ends[t] - len(scale), ends[t]) for t, scale in zip(some, scales, strict=True)])
        sizes = zip(self.feature_map_.columns, self.feature_map_.sizes, strict=True)
        size = joint_features([size for where, size in sizes if where.stop in ends[some]], self._n_rows)
        one = build_map(kernel, len(columns), FeatureChoices(n_features=size, sampling=self.sampling), rng)
        joint_map = StackedMap((one,), (columns,))
        joint = refit_jointly(learned, folds, joint_map, choices)
        if self.refit == "auto" and not self._clearly_better(joint.held_out, learned.held_out):
            return replace(learned, trials=joint.trials)
        self.feature_map_ = joint_map
        return joint

    def _resolve(self, X: Any) -> list[Array]:
        """The rows of each kernel, checked; the kernels become fitted attributes."""
        self._check_choices()
        kernels = self._named_kernels(X)
        self._views, parts = resolve(self, X, kernels)
        self.kernel_names_ = np.array(self._views.names, dtype=object)
        return [on_host(part) for part in parts]

    def _named_kernels(self, X: Any) -> Any:
        """What ``kernels`` names, or the dictionary that "auto" stands for."""
        if not self._automatic:
            self._factors: list[float] = []
            return self.kernels
        kernels, self._factors = kernel_dictionary(X, learned=self._learns_scales)
        return kernels

    @property
    def _automatic(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "auto"

    @property
    def _is_dictionary(self) -> bool:
        """Whether there are many kernels of which few will count."""
        return self._automatic and not self._learns_scales

    @property
    def _learns_scales(self) -> bool:
        return self.scale.startswith("learned")

    @property
    def _features_each(self) -> int:
        """Random features of each kernel."""
        return self._features_of(len(self._views.parts), SEARCH_FEATURES)

    def _features_of(self, n_kernels: int, most: int) -> int:
        """Random features of each of so many kernels; ``most`` in all where they are of a dictionary."""
        if self.n_features is not None:
            return self.n_features
        return default_features(n_kernels, self._n_rows, most if self._is_dictionary else MOST_FEATURES)

    def _with_kernels(self, parts: list[Array]) -> zip[tuple[Array, Kernel]]:
        return zip(parts, self._views.kernels, strict=True)

    def _standardiser(self, part: Array, kernel: Kernel, weights: Array) -> Standardiser:
        return Standardiser.identity(part.shape[1]) if self._as_they_are(kernel) else Standardiser.of(part, weights)

    def _as_they_are(self, kernel: Kernel) -> bool:
        """Whether a kernel sees its columns without standardising them."""
        return not self.standardize or bool(np.isfinite(kernel.lower))

    def _stacked(self, parts: list[Array]) -> Array:
        """The standardised rows of all kernels side by side, in float64: small penalties need exact moments."""
        pairs = zip(self._standardisers, parts, strict=True)
        rows = [standardiser(part.astype(np.float64, copy=False)) for standardiser, part in pairs]
        if all(sparse.issparse(part) for part in rows):
            return sparse.hstack(rows, format="csr")
        return np.concatenate([dense(part) for part in rows], axis=1)

    def _scaled(self, parts: list[Array], y: Any, used: Array, weights: Array, rng: np.random.Generator) -> list[Kernel]:
        """The kernels of standardised rows, each with its scale."""
        factors = self._factors or [1.0] * len(parts)
        kernels = []
        for number, (part, given) in enumerate(zip(parts, self._views.parts, strict=True)):
            standardiser, kernel = self._standardisers[number], given.kernel
            if given.given or self.scale == "given":
                scale = factors[number] * kernel.scales(part.shape[1])
                kernels.append(kernel.replace(scale=scale * standardiser.spread))
            elif self._learns_scales:
                kernels.append(self._learned_kernel(kernel, Rows(part, np.asarray(y)[used], weights), standardiser, rng))
            elif kernel.has_bandwidth:
                sample = dense(standardiser(part[rng.permutation(part.shape[0])[:SAMPLE_ROWS]])).astype(np.float64)
                kernels.append(kernel.replace(scale=factors[number] * median_scale(kernel, sample)))
            else:
                kernels.append(kernel)
        return kernels

    def _learned_kernel(self, kernel: Kernel, rows: Rows, standardiser: Standardiser, rng: np.random.Generator) -> Kernel:
        """A kernel learned on its own columns, those of ``rows``, by single-kernel learning."""
        model = self._learner(
            "auto" if self._automatic else _name_of(kernel),
            n_features=None if kernel.geometry == "additive" else self._features_each,
            scale="shared" if self.scale == "learned" else "per-column",
            standardize=self.standardize,
            sampling="auto" if kernel.geometry == "additive" else self.sampling,
            device=self.device,
            random_state=int(rng.integers(2**31)),
        )
        learned = model.fit(rows.X, rows.targets, sample_weight=rows.weights).kernel_
        return learned.replace(scale=np.asarray(learned.scale) * standardiser.spread)

    def _build(self, kernels: list[Kernel], sizes: Array, rng: np.random.Generator) -> StackedMap:
        """Random features of every kernel, so many (r,), side by side; those of size zero are left out."""
        maps, columns, end = [], [], 0
        for kernel, standardiser, size in zip(kernels, self._standardisers, sizes.tolist(), strict=True):
            start, end = end, end + len(standardiser.spread)
            if size:
                random = kernel.geometry != "additive"
                choices = FeatureChoices(n_features=size, sampling=self.sampling) if random else FeatureChoices()
                maps.append(build_map(kernel, end - start, choices, rng))
                columns.append(slice(start, end))
        return StackedMap(tuple(maps), tuple(columns))

    def _folds(self, rows: Rows, rng: np.random.Generator, y: Any, used: Array, unit: float) -> Folds:
        """Rows in the parts that ``validation`` asks for; weights of a set of the user's own are divided by ``unit``."""
        if is_validation_set(self.validation) or _is_set_of_views(self.validation):
            held = self._validation_rows(*self.validation)
            held = replace(held, weights=held.weights / unit).in_form_of(rows)
            return hold_out(rows, rng, held.take(held.weights > 0))
        if is_splitter(self.validation):
            return split_rows(rows, rng, self.validation, np.zeros(len(used)), y, used)
        return cut_rows(rows, rng, "auto", self.validation)

    def _validation_rows(self, X: Any, y: Any, sample_weight: Any = None) -> Rows:
        """The user's own validation rows, standardised like those of fit."""
        try:
            parts = [on_host(part) for part in self._views.take(self, X)]
            weights = check_weights(sample_weight, parts[0])
            targets, factors = self._targets_of(parts[0], y)
        except ValueError as error:
            raise ValueError(f"The validation set is not like the rows of fit: {error}") from error
        return Rows(self._stacked(parts), self._target_standardiser(targets), weights * factors)

    def _targets_of(self, X: Array, y: Any) -> tuple[Array, Array]:
        """Targets (n, c) of y as in fit, and what multiplies the weights of rows (n,)."""
        raise NotImplementedError

    def _check_memory(self, counts: list[int], n_parts: int) -> None:
        """Refuse more features than matrices of all their pairs have room for, and say with which kernel it happens."""
        totals, there = np.cumsum(counts), as_bytes(self.max_memory)
        over = np.flatnonzero([matrix_bytes(int(total), n_parts) > there for total in totals])
        if len(over):
            most = int((there / matrix_bytes(1, n_parts)) ** 0.5) // len(totals) // 2 * 2
            advice = f"Use at most n_features={most} for each kernel" if most else "Not even two features of each fit: use"
            raise ValueError(
                f"The {totals[-1]} features of {len(totals)} kernels need about "
                f"{readable(matrix_bytes(int(totals[-1]), n_parts))} for matrices of all their pairs, and max_memory is "
                f"{readable(there)}: there is no room from kernel {self.kernel_names_[over[0]]!r} on. "
                f"{advice}{',' if most else ''} fewer kernels, fewer folds, or raise max_memory."
            )

    def _choices(self, n_kernels: int) -> WeightChoices:
        """What the search for weights is told."""
        weights = np.ones(n_kernels) if self.penalty_weights is None else self._penalty_weights(n_kernels)
        ratios = AUTO_RATIOS if isinstance(self.l1_ratio, str) else tuple(map(float, np.atleast_1d(self.l1_ratio)))
        if isinstance(self.l1_ratio, str) and self.alpha is not None:
            ratios = AUTO_RATIOS[:1]  # one number cannot be the penalty of both
        refits: tuple[Refit | None, ...] = (None, "ridge", "weighted") if self.refit == "auto" else (self.refit or None,)
        refits = (None,) if self.refit == "joint" else refits  # which comes afterwards
        return WeightChoices(
            weights=weights,
            shared=bool(self.shared_weights),
            alpha=None if self.alpha is None else float(self.alpha),
            l1_ratios=ratios,
            n_alphas=self.n_alphas,
            smallest=self.smallest,
            lowest=None if self._loss() is None else self.smallest,  # where each penalty takes many passes over the rows
            one_standard_error=self.selection == "one-standard-error",
            refits=refits if self._loss() is None else (None,),
            tol=self.tol,
            max_iter=self.max_iter,
        )

    def _penalty_weights(self, n_kernels: int) -> Array:
        """The penalty of each kernel, from a list in their order or a dict by name."""
        given = self.penalty_weights
        if isinstance(given, dict):
            unknown = sorted(set(given) - set(self.kernel_names_))
            if unknown:
                raise ValueError(
                    f"penalty_weights names the kernel {unknown[0]!r}, which is not one of {self.kernel_names_.tolist()}."
                )
            given = [given.get(name, 1.0) for name in self.kernel_names_]
        weights = np.asarray(given, dtype=np.float64)
        if weights.shape != (n_kernels,) or not (np.isfinite(weights).all() and np.all(weights > 0)):
            raise ValueError(
                f"penalty_weights must be a positive number for each of the {n_kernels} kernels, in their order or by name, "
                f"got {reprlib.repr(self.penalty_weights)}."
            )
        return weights

    def _loss(self) -> Loss | None:
        """The loss, or None for the squared one."""
        raise NotImplementedError

    def _clearly_better(self, one: HeldOut, two: HeldOut) -> bool:
        """Whether one kind of predictions of the same held-out rows is better than another by more than a standard error."""
        weights = one.rows.weights / one.rows.weights.sum()
        gain = self._losses(two) - self._losses(one)
        mean = float(weights @ gain)
        return mean > float(np.sum(weights**2 * (gain - mean) ** 2) ** 0.5)

    def _losses(self, held_out: HeldOut) -> Array:
        """What each held-out row counts where two kinds of predictions are compared: (n,)."""
        return np.sum((held_out.predictions - held_out.rows.targets) ** 2, axis=1)

    def _standardise_targets(self, targets: Array, weights: Array) -> Standardiser:
        """Targets of zero mean and unit spread, unless they are classes."""
        return Standardiser.identity(targets.shape[1])

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
        self.trials_ = [
            {
                "alpha": trial.alpha,
                "l1_ratio": trial.l1_ratio,
                "refit": trial.refit,
                "refit_alpha": trial.ridge,
                "error": trial.error,
                "standard_error": trial.standard_error,
                "kernels_in": trial.n_in,
            }
            for trial in learned.trials
        ]
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

    def _check_choices(self) -> None:
        check_option("scale", self.scale, SCALES)
        check_option("selection", self.selection, ("best", "one-standard-error"))
        check_flags(self, "standardize", "shared_weights")
        check_verbose(self.verbose)
        if self.refit not in ("auto", "ridge", "weighted", "joint", None, False):
            raise ValueError(f"refit must be 'auto', 'ridge', 'weighted', 'joint' or None, got {self.refit!r}.")
        if self.refit in ("ridge", "weighted", "joint") and self.loss != "squared":
            raise ValueError(
                f"refit={self.refit!r} needs loss='squared', and loss is {self.loss!r}: leave refit out, or use None."
            )
        as_bytes(self.max_memory)  # which refuses what is no size
        if self.device is not None:
            check_device(self.device)
        if self.loss != "squared":
            refuse_device(self, f"loss={self.loss!r}", "loss='squared'")
        limits = {"alpha": np.inf, "tol": np.inf, "smallest": 1.0}
        for name, high in limits.items():
            value = getattr(self, name)
            if value is None and name == "alpha":
                continue
            if not (isinstance(value, numbers.Real) and 0 < float(value) <= high and float(value) < np.inf):
                raise ValueError(f"{name} must be a positive number{' up to 1' if high == 1 else ''}, got {value!r}.")
        if not (self.l1_ratio == "auto" if isinstance(self.l1_ratio, str) else _are_shares(self.l1_ratio)):
            raise ValueError(f"l1_ratio must be 'auto', or one number or several from 0 to 1, got {self.l1_ratio!r}.")
        whole = isinstance(self.n_features, numbers.Integral) and not isinstance(self.n_features, bool)
        if self.n_features is not None and not (whole and self.n_features > 0 and self.n_features % 2 == 0):
            raise ValueError(
                f"n_features must be an even whole number, or None, got {self.n_features!r}: features come as pairs of "
                "cosine and sine."
            )
        for name in ("n_alphas", "max_iter"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Integral) and int(value) >= 1):
                raise ValueError(f"{name} must be a whole number, at least 1, got {value!r}.")

    # -- predicting ---------------------------------------------------------------------------------------------------

    def _outputs(self, X: Any) -> Array:
        """Predictions (n, c) of new rows, in the units of the targets."""
        check_is_fitted(self)
        rows = self._stacked([on_host(part) for part in self._views.take(self, X)])
        if self.device is None:
            return predict(self.feature_map_, rows, self.coef_, self.intercept_).astype(np.float64)
        return predict_on(self.device, self.feature_map_, rows, self.coef_, self.intercept_).astype(np.float64)

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


def comes_in_blocks(X: Any, max_memory: Any) -> bool:
    """Whether rows are a source or Dask's, or lie in a file that is mapped to memory and have no room in ``max_memory``."""
    return is_dask(X) or (on_disk(X) and learned_in_blocks(X, max_memory))


def _are_shares(given: Any) -> bool:
    """Whether this is a number from 0 to 1, or several."""
    values = list(given) if isinstance(given, list | tuple | np.ndarray) else [given]
    return bool(values) and all(isinstance(value, numbers.Real) and 0 <= float(value) <= 1 for value in values)


def _is_set_of_views(validation: Any) -> bool:
    """Whether ``validation`` is a tuple (views, y) or (views, y, sample_weight)."""
    return isinstance(validation, tuple) and len(validation) in (2, 3) and is_views(validation[0])


def _name_of(kernel: Kernel) -> str:
    """The name of a built-in kernel that came as a name."""
    return next(name for name in KERNELS if repr(get_kernel(name)) == repr(kernel))


def _alike(one: Kernel, two: Kernel) -> bool:
    """Whether two kernels differ in their scales alone."""
    return one.replace(scale=1.0) == two.replace(scale=1.0)
