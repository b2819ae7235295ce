"""One line that says how far a fit is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from bochner.descent import Level, Plan, count_starts, typed_name

WIDTH = 20
USUAL_STEPS = 10
"""Steps that a level takes, as far as is known before it ends."""
TOO_EARLY = 0.02
"""Share of the work from which on its speed tells something: small sizes take longer than their share."""
ALWAYS_TOLD = 10
"""Passes each of which has a line; of later ones there is a line now and then."""
PAUSE = 10.0
"""Seconds without a line after which there is one, where no terminal shows how far a fit is."""
PAUSE_OF_PASSES = 30.0
"""The same of passes over rows in blocks, which take hours where there are many."""


def note(text: str, stream: TextIO | None = None) -> None:
    """A line of its own, on standard error."""
    stream = sys.stderr if stream is None else stream
    stream.write(f"{text}\n")
    stream.flush()


class ProgressLine:
    """A callback that rewrites one line of a terminal; without one it prints a line for each stage, and one now and then.

    :meth:`stage_of` says how far a record is, :meth:`text` the rest. ``then`` is a callback that gets the records too.
    """

    pause = PAUSE

    def __init__(
        self, n_stages: int, then: Callable[[dict[str, Any]], None] | None = None, stream: TextIO | None = None
    ) -> None:
        self.then = then
        self.n_stages = n_stages
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.last: dict[str, Any] | None = None
        self._is_told = True
        """Whether the last record has been printed, where there is no terminal."""
        self._when = time.monotonic()

    def __call__(self, record: dict[str, Any]) -> None:
        self.show(record)
        if self.then is not None:
            self.then(record)

    def show(self, record: dict[str, Any]) -> None:
        """Write what is to be written of a record."""
        if self.live:
            self.stream.write(f"\r{self._line(record)}\x1b[K")
            self.stream.flush()
        else:
            before = self.last
            if before is not None and self.is_told(before) and int(self.stage_of(before)) != int(self.stage_of(record)):
                self._tell()
            self._is_told = False
        self.last = record
        if not self.live and ((self.ends(record) and self.is_told(record)) or time.monotonic() - self._when >= self.pause):
            self._tell()

    def close(self) -> None:
        """End the line."""
        if self.last is not None and self.live:
            self.stream.write("\n")
            self.stream.flush()
        self._tell()

    def ends(self, record: dict[str, Any]) -> bool:
        """Whether a record is known to be the last of its stage."""
        return False

    def is_told(self, record: dict[str, Any]) -> bool:
        """Whether the end of a record's stage is worth a line."""
        return True

    def stage_of(self, record: dict[str, Any]) -> float:
        """How many of the stages, and which part of the next, a record has come to."""
        raise NotImplementedError

    def share_of(self, record: dict[str, Any]) -> float:
        """The part of the bar that is filled."""
        return self.stage_of(record) / self.n_stages

    def text(self, record: dict[str, Any]) -> str:
        """What a line says beside its bar."""
        raise NotImplementedError

    def _tell(self) -> None:
        """Print the last record, unless it was."""
        if not self._is_told and self.last is not None:
            note(self._line(self.last), self.stream)
            self._when = time.monotonic()
        self._is_told = True

    def _line(self, record: dict[str, Any]) -> str:
        filled = int(WIDTH * self.share_of(record))
        return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {record['seconds']:6.1f} s  {self.text(record)}"


class Work:
    """How much of a descent is behind, by its records: evaluations at each level times what one costs there.

    With d features of n rows an evaluation costs about n d^2 + d^3, and n^3 where there are none. How many a level takes is
    not known before it ends: it is taken for ``USUAL_STEPS`` of each candidate, or as many as it may take where these are
    fewer. What is left is an estimate, then, and a rough one.
    """

    def __init__(self, plan: Plan) -> None:
        starts = sum(max(1, count_starts(family, plan)) for family in plan.families)
        staying = [starts, *(min(len(plan.families), level.keep) for level in plan.levels[:-1])]
        self._cost = [_cost(level) for level in plan.levels]
        self._usual = [n * (min(level.max_iter, USUAL_STEPS) + 1) for n, level in zip(staying, plan.levels, strict=True)]
        self._counts = [0] * len(plan.levels)
        self._level = 0
        self._seconds = 0.0

    def add(self, record: dict[str, Any]) -> None:
        """One more evaluation."""
        self._level, self._seconds = record["level"], record["seconds"]
        self._counts[self._level - 1] += 1

    @property
    def share(self) -> float:
        """The share of the work that is behind, between zero and one."""
        usual = zip(self._usual, self._counts, self._cost, strict=True)
        return 1 - self._ahead() / sum(max(n, count) * cost for n, count, cost in usual)

    @property
    def seconds_left(self) -> float | None:
        """Seconds that are left at the speed so far; None while too little is behind to tell."""
        done = sum(count * cost for count, cost in zip(self._counts, self._cost, strict=True))
        return self._seconds * self._ahead() / done if done and self.share >= TOO_EARLY else None

    def _ahead(self) -> float:
        k = max(self._level - 1, 0)
        later = sum(n * cost for n, cost in zip(self._usual[k + 1 :], self._cost[k + 1 :], strict=True))
        return float(later + max(0, self._usual[k] - self._counts[k]) * self._cost[k])


def _cost(level: Level) -> float:
    if not level.n_features:
        return float(level.n_rows) ** 3
    return float(level.n_rows) * level.n_features**2 + float(level.n_features) ** 3


class Follower:
    """A callback of records that is also told of the work before a descent, or of the steps where it is one of several."""

    def begins(self, work: Work) -> None:
        """A descent is to begin; ``work`` has to be given its records."""
        raise NotImplementedError

    def enters(self, step: int, n_steps: int, what: str) -> None:
        """A step begins; the records until the next one are of it."""
        raise NotImplementedError

    def __call__(self, record: dict[str, Any]) -> None:
        """One more record."""
        raise NotImplementedError


def entering(callback: Any) -> Callable[[int, int, str], None] | None:
    """What is to be told of steps, where a callback wants to hear of them."""
    return getattr(callback, "enters", None)


def left_in_words(seconds: float | None) -> str:
    """Such as ", about 12 s left"; nothing where it is not known, or no time to speak of."""
    if seconds is None or seconds < 1:
        return ""
    return f", about {seconds:.0f} s left" if seconds < 100 else f", about {seconds / 60:.0f} min left"


class DescentLine(ProgressLine):
    """The line of :func:`bochner.descent.descend`.

    The bar fills with the levels of the schedule; how many steps a level takes is not known before it ends. With ``work``
    the line says how much time is left, about. After ``n_before`` other steps of a fit, which ``began`` then, by
    :func:`time.monotonic`, bar and seconds go on from these.
    """

    def __init__(
        self,
        levels: tuple[Level, ...],
        then: Callable[[dict[str, Any]], None] | None = None,
        stream: TextIO | None = None,
        work: Work | None = None,
        n_before: int = 0,
        began: float | None = None,
    ) -> None:
        super().__init__(len(levels), then, stream)
        self.work, self.n_before, self.began = work, n_before, began

    def __call__(self, record: dict[str, Any]) -> None:
        if self.work is not None:
            self.work.add(record)
        super().__call__(record)

    def show(self, record: dict[str, Any]) -> None:
        super().show(record if self.began is None else {**record, "seconds": time.monotonic() - self.began})

    def stage_of(self, record: dict[str, Any]) -> float:
        return float(record["level"])

    def share_of(self, record: dict[str, Any]) -> float:
        return (self.n_before + super().share_of(record)) / (self.n_before + 1)

    def text(self, record: dict[str, Any]) -> str:
        step = f"step {self.n_before + 1} of {self.n_before + 1}, " if self.n_before else ""
        features = f"{record['n_features']} features, " if "n_features" in record else ""
        return (
            f"{step}level {record['level']} of {self.n_stages} ({features}{record['n_rows']} rows)  "
            f"{typed_name(record['kernel'])}: held-out error {record['criterion']:.4g}"
            f"{'' if self.work is None or not self.live else left_in_words(self.work.seconds_left)}"
        )


class StepLine(ProgressLine):
    """The line of :func:`bochner.metric_learning.learn_metric_kernel`: the bar fills with the steps that are behind.

    Without a terminal a step has a line where it begins, and one where it ends if it has come to an error.
    """

    def __init__(self, then: Callable[[dict[str, Any]], None] | None = None, stream: TextIO | None = None) -> None:
        super().__init__(1, then, stream)
        self._now = {"step": 0, "what": ""}
        self._started = time.monotonic()

    def close(self) -> None:
        """Fill the bar, and end the line."""
        if self.last is not None and self.live:
            self._now = {**self._now, "step": self.n_stages + 1}
            self.stream.write(f"\r{self._line({**self.last, **self._now, 'what': 'done'})}\x1b[K")
        super().close()

    def enters(self, step: int, n_steps: int, what: str) -> None:
        """A step begins."""
        self.n_stages = n_steps
        self._now = {"step": step, "what": what}
        self.show({})
        if not self.live:  # it may take long, and be the last
            self._tell()
        tell = entering(self.then)
        if tell is not None:
            tell(step, n_steps, what)

    def show(self, record: dict[str, Any]) -> None:
        super().show({**record, **self._now, "seconds": time.monotonic() - self._started})

    def stage_of(self, record: dict[str, Any]) -> float:
        return float(record["step"])

    def share_of(self, record: dict[str, Any]) -> float:
        return max(0.0, (self.stage_of(record) - 1) / self.n_stages)

    def text(self, record: dict[str, Any]) -> str:
        error = ""
        if "criterion" in record:
            error = f"  {typed_name(record['kernel'])}: held-out error {record['criterion']:.4g}"
        return f"step {record['step']} of {self.n_stages}: {record['what']}{error}"


class PassLine(ProgressLine):
    """The line of passes over rows in blocks: the bar fills with the rows of a pass, and each pass is a stage."""

    pause = PAUSE_OF_PASSES

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(1, None, stream)

    def stage_of(self, record: dict[str, Any]) -> float:
        return float(record["pass"])

    def share_of(self, record: dict[str, Any]) -> float:
        return float(record["done"] / record["n_rows"])

    def ends(self, record: dict[str, Any]) -> bool:
        return bool(record["done"] >= record["n_rows"])

    def is_told(self, record: dict[str, Any]) -> bool:
        return bool(record["pass"] <= ALWAYS_TOLD)

    def text(self, record: dict[str, Any]) -> str:
        speed = (record["done"] - record.get("first", 0)) / max(record["seconds"], 1e-9)
        left = (record["n_rows"] - record["done"]) / speed
        return (
            f"pass {record['pass']}: {record['done']:,} of {record['n_rows']:,} rows, {speed:,.0f} rows/s, {left:.0f} s left"
        )


class CountLine(ProgressLine):
    """The line of :meth:`bochner.rows.RowSource.count`: the bar fills with the bytes of the files."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(1, None, stream)

    def stage_of(self, record: dict[str, Any]) -> float:
        return 0.0

    def share_of(self, record: dict[str, Any]) -> float:
        return float(record["share"] or 0.0)

    def text(self, record: dict[str, Any]) -> str:
        seconds, share = record["seconds"], record["share"]
        left = f", {seconds * (1 - share) / share:.0f} s left" if share else ""
        return f"counting: {record['done']:,} rows, {record['done'] / max(seconds, 1e-9):,.0f} rows/s{left}"


class PathLine(ProgressLine):
    """The line of :func:`bochner.multiple_kernel.learn_weights`: the bar fills with the paths of penalties.

    A path may end early, where smaller penalties promise nothing. Where all is learned once more, ``turn`` is 2.
    """

    def __init__(
        self,
        n_paths: int,
        turn: int = 1,
        then: Callable[[dict[str, Any]], None] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        super().__init__(n_paths, then, stream)
        self.turn = turn

    def stage_of(self, record: dict[str, Any]) -> float:
        return float(record["done"])

    def text(self, record: dict[str, Any]) -> str:
        error = "" if record["error"] is None else f": held-out error {record['error']:.4g} so far"
        again = f"round {self.turn} with the kernels that are in, " if self.turn > 1 else ""
        share = self.share_of(record)
        left = left_in_words(record["seconds"] * (1 - share) / share if share else None) if self.live else ""
        return f"{again}path {min(int(record['done']) + 1, self.n_stages)} of {self.n_stages}{error}{left}"
