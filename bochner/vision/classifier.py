"""``SegmentClassifier``: what overlap a segment has with the objects of each class, learned from its descriptors."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array
from bochner.durable import replace_file, write_all
from bochner.estimators.multiple import MultipleKernelRegressor
from bochner.estimators.regressors import KernelRegressor
from bochner.vision.targets import GOOD

LEARNERS = ("group-lasso", "single-kernel", "average")
HELD_OUT = 0.2
"""The part of the images on whose segments penalties and kernels are chosen."""
FEATURES, SINGLE_FEATURES = 500, 4000
"""Random features of each kernel, and of a single one."""


class SegmentClassifier(BaseEstimator):
    """Scores of classes for segments: ridge regression of their overlap with the objects of every class.

    Descriptors are histograms, which a kernel compares by the roots of their bins. Choices are made on the segments of
    images that are held out, since those of one image are alike.

    Parameters
    ----------
    learner : {"group-lasso", "single-kernel", "average"}, default="group-lasso"
        One kernel for each descriptor, of which group lasso keeps those that count for a class (RFF-GL); one kernel on all
        descriptors, with a scale for each column that is learned (RFF-SKL); or the plain average of one kernel for each.
    kernel : str or Kernel, default="gaussian"
        The kernel of each descriptor, on roots of bins.
    scale : {"median", "learned"}, default="median"
        Its scale: from the median distance, or learned for each descriptor.
    own_weights : bool, default=True
        Whether each class has weights of its own for the descriptors.
    n_features : int, optional
        Random features of each kernel.
    random_state : int, default=0
    verbose : int, default=0
        1 shows progress on the standard error stream.

    Attributes
    ----------
    model_ : MultipleKernelRegressor or KernelRegressor
    descriptors_ : tuple of str
    threshold_ : float
        A segment shows the class of its best score where that is above this: as many segments as in the rows of fit.
    """

    def __init__(
        self,
        learner: str = "group-lasso",
        *,
        kernel: Any = "gaussian",
        scale: str = "median",
        own_weights: bool = True,
        n_features: int | None = None,
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.learner = learner
        self.kernel = kernel
        self.scale = scale
        self.own_weights = own_weights
        self.n_features = n_features
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, descriptors: Mapping[str, Array], overlaps: Array, images: Array | None = None) -> Self:
        """Learn from n segments: tables (n, q) under their names, overlaps (n, c), and the number of their image (n,)."""
        if self.learner not in LEARNERS:
            raise ValueError(f"learner must be one of {', '.join(map(repr, LEARNERS))}, got {self.learner!r}.")
        overlaps = np.asarray(overlaps, dtype=np.float64)
        self.descriptors_ = tuple(descriptors)
        validation = None if images is None else held_out_images(np.asarray(images), self.random_state)
        self.model_ = self._model(validation).fit(self._rows(descriptors), overlaps)
        positive = float(np.mean(overlaps.max(axis=1) >= GOOD))
        self.threshold_ = float(np.quantile(self.scores(descriptors).max(axis=1), 1 - positive))
        return self

    def scores(self, descriptors: Mapping[str, Array]) -> Array:
        """The overlap (n, c) that segments are expected to have with the objects of each class."""
        check_is_fitted(self)
        scores = np.asarray(self.model_.predict(self._rows(descriptors)))
        return scores.reshape(len(scores), -1)

    @property
    def threshold(self) -> float:
        """A segment whose score of a class is above this shows that class."""
        check_is_fitted(self)
        return self.threshold_

    def kernel_weights_by_name(self) -> dict[str, Any]:
        """The weight of each descriptor for each class, of a learner with a kernel for each."""
        check_is_fitted(self)
        return dict(zip(self.model_.kernel_names_.tolist(), self.model_.kernel_weights_, strict=True))

    def save(self, path: str | Path) -> None:
        """Write the classifier to a file; training data are not in it."""
        check_is_fitted(self)
        data = pickle.dumps(self)
        replace_file(Path(path), lambda file: write_all(file, data))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a classifier that :meth:`save` wrote: a pickle, so only from where you trust it."""
        try:
            found = pickle.loads(Path(path).read_bytes())
        except (pickle.UnpicklingError, EOFError, AttributeError, ModuleNotFoundError, IndexError) as error:
            raise ValueError(f"{path}: this is no classifier of segments ({type(error).__name__}).") from error
        if not isinstance(found, cls):
            raise ValueError(f"{path}: expected a {cls.__name__}, got a {type(found).__name__}.")
        return found

    def _model(self, validation: Any) -> Any:
        options = {"validation": validation, "random_state": self.random_state, "verbose": self.verbose}
        if self.learner == "single-kernel":
            return KernelRegressor(self.kernel, n_features=self.n_features or SINGLE_FEATURES, standardize=False, **options)
        return MultipleKernelRegressor(
            dict.fromkeys(self.descriptors_, self.kernel),
            n_features=self.n_features or FEATURES,
            scale=self.scale,
            l1_ratio=0.0 if self.learner == "average" else "auto",
            shared_weights=not self.own_weights,
            standardize=False,
            **options,
        )

    def _rows(self, descriptors: Mapping[str, Array]) -> Any:
        """Roots of the bins of all descriptors: tables under their names, or side by side for a single kernel."""
        missing = [name for name in self.descriptors_ if name not in descriptors]
        if missing:
            raise ValueError(f"The descriptor {missing[0]!r} is missing: got {', '.join(map(repr, descriptors))}.")
        tables = {name: np.sqrt(np.asarray(descriptors[name])) for name in self.descriptors_}
        return np.hstack(list(tables.values())) if self.learner == "single-kernel" else tables


def held_out_images(images: Array, seed: int) -> list[tuple[Array, Array]]:
    """Numbers of rows to fit and to validate: a part of the images is held out with all of their segments."""
    names = np.unique(images)
    if len(names) < 2:
        raise ValueError(f"Segments of two images or more are needed, got those of {len(names)}.")
    n_held_out = min(max(1, round(HELD_OUT * len(names))), len(names) - 1)
    held_out = np.random.default_rng(seed).permutation(names)[:n_held_out]
    validated = np.isin(images, held_out)
    return [(np.flatnonzero(~validated), np.flatnonzero(validated))]
