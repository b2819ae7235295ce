"""Fits that can be killed and go on: what learners ask of :mod:`bochner.checkpoint`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from bochner.checkpoint import NoCheckpoint, opened
from bochner.errors import InputError
from bochner.estimators.fingerprint import fingerprint
from bochner.estimators.validation import as_generator


def check_checkpoint(folder: Any) -> None:
    """Refuse what is no path."""
    if not (folder is None or (isinstance(folder, str | Path) and str(folder))):
        raise InputError(f"checkpoint must be the path of a folder or None, got {folder!r}.")


def resuming(estimator: Any, before: Any = None, **data: Any) -> AbstractContextManager[NoCheckpoint]:
    """What is known of this fit in the folder ``checkpoint``, by its data and the kernel ``before`` it; else nothing."""
    if estimator.checkpoint is None:
        return nullcontext(NoCheckpoint())
    return opened(estimator.checkpoint, fingerprint(estimator, before, **data))


def generator(random_state: Any, kept: NoCheckpoint) -> np.random.Generator:
    """The source of chance: that of ``random_state``, or of a seed that is kept."""
    if random_state is None:
        return np.random.default_rng(kept.constant("seed", lambda: np.random.SeedSequence().entropy))
    return as_generator(random_state)
