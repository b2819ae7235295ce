"""Fits, checkpoints, savings and predictions killed at 50 random moments: what is on disk, and what comes of going on.

    python benchmarks/faults.py             50 kills, results in benchmarks/results/faults.json
    python benchmarks/faults.py --quick     6 kills, nothing stored
    python benchmarks/faults.py --table     no run: rewrite the table of docs/reliability.md

Half of the moments are random times. The others are random calls that change files (open, write, fsync, replace, truncate,
unlink, mkdir, rmdir): the process counts them, and gives itself SIGKILL at one of them; a write is torn in the middle.
After each kill every file must be whole, in its old state or its new one, and what is started again must give the bits of a
run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # processes are forked, and threads do not survive that
    os.environ[name] = "1"

import numpy as np  # noqa: E402
from fault_jobs import JOBS, Job, prepare  # noqa: E402
from fault_moments import Calls, count_calls, die_at  # noqa: E402
from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results  # noqa: E402

DOCUMENT = ROOT / "docs" / "reliability.md"
KILLS, QUICK_KILLS, SEED = 50, 6, 20261118
WAYS = ("call", "time")


@dataclass(frozen=True)
class Trial:
    """One kill, and what was found after it."""

    seed: list[int]
    job: str
    way: str
    """"call" or "time"."""
    moment: str
    found: str
    """The state of the files: "old", "new", "between" for a checkpoint that has something; or what is wrong."""
    same: bool
    """Whether what was started again gave the bits of an undisturbed run, and left nothing behind."""

    @property
    def passed(self) -> bool:
        """Whether all is as it must be."""
        return self.same and self.found in ("old", "new", "between")


def forked(work: Callable[[], Any]) -> int:
    """The process that does some work."""
    process = os.fork()
    if process:
        return process
    try:
        work()
    except BaseException:  # noqa: BLE001, told to the process that waits
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def ended(process: int) -> None:
    """Wait for a process that must end well."""
    _, status = os.waitpid(process, 0)
    if status:
        raise RuntimeError(f"A process that nobody killed ended with {os.waitstatus_to_exitcode(status)}.")


def was_killed(process: int) -> bool:
    """Wait for a process; whether it was killed, and did not end by itself before."""
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"A process that was to be killed ended with {code}.")
    return code == -signal.SIGKILL


class Stage:
    """A job with what an undisturbed run of it makes, how long that takes, and how many calls it has."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job, self.folder = job, folder
        whole = self.fresh("whole")
        counts = folder / "calls.json"
        start = time.perf_counter()
        ended(forked(lambda: count_calls(whole, counts, lambda: job.run(whole))))
        self.seconds = time.perf_counter() - start
        self.calls = Calls(json.loads(counts.read_text()))
        self.result = job.result(whole)

    def fresh(self, name: str) -> Path:
        """A folder as it is before the job."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.job.begin(folder)
        return folder

    def trial(self, seed: list[int], way: str) -> Trial:
        """Kill the job at a random moment, look at its files, and start it again."""
        rng = np.random.default_rng(seed)
        while True:
            folder = self.fresh("killed")
            if way == "call":
                number = int(rng.integers(1, len(self.calls.names) + 1))
                moment = f"call {number} of {len(self.calls.names)}, {self.calls.names[number - 1]}"
                process = forked(lambda folder=folder, number=number: die_at(folder, number, lambda: self.job.run(folder)))
            else:
                after = float(rng.uniform(0, self.seconds))
                moment = f"after {after:.3f} s of {self.seconds:.3f} s"
                process = forked(lambda folder=folder: self.job.run(folder))
                time.sleep(after)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if was_killed(process):
                break
        found = self.job.state(folder)
        ended(forked(lambda: self.job.run(folder)))
        same = self.job.result(folder) == self.result and not self.job.left(folder)
        return Trial(seed, self.job.name, way, moment, found, same)


def run(n_kills: int, seed: int = SEED, jobs: tuple[Job, ...] = JOBS) -> list[Trial]:
    """So many kills, all jobs and both ways in turn."""
    trials = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ended(forked(lambda: prepare(folder / "given")))
        stages = [Stage(job.at(folder / "given"), folder / str(i)) for i, job in enumerate(jobs)]
        for number in range(n_kills):
            stage, way = stages[number % len(jobs)], WAYS[(number // len(jobs) + number % len(jobs)) % 2]
            trials.append(stage.trial([seed, number], way))
            print(f"{number + 1}: {trials[-1]}", file=sys.stderr)
    return trials


def table(results: dict[str, Any]) -> str:
    """Kills and what was found, for every job; and the count."""
    trials = [Trial(**each) for each in results["trials"]]
    rows = []
    for job in dict.fromkeys(trial.job for trial in trials):
        some = [trial for trial in trials if trial.job == job]
        found = [str(sum(trial.found == state for trial in some)) for state in ("old", "between", "new")]
        calls = sum(trial.way == "call" for trial in some)
        rows.append([job, str(calls), str(len(some) - calls), *found, f"{sum(t.passed for t in some)} of {len(some)}"])
    header = ["killed while", "at a call", "at a time", "files old", "in between", "new", "whole, and same bits again"]
    passed = sum(trial.passed for trial in trials)
    return f"{markdown_table(header, rows)}\n\nIn all: {passed} of {len(trials)}."


def main() -> None:
    """Run, write the results, and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_KILLS} kills only, and nothing is stored")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the stored results")
    parser.add_argument("--seed", type=int, default=SEED, help="of the moments")
    options = parser.parse_args()
    if options.quick or not options.table:
        trials = run(QUICK_KILLS if options.quick else KILLS, options.seed)
        if not options.quick:
            about = manifest(options.seed, ("bochner", "numpy", "scipy", "scikit-learn", "pyarrow", "safetensors"))
            write_results("faults", {"trials": [asdict(trial) for trial in trials]}, about)
        passed = sum(trial.passed for trial in trials)
        print(f"{passed} of {len(trials)}")
        if passed < len(trials):
            sys.exit(1)
    if not options.quick:
        results, about = read_results("faults")
        print(table(results))
        replace_table(DOCUMENT, "faults", f"{table(results)}\n\n{describe(about)}")


if __name__ == "__main__":
    main()
