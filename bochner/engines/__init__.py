"""Engines: the only loops over blocks of rows."""

from bochner.engines.feature_passes import FeaturePasses
from bochner.engines.passes import adjoint, forward, moments, predict, pull_back, quadratic_form

__all__ = ["FeaturePasses", "adjoint", "forward", "moments", "predict", "pull_back", "quadratic_form"]
