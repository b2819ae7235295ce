"""``bochner fit``: from a file to a model in a file, and how good it is."""

from __future__ import annotations

import difflib
import importlib.util
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bochner.cli.columns import refuse_headings, rows_for
from bochner.cli.data import PIPE, check_ending, check_writable, find_column, read_batches, read_table, style_of
from bochner.cli.running import USAGE, CommandError, Interrupted, tell
from bochner.cli.scoring import baselines, hold_out, scores
from bochner.cli.showing import Bar, Outcome
from bochner.cli.tasks import Asked, Problem, make_problem, read_views
from bochner.cli.wording import in_options
from bochner.descent import family_name, typed_name
from bochner.estimators import provenance
from bochner.estimators.encoding import forget_names
from bochner.estimators.summary import counted, held_rows
from bochner.memory import as_bytes
from bochner.rows.batches import bytes_in_memory, kind_of
from bochner.rows.csv_files import CsvStyle

PAGE = (".html", ".htm")
"""How names of pages end."""
MANY_ROWS = 20_000
"""Rows from which on it is said how to be quicker."""
COPIES = 4
"""How often rows are there at a time while they are learned from: files that are larger come in blocks."""


@dataclass(frozen=True)
class FitOptions:
    """What ``bochner fit`` was asked for, beside the columns."""

    kernel: str = "auto"
    effort: str | None = None
    finish: str | None = None
    features: int | None = None
    views: str | None = None
    seed: int = 0
    test: float = 0.2
    test_file: str | None = None
    refit: bool = False
    max_memory: str | None = None
    device: str | None = None
    checkpoint: str | None = None
    std: bool = False
    delimiter: str | None = None
    no_header: bool = False

    @property
    def style(self) -> CsvStyle:
        """How files of CSV are written."""
        return style_of(self.delimiter, self.no_header)


def fit(data: str, output: str, asked: Asked, options: FitOptions, bar: Bar, report: str | None = None) -> Outcome:
    """Learn, score, save; nothing is written before the model is whole."""
    check_apart(
        {"-o": output, "--report": report}, {"the data": data, "--test-file": options.test_file, "--views": options.views}
    )
    check_ending(output, [".safetensors"], "-o", "model.safetensors")
    check_place(output)
    if report is not None:
        check_ending(report, PAGE, "--report", "report.html")
        check_place(report)
        check_pictures()
    if options.views is not None and options.std:
        raise CommandError("--std is for one kernel, and --views makes many: leave one of them out.", code=USAGE)
    began = time.perf_counter()
    in_blocks = data != PIPE and _is_large(data, options)
    learn = _fit_blocks if in_blocks else _fit_table
    with resumable(options):
        model, outcome, test = learn(data, asked, options, bar)
    model.target_name_ = outcome.target
    if options.no_header:
        forget_names(model)
        test = None if test is None else replace(test, X=rows_for(model, test.X, data))
    if outcome.weight is not None:
        model.weight_name_ = outcome.weight
    if in_blocks:
        bar.say(f"reading {data} once more, to know it again")
    path = None if data == PIPE else data
    provenance.remember(model, outcome.scores, outcome.tested, outcome.refitted is not None, path)
    model.save(output, compact=not options.std)
    outcome.held_rows = held_rows(model)
    outcome.kept_for_std = bytes_for_deviations(model) if options.std else 0
    outcome.seconds, outcome.model, outcome.bytes = time.perf_counter() - began, output, os.path.getsize(output)
    if report is not None:
        held_out = "They are rows that were held out from the fit." if options.test_file is None else None
        write_report(model, report, test, f"{Path(output).stem}: {outcome.target}", held_out)
        outcome.report = report
    return outcome


@contextmanager
def resumable(options: FitOptions) -> Iterator[None]:
    """Let Ctrl-C say how to go on."""
    try:
        yield
    except Interrupted:
        raise Interrupted(
            "What was learned so far is lost: with --checkpoint FOLDER the same command could go on from there."
            if options.checkpoint is None
            else f"The same command goes on from what is in {options.checkpoint}."
        ) from None


def bytes_for_deviations(model: Any) -> int:
    """What standard deviations need beside predictions, in bytes; see ``save(compact=False)``."""
    _, sums = getattr(model, "_few_centres", None) or (None, getattr(model, "moments_", None))
    return 0 if sums is None else sum(each.nbytes for each in vars(sums).values() if isinstance(each, np.ndarray))


def check_place(path: str) -> None:
    """An error where no file can be made."""
    check_writable(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise CommandError(f"{path} is no plain file: give the name of one.")


def check_apart(outputs: dict[str, str | None], inputs: dict[str, str | None]) -> None:
    """An error where something would be written over a file that is read, or over another output."""
    seen = {os.path.realpath(path): name for name, path in inputs.items() if path not in (None, PIPE)}
    for name, path in outputs.items():
        if path is None or path == PIPE:
            continue
        if (place := os.path.realpath(path)) in seen:
            raise CommandError(
                f"{path} is both {seen[place]} and {name}, and would be lost: give another {name}.", code=USAGE
            )
        seen[place] = name


def check_pictures() -> None:
    """An error where what draws the pictures of a page is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError('A report needs matplotlib, which is not installed: pip install "bochner[plots]"')


def write_report(model: Any, path: str, test: Problem | None, title: str | None, about: str | None = None) -> None:
    """The page about a model, with scores of rows if there are any; ``about`` says which they are."""
    from bochner.model_report import write_model_report

    X, y, weight = (None, None, None) if test is None else (test.X, test.y, test.weight)
    write_model_report(model, path, X, y, title, sample_weight=weight, about_rows=about)


def _fit_table(data: str, asked: Asked, options: FitOptions, bar: Bar) -> tuple[Any, Outcome, Problem | None]:
    """A fit of rows in memory."""
    table = read_table(data, options.style)
    if options.no_header:
        refuse_headings(table, data)
        asked = asked.among(table.schema.names)
    problem = make_problem(table, asked, data)
    train, test = hold_out(problem, 0.0 if options.test_file else options.test, options.seed)
    if options.test_file is not None:
        test = _test_file(options, asked, problem)
    model = make_model(problem.task, options, problem.X.schema.names)
    if train.n_rows >= MANY_ROWS and options.features is None and bar.shown:
        tell(f"Note: {train.n_rows:,} rows may take minutes; --features 500 --kernel gaussian gives a first model sooner.")
    with bar.watching(model):
        model.fit(train.X, train.y, sample_weight=train.weight)
    outcome = outcome_of(model, train, test, asked)
    if test is not None:
        bar.say("comparing with simple models")
        outcome.scores = {type(model).__name__: scores(model, test), **baselines(train, test, options.seed)}
        outcome.notes += _if_simple_is_better(outcome.scores)
    elif options.test > 0:
        outcome.notes.append(
            f"there is no table of scores, for {counted(problem.n_rows, 'row')} {'is' if problem.n_rows == 1 else 'are'} "
            f"too few to hold out a share of {options.test:g}: give more rows, or others to score by as --test-file."
        )
    if options.refit and test is not None and options.test_file is None:
        bar.say("fitting all rows")
        model = make_model(problem.task, options, problem.X.schema.names)
        with bar.watching(model):
            model.fit(problem.X, problem.y, sample_weight=problem.weight)
        outcome.refitted, test = problem.n_rows, None  # of which the new model has seen all
    fitted = problem if outcome.refitted else train
    if 0 < held_rows(model) < fitted.n_rows:
        outcome.distinct_rows = count_distinct(fitted.X)
    return model, outcome, test


def count_distinct(table: Any) -> int | None:
    """How many rows of a table of pyarrow's differ; None where it has columns that pyarrow does not compare."""
    import pyarrow as pa

    try:
        return int(table.group_by(table.schema.names).aggregate([]).num_rows)
    except pa.ArrowNotImplementedError:
        return None


def _if_simple_is_better(found: dict[str, dict[str, float]]) -> list[str]:
    """A note where a simple model has the better score; the first score of each is the one to compare, and is larger."""
    (own, ours), *others = [(name, next(iter(each.values()))) for name, each in found.items()]
    best, score = max(others, key=lambda each: each[1])
    if score <= ours:
        return []
    better = f"{best} is better than {own} here ({score:.4f} and {ours:.4f})"
    return [f"{better}: try --effort best, more rows, or columns that say more."]


def _test_file(options: FitOptions, asked: Asked, problem: Problem) -> Problem:
    """The rows of ``--test-file``, with the columns of those that are learned from; what is text there is text here."""
    import pyarrow as pa

    path, columns = str(options.test_file), problem.X.schema
    text = [name for name in columns.names if pa.types.is_string(columns.field(name).type)]
    table = read_table(path, options.style, text)
    if options.no_header:
        refuse_headings(table, path)
    test = make_problem(table, Asked(asked.target, asked.weight, (), problem.task), path)
    chosen = [find_column(name, test.X.schema.names, path, "which is learned from") for name in columns.names]
    return replace(test, X=test.X.select(chosen))


def _fit_blocks(data: str, asked: Asked, options: FitOptions, bar: Bar) -> tuple[Any, Outcome, Problem | None]:
    """A fit of rows in blocks: the score is of ``--test-file``, or there is none but the fit's own."""
    import pyarrow as pa

    import bochner

    if options.refit:
        raise CommandError(
            f"--refit is for files that fit in memory, and {data} is read in blocks: leave it out.", code=USAGE
        )
    first = next(read_batches(data, options.style), None)
    if first is None:
        raise CommandError(f"{data} has no rows, and at least one is needed: give a file with rows.")
    if options.no_header:
        refuse_headings(first, data)
        asked = asked.among(first.schema.names)
    head = make_problem(pa.Table.from_batches([first]), asked, data)
    columns = head.X.schema.names
    tell(f"Note: {data} is larger than memory allows and is read in blocks; the score is of --test-file, if there is one.")
    source = bochner.open_rows(
        data,
        target=asked.target,
        weight=asked.weight,
        columns=columns,
        encode=True,
        delimiter=options.style.delimiter,
        header=options.style.header,
    )
    model = make_model(head.task, options, columns)
    with bar.watching(model, own_line=True):
        model.fit(source)
    _name_classes(model, head)
    test = None if options.test_file is None else _test_file(options, asked, head)
    outcome = outcome_of(model, head, test, asked)
    outcome.rows = source.n_rows
    if test is not None:
        outcome.scores = {type(model).__name__: scores(model, test), **baselines(head, test, options.seed)}
        outcome.notes += _if_simple_is_better(outcome.scores)
    return model, outcome, test


def _name_classes(model: Any, head: Problem) -> None:
    """Classes as a fit in memory names them: rows in blocks have numbers for true and false, and for whole numbers."""
    if head.task != "classification" or model.classes_.dtype.kind not in "fiu":
        return
    truth = head.y.dtype.kind == "O"
    model.classes_ = np.array(["false", "true"], dtype=object) if truth else model.classes_.astype(head.y.dtype)


def make_model(task: str, options: FitOptions, columns: Sequence[str]) -> Any:
    """The estimator that a task and the options ask for."""
    import bochner

    if options.std and task == "classification":
        raise CommandError("--std is for regression, and the target is one of classes: leave it out.", code=USAGE)
    names = ["auto" if name.strip() == "auto" else _kernel_name(name) for name in options.kernel.split(",")]
    kernel: Any = names if len(names) > 1 else names[0]
    common: dict[str, Any] = {
        "n_features": options.features,
        "max_memory": options.max_memory,
        "device": options.device,
        "checkpoint": options.checkpoint,
        "random_state": options.seed,
    }
    if options.views is None:
        cls: Any = bochner.KernelRegressor if task == "regression" else bochner.KernelClassifier
        asked = {"effort": options.effort, "finish": options.finish}
        return cls(kernel, **{name: value for name, value in asked.items() if value is not None}, **common)
    if not isinstance(kernel, str):
        raise CommandError(
            "--kernel names several families, and --views takes one for each view: name it there.", code=USAGE
        )
    for option, value in (("--effort", options.effort), ("--finish", options.finish)):
        if value is not None:
            raise CommandError(f"{option} is for one kernel, and --views makes many: leave one of them out.", code=USAGE)
    kernels = [
        (name, _kernel_name(family, f"view {name!r} of {options.views}"), view)
        for name, family, view in read_views(options.views, columns, "gaussian" if kernel == "auto" else kernel)
    ]
    cls = bochner.MultipleKernelRegressor if task == "regression" else bochner.MultipleKernelClassifier
    return cls(kernels, **common)


def _kernel_name(name: str, where: str = "--kernel") -> str:
    from bochner.kernels import KERNELS, kernel_name

    found = kernel_name(name)
    if found is None:
        names = ["auto", *KERNELS] if where == "--kernel" else list(KERNELS)
        near = difflib.get_close_matches(name, KERNELS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise CommandError(f"There is no kernel {name!r} ({where}).{hint} Use one of {', '.join(names)}.", code=USAGE)
    return found


def outcome_of(model: Any, train: Problem, test: Problem | None, asked: Asked) -> Outcome:
    """What is said of a fit."""
    outcome = Outcome(
        task=train.task,
        target=asked.target,
        weight=asked.weight,
        estimator=type(model).__name__,
        rows=train.n_rows,
        tested=0 if test is None else test.n_rows,
        columns=len(train.X.schema.names),
    )
    if hasattr(model, "relevance_by_name"):
        outcome.relevance = model.relevance_by_name(by="column")
        outcome.kernel = typed_name(family_name(model.kernel_))
    else:
        weights = model.kernel_weights_by_name()
        outcome.weights = {name: float(np.linalg.norm(weight)) for name, weight in weights.items()}
    return outcome


def _is_large(path: str, options: FitOptions) -> bool:
    """Whether a file is one to be read in blocks."""
    try:
        limit = as_bytes(options.max_memory)
    except ValueError as error:
        raise CommandError(in_options(str(error)), code=USAGE) from None
    if not os.path.isfile(path):
        return False
    is_large = COPIES * bytes_in_memory(Path(path)) > limit
    if is_large and kind_of(Path(path)) == "json":
        tell(f"Note: {path} may be larger than memory allows, and a fit takes JSON lines whole: write Parquet or CSV.")
        return False
    return is_large
