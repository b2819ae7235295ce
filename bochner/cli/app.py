"""The commands of ``bochner`` and their options; what they do is imported when they are run."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from enum import StrEnum
from typing import Annotated, Any

import rich  # noqa: F401, so that its absence is told before a command runs
import typer

import bochner
from bochner.cli import APART, OF_APP
from bochner.cli.running import USAGE, CommandError, guarded, tell

EXIT_CODES = "Exit codes: 0 done, 1 it could not be done, 2 it was asked for wrongly, 130 Ctrl-C, 141 a closed pipe."

app = typer.Typer(
    name="bochner",
    help="Kernel machines that learn their own kernel.",
    epilog=EXIT_CODES,
    no_args_is_help=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


class Task(StrEnum):
    """What is learned."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Effort(StrEnum):
    """How much is tried."""

    fast = "fast"
    default = "default"
    best = "best"


class Finish(StrEnum):
    """What the model is made of."""

    auto = "auto"
    centres = "centres"
    fourier = "fourier"


EXPECTED = {
    "--task": "one of " + ", ".join(Task),
    "--effort": "one of " + ", ".join(Effort),
    "--finish": "one of " + ", ".join(Finish),
    "--features": "an even whole number of two or more, such as 500",
    "--test": "a share between 0 and 0.9, such as 0.2",
    "--seed": "a whole number from 0 to 4294967295",
}
"""What options may be that are not just text, as errors tell it."""


def _flag(*names: str, **more: Any) -> Any:
    """An option that takes no value, of which help says nothing in its place."""
    return typer.Option(*names, metavar="", **more)


Json = Annotated[bool, _flag("--json", help="Print JSON in place of tables.")]
Quiet = Annotated[bool, _flag("--quiet", "-q", help="No progress, neither as a bar nor in lines.")]
Delimiter = Annotated[
    str | None, typer.Option(metavar="CHARACTER", help="What separates columns of CSV: ';', tab, ...", show_default=False)
]
NoHeader = Annotated[
    bool, _flag("--no-header", help="CSV without a line of names: columns are f0, f1, ... or numbers, -1 the last.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A file that bochner fit wrote.", show_default=False)]


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"bochner {bochner.__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001, its callback has answered
        bool, _flag("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Kernel machines that learn their own kernel."""
    if context.invoked_subcommand is None:
        with redirect_stdout(sys.stderr):  # where Typer prints help
            sys.stdout.write(context.get_help())
        raise typer.Exit(2)


def _columns(given: list[str] | None) -> list[str]:
    """Names that may come in several options, or in one, with commas between them."""
    return [name for each in given or [] for name in each.split(",") if name]


@app.command(
    help="Learn a model from a file of rows, and say how good it is.\n\n"
    "Files are CSV, TSV (also .gz), Parquet, Arrow or JSON lines; - is CSV from standard input. Columns may hold numbers, "
    "categories, text of few values, dates and gaps. A part of the rows is held out to score the model, beside a constant "
    "and a linear model; the model that is scored is the one that is written, unless --refit fits all rows again.",
    epilog="bochner fit houses.csv --target price -o price.safetensors\n\n"
    "bochner fit people.parquet --target income --drop id,name --effort best --report income.html\n\n"
    "bochner fit songs.csv --target year --views views.toml --json > outcome.json\n\n" + EXIT_CODES,
)
@guarded
def fit(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="The file of rows; - for CSV from a pipe.", show_default=False)
    ],
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.", show_default=False)
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where the model goes.")
    ] = "model.safetensors",
    task: Annotated[Task, typer.Option(help="Numbers or classes; auto looks at the target.")] = Task.auto,
    kernel: Annotated[str, typer.Option(metavar="NAME", help="A kernel, several with commas, or auto.")] = "auto",
    views: Annotated[
        str | None, typer.Option(metavar="FILE", help="A TOML file that names groups of columns, a kernel for each.")
    ] = None,
    effort: Annotated[Effort | None, typer.Option(help="How much is tried.", show_default="default")] = None,
    finish: Annotated[
        Finish | None, typer.Option(help="fourier: a model that holds no rows of the data.", show_default="auto")
    ] = None,
    features: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Random features of a kernel; an even number.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Columns to leave out; with commas, or given again.")
    ] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of weights of rows.")] = None,
    test: Annotated[
        float, typer.Option(metavar="SHARE", min=0.0, max=0.9, help="Share of rows held out to score, at most 10,000.")
    ] = 0.2,
    test_file: Annotated[str | None, typer.Option(metavar="FILE", help="Rows to score by, in place of --test.")] = None,
    refit: Annotated[bool, _flag("--refit", help="Fit all rows again after scoring.")] = False,
    std: Annotated[bool, _flag("--std", help="Keep what predict --std needs; the file is larger.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Seed of all chance.")] = 0,
    max_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Such as 2GB; larger files are read in blocks.")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cuda, for a GPU.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="A folder from which a killed fit goes on.")
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE", help="Also write a page about the model here.")] = None,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model from a file."""
    from bochner.cli import fitting, showing, tasks

    asked = tasks.Asked(target, weight, _columns(drop), task.value)
    options = fitting.FitOptions(
        kernel=kernel,
        effort=None if effort is None else effort.value,
        finish=None if finish is None else finish.value,
        features=features,
        views=views,
        seed=seed,
        test=test,
        test_file=test_file,
        refit=refit,
        max_memory=max_memory,
        device=device,
        checkpoint=checkpoint,
        std=std,
        delimiter=delimiter,
        no_header=no_header,
    )
    with showing.Bar(not quiet) as bar:
        outcome = fitting.fit(data, output, asked, options, bar, report)
    if json:
        outcome.print_json()
    else:
        outcome.print()


@app.command(
    help="Predict the rows of a file by a model.\n\n"
    "Columns are found by name. Predictions have the name of the target; --keep copies columns of the data beside them. "
    "Rows are read and written in batches, so that files may be of any size.",
    epilog="bochner predict price.safetensors new.csv -o out.parquet\n\n"
    "bochner predict income.safetensors new.parquet --proba --keep id -o out.csv\n\n"
    "zcat new.csv.gz | bochner predict price.safetensors - | head\n\n" + EXIT_CODES,
)
@guarded
def predict(
    model: Model,
    data: Annotated[str, typer.Argument(metavar="DATA", help="The file of rows; - for CSV from a pipe.")] = "-",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where predictions go; - for CSV on standard output.")
    ] = "-",
    std: Annotated[bool, _flag("--std", help="Also the standard deviation of new observations.")] = False,
    proba: Annotated[bool, _flag("--proba", help="Also the probability of each class.")] = False,
    keep: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Columns of the data to copy.")] = None,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    json: Json = False,
) -> None:
    """Predict the rows of a file."""
    from bochner.cli import data as files
    from bochner.cli import models, showing
    from bochner.estimators.summary import counted

    if json and output == "-":
        raise CommandError("--json and the predictions would share standard output: give -o.", code=2)
    style = files.style_of(delimiter, no_header)
    rows = models.predict(model, data, output, std=std, proba=proba, keep=_columns(keep), style=style)
    if json:
        showing.print_json({"rows": rows, "output": output})
    elif output != "-":
        sys.stderr.write(f"{counted(rows, 'row')} to {output}\n")


@app.command(
    help="Write a page about a model: what it learned, how good it is, what it relies on.",
    epilog="bochner report price.safetensors --data test.csv -o price.html --open\n\n" + EXIT_CODES,
)
@guarded
def report(
    model: Model,
    data: Annotated[str | None, typer.Option(metavar="FILE", help="Rows that the model has not seen, to score it.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="The target's column, if the model has no name.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.")] = "report.html",
    open_it: Annotated[bool, _flag("--open", help="Open it in a browser.")] = False,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    json: Json = False,
) -> None:
    """Write a page about a model."""
    from bochner.cli import data as files
    from bochner.cli import models, showing

    path = models.report(model, data, output, target, files.style_of(delimiter, no_header))
    if json:
        showing.print_json({"report": path})
    else:
        sys.stdout.write(f"{path}\n")
    if open_it:
        models.show_page(path)


@app.command(
    help="Say what a model file holds.", epilog="bochner inspect price.safetensors --json | jq .kernel\n\n" + EXIT_CODES
)
@guarded
def inspect(model: Model, json: Json = False) -> None:
    """Say what a model file holds."""
    from bochner.cli import models

    models.inspect(model, json)


@app.command(
    help="Write a model as a graph of ONNX, which predicts without bochner.",
    epilog="bochner export price.safetensors price.onnx\n\n" + EXIT_CODES,
)
@guarded
def export(
    model: Model,
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="A file that ends in .onnx.", show_default=False)],
    json: Json = False,
) -> None:
    """Write a model as a graph of ONNX."""
    from bochner.cli import models, showing

    models.export(model, output)
    if json:
        showing.print_json({"output": output})
    else:
        sys.stdout.write(f"{output}\n")


@app.command(
    help="Make a small table of houses, fit it, and show what came of it.",
    epilog="bochner demo --folder try && bochner predict try/houses.safetensors try/houses.csv | head\n\n" + EXIT_CODES,
)
@guarded
def demo(
    folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where table and model go; made if it is not there.")
    ] = "bochner-demo",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a small table, fit it, and show what came of it."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from bochner.cli import data, demo, fitting, showing, tasks

    Path(folder).mkdir(parents=True, exist_ok=True)
    table, model = str(Path(folder) / "houses.csv"), str(Path(folder) / "houses.safetensors")
    with TemporaryDirectory() as apart:
        made = Path(apart) / "houses.csv"
        data.write_batches(str(made), demo.houses().to_batches())
        if Path(table).exists() and Path(table).read_bytes() != made.read_bytes():
            raise CommandError(f"{table} holds rows of another kind, which would be lost: name another folder by --folder.")
    data.write_batches(table, demo.houses().to_batches())
    if not json:
        sys.stdout.write(f"bochner fit {table} --target price --features 500 -o {model}\n")
        sys.stdout.flush()
    with showing.Bar(not quiet) as bar:
        outcome = fitting.fit(table, model, tasks.Asked("price"), fitting.FitOptions(features=500), bar)
    outcome.print_json() if json else outcome.print()


def _elsewhere(name: str) -> Any:
    """A command that reads its own options; it is here for the help alone."""

    @app.command(
        name=name,
        help=APART[name].help[0].upper() + APART[name].help[1:] + ".",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def run(context: typer.Context) -> None:
        from bochner.cli import main as whole

        raise typer.Exit(whole([name, *context.args]))

    return run


for _name in APART:
    _elsewhere(_name)
assert set(OF_APP) <= {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}


def main(arguments: list[str], prog: str) -> int:
    """Run a command of these; its exit code."""
    del prog
    try:
        code = app(arguments, prog_name="bochner", standalone_mode=False)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except Exception as error:
        if not hasattr(error, "format_message"):  # of Typer, or of click where Typer stands on it
            raise
        from bochner.cli.usage import in_one_line

        tell(f"Error: {in_one_line(error, arguments, EXPECTED)}")
        code = USAGE
    return code or 0
