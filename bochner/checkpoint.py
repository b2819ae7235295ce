"""A fit that may be killed at any moment, and goes on where it was when it is started again.

Learning is deterministic given its seed, so what is kept is a log: every answer of the criterion, in order. A fit that is
started again takes the same steps, has the answers from the log as long as there are any, and computes the rest. What is
too large for a log, the sums of a pass over rows that are not in memory, lies beside it in files that are replaced as a
whole. All files are in one folder, and say which fit they are of.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bochner.archives import read_arrays
from bochner.arrays import Array
from bochner.criteria import Criterion, Fit
from bochner.durable import PARTIAL, Log, replace_file, suppressed, write_all
from bochner.errors import FileAccessError, InputError
from bochner.features import FeatureGradient, FeatureMap
from bochner.folds import FoldedRows, HeldOut, RunningSums
from bochner.solvers.penalty_search import PENALTIES
from bochner.streamed import PassKeeper

T = TypeVar("T")
MakesCriterion = Callable[[Any], Criterion]

CHECKPOINT_SECONDS = 30.0
"""Shortest time between two savings of the sums of a pass."""
SAVING_SHARE = 0.05
"""Most of the time that savings may take: large sums are saved less often."""
LAST_SHARE = 0.1
"""The sums of a whole pass are saved where a pass, or the rest of it, took this part of that time."""
FIT, LOG, PASS = "bochner-fit.json", "bochner-evaluations.log", "bochner-pass-{}.npz"
"""Names of the files in a folder."""
FIRST = "first"
"""What passes are made for before the first evaluation."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError)
"""What reading a file of arrays may end in."""


class NoCheckpoint:
    """What a fit that keeps nothing has in the place of a :class:`Checkpoint`."""

    passes: PassKeeper = PassKeeper()
    resumed: str | None = None
    """From where the fit goes on, in words; None where it begins."""

    def constant(self, name: str, make: Callable[[], T]) -> T:
        """A number that is drawn or measured once, and stays the same when the fit goes on."""
        return make()

    def known(self, name: str) -> Any:
        """Such a number, or a list of them, where it is kept; else None."""
        return None

    def logged(self, criterion: MakesCriterion) -> MakesCriterion:
        """The criterion with its answers kept."""
        return criterion

    def evaluation(self, found: Any) -> Any:
        """An evaluation of a criterion with all that a fit needs of it."""
        return found.evaluation if isinstance(found, Replayed) else found

    def finish(self) -> None:
        """The fit is done: nothing is kept any longer."""


class Checkpoint(NoCheckpoint):
    """What is known of a fit, in a folder. ``key`` says which fit: for each thing that it depends on, what that is.

    Made by :func:`opened`, which closes it.
    """

    def __init__(self, folder: Path, key: dict[str, str]) -> None:
        self.folder = folder
        self.key = key
        self.position = 0
        """Answers that were given, from the log or computed."""
        self.passes: SavedPasses = SavedPasses(self)
        self._constants: dict[str, Any] = {}
        self._made = self._make_folder()
        """Whether the folder was made for this fit."""
        try:
            with self._writing():
                self._log = Log(self._path(LOG))
        except OSError:
            if self._made:
                suppressed(folder.rmdir)
            raise
        try:
            self._take_over()
        except BaseException:
            if not self._worth_keeping:
                self._remove()
            self._log.close()
            raise
        self.resumed = self._where()

    # -- what a fit asks for ------------------------------------------------------------------------------------------

    def constant(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._constants:
            self._constants[name] = make()
            self._write_key()
        kept: T = self._constants[name]
        return kept

    def known(self, name: str) -> Any:
        return self._constants.get(name)

    def logged(self, criterion: MakesCriterion) -> MakesCriterion:
        return lambda folds: LoggedCriterion(criterion(folds), self)

    def finish(self) -> None:
        self._remove()

    def close(self) -> None:
        """Let go of the files; they stay where they are of use."""
        if self._log.exists and not self._worth_keeping:
            self._remove()
        self._log.close()

    # -- what the log is asked for ------------------------------------------------------------------------------------

    def answer(self, question: str) -> dict[str, Any] | None:
        """The next answer of the log, if it has one to this question. One to another question ends it.

        That is how a fit was interrupted by Ctrl-C, or goes on with other roundings.
        """
        if self.position >= len(self._log.records):
            return None
        record = self._log.records[self.position]
        if not _is_answer(record) or record["question"] != question:
            self._log.cut(self.position)
            return None
        self.position += 1
        return record

    def add(self, record: dict[str, Any]) -> None:
        """One more answer."""
        with self._writing():
            self._log.add(record)
        self.position += 1

    def saved(self, name: str, of_pass: str) -> dict[str, Array] | None:
        """Arrays of a pass that were saved under a name; None where there are none, or they cannot be read."""
        with suppress(*UNREADABLE), open(self._path(PASS.format(name)), "rb") as file:
            arrays = read_arrays(file)
            if str(arrays["pass"]) == of_pass and int(arrays["done"]) >= 0:
                return arrays
        return None

    def save(self, name: str, arrays: dict[str, Array]) -> None:
        """Save arrays under a name, in the place of earlier ones."""
        with self._writing():
            replace_file(self._path(PASS.format(name)), lambda file: np.savez(file, **arrays))

    # -- files --------------------------------------------------------------------------------------------------------

    def _path(self, name: str) -> Path:
        return self.folder / name

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A context in which errors of files say what to do."""
        try:
            yield
        except BlockingIOError as error:
            told = f"Another fit is using checkpoint={str(self.folder)!r} now: give every fit a folder of its own."
            raise FileAccessError(error.errno, told) from error
        except OSError as error:
            advice = "make room on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
            reason = os.strerror(error.errno) if error.errno else error
            raise FileAccessError(
                error.errno,
                f"Cannot write to checkpoint={str(self.folder)!r}: {reason}. Choose another folder, or "
                f"{advice} and fit again, which goes on from what is there.",
            ) from error

    def _make_folder(self) -> bool:
        """Make the folder, and say whether it was not there; one that a fit made and was killed at once counts as such."""
        if self.folder.is_dir():
            left = [path.name for path in self.folder.iterdir()]
            return bool(left) and FIT not in left and all(name.startswith("bochner-") for name in left)
        if self.folder.exists():
            raise InputError(f"checkpoint must be a folder, and {str(self.folder)!r} is a file.")
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
        return True

    def _take_over(self) -> None:
        """Take over what is in the folder; an error where that is of another fit."""
        for partial in self.folder.glob(f"bochner-*{PARTIAL}"):
            suppressed(partial.unlink)
        try:
            kept = json.loads(self._path(FIT).read_text())
            key, self._constants, self._made = dict(kept["key"]), dict(kept["constants"]), bool(kept["made"])
        except (OSError, ValueError, KeyError, TypeError):  # no fit, whatever else there is
            key = {}
        if key == self.key:
            return
        if key and self._worth_keeping:
            other = str(self.folder.with_name(f"{self.folder.name}-2"))
            raise InputError(
                f"checkpoint={str(self.folder)!r} is of another fit: {_difference(key, self.key)}. Give what it was to "
                f"go on with that fit; to begin this one use another folder, as checkpoint={other!r}, or delete that one."
            )
        self._constants = {}
        self._log.cut(0)
        for found in self.folder.glob(PASS.format("*")):
            suppressed(found.unlink)
        self._write_key()

    def _write_key(self) -> None:
        text = json.dumps({"key": self.key, "constants": self._constants, "made": self._made}, indent=1)
        with self._writing():
            replace_file(self._path(FIT), lambda file: write_all(file, text.encode()))

    @property
    def _worth_keeping(self) -> bool:
        """Whether anything has been learned."""
        return bool(self._log.records) or any(self.folder.glob(PASS.format("*")))

    def _where(self) -> str | None:
        if not self._worth_keeping:
            return None
        rows = ""
        for path in sorted(self.folder.glob(PASS.format("*")), key=lambda path: path.stat().st_mtime_ns)[-1:]:
            with suppress(*UNREADABLE), open(path, "rb") as file:
                rows = f", and {int(read_arrays(file)['done']):,} rows of a pass are summed"
        return f"goes on from {str(self.folder)!r}: {len(self._log.records)} evaluations are known{rows}"

    def _remove(self) -> None:
        """Remove all files, and the folder if it was made for them; the key last, so that they are of a fit until then."""
        for path in [*self.folder.glob(PASS.format("*")), *self.folder.glob(f"bochner-*{PARTIAL}")]:
            suppressed(path.unlink)
        self._log.remove()
        suppressed(self._path(FIT).unlink)
        if self._made:
            suppressed(self.folder.rmdir)  # which leaves it where somebody else has put files there


def _is_answer(record: Any) -> bool:
    """Whether a record of a log has what an answer of the criterion has."""
    if not isinstance(record, dict) or not {"question", "value", "log_alpha", "gradient"} <= record.keys():
        return False
    gradient = record["gradient"]
    if not isinstance(record["value"], float | int) or not (gradient is None or isinstance(gradient, dict)):
        return False
    try:
        numbers = [np.asarray(value, dtype=float) for value in (record["log_alpha"], *(gradient or {}).values())]
    except (TypeError, ValueError, OverflowError):
        return False
    return all(array.dtype == float for array in numbers)


@contextmanager
def opened(folder: Any, key: dict[str, str]) -> Iterator[Checkpoint]:
    """The checkpoint in a folder, made if it is not there."""
    checkpoint = Checkpoint(Path(folder), key)
    try:
        yield checkpoint
    finally:
        checkpoint.close()


class SavedPasses(PassKeeper):
    """The sums of passes over rows that are not in memory, for :class:`bochner.streamed.StreamedFolds`.

    Sums of each kind have one file, of the latest pass that was saved.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.asked = FIRST
        """What passes are made for now: an evaluation, or what comes before all of them."""
        self._last = time.monotonic()
        self._took = 0.0

    def resume(self, sums: RunningSums) -> int:
        """Take up the sums of this pass as they were saved; returns how many rows they are of."""
        self._last = time.monotonic()
        state = self.checkpoint.saved(sums.name, self.asked)
        if state is None:
            return 0
        try:
            sums.restore({name: value for name, value in state.items() if name not in ("pass", "done")})
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(
                f"checkpoint={str(self.checkpoint.folder)!r} holds sums of other shapes than those of this fit ({error}): "
                "delete that folder, and fit again."
            ) from error
        return int(state["done"])

    def is_due(self, done: int, n_rows: int) -> bool:
        """Whether it is time to save the sums."""
        pause = max(CHECKPOINT_SECONDS, self._took / SAVING_SHARE) * (LAST_SHARE if done >= n_rows else 1.0)
        return time.monotonic() - self._last >= pause

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        self.asked = what
        try:
            yield
        finally:
            self.asked = FIRST

    def keep(self, sums: RunningSums, done: int) -> None:
        """Save the sums of the first ``done`` rows."""
        start = time.monotonic()
        self.checkpoint.save(sums.name, {**sums.state(), "pass": np.array(self.asked), "done": np.array(done)})
        self._last = time.monotonic()
        self._took = self._last - start


@dataclass(frozen=True)
class Replayed:
    """An answer from the log: what a descent takes from an evaluation, and a way to make the rest of it again."""

    value: float
    log_alpha: Any
    gradient: FeatureGradient | None
    again: Callable[[], Any]

    @cached_property
    def evaluation(self) -> Any:
        """The evaluation itself, made again."""
        return self.again()


class LoggedCriterion:
    """A criterion whose answers are kept. It must not remember earlier ones, since those of the log are not computed."""

    def __init__(self, criterion: Criterion, checkpoint: Checkpoint) -> None:
        self.criterion = criterion
        self.checkpoint = checkpoint

    @property
    def folds(self) -> FoldedRows:
        """The rows."""
        return self.criterion.folds

    def evaluate(
        self,
        feature_map: FeatureMap,
        log_alpha: Any = None,
        *,
        gradient: bool = True,
        bounds: tuple[float, float] = PENALTIES,
    ) -> Any:
        """The criterion of a map: from the log, or computed and added to it."""
        question = self._question(feature_map, log_alpha, gradient, bounds)
        number = self.checkpoint.position
        ask = functools.partial(self._ask, f"{number}-{question}", feature_map, log_alpha, bounds)
        answer = self.checkpoint.answer(question)
        if answer is not None:
            slopes = answer["gradient"]
            parameters = None if slopes is None else {name: _numbers(value) for name, value in slopes.items()}
            return Replayed(
                answer["value"],
                _numbers(answer["log_alpha"]),
                None if parameters is None else FeatureGradient(parameters),
                lambda: ask(gradient=False),
            )
        found = ask(gradient=gradient)
        slopes = None if found.gradient is None else found.gradient.parameters
        self.checkpoint.add(
            {
                "question": question,
                "value": float(found.value),
                "log_alpha": np.asarray(found.log_alpha).tolist(),
                "gradient": None if slopes is None else {name: np.asarray(v).tolist() for name, v in slopes.items()},
            }
        )
        return found

    def fit(self, feature_map: FeatureMap, evaluation: Any) -> Fit:
        """The model of the rows to fit, with the penalty of an evaluation."""
        return self.criterion.fit(feature_map, self.checkpoint.evaluation(evaluation))

    def fitted(self, feature_map: FeatureMap, evaluation: Any) -> tuple[Any, Array]:
        """A map and coefficients on it that predict the first validated part."""
        criterion: Any = self.criterion
        return criterion.fitted(feature_map, self.checkpoint.evaluation(evaluation))

    def held_out(self, feature_map: FeatureMap, evaluation: Any) -> HeldOut:
        """Every validated row with its prediction by the model that has not seen it."""
        return self.criterion.held_out(feature_map, self.checkpoint.evaluation(evaluation))

    def _ask(
        self, asked: str, feature_map: FeatureMap, log_alpha: Any, bounds: tuple[float, float], *, gradient: bool
    ) -> Any:
        with self.checkpoint.passes.asking(asked):
            return self.criterion.evaluate(feature_map, log_alpha, gradient=gradient, bounds=bounds)

    def _question(self, feature_map: FeatureMap, log_alpha: Any, gradient: bool, bounds: tuple[float, float]) -> str:
        """A short text that tells questions apart."""
        kernel, folds = feature_map.kernel, self.folds
        size = feature_map.n_features, folds.n, folds.validated, str(folds.dtype)
        start = None if log_alpha is None else np.asarray(log_alpha).tolist()
        asked = type(kernel).__name__, np.asarray(kernel.theta).tolist(), size, start, gradient, bounds
        return hashlib.blake2b(repr(asked).encode(), digest_size=8).hexdigest()


def _numbers(value: Any) -> Any:
    """A number, or an array of them, from what JSON has made of it."""
    return np.asarray(value, dtype=np.float64)[()]


def _difference(old: dict[str, str], new: dict[str, str]) -> str:
    """What differs between two keys, in words."""
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    told = [f"{name} was {old.get(name, 'not there')} and is {new.get(name, 'not there')}" for name in names]
    return "; ".join(told[:3]) + (f"; and {len(told) - 3} more" if len(told) > 3 else "")
