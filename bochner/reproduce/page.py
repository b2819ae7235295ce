"""A page in Markdown, written from rows: tables, figures, goals, claims, and every departure from the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bochner.reproduce.accuracy import __doc__ as accuracy_in_words
from bochner.reproduce.experiments import EXPERIMENTS
from bochner.reproduce.experiments.table_a import device_table
from bochner.reproduce.goals import Verdict, claims, goals
from bochner.reproduce.rows import Row, Setting, described
from bochner.reproduce.selection import SLOPE_FROM, SLOPE_SIZES

LEAD = """# The paper's experiments

Written by `bochner reproduce` from its rows: no number on this page is typed by hand, but for those that the paper reports.
"""
ABOUT = """`--size smoke` makes its own images and takes seconds; `laptop` takes about half an hour once descriptors
are there (`--descriptors DIR`, else they are made in `results/voc`); `paper` is for `--device cuda`. `--views FILE` takes
any set of several views in place of images: arrays `view_0`, `view_1`, ... and `y` in an npz file, or a cell of views in a
mat file. `--only table_a` runs one experiment. Results are rows in `results/rows.jsonl`; the same command goes on where it
was stopped, and `results` holds tables (Markdown, LaTeX), figures (PNG, PDF), pictures of labelled images, and this page.
"""
DIFFERENT = """## Why our numbers differ from the paper's

Segments, descriptors and the year of the data are others, and the paper leaves open how large its descriptors are, how its
scores are computed and what exactly its accuracy counts. Levels of accuracy are therefore not comparable; what can be
compared is how methods stand to each other on the same rows, how both grow with n, and which kernels they prefer.
"""
TIMES = """## Seconds, in words

Seconds of learners on the host are those of its processor, over all threads, so that other programs do not count; those of
the clock stand beside them in the rows. Seconds of a device are those of the clock. Slopes are powers of n by least squares
on logarithms, over sizes from {start:,} rows on where a learner has {few} such sizes or more, else over all of its sizes:
below, costs that do not depend on n count most. Sizes at which a learner has another number of features than at its largest
are left out with them, so that a slope is not flattered.
"""


@dataclass(frozen=True)
class Told:
    """What a page says beside its rows."""

    setting: Setting
    n_train: int
    n_test: int
    classes: tuple[str, ...]
    departures: tuple[str, ...]
    source: str
    """What to type for these data; empty where they are made up."""
    elsewhere: tuple[Row, ...] = ()
    """Rows of a device of another machine, perhaps of other data, for the goal of a GPU alone."""


def page(rows: Sequence[Row], told: Told, figures: str) -> str:
    """The page; ``figures`` is where the pictures are, seen from it."""
    setting = told.setting
    data = (
        f"Data: {setting.data}, {told.n_train:,} training and {told.n_test:,} test rows of {len(told.classes)} classes; "
        f"size `{setting.size}`, seed {setting.seed}. {described(rows)}."
        if rows
        else "No rows yet."
    )
    if setting.size == "smoke":
        data += " **This size shows that everything runs; its numbers and verdicts mean nothing.**"
    parts = [LEAD, f"```bash\n{_command(told)}\n```\n", ABOUT, data + "\n"]
    parts.append("## Goals\n\n" + verdict_table("goal", goals(rows, told.elsewhere)) + "\n")
    parts.append("## The paper's claims, on this data\n\n" + verdict_table("claim", claims(rows)) + "\n")
    for experiment in EXPERIMENTS.values():
        found = f"\nThe paper: {experiment.finding}\n" if experiment.finding else ""
        parts.append(f"## {experiment.title}\n{found}")
        parts += [table.markdown() + "\n" for table in experiment.tables(rows)]
        if experiment.draw is not None:
            parts.append(f"![{experiment.title}]({figures}{experiment.name}.png)\n")
    if told.elsewhere:
        parts.append(f"## On a GPU\n\n{device_table(told.elsewhere).markdown()} {described(told.elsewhere)}.\n")
    parts.append("## Accuracy, in words\n\n" + "\n\n".join((accuracy_in_words or "").split("\n\n")[1:]).strip() + "\n")
    parts.append(TIMES.format(start=SLOPE_FROM, few=SLOPE_SIZES))
    parts.append(DIFFERENT)
    parts.append("## Departures from the paper\n\n" + "\n".join(f"- {one}" for one in told.departures) + "\n")
    left_out = [f"- {row['run']['learner']}, {row['run']['n']:,} rows: {row['skipped']}" for row in rows if "skipped" in row]
    if left_out:
        parts.append("Runs that were left out:\n\n" + "\n".join(left_out) + "\n")
    rough = sum("warnings" in row.get("result", {}) for row in rows)
    if rough:
        parts.append(f"{rough} runs ended with a warning of their solver; it stands in their rows.\n")
    return "\n".join(parts)


def _command(told: Told) -> str:
    """What to type for these results."""
    setting = told.setting
    device = "" if setting.device is None else f"--device {setting.device}"
    seed = f"--seed {setting.seed}" if setting.seed else ""
    words = ["bochner reproduce", told.source, "--out results", f"--size {setting.size}", device, seed]
    return " ".join(word for word in words if word)


def verdict_table(what: str, verdicts: Sequence[Verdict]) -> str:
    """Goals or claims as a table in Markdown."""
    lines = [f"| {one.wanted} | {one.found} | {one.verdict} |" for one in verdicts]
    return "\n".join([f"| {what} | found | |", "|---|---|---|", *lines])
