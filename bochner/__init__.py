"""bochner: kernel machines that learn their own kernel, at a cost linear in the number of rows."""

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
