"""One run of ``skl.py`` in a fresh process: its seconds and its peak of memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from skl_common import SEED, WARM_UP_ROWS, held_out_problem, say, smooth_rows

from bochner import KernelRegressor
from bochner.exact import KernelRidgeGD

PROGRAM = "from skl_process import child; child({kind!r}, {n}, {m}, {d})"


def in_process(kind: str, n: int, m: int, d: int, timeout: float | None = None) -> dict[str, float]:
    """One run in a fresh process: its seconds, and its peak of memory above what the process held before."""
    command = [sys.executable, "-c", PROGRAM.format(kind=kind, n=n, m=m, d=d)]
    folder = Path(__file__).parent  # where the program finds this module
    run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True, timeout=timeout)
    measured: dict[str, float] = json.loads(run.stdout)
    say(f"   {kind}, n = {n}: {measured['seconds']:.2f} s, {measured['peak_bytes'] / 1e6:.0f} MB")
    return measured


def child(kind: str, n: int, m: int, d: int) -> None:
    """What the process of ``in_process`` does: a warm-up on few rows, the run, one line of JSON."""

    def run_on(n: int) -> Callable[[], object]:
        if kind == "evaluation":
            criterion, feature_map = held_out_problem(n, m, d)
            return lambda: criterion.evaluate(feature_map, float(np.log(1e-5)))
        X, y = smooth_rows(n, m)
        if kind == "exact":
            return lambda: KernelRidgeGD(random_state=SEED).fit(X, y)
        return lambda: KernelRegressor(n_features=d, random_state=SEED).fit(X, y)

    run_on(WARM_UP_ROWS)()
    run = run_on(n)
    before = memory_bytes("VmRSS")
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_bytes": memory_bytes("VmHWM") - before}))


def memory_bytes(field: str) -> int:
    """Memory of this process now ("VmRSS") or at its peak ("VmHWM").

    Read from Linux where it can be: the peak of getrusage counts what the parent held when it started this process.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
