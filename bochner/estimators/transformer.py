"""``FourierFeatures``: a kernel as a scikit-learn transformer."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array, fetch64
from bochner.engines import forward
from bochner.errors import InputError
from bochner.estimators.block_by_block import block_by_block
from bochner.estimators.blocks import as_source, check_columns, on_disk
from bochner.estimators.encoding import column_names
from bochner.estimators.saving import Saved
from bochner.estimators.showing import Showing
from bochner.estimators.validation import all_or_nothing, as_generator, check_rows
from bochner.features import FeatureChoices, build_map
from bochner.kernels import Kernel, get_kernel
from bochner.kernels.bandwidth import median_scale
from bochner.rows import Block, RowSource

SAMPLE_ROWS = 128
"""Rows looked at by scale="median"."""


class FourierFeatures(Showing, TransformerMixin, Saved, BaseEstimator):
    """Features whose inner products approximate a kernel: phi(x) . phi(z) ~ k(x, z).

    A linear model on these features is a kernel machine, at a cost linear in the number of rows. Replaces scikit-learn's
    ``RBFSampler``, ``SkewedChi2Sampler`` and ``AdditiveChi2Sampler``.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        A name out of :data:`bochner.kernels.KERNELS`, or a kernel object, also of a class of your own.
    n_features : int, default=None
        Number d of features; even in the paired form. None means 1000, or for the additive kernels (``chi2``,
        ``intersection``, ``jensen_shannon``), which are not random, the 2 * order + 1 features that each column gets.
    scale : float, array of shape (n_columns,) or "median", default=None
        Scale of the frequencies, shared or one per column: the larger, the narrower the kernel. For the Gaussian kernel
        ``scale = sqrt(2 * gamma)``. "median": half of the pairs of rows get a kernel above exp(-1/2), which for the
        Gaussian kernel is one over the median distance. None: the scale of the kernel object, or "median" for a name
        (and 1 for an additive kernel).
    sampling : {"auto", "iid", "orthogonal", "qmc"}, default="auto"
        How frequencies are drawn: independent, at right angles (radial kernels only), or quasi-Monte Carlo. "auto" takes
        orthogonal ones for radial kernels of ten columns or more, and quasi-Monte Carlo ones else.
    form : {"paired", "phase"}, default="paired"
        Pairs of cosine and sine, or cosines with random phases (twice the frequencies, a higher variance).
    order : int, default=None
        Order p of the homogeneous map, for the additive kernels and their exponentiated forms only: 2 p + 1 values a
        column. None means 2.
    random_state : int, Generator or None, default=None
        Seed of the frequencies.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that is approximated, with its scale.
    feature_map_ : FeatureMap
        The map itself: base points, frequencies, forward map and adjoint.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Examples
    --------
    >>> from bochner import FourierFeatures
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(FourierFeatures("gaussian", random_state=0), RidgeClassifier()).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        *,
        n_features: int | None = None,
        scale: float | Array | str | None = None,
        sampling: str = "auto",
        form: str = "paired",
        order: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.scale = scale
        self.sampling = sampling
        self.form = form
        self.order = order
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the frequencies for rows like X (n, m), and set the scale where the data decide it.

        X may be rows in blocks: see :func:`bochner.open_rows`.
        """
        kernel = get_kernel(self.kernel)
        choices = FeatureChoices(n_features=self.n_features, sampling=self.sampling, form=self.form, order=self.order)
        scale = self._scale_asked(kernel)
        if scale is not None and not isinstance(scale, str):
            kernel = kernel.replace(scale=scale)
        if on_disk(X):
            source = as_source(X)
            check_columns(self, source, reset=True)
            X = _looked_at(source, scale)
        X = check_rows(self, X, kernel=kernel, reset=True)
        rng = as_generator(self.random_state)
        if isinstance(scale, str):
            kernel = kernel.replace(scale=median_scale(kernel, _sample(X, rng)))
        self.kernel_ = kernel
        self.feature_map_ = build_map(kernel, X.shape[1], choices, rng)
        return self

    @block_by_block
    def transform(self, X: Any) -> Array:
        """Features (n, d) of the rows X (n, m), in their dtype and library; sparse for additive kernels of sparse X.

        X may be rows in blocks, of which the features come in one array.
        """
        check_is_fitted(self)
        X = check_rows(self, X, kernel=self.kernel_, reset=False)
        return forward(self.feature_map_, X)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the features, such as "fourierfeatures_cos0"."""
        check_is_fitted(self)
        columns = input_features
        if columns is None:
            columns = column_names(self)
        elif len(columns) != self.n_features_in_:
            raise InputError(
                f"input_features should have length equal to number of features ({self.n_features_in_}), got "
                f"{len(columns)}: "
                "give one name for each."
            )
        prefix = type(self).__name__.lower()
        return np.asarray([f"{prefix}_{name}" for name in self.feature_map_.feature_names(columns)], dtype=object)

    def _scale_asked(self, kernel: Kernel) -> Any:
        """ "median", a scale, or None for the kernel's own."""
        if self.scale is None:
            return "median" if isinstance(self.kernel, str) and kernel.has_bandwidth else None
        if isinstance(self.scale, str) and self.scale != "median":
            raise InputError(f"scale must be a positive number, one per column, or 'median', got {self.scale!r}.")
        return self.scale

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        with suppress(ValueError):  # an unknown kernel: fit will say so
            tags.input_tags.positive_only = get_kernel(self.kernel).lower > -np.inf
        return tags


def _looked_at(source: RowSource, scale: Any) -> Block:
    """The rows in blocks that a fit looks at: a sample where they decide the scale, else the first of them."""
    if isinstance(scale, str):
        return Block(0, source.sample(SAMPLE_ROWS).X)
    with closing(source.blocks(SAMPLE_ROWS)) as blocks:
        return next(blocks)


def _sample(X: Array, rng: np.random.Generator) -> Array:
    """At most SAMPLE_ROWS rows of X, dense and in float64 on the host."""
    n = X.shape[0]
    if n <= SAMPLE_ROWS:
        return fetch64(X)
    rows = np.sort(rng.choice(n, SAMPLE_ROWS, replace=False))
    return np.concatenate([fetch64(X[i : i + 1, :]) for i in rows])
