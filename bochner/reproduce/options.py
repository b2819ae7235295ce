"""Options of the learners that are compared, each a frozen part of the configuration of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

RFF_SKL, KRR_GD, RFF_GL, GMKL, LABELLING = "RFF-SKL", "KRR-GD", "RFF-GL", "GMKL", "labelling"
"""Names of the learners: those of the paper, and the labelling of pixels."""


@dataclass(frozen=True, kw_only=True)
class SingleKernel:
    """Of RFF-SKL."""

    n_features: int = 3000
    components: int | None = None
    """Principal components of each view that are kept; None: all columns as they are."""
    folds: int = 2
    """Parts of the training images, each of which is predicted from the others."""
    schedule: str = "small-to-large"
    draws: int = 1
    """Draws of the frequencies, each learned by itself; accuracies and seconds are means over them."""
    metric: str = "diagonal"
    """"full": a metric of all columns in place of a scale for each view, and data centres in place of frequencies."""


@dataclass(frozen=True, kw_only=True)
class ExactSingleKernel:
    """Of KRR-GD, which sees the same columns."""

    components: int | None = None
    folds: int = 2
    max_iter: int = 40
    limit: float = 600.0
    """Seconds: a run that is expected to take longer, from the last smaller one, is not made."""


@dataclass(frozen=True, kw_only=True)
class GroupLasso:
    """Of RFF-GL."""

    n_features: int = 375
    """Of each kernel."""
    few_features: int | None = None
    """Of each kernel where rows are fewer than ``roots_from``; None: no others."""
    n_coordinates: int | None = None
    """Of the rows in place of the features of each kernel, at most, where there are more features than rows."""
    roots_from: int | None = None
    """Training rows from which kernels of histograms are Gaussian on roots of bins, faster than exponentiated chi2."""
    draws: int = 1
    """Draws of the features where rows are fewer than that, each learned by itself; accuracies and seconds are means."""
    n_alphas: int = 12
    smallest: float = 1e-3
    tol: float = 3e-3
    """The duality gap, as a part of the objective: that of GMKL."""
    refit: bool = False
    """Whether ridge regression on the kernels that are in is tried as well, which the paper does not."""
    one_class: bool = False
    """Whether only the first class is learned."""


@dataclass(frozen=True, kw_only=True)
class ExactMultiple:
    """Of GMKL: its cost comes from the penalty that ``like`` chose on the same rows."""

    like: GroupLasso = field(default_factory=GroupLasso)
    tol: float = GroupLasso.tol
    max_iter: int = 100
    one_class: bool = False
    limit: float = 600.0


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """Of the labels of pixels, by the scores of segments."""

    n_features: int = 375
    n_images: int | None = None
    """Test images, from the first; None: all."""
    n_pictures: int = 12
