"""The errors of bochner: one family, each of them also the built-in error that users of scikit-learn expect.

``except bochner.errors.BochnerError`` catches whatever bochner says by itself; ``except ValueError`` goes on catching what
it always caught. A message has three parts: what was expected, what came, and what to type instead. What scikit-learn, NumPy
and the other libraries find out keeps the type that they give it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

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


NEAR = 0.75
"""Likeness of names from which on one may have been meant for the other, by ``difflib``; a wrong guess leads astray."""


def nearest(name: str, names: Iterable[str], n: int = 1) -> list[str]:
    """Names that may have been meant by one that is not there, at most ``n``, the likeliest first.

    Examples
    --------
    >>> from bochner.errors import nearest
    >>> nearest("incme", ["age", "income"]), nearest("aeg", ["age", "income"]), nearest("size", ["prize", "Size", "side"])
    (['income'], ['age'], ['Size'])
    """
    alike: dict[str, list[str]] = {}
    for each in names:
        alike.setdefault(each.lower(), []).append(each)
    low = name.lower()
    same_letters = [each for each in alike if set(each) == set(low) and abs(len(each) - len(low)) < 2]
    found = [low] if low in alike else same_letters or difflib.get_close_matches(low, alike, n=n, cutoff=NEAR)
    return [each for key in found for each in alike[key]][:n]


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
