"""Runs one after the other: a row that is there is taken, another is made and kept; a line says how far it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from bochner.progress import ProgressLine
from bochner.reproduce.learners import LEARNERS, Bench, expected_seconds
from bochner.reproduce.protocol import Problem
from bochner.reproduce.rows import Results, Row, Run, Setting, about, key_of


class RunLine(ProgressLine):
    """The line of all runs: the bar fills with runs."""

    def stage_of(self, record: dict[str, Any]) -> float:
        return float(record["done"])

    def ends(self, record: dict[str, Any]) -> bool:
        return bool(record["done"] >= self.n_stages)

    def text(self, record: dict[str, Any]) -> str:
        return f"run {record['done']} of {self.n_stages}: {record['told']}"


class Runner:
    """Makes the rows of a problem in a setting."""

    def __init__(self, problem: Problem, setting: Setting, results: Results) -> None:
        self.problem = problem
        self.setting = setting
        self.results = results

    def row(self, run: Run) -> Row:
        """The row of a run."""
        configuration = self.setting.configuration(run)
        key = key_of(configuration)
        found = self.results.find(key)
        if found is None:
            found = {"key": key, "run": configuration, **self._measured(run)}
            found["about"] = about(self.setting.seed, self.setting.device)
            self.results.add(found)
        return found

    def all(self, runs: Sequence[Run], *, quiet: bool) -> list[Row]:
        """The rows of many runs, each once."""
        different = list(dict.fromkeys(runs))
        rows = []
        with closing(RunLine(len(different))) as line:
            start = time.monotonic()
            for number, run in enumerate(different, start=1):
                rows.append(self.row(run))
                if not quiet:
                    line({"done": number, "told": told(rows[-1]), "seconds": time.monotonic() - start})
        return rows

    def _measured(self, run: Run) -> dict[str, Any]:
        limit = getattr(run.options, "limit", None)
        earlier = [row for row in self.results.rows if self.setting.covers(row)]
        expected = expected_seconds(run, earlier)
        if limit is not None and expected is not None and expected > limit:
            return {"skipped": f"expected to take longer than {limit:g} s", "seconds": {"expected": expected}}
        bench = Bench(self.problem, run, self.setting.seed, self.setting.device, self.row, self.results.folder)
        found = LEARNERS[run.learner](bench)
        return {"result": found.result, "seconds": found.seconds}


def told(row: Row) -> str:
    """A row in a few words."""
    run = row["run"]
    text = f"{run['learner']}, {run['n']:,} rows"
    if "skipped" in row:
        return f"{text}: left out, {row['skipped']}"
    accuracy = row["result"].get("accuracy")
    measured = "" if accuracy is None else f", accuracy {accuracy:.3f}"
    return f"{text}: {row['seconds']['total']:.1f} s{measured}"
