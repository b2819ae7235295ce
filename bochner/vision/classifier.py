"""``SegmentClassifier``: how well a segment shows an object of each class, learned from its descriptors."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bochner.archives import read_made
from bochner.arrays import Array
from bochner.durable import replace_file
from bochner.errors import InputError
from bochner.estimators.multiple import MultipleKernelRegressor
from bochner.estimators.regressors import KernelRegressor
from bochner.features.stacked import consecutive
from bochner.kernels import get_kernel
from bochner.kernels.bandwidth import median_scale
from bochner.persistence import load
from bochner.rows import from_blocks
from bochner.vision.targets import GOOD, worth_of

LEARNERS = ("group-lasso", "single-kernel", "average")
HELD_OUT = 0.2
"""The part of the images on whose segments penalties and kernels are chosen."""
FEATURES, SINGLE_FEATURES = 500, 3000
"""Random features of the kernel of each descriptor, and of a single one."""
JOINT = {"all, wide": 0.7, "all, narrow": 1.4}
"""Kernels on all descriptors together, and how many times narrower they are than the product of those for each would be
with the mean of their exponents."""
BESIDE_JOINT, JOINT_FEATURES = 400, 900
"""Random features of the kernel of each descriptor where there are such, and of these, which need more."""
FORMAT = 3
"""Changes with what a saved classifier has."""
SAMPLED = 1000
"""Segments whose distances make the median."""
IN_BLOCKS, BLOCK_ROWS = 5e7, 2048
"""Numbers in all descriptors from which their roots are not all in memory at a time, and rows that are."""


@dataclass(frozen=True)
class ScoreLevels:
    """Where the expected worth for a class begins to show it, and how far it spreads: that of rare classes is low."""

    thresholds: Array
    """(c,)."""
    spreads: Array
    """(c,)."""

    @classmethod
    def of(cls, expected: Array, overlaps: Array) -> ScoreLevels:
        """From segments: as many are above the threshold of a class as overlap its objects by GOOD or more. (n, c) each."""
        shares = np.mean(overlaps >= GOOD, axis=0)
        thresholds = np.array([np.quantile(own, 1 - share) for own, share in zip(expected.T, shares, strict=True)])
        spreads = expected.std(axis=0)
        never = (shares == 0) | (spreads == 0)  # a class that no segment shows, or of which nothing was learned
        return cls(np.where(never, expected.max(axis=0) + 1, thresholds), np.where(never, 1.0, spreads))

    def scores(self, expected: Array) -> Array:
        """Scores (n, c) above zero where a class is shown."""
        return (expected - self.thresholds) / self.spreads


class SegmentClassifier(BaseEstimator):
    """Scores of classes for segments: ridge regression of what their overlap with the objects of every class is worth.

    It is worth nothing up to an overlap of 0.35, all from 0.65 on, and rises between them (:func:`.targets.worth_of`).

    Descriptors are histograms, which most kernels compare best by the roots of their bins. Choices are made on segments of
    images that are held out, since those of one image are alike.

    Parameters
    ----------
    learner : {"group-lasso", "single-kernel", "average"}, default="group-lasso"
        One kernel for each descriptor, of which group lasso keeps those that count (RFF-GL), with weights that are then
        learned on held-out images, and two on all of them together (see ``joint``); one kernel on all descriptors, with a
        learned scale for each of them (RFF-SKL); or the plain average of one kernel for each.
    kernel : str or Kernel, default="gaussian"
        The kernel of each descriptor: on roots of its bins, or on the bins where it is one of histograms, such as
        "skewed_chi2" or "exponentiated_chi2".
    scale : {"median", "learned"}, default="median"
        Its scale: from the median distance of segments, or learned for each descriptor, as it always is in one kernel on
        all descriptors.
    sharpness : float, default=1.5
        What multiplies scales that are from the median distance.
    joint : bool, default=True
        Whether group lasso has kernels on all descriptors together too, a wide and a narrow one, which see what descriptors
        show only together. Of kernels with scales that are from the median distance.
    own_weights : bool, default=False
        Whether each class has weights of its own for the descriptors, which takes about as many times longer.
    n_features : int, optional
        Random features of each kernel.
    max_memory : float, str or None, default="3GB"
        What matrices of all pairs of features, blocks of rows and a sample of them may take beside the descriptors, with a
        kernel for each; None: half of what is free.
    random_state : int, default=0
    verbose : int, default=0
        1 shows progress on the standard error stream.

    Attributes
    ----------
    model_ : MultipleKernelRegressor or KernelRegressor
    descriptors_, classes_ : tuple of str
    levels_ : ScoreLevels
        What makes scores of the expected worth.
    """

    def __init__(
        self,
        learner: str = "group-lasso",
        *,
        kernel: Any = "gaussian",
        scale: str = "median",
        sharpness: float = 1.5,
        joint: bool = True,
        own_weights: bool = False,
        n_features: int | None = None,
        max_memory: float | str | None = "3GB",
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.learner = learner
        self.kernel = kernel
        self.scale = scale
        self.sharpness = sharpness
        self.joint = joint
        self.own_weights = own_weights
        self.n_features = n_features
        self.max_memory = max_memory
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        descriptors: Mapping[str, Array],
        overlaps: Array,
        images: Array | None = None,
        classes: Sequence[str] | None = None,
    ) -> Self:
        """Learn from n segments: tables (n, q) under their names, overlaps (n, c), the number of their image (n,), names.

        Where tables are large, their roots are made block by block, as they are needed.
        """
        if self.learner not in LEARNERS:
            raise InputError(f"learner must be one of {', '.join(map(repr, LEARNERS))}, got {self.learner!r}.")
        overlaps = np.asarray(overlaps, dtype=np.float64)
        if overlaps.ndim != 2 or not overlaps.size:
            told = "overlaps must be (n, c), a row for each segment and a column for each class"
            raise InputError(f"{told}: got {overlaps.shape}.")
        n, n_classes = overlaps.shape
        self.n_columns_ = check_descriptors(descriptors, n)
        if images is not None and np.shape(images) != (n,):
            raise InputError(f"images must be the number of the image of each segment, ({n},): got {np.shape(images)}.")
        self.descriptors_ = tuple(descriptors)
        self.classes_ = tuple(f"class {k}" for k in range(1, n_classes + 1)) if classes is None else tuple(classes)
        if len(self.classes_) != n_classes:
            raise InputError(f"classes must be as many as columns of overlaps, {n_classes}: got {len(self.classes_)}.")
        worth, columns = worth_of(overlaps), consecutive(list(self.n_columns_.values()))
        validation = None if images is None else held_out_images(np.asarray(images), self.random_state)
        model = self._model(self._kernels(descriptors, columns), validation)
        if n * columns[-1].stop > IN_BLOCKS:
            blocks = partial(self._blocks, descriptors, worth)
            self.model_ = model.fit(from_blocks(blocks, n_rows=n))
        else:
            self.model_ = model.fit(self._rows(descriptors), worth)
        self.levels_ = ScoreLevels.of(self.expected_worth(descriptors), overlaps)
        return self

    def scores(self, descriptors: Mapping[str, Array]) -> Array:
        """Scores (n, c) of segments, which are comparable between classes: expected worth in units of its levels.

        A segment whose score of a class is above zero shows that class; so do as many of the rows of fit as are right.
        """
        expected = self.expected_worth(descriptors)
        return self.levels_.scores(expected)

    def expected_worth(self, descriptors: Mapping[str, Array]) -> Array:
        """What the overlaps of segments with the objects of each class are expected to be worth: (n, c)."""
        check_is_fitted(self, "model_")
        missing = [name for name in self.descriptors_ if name not in descriptors]
        if missing:
            raise InputError(
                f"The descriptor {missing[0]!r} is missing: got {', '.join(map(repr, descriptors)) or 'none'}; "
                "give those of fit."
            )
        used = {name: descriptors[name] for name in self.descriptors_}
        for name, n_columns in check_descriptors(used, len(used[self.descriptors_[0]])).items():
            if n_columns != self.n_columns_[name]:
                raise InputError(
                    f"The descriptor {name!r} has {n_columns} columns, and had {self.n_columns_[name]} in fit; "
                    "use the words and options of fit."
                )
        found = [np.asarray(self.model_.predict(rows)) for rows, _ in self._blocks(descriptors)]
        return np.concatenate(found).reshape(-1, len(self.classes_)) if found else np.zeros((0, len(self.classes_)))

    @property
    def threshold(self) -> float:
        """A segment whose score of a class is above this shows that class."""
        return 0.0

    def kernel_weights_by_name(self) -> dict[str, Any]:
        """The weight of each descriptor, of a learner with a kernel for each: (1,), or (c,) with ``own_weights``.

        Those of joint kernels stand beside them.
        """
        check_is_fitted(self)
        if self.learner == "single-kernel":
            raise AttributeError("learner='single-kernel' has one kernel: its scales are those of model_.scale_.")
        return dict(zip(self.model_.kernel_names_.tolist(), self.model_.kernel_weights_, strict=True))

    def save(self, path: str | Path) -> None:
        """Write the classifier to a file of NumPy arrays (npz), its model among them; training data are not in it."""
        check_is_fitted(self)
        kept = copy(self.model_)
        kept.validation = signature(type(kept)).parameters["validation"].default  # numbers of rows, which are not kept
        with tempfile.TemporaryDirectory() as folder:
            kept.save(Path(folder) / "model")
            model = (Path(folder) / "model").read_bytes()
        options = self.get_params(deep=False)
        if not isinstance(self.kernel, str):
            options["kernel"] = None  # its model has it
        about = {
            **{"format": FORMAT, "options": options, "n_columns": self.n_columns_},
            **{"descriptors": list(self.descriptors_), "classes": [str(name) for name in self.classes_]},
        }
        arrays: dict[str, Any] = {"about": np.array(json.dumps(about)), "model": np.frombuffer(model, dtype=np.uint8)}
        arrays |= vars(self.levels_)
        replace_file(Path(path), lambda file: np.savez(file, **arrays))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a classifier that :meth:`save` wrote. Nothing in the file is executed."""
        return read_made(path, "classifier of segments", cls._of_arrays)

    @classmethod
    def _of_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        about = json.loads(str(arrays["about"]))
        if about["format"] != FORMAT:
            raise InputError("it was saved by another version: train it again by bochner voc train")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "model").write_bytes(arrays["model"].astype(np.uint8).tobytes())
            model = load(Path(folder) / "model")
        if not isinstance(model, KernelRegressor | MultipleKernelRegressor):
            raise InputError(f"its model is a {type(model).__name__}, and regressors are expected")
        found = cls(**about["options"])
        if found.kernel is None:
            found.kernel = model.kernel if isinstance(model, KernelRegressor) else model.kernels_[0]
        found.model_, found.n_columns_ = model, {str(name): int(n) for name, n in about["n_columns"].items()}
        found.descriptors_, found.classes_ = tuple(map(str, about["descriptors"])), tuple(map(str, about["classes"]))
        levels = [np.asarray(arrays[name], dtype=np.float64) for name in ("thresholds", "spreads")]
        if any(level.shape != (len(found.classes_),) for level in levels) or tuple(found.n_columns_) != found.descriptors_:
            raise InputError("its parts do not fit together")
        found.levels_ = ScoreLevels(*levels)
        return found

    def _kernels(self, descriptors: Mapping[str, Array], columns: Sequence[slice]) -> list[tuple[str, Any, slice]]:
        """The kernel of each descriptor, and its columns; of a scale by the median distance of some segments."""
        some = np.random.default_rng(self.random_state).permutation(len(descriptors[self.descriptors_[0]]))[:SAMPLED]
        kernels: list[Any] = [get_kernel(self.kernel)] * len(columns)
        joined: list[tuple[str, Any, slice]] = []
        if self.scale == "median" and kernels[0].has_bandwidth:
            rows = self._rows(descriptors, np.sort(some)).astype(np.float64)
            scales = [self.sharpness * median_scale(kernels[0], rows[:, own]) for own in columns]
            kernels = [kernels[0].replace(scale=scale) for scale in scales]
            if self.joint and self.learner == "group-lasso" and len(columns) > 1:
                beside = np.repeat(scales, [own.stop - own.start for own in columns]) / len(columns) ** 0.5
                whole = slice(0, columns[-1].stop)
                joined = [(name, kernels[0].replace(scale=width * beside), whole) for name, width in JOINT.items()]
        elif self.scale == "learned":
            kernels = [self.kernel] * len(columns)  # by its name
        return [*zip(self.descriptors_, kernels, columns, strict=True), *joined]

    def _model(self, kernels: list[tuple[str, Any, slice]], validation: Any) -> Any:
        """What learns from the kernels of all descriptors, or from one on all of their columns."""
        options = {"validation": validation, "random_state": self.random_state, "verbose": self.verbose}
        if self.learner == "single-kernel":
            own = np.repeat(np.arange(len(kernels)), [some.stop - some.start for _, _, some in kernels]).tolist()
            n_features = self.n_features or SINGLE_FEATURES
            return KernelRegressor(self.kernel, n_features=n_features, scale=own, standardize=False, **options)
        return MultipleKernelRegressor(
            kernels,
            n_features=self.n_features or self._sizes(kernels),
            scale=self.scale,
            l1_ratio=0.0 if self.learner == "average" else "auto",
            refit=None if self.learner == "average" else "learned",
            shared_weights=not self.own_weights,
            standardize=False,
            max_memory=self.max_memory,
            **options,
        )

    def _sizes(self, kernels: list[tuple[str, Any, slice]]) -> list[int]:
        """Random features of each kernel."""
        of_each = FEATURES if len(kernels) == len(self.descriptors_) else BESIDE_JOINT
        return [of_each] * len(self.descriptors_) + [JOINT_FEATURES] * (len(kernels) - len(self.descriptors_))

    def _rows(self, descriptors: Mapping[str, Array], some: Any = slice(None)) -> Array:
        """All descriptors side by side: roots of their bins, or the bins themselves for a kernel of histograms."""
        beside = np.hstack([np.asarray(descriptors[name])[some] for name in self.descriptors_])
        return beside if np.isfinite(get_kernel(self.kernel).lower) else np.sqrt(beside)

    def _blocks(self, descriptors: Mapping[str, Array], worth: Array | None = None) -> Iterator[tuple[Array, Array | None]]:
        """Rows and their targets, some at a time."""
        for start in range(0, len(descriptors[self.descriptors_[0]]), BLOCK_ROWS):
            some = slice(start, start + BLOCK_ROWS)
            yield self._rows(descriptors, some), None if worth is None else worth[some]


def check_descriptors(descriptors: Mapping[str, Array], n: int) -> dict[str, int]:
    """The columns of each table; an error that names the one which is not (n, q), or no histogram."""
    if not isinstance(descriptors, Mapping) or not descriptors:
        raise InputError(
            "descriptors must be one table (n, q) or more under their names, as describe gives them: got "
            f"{type(descriptors).__name__}."
        )
    for name, table in descriptors.items():
        if np.ndim(table) != 2 or len(table) != n:
            raise InputError(
                f"The descriptor {name!r} must have {n} rows, one for each segment: got {np.shape(table)}; "
                "give such a table."
            )
        if (np.size(table) and not np.min(table) >= 0) or not np.isfinite(np.max(table, initial=0)):
            raise InputError(
                f"The descriptor {name!r} must be histograms: finite and not negative; give what describe makes."
            )
    return {name: np.shape(table)[1] for name, table in descriptors.items()}


def held_out_images(images: Array, seed: int) -> list[tuple[Array, Array]]:
    """Numbers of rows to fit and to validate: a part of the images is held out with all of their segments."""
    names = np.unique(images)
    if len(names) < 2:
        raise InputError(f"Segments of two images or more are needed, got those of {len(names)}; give more, or images=None.")
    n_held_out = min(max(1, round(HELD_OUT * len(names))), len(names) - 1)
    held_out = np.random.default_rng(seed).permutation(names)[:n_held_out]
    validated = np.isin(images, held_out)
    return [(np.flatnonzero(~validated), np.flatnonzero(validated))]
