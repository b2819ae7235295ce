"""What a model knows beside what was fitted: scores on rows that were held out, the file of its rows, and its own file."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.durable import reading

FILE = "_file_name"
"""The attribute that holds the name of the file that a model was saved to or loaded from last; no such file holds it."""


@dataclass(frozen=True)
class Tested:
    """Scores by the names of models, the fitted one first and simple ones after it, on ``n_rows`` rows that it had not seen.

    ``refitted``: the model that was scored is not the one that is here, which was fitted on these rows too.
    """

    scores: dict[str, dict[str, float]]
    n_rows: int
    refitted: bool


def remember(model: Any, scores: dict[str, dict[str, float]], n_rows: int, refitted: bool, path: str | None) -> None:
    """Keep in a model, and so in its file, what it scored, and a digest of the file at ``path`` that it was fitted on."""
    model.test_scores_ = {"scores": scores, "n_rows": n_rows, "refitted": refitted} if scores else None
    model.data_digest_ = None if path is None else digest(path)


def forget(model: Any) -> None:
    """Let a model that is fitted once more know nothing of that any more."""
    for name in ("test_scores_", "data_digest_", FILE):
        vars(model).pop(name, None)


def tested(model: Any) -> Tested | None:
    """The scores that a model keeps, if it does."""
    found: Any = getattr(model, "test_scores_", None)
    try:
        scores = {
            str(name): {str(measure): float(value) for measure, value in each.items()}
            for name, each in found["scores"].items()
        }
        known = Tested(scores, int(found["n_rows"]), bool(found["refitted"]))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):  # of a file from elsewhere
        return None
    return known if scores and all(scores.values()) else None


def is_in(model: Any, path: Path) -> None:
    """Let a model know the name of its file, without that of a folder."""
    setattr(model, FILE, path.name)


def file_name(model: Any) -> str | None:
    """The name of the file that a model was saved to or loaded from, if it is still that model."""
    return getattr(model, FILE, None)


def fitted_on(model: Any, path: str) -> bool:
    """Whether a file is, byte for byte, the one that a model was fitted on; False where the model does not know."""
    known = getattr(model, "data_digest_", None)
    return isinstance(known, str) and known == digest(path)


def digest(path: str) -> str | None:
    """The SHA-256 of a file; None where it is none that can be read again."""
    if not os.path.isfile(path):
        return None
    with reading(Path(path)), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
