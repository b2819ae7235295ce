"""The classes that a file of a model may name: a fixed list, made from the public names of the package."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from bochner import features, kernels
from bochner.calibration import SoftmaxCalibration
from bochner.estimators import classifiers, multiple, regressors, transformer
from bochner.estimators.parts import Part
from bochner.estimators.saving import Saved
from bochner.estimators.views import Views
from bochner.features.inputs import HomogeneousInput, TransformInput
from bochner.persistence.errors import ModelFileError
from bochner.solvers.group_path import GroupLassoPath
from bochner.standardise import Standardiser
from bochner.statistics import Moments

ROOMS = (classifiers, multiple, regressors, transformer)
"""Where estimators are, beside ``bochner.exact``: whatever has ``save`` there can be loaded."""
PARTS = (
    GroupLassoPath,
    HomogeneousInput,
    Moments,
    Part,
    SoftmaxCalibration,
    Standardiser,
    TransformInput,
    Views,
)
"""What models are made of beside kernels and feature maps: frozen dataclasses."""


@cache
def estimators() -> dict[str, type]:
    """Estimators by the name of their class."""
    from bochner import exact  # which takes a while

    return {name: cls for room in (*ROOMS, exact) for name, cls in vars(room).items() if _is_estimator(cls)}


@cache
def parts() -> dict[str, type]:
    """Kernels, feature maps and all else that models are made of, by the name of their class."""
    found = [getattr(kernels, name) for name in kernels.__all__] + [getattr(features, name) for name in features.__all__]
    stored = [cls for cls in found if _is_kernel(cls) or _is_map(cls)]
    return {cls.__name__: cls for cls in (*stored, *PARTS)}


def own_classes(classes: Sequence[Any]) -> dict[str, type]:
    """Kernels of the user's own by name; an error where they are none."""
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, kernels.Kernel)):
            raise ModelFileError(f"classes must be classes of kernels, such as classes=[MyKernel], got {cls!r} among them.")
    return {cls.__name__: cls for cls in classes}


def _is_estimator(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, Saved) and "__init__" in vars(cls)


def _is_kernel(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, kernels.Kernel) and not inspect.isabstract(cls)


def _is_map(cls: Any) -> bool:
    return isinstance(cls, type) and is_dataclass(cls) and hasattr(cls, "forward") and hasattr(cls, "feature_names")
