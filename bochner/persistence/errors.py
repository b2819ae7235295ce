"""The one error of files of models."""

from __future__ import annotations

from bochner.errors import FileContentError

BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What Python and NumPy raise where a file holds other things than it should: never more than a message is made of it."""


class ModelFileError(FileContentError):
    """A model that cannot be saved, or a file that holds no model that can be loaded: damaged, foreign, or too new."""
