"""What commands show: a bar while they work, tables and JSON when they are done."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

TOP = 10
"""Columns that a table shows."""
WIDTH = 24


class Bar:
    """A line that says how far a fit is, where the standard error stream is a terminal; nothing unless ``shown``."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown and sys.stderr.isatty()
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

    @contextmanager
    def watching(self, model: Any, own_line: bool = False) -> Iterator[None]:
        """Follow the fit of a model: by its callback, or by its own line where it has none or ``own_line``."""
        self.say(f"fitting {type(model).__name__}")
        if "callback" in model.get_params(deep=False) and not own_line:
            model.callback = follower(self)
            try:
                yield
            finally:
                model.callback = None
            return
        if self._progress is not None:
            self._progress.stop()
        model.verbose = int(self.shown)
        try:
            yield
        finally:
            model.verbose = 0
            if self._progress is not None:
                self._progress.start()


def follower(bar: Bar) -> Any:
    """A callback that moves a bar: with the work of a descent, or with the steps where a fit is more than one."""
    from bochner.progress import Follower, Work, left_in_words

    class Moving(Follower):
        work: Work | None = None
        share: float | None = None
        step = ""

        def begins(self, work: Work) -> None:
            self.work, self.share, self.step = work, None, ""

        def enters(self, step: int, n_steps: int, what: str) -> None:
            self.work, self.share, self.step = None, (step - 1) / n_steps, f"step {step} of {n_steps}: "
            bar.say(f"{self.step}{what}", self.share)

        def __call__(self, record: dict[str, Any]) -> None:
            share, done = self.share, self.step
            if self.work is not None:
                self.work.add(record)
                share = self.work.share
                done = f"{share:.0%} of learning the kernel{left_in_words(self.work.seconds_left)}; "
            size = f", {record['n_features']} features" if "n_features" in record else ""
            rows = f", {record['n_rows']:,} rows" if "n_rows" in record else ""
            about = record["kernel"] if self.step else f"{record['kernel']}{size}{rows}"
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
    seconds: float = 0.0

    def print(self) -> None:
        """Tables for people."""
        console = new_console()
        line = {"highlight": False, "markup": False, "soft_wrap": True}  # which a terminal breaks, and a file does not
        what = f"{self.rows:,} rows, {self.columns} columns, {self.task} of {self.target!r}"
        kernel = "" if self.kernel is None else f", kernel {self.kernel}"
        console.print(f"{self.estimator}{kernel}: {what}, {self.seconds:.1f} s", **line)
        if self.scores:
            measures = list(next(iter(self.scores.values())))
            rows = [[name, *(f"{found[measure]:.4f}" for measure in measures)] for name, found in self.scores.items()]
            print_table(console, f"Score on {self.tested:,} rows that were held out", ["", *measures], rows)
        shown = self.relevance or self.weights
        title = "Most relevant columns" if self.relevance else "Weights of the kernels"
        largest = max(shown.values(), default=0.0) or 1.0
        rows = [[name, f"{value:.3f}", "█" * round(20 * value / largest)] for name, value in list(shown.items())[:TOP]]
        print_table(console, title, ["", "", ""], rows)
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes >= 1e5 else f"{self.bytes / 1e3:.1f} kB"
        console.print(f"{self.model} ({size})", **line)
        if self.held_rows:
            console.print(f"It holds {self.held_rows:,} rows of the data; with --finish fourier it would hold none.", **line)
        if self.refitted is not None:
            console.print(f"It was fitted again on all {self.refitted:,} rows; the score is that of the fit before.", **line)
        if self.report is not None:
            console.print(self.report, **line)

    def print_json(self) -> None:
        """One JSON object."""
        print_json(asdict(self))


def new_console() -> Any:
    """Standard output for tables; 100 columns wide where it is no terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=100, no_color=True)


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
