"""Feature maps: rows to features whose inner products approximate a kernel, and the gradient back to its parameters."""

from bochner.features.ahead import DrawnAhead
from bochner.features.base import FEW_ROWS, FeatureGradient, FeatureMap
from bochner.features.build import FeatureChoices, build_map, draw_points
from bochner.features.centres import CentreKernels, CentreMap
from bochner.features.fourier import FourierMap
from bochner.features.homogeneous import HomogeneousMap
from bochner.features.stacked import StackedMap

__all__ = [
    "FEW_ROWS",
    "CentreKernels",
    "CentreMap",
    "DrawnAhead",
    "FeatureChoices",
    "FeatureGradient",
    "FeatureMap",
    "FourierMap",
    "HomogeneousMap",
    "StackedMap",
    "build_map",
    "draw_points",
]
