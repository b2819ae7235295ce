"""What commands show: a bar while they work, tables and JSON when they are done."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from bochner.cli.running import tell
from bochner.estimators.summary import counted, held_out_rows

WORTH_TELLING = 100_000
"""Bytes from which on it is said what they are for."""
TOP = 10
"""Columns that a table shows."""
WIDTH = 24


PATIENCE = 5.0
"""Seconds before there is a line where no terminal shows a bar: what is done sooner needs none."""
APART = 2.0
"""Seconds between such lines."""
STILL = 30.0
"""Seconds without a line after which the last one comes again: a step may take long."""
LINE = re.compile(r"\[[#.]+\] ")
"""How a line of progress begins."""


class Bar:
    """A line that says how far a fit is, on a terminal, or lines now and then elsewhere; none unless ``shown``."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown and sys.stderr.isatty()
        self._in_lines = shown and not self.shown
        self._began = time.monotonic()
        self._progress: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = SpinnerColumn(), BarColumn(WIDTH), TimeElapsedColumn(), TextColumn("{task.description}")
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.start()
            self._task = self._progress.add_task("reading", total=None)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def say(self, text: str, share: float | None = None) -> None:
        """What is done now, and which share of it is behind, where that is known."""
        if self._progress is not None:
            known = {} if share is None else {"completed": share}
            self._progress.update(self._task, description=text, total=None if share is None else 1.0, **known)
        elif self._in_lines and time.monotonic() - self._began >= PATIENCE:
            tell(text)

    @contextmanager
    def watching(self, model: Any, own_line: bool = False) -> Iterator[None]:
        """Follow a fit on a terminal: by its callback, or its own line (or if ``own_line``); else by lines."""
        self.say(f"fitting {type(model).__name__}")
        if self.shown and "callback" in model.get_params(deep=False) and not own_line:
            model.callback = follower(self)
            try:
                yield
            finally:
                model.callback = None
            return
        if self._progress is not None:
            self._progress.stop()
        model.verbose = int(self.shown or self._in_lines)
        try:
            with Spaced(sys.stderr) if self._in_lines else nullcontext() as lines, redirect_stderr(lines or sys.stderr):
                yield
        finally:
            model.verbose = 0
            if self._progress is not None:
                self._progress.start()


class Spaced(io.TextIOBase):
    """A stream that passes on what is written to it, but for lines of progress that come too early or too often.

    Within it the last such line comes once more where there has been none for long.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._next = self._began + PATIENCE
        self._again = self._began + PATIENCE
        self._last = ""
        self._lock = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Spaced:
        threading.Thread(target=self._remind, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()

    def write(self, text: str) -> int:
        """Pass text on, or drop it."""
        with self._lock:
            if LINE.match(text):
                self._last, now = text, time.monotonic()
                if now < self._next:
                    return len(text)
                self._next, self._again = now + APART, now + STILL
            return self._stream.write(text)

    def remind(self) -> None:
        """The last line once more, if it is time."""
        with self._lock:
            now = time.monotonic()
            if self._last and now >= self._again:
                self._stream.write(f"{self._last.rstrip()} (still at it after {now - self._began:.0f} s)\n")
                self._stream.flush()
                self._again = now + STILL

    def flush(self) -> None:
        """Let the stream show what it has."""
        self._stream.flush()

    def _remind(self) -> None:
        while not self._over.wait(1.0):
            self.remind()


def follower(bar: Bar) -> Any:
    """A callback that moves a bar: with the work of a descent, or with the steps where a fit is more than one."""
    from bochner.descent import typed_name
    from bochner.progress import Follower, Work, left_in_words

    class Moving(Follower):
        work: Work | None = None
        share: float | None = None
        step = ""

        def begins(self, work: Work) -> None:
            self.work = work

        def enters(self, step: int, n_steps: int, what: str) -> None:
            self.work, self.share, self.step = None, (step - 1) / n_steps, f"step {step} of {n_steps}: "
            bar.say(f"{self.step}{what}", self.share)

        def __call__(self, record: dict[str, Any]) -> None:
            share, done = self.share, self.step
            if self.work is not None:
                self.work.add(record)
                before = self.share or 0.0  # by other steps
                share = before + (1 - before) * self.work.share
                done = f"{self.step}{self.work.share:.0%} of learning the kernel{left_in_words(self.work.seconds_left)}; "
            size = f", {record['n_features']} features" if "n_features" in record else ""
            rows = f", {record['n_rows']:,} rows" if "n_rows" in record else ""
            about = typed_name(record["kernel"]) + ("" if self.step else f"{size}{rows}")
            bar.say(f"{done}{about}: held-out error {record['criterion']:.4g}", share)

    return Moving()


@dataclass
class Outcome:
    """What came of a fit."""

    task: str
    target: str
    estimator: str
    rows: int
    tested: int
    columns: int
    weight: str | None = None
    kernel: str | None = None
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    relevance: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    refitted: int | None = None
    model: str = ""
    report: str | None = None
    bytes: int = 0
    held_rows: int = 0
    """Rows of the fit that the model holds, and its file."""
    distinct_rows: int | None = None
    """Rows of the fit that differ, where that is known; they are counted where the model holds some of them but not all."""
    kept_for_std: int = 0
    """Bytes of the file that ``predict --std`` alone needs."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    """What is to be said after all else."""

    def print(self) -> None:
        """Tables for people."""
        console = new_console()
        line = {"highlight": False, "markup": False, "soft_wrap": True}  # which a terminal breaks, and a file does not
        what = f"{counted(self.rows, 'row')}, {counted(self.columns, 'column')}, {self.task} of {self.target!r}"
        kernel = "" if self.kernel is None else f", kernel {self.kernel}"
        console.print(f"{self.estimator}{kernel}: {what}, {self.seconds:.1f} s", **line)
        if self.scores:
            print_scores(console, self.scores, self.tested)
        shown = self.relevance or self.weights
        title = "Most relevant columns" if self.relevance else "Weights of the kernels"
        largest = max(shown.values(), default=0.0) or 1.0
        rows = [[name, f"{value:.3f}", "█" * round(20 * value / largest)] for name, value in list(shown.items())[:TOP]]
        print_table(console, title, ["", "", ""], rows)
        console.print(f"{self.model} ({_size(self.bytes)})", **line)
        if self.kept_for_std >= WORTH_TELLING:
            size = _size(self.kept_for_std)
            console.print(f"{size} of it are sums that predict --std needs; without --std they would not be there.", **line)
        if self.held_rows:
            console.print(f"{self._held()}; with --finish fourier it would hold none.", **line)
        if self.refitted is not None:
            console.print(f"It was fitted again on all {self.refitted:,} rows; the score is that of the fit before.", **line)
        if self.report is not None:
            console.print(self.report, **line)
        self._tell_notes()

    def print_json(self) -> None:
        """One JSON object."""
        print_json(asdict(self))
        self._tell_notes()

    def _held(self) -> str:
        """How many rows of the data the model holds, and why not all that it was fitted on."""
        fitted = self.refitted or self.rows
        if self.held_rows == fitted:
            return f"It holds {counted(self.held_rows, 'row')} of the data"
        why = ", for the others are equal to some of these" if self.held_rows == self.distinct_rows else ""
        return f"It holds {self.held_rows:,} of the {fitted:,} rows that it was fitted on{why}"

    def _tell_notes(self) -> None:
        sys.stdout.flush()
        for note in self.notes:
            tell(f"Note: {note}")


def new_console() -> Any:
    """Standard output for tables; 100 columns wide where it is no terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=100, no_color=True)


def print_scores(console: Any, scores: dict[str, dict[str, float]], n_rows: int, of: str = "") -> None:
    """The scores of a model and of simple ones beside it; ``of`` says of which fit."""
    measures = list(next(iter(scores.values())))
    rows = [[name, *(f"{found.get(measure, float('nan')):.4f}" for measure in measures)] for name, found in scores.items()]
    title = f"Score on {held_out_rows(n_rows)}" + (f" from the {of}" if of else "")
    print_table(console, title, ["", *measures], rows)


def print_table(console: Any, title: str, header: list[str], rows: list[list[str]]) -> None:
    """A table with a title; the first column and bars to the left, numbers to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    if title:  # a line of its own: a title of the table's would be broken at its width
        console.print(title, style="italic", highlight=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD, show_header=any(header), pad_edge=False)
    for i, name in enumerate(header):
        left = i == 0 or (not any(header) and i == len(header) - 1)
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def print_json(value: Any) -> None:
    """One JSON value on standard output, without NaN, which JSON does not know."""
    sys.stdout.write(json.dumps(_plain(value), indent=2, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if isinstance(value, str | int | bool) or value is None else str(value)


def _size(n_bytes: int) -> str:
    """The size of a file, or of a part of it."""
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:.1f} kB"
