"""Engines: the only loops over blocks of rows that make features."""

from bochner.engines.passes import adjoint, forward, moments, predict, pull_back, quadratic_form

__all__ = ["adjoint", "forward", "moments", "predict", "pull_back", "quadratic_form"]
