"""Solvers: from sums over rows to coefficients. They know nothing of kernels or features."""

from bochner.solvers.group_path import GroupLassoPath, group_lasso_path

__all__ = ["GroupLassoPath", "group_lasso_path"]
