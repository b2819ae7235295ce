"""Results: one row for each run, in a file that only grows; a row that is there is not computed again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

import bochner
from bochner.durable import Log, replace_file, write_all
from bochner.reproduce.errors import ReproduceError

LOG, LINES = "rows.log", "rows.jsonl"
"""The file that grows, a checksum before each row; and the same rows as plain JSON lines, for other programs."""
PACKAGES = ("numpy", "scipy", "scikit-learn")
Row = dict[str, Any]
"""run (its configuration), key, result or skipped, seconds, about (seed, versions, machine, date)."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The configuration of one measurement: a learner with its options on some number of training rows."""

    learner: str
    n: int
    options: Any
    """A frozen dataclass."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all runs of a command share."""

    data: str
    """Name of the data set."""
    data_key: str
    """A short text that tells data sets, and the ways to use them, apart."""
    size: str
    seed: int
    device: str | None = None

    def configuration(self, run: Run) -> dict[str, Any]:
        """A run in this setting as plain values."""
        values = {**asdict(self), "learner": run.learner, "n": run.n, "options": asdict(run.options)}
        found: dict[str, Any] = json.loads(json.dumps(values))
        return found

    def covers(self, row: Row) -> bool:
        """Whether a row is of this setting."""
        return all(row["run"][name] == value for name, value in asdict(self).items())


def key_of(configuration: Mapping[str, Any]) -> str:
    """A short text that tells configurations apart."""
    return hashlib.blake2b(json.dumps(configuration, sort_keys=True).encode(), digest_size=8).hexdigest()


class Results:
    """The rows of a folder, open for more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._log = Log(folder / LOG)
        except BlockingIOError as error:
            raise ReproduceError(
                f"{folder}: another program is writing here now; wait for it, or give another --out."
            ) from error
        self._by_key = {row["key"]: row for row in self._log.records}

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order in which they came."""
        return list(self._log.records)

    def find(self, key: str) -> Row | None:
        """The row of a configuration, if it is there."""
        return self._by_key.get(key)

    def add(self, row: Row) -> None:
        """One more row."""
        self._log.add(row)
        self._by_key[row["key"]] = row

    def close(self) -> None:
        """Write the plain lines, and let others write."""
        text = "".join(f"{json.dumps(row)}\n" for row in self.rows)
        replace_file(self.folder / LINES, lambda file: write_all(file, text.encode()))
        self._log.close()


def read_lines(path: Path) -> list[Row]:
    """The rows of a file of plain JSON lines, as :class:`Results` writes it."""
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ReproduceError(f"{path}: line {number} is no JSON ({error}); give the rows.jsonl of a run.") from error
        if not isinstance(row, dict) or not {"key", "run", "seconds", "about"} <= set(row):
            raise ReproduceError(f"{path}: line {number} is no row of results; give the rows.jsonl of a run.")
        rows.append(row)
    return rows


def about(seed: int, device: str | None) -> dict[str, Any]:
    """With what, where and when a row is made."""
    threads = sorted({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
    versions: dict[str, Any] = {"bochner": bochner.__version__, "python": platform.python_version()}
    versions |= {name: _version(name) for name in PACKAGES}
    machine: dict[str, Any] = {"cpu": _cpu(), "cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}
    machine |= {"blas_threads": threads, "device": _device_name(device)}
    return {"seed": seed, "versions": versions, "machine": machine, "date": datetime.now(UTC).isoformat(timespec="seconds")}


def described(rows: Sequence[Row]) -> str:
    """In one sentence, on which machines and with which versions rows were made."""
    machines = {}
    for row in rows:
        machine, versions = row["about"]["machine"], row["about"]["versions"]
        device = f", {machine['device']}" if machine["device"] else ""
        threads = "/".join(map(str, machine["blas_threads"]))
        machines[
            f"{machine['cpu']}{device}, {machine['cores']} cores, {threads} BLAS thread(s), "
            + ", ".join(f"{name} {number}" for name, number in versions.items())
        ] = row["about"]["date"][:10]
    return "; ".join(f"{text} ({date})" for text, date in machines.items())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _device_name(device: str | None) -> str | None:
    if device is None or not device.startswith("cuda"):
        return device
    import torch

    return str(torch.cuda.get_device_name(device))
