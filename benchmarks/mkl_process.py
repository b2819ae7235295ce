"""Peers of ``mkl.py`` that live in an environment of their own: that environment, and one peer in a process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from mkl_data import Problem
from mkl_peers import ABSENT
from peers import THREADS, Unavailable, peer_python

PROGRAM = "import sys; from mkl_peers import child; child(sys.argv[1], sys.argv[2], int(sys.argv[3]))"


@dataclass
class Environment:
    """The interpreter of the peers: the one named, or that of build/mkl-venv, made when it is first asked for."""

    named: str | None = None
    limit_s: float = 1800.0
    """A peer that takes longer is stopped."""

    @cached_property
    def python(self) -> str:
        """The interpreter; Unavailable where it cannot be had."""
        return self.named or peer_python("mkl", "--python PYTHON")


def peer(name: str, problem: Problem, environment: Environment) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Labels of the test rows, seconds (kernel matrices and tuning, not the start of the process) and settings."""
    start = time.perf_counter()
    grams = problem.grams()
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory(prefix="mkl-") as folder:
        for part, array in (("grams", grams), ("grams_test", problem.grams_test()), ("y", problem.y)):
            np.save(Path(folder) / f"{part}.npy", array)
        command = [environment.python, "-W", "ignore", "-c", PROGRAM, folder, name, str(problem.split)]
        told = _answer(command, environment.limit_s)
        return np.load(Path(folder) / "predicted.npy"), seconds + told["seconds"], told["settings"]


def _answer(command: list[str], limit_s: float) -> dict[str, Any]:
    """What the process of a peer tells, with as many threads as this one is allowed."""
    threads = {name: os.environ.get("OPENBLAS_NUM_THREADS", str(os.cpu_count() or 1)) for name in THREADS}
    try:
        answer = subprocess.run(
            command, cwd=Path(__file__).parent, env=os.environ | threads, capture_output=True, text=True, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"stopped after {limit_s:.0f} s") from None
    if answer.returncode == ABSENT:
        raise Unavailable(f"{json.loads(answer.stdout)['absent']}; requirements/mkl.txt lists what it needs")
    if answer.returncode:
        raise RuntimeError(
            answer.stderr.strip().splitlines()[-1] if answer.stderr.strip() else f"status {answer.returncode}"
        )
    return json.loads(answer.stdout.splitlines()[-1])
