"""Fitted models in files: saved and loaded again, or exported as graphs of the format ONNX."""

from bochner.persistence.errors import ModelFileError
from bochner.persistence.files import load, save


__all__ = ["ModelFileError", "load", "save"]
