"""``bochner`` in a real shell, as people type it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = f'"{sys.executable}" -m bochner.cli'
START = f'set -o pipefail; bochner() {{ {PROGRAM} "$@"; }}; '


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name != "BOCHNER_TRACEBACK"}
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", **threads, **more}


def shell(command, folder, **more):
    """What a command line does in a folder: its exit code, and what it says on both streams."""
    done = subprocess.run(
        ["bash", "-c", START + command],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def people(n=240, seed=0):
    """A small table with a number and a class to predict, columns of several kinds, and gaps."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "id": [f"p{i:04d}" for i in range(n)],
            "age": rng.integers(18, 80, n).astype(float),
            "city": rng.choice(["Bonn", "Oslo", "Rome"], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "noise": rng.standard_normal(n),
            "w": rng.uniform(0.5, 2.0, n),
        }
    )
    income = np.sin(table["age"] / 15) * 10 + 8 * (table["city"] == "Oslo") + rng.standard_normal(n)
    table.loc[::9, "age"] = np.nan
    table.loc[::11, "city"] = None
    return table.assign(income=income.round(3), class_=np.where(income > 4, "high", "low")).rename(
        columns={"class_": "class"}
    )
