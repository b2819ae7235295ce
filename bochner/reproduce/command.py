"""The command ``bochner reproduce``: the experiments of the paper on real segments, their tables and figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bochner.durable import replace_file, write_all
from bochner.errors import FileAccessError
from bochner.progress import note
from bochner.reproduce.errors import ReproduceError
from bochner.reproduce.experiments import EXPERIMENTS, SIZES, Experiment
from bochner.reproduce.experiments.base import DEPARTURES
from bochner.reproduce.figures import check_matplotlib, write_figure
from bochner.reproduce.goals import goals
from bochner.reproduce.learners import LEARNERS
from bochner.reproduce.options import LABELLING
from bochner.reproduce.page import Told, page
from bochner.reproduce.protocol import Problem, Protocol
from bochner.reproduce.rows import Results, Row, Run, Setting, key_of, read_lines
from bochner.reproduce.runner import Runner
from bochner.reproduce.tables import write_table
from bochner.reproduce.views import views_problem

FINE, WRONG, INTERRUPTED = 0, 1, 130
CODES = "exit codes: 0 all went well, 1 nothing could be done, 2 the command line is wrong, 130 Ctrl-C"
PAGE, TABLES, FIGURES = "reproduce.md", "tables", "figures"


@dataclass(frozen=True)
class Source:
    """How a size comes to its data."""

    protocol: Protocol
    made_up: tuple[int, int] | None = None
    """Made-up training and test images, where no data are given."""
    segments: tuple[str, ...] = ()
    describe: tuple[str, ...] = ()
    """Options of the steps of ``bochner voc``."""


SOURCES = {
    "smoke": Source(
        Protocol(test_per_class=40, fewest=4),
        made_up=(12, 8),
        segments=("--superpixels", "60", "--segments", "30", "--jobs", "1", "--unranked"),
        describe=("--words", "20", "--colour-words", "20", "--jobs", "1"),
    ),
    "laptop": Source(Protocol(test_per_class=300)),
    "paper": Source(Protocol(test_per_class=1000)),
}


def parser(prog: str = "bochner reproduce") -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog=prog, description=__doc__, epilog=CODES)
    top.add_argument(
        "--data", metavar="DIR", type=Path, help="a VOCdevkit, or a folder VOC20xx, with image sets train and val"
    )
    top.add_argument("--views", metavar="FILE", type=Path, help="other data: npz with view_0, view_1, ... and y, or mat")
    top.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="the folder of rows, tables, figures and pictures"
    )
    told = "smoke: made-up images, under a minute; laptop: under 30 minutes; paper: for a GPU (%(default)s)"
    top.add_argument("--size", choices=SIZES, default="laptop", help=told)
    told = "the folder of bochner voc segments and describe, made if it is not there (OUT/voc)"
    top.add_argument("--descriptors", metavar="DIR", type=Path, help=told)
    told = f"this experiment alone, may be given several times: {', '.join(EXPERIMENTS)}"
    top.add_argument("--only", metavar="EXPERIMENT", action="append", choices=tuple(EXPERIMENTS), help=told)
    told = f"runs of this learner alone, may be given several times: {', '.join(LEARNERS)}"
    top.add_argument("--learner", metavar="LEARNER", action="append", choices=tuple(LEARNERS), help=told)
    top.add_argument(
        "--device", metavar="NAME", help="where learners on features compute: cuda, cuda:1 (this machine's cores)"
    )
    top.add_argument("--seed", metavar="N", type=int, default=0, help="seed of splits, features and test rows (0)")
    top.add_argument(
        "--page", metavar="FILE", type=Path, help="write the page here too, its figures in figures/reproduce/ beside"
    )
    told = "rows.jsonl of another run with --device, perhaps of other data: shown on the page, and for the goal of a GPU"
    top.add_argument("--gpu-rows", metavar="FILE", type=Path, help=told)
    top.add_argument("--quiet", action="store_true", help="no line of progress")
    return top


def main(arguments: Sequence[str] | None = None, prog: str = "bochner reproduce") -> int:
    """Run the experiments; errors are one line on standard error."""
    asked = parser(prog).parse_args(arguments)
    try:
        return reproduce(asked)
    except (ValueError, FileAccessError) as error:
        note(f"{prog}: {' '.join(str(error).split())}")
        return WRONG
    except OSError as error:
        note(f"{prog}: {error.filename or asked.out}: {error.strerror or error}")
        return WRONG
    except KeyboardInterrupt:
        note("Interrupted; the same command goes on from here.")
        return INTERRUPTED


def reproduce(asked: argparse.Namespace) -> int:
    """All of it: data, runs, and what is made of their rows."""
    check(asked)
    results = Results(asked.out)
    try:
        problem = problem_of(asked)
        setting = Setting(data=problem.name, data_key=problem.key, size=asked.size, seed=asked.seed, device=asked.device)
        experiments = [EXPERIMENTS[name] for name in asked.only or EXPERIMENTS]
        runs = runs_of(experiments, asked.size, problem)
        runs = [run for run in runs if asked.learner is None or run.learner in asked.learner]
        Runner(problem, setting, results).all(runs, quiet=asked.quiet)
        everything = runs_of(EXPERIMENTS.values(), asked.size, problem)
        keys = {key_of(setting.configuration(run)) for run in everything}
        rows = [row for row in results.rows if row["key"] in keys]
    finally:
        results.close()
    departures = (*problem.departures, *DEPARTURES[asked.size])
    elsewhere = () if asked.gpu_rows is None else tuple(read_lines(asked.gpu_rows))
    told = Told(setting, problem.train.n, problem.test.n, problem.classes, departures, source_of(asked), elsewhere)
    write_results(rows, told, experiments, asked)
    for goal in goals(rows, elsewhere):
        sys.stdout.write(f"{goal.verdict:<13} {goal.wanted}: {goal.found}\n")
    note(f"Wrote {asked.out / PAGE}, and {TABLES} and {FIGURES} beside it")
    return FINE


def runs_of(experiments: Iterable[Experiment], size: str, problem: Problem) -> list[Run]:
    """The runs of experiments on a problem: with no more rows than it has, and labellings of images alone."""
    runs = [run for some in experiments for run in some.runs(some.sizes[size])]
    runs = [replace(run, n=min(run.n, problem.train.n)) for run in runs]
    return [run for run in runs if run.learner != LABELLING or problem.images is not None]


def check(asked: argparse.Namespace) -> None:
    """Refuse a command line that cannot work, before anything is computed."""
    if asked.data is not None and asked.views is not None:
        raise ReproduceError("expected --data or --views, got both; give one of them.")
    if asked.data is None and asked.views is None and SOURCES[asked.size].made_up is None:
        told = f"--size {asked.size} needs data: --data VOCdevkit, or --views FILE"
        raise ReproduceError(f"{told}; give one of them, or --size smoke, which makes its own.")
    if asked.descriptors is not None and asked.views is not None:
        raise ReproduceError("expected --descriptors with --data alone, got --views; leave it out.")
    if asked.seed < 0:
        raise ReproduceError(f"expected a seed of 0 or more, got {asked.seed}; give --seed 0.")
    if asked.out.exists() and not asked.out.is_dir():
        raise ReproduceError(f"{asked.out}: expected a folder, got a file; give another --out.")
    if asked.page is not None or any(EXPERIMENTS[name].draw is not None for name in asked.only or EXPERIMENTS):
        check_matplotlib()
    if asked.device is not None:
        check_device(asked.device)
    if asked.gpu_rows is not None:
        read_lines(asked.gpu_rows)


def check_device(device: str) -> None:
    """Refuse a device that PyTorch does not have."""
    try:
        import torch

        torch.zeros(1, device=device)
    except ImportError as error:
        raise ReproduceError("--device needs PyTorch, which is not installed: pip install 'bochner[torch]'") from error
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ReproduceError(
            f"--device {device}: PyTorch cannot use it ({reason}); leave --device out, or give cuda."
        ) from error


def problem_of(asked: argparse.Namespace) -> Problem:
    """The data that were asked for."""
    source = SOURCES[asked.size]
    if asked.views is not None:
        return views_problem(asked.views, source.protocol, asked.seed)
    from bochner.reproduce.voc import Steps, check_tree, make_descriptors, voc_problem

    data = asked.data
    if data is None:
        from bochner.reproduce.made_up import made_up_tree

        data = made_up_tree(asked.out / "made-up", *(source.made_up or (0, 0)), seed=asked.seed)
    check_tree(data)
    folder = asked.descriptors or asked.out / "voc"
    make_descriptors(data, folder, Steps(source.segments, source.describe), asked.quiet)
    return voc_problem(data, folder, source.protocol, asked.seed, lambda text: None if asked.quiet else note(text))


def source_of(asked: argparse.Namespace) -> str:
    """What the page says to type for the data, without the folders of this machine."""
    if asked.views is not None:
        return f"--views {asked.views.name}"
    return "" if asked.data is None else "--data VOCdevkit"


def write_results(rows: Sequence[Row], told: Told, experiments: Sequence[Experiment], asked: argparse.Namespace) -> None:
    """Tables, figures and the page, from rows alone."""
    for experiment in experiments:
        for table in experiment.tables(rows):
            write_table(table, asked.out / TABLES)
        if experiment.draw is not None:
            write_figure(experiment.name, experiment.draw, rows, asked.out / FIGURES)
    write_page(asked.out / PAGE, page(rows, told, f"{FIGURES}/"))
    if asked.page is not None:
        for experiment in EXPERIMENTS.values():
            if experiment.draw is not None:
                write_figure(experiment.name, experiment.draw, rows, asked.page.parent / FIGURES / "reproduce", pdf=False)
        write_page(asked.page, page(rows, told, f"{FIGURES}/reproduce/"))


def write_page(path: Path, text: str) -> None:
    """Write a text file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda file: write_all(file, text.encode()))


if __name__ == "__main__":
    sys.exit(main())
