"""Solvers: from sums over rows to coefficients. They know nothing of kernels or features."""
