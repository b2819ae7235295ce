"""Solvers: coefficients from sums over rows, or from passes over them. They know nothing of kernels or feature maps."""

from bochner.solvers.group_path import GroupLassoPath, group_lasso_path

__all__ = ["GroupLassoPath", "group_lasso_path"]
