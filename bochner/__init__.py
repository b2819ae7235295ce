"""bochner: kernel machines that learn their own kernel, at a cost linear in the number of rows."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bochner import kernels
    from bochner.estimators.classifiers import KernelClassifier
    from bochner.estimators.multiple import MultipleKernelClassifier, MultipleKernelRegressor
    from bochner.estimators.regressors import KernelRegressor
    from bochner.estimators.transformer import FourierFeatures
    from bochner.persistence import ModelFileError, export_onnx, load
    from bochner.rows import open_rows

__version__ = "0.1.0"

__all__ = [
    "FourierFeatures",
    "KernelClassifier",
    "KernelRegressor",
    "ModelFileError",
    "MultipleKernelClassifier",
    "MultipleKernelRegressor",
    "__version__",
    "export_onnx",
    "kernels",
    "load",
    "open_rows",
]

_PLACES = {
    "FourierFeatures": "bochner.estimators.transformer",
    "KernelClassifier": "bochner.estimators.classifiers",
    "KernelRegressor": "bochner.estimators.regressors",
    "ModelFileError": "bochner.persistence",
    "MultipleKernelClassifier": "bochner.estimators.multiple",
    "MultipleKernelRegressor": "bochner.estimators.multiple",
    "export_onnx": "bochner.persistence",
    "load": "bochner.persistence",
    "open_rows": "bochner.rows",
}
"""Where public names are: modules are imported when a name is first asked for, so that the command line starts at once."""


def __getattr__(name: str) -> Any:
    """A public name, or a module of the package."""
    if name in _PLACES:
        value = getattr(importlib.import_module(_PLACES[name]), name)
    elif not name.startswith("__") and importlib.util.find_spec(f"bochner.{name}") is not None:
        value = importlib.import_module(f"bochner.{name}")
    else:
        raise AttributeError(f"module 'bochner' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
