"""The errors of bochner: one family, each of them also the built-in error that users of scikit-learn expect.

``except bochner.errors.BochnerError`` catches whatever bochner says by itself; ``except ValueError`` goes on catching what
it always caught. A message has three parts: what was expected, what came, and what to type instead. What scikit-learn, NumPy
and the other libraries find out keeps the type that they give it.
"""

from __future__ import annotations

__all__ = [
    "BochnerError",
    "FileAccessError",
    "FileContentError",
    "InputError",
    "InputTypeError",
    "MissingFileError",
    "MissingPackageError",
    "NotEnoughMemoryError",
    "StateError",
]


class BochnerError(Exception):
    """What all errors of bochner are."""


class InputError(BochnerError, ValueError):
    """An argument, a parameter or data that cannot be used as they are."""


class InputTypeError(BochnerError, TypeError):
    """An argument of the wrong kind."""


class NotEnoughMemoryError(InputError, MemoryError):
    """What was asked for does not fit into memory, or into what ``max_memory`` leaves of it; nothing was computed."""


class FileContentError(InputError):
    """A file that holds something else than it should: damaged, foreign, or too new."""


class FileAccessError(BochnerError, OSError):
    """A file or a folder that cannot be read or written.

    Where the system said why, ``errno`` and ``filename`` are its own, and the message is still only what it says.
    """

    def __str__(self) -> str:
        return self.strerror or super().__str__()


class MissingFileError(FileAccessError, FileNotFoundError):
    """A file that is not there."""


class MissingPackageError(BochnerError, ImportError):
    """A package that is wanted for what was asked and is not installed."""


class StateError(BochnerError, RuntimeError):
    """Something outside that has changed or is lost: files that another process wrote to, workers that died."""
