"""The exact counterparts of the learners, on full kernel matrices: what random features are measured against."""

from bochner.exact.ridge import KernelRidgeGD

__all__ = ["KernelRidgeGD"]
