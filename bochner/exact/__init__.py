"""The exact counterparts of the learners, on full kernel matrices: what random features are measured against."""

from bochner.exact.gmkl import GMKLClassifier, GMKLRegressor
from bochner.exact.ridge import KernelRidgeGD

__all__ = ["GMKLClassifier", "GMKLRegressor", "KernelRidgeGD"]
