"""Fitted models in files: saved and loaded again, or exported as graphs of the format ONNX."""

from bochner.persistence.errors import ModelFileError
from bochner.persistence.files import load, save
from bochner.persistence.onnx_export import export_onnx

__all__ = ["ModelFileError", "export_onnx", "load", "save"]
