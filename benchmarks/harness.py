"""What every benchmark and experiment shares: a timer, a manifest, files of results, and tables made from those files.

A benchmark runs its contestants on the same data, writes ``benchmarks/results/NAME.json`` (manifest and results)
and makes its tables from that file alone, so that no figure is typed by hand.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("bochner", "numpy", "scipy", "scikit-learn")
WRITTEN_BY_RUNS = (":(exclude)*/results/*", ":(exclude)*.md", ":(exclude)docs/figures/*")
"""Files that runs write themselves: changes in them do not make a tree dirty."""


@dataclass(frozen=True, kw_only=True)
class TimerOptions:
    """How often each contestant runs: ``warmups`` times unmeasured, then ``repeats`` times measured."""

    repeats: int = 7
    warmups: int = 1


@dataclass(frozen=True)
class Timing:
    """Wall times in seconds of one contestant, in the order of the repeats."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The shortest time: the one least disturbed by other work on the machine."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The middle time."""
        return statistics.median(self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """The timing as it is stored in a file of results."""
        return {"best_s": self.best, "median_s": self.median, "seconds": list(self.seconds)}


def time_in_turn(contestants: Mapping[str, Callable[[], object]], options: TimerOptions) -> dict[str, Timing]:
    """Wall times of every contestant, measured in turn within each repeat so that a drift of the machine hits all of them.

    Every second repeat runs in reverse order. Garbage is collected before each call and not during it; giving back the
    memory of what a call returns is not part of its time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(options.warmups):
        for call in contestants.values():
            call()
    for repeat in range(options.repeats):
        names = list(contestants) if repeat % 2 == 0 else list(reversed(contestants))
        for name in names:
            seconds[name].append(_time_once(contestants[name]))
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def _time_once(call: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        result = call()
        elapsed = time.perf_counter() - start
        del result
    finally:
        gc.enable()
    return elapsed


def manifest(seed: int | None, packages: Sequence[str] = PACKAGES) -> dict[str, Any]:
    """Where, when and with what a run was made; call it once everything that is measured has been imported.

    The variable BOCHNER_COMMIT names the commit of copied files, which git does not know.
    """
    copied = os.environ.get("BOCHNER_COMMIT")
    keys = ("internal_api", "version", "architecture", "num_threads")
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    blas = [{"library": Path(pool["filepath"]).parent.name} | {key: pool.get(key) for key in keys} for pool in pools]
    return {
        "seed": seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
        "blas": sorted(blas, key=lambda pool: "numpy" not in pool["library"]),  # NumPy's own comes first
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "commit": copied or _git("rev-parse", "HEAD"),
        "dirty": copied is None and bool(_git("status", "--porcelain", "--", ".", *WRITTEN_BY_RUNS)),
    }


def describe(manifest: Mapping[str, Any]) -> str:
    """A manifest in one sentence, to stand below a table."""
    pattern = "{internal_api} {version} ({architecture}, {num_threads} threads)"
    blas = pattern.format(**manifest["blas"][0]) if manifest["blas"] else "no BLAS found"
    versions = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items() if number)
    commit = (manifest["commit"] or "unknown")[:7] + (" with local changes" if manifest["dirty"] else "")
    return (
        f"Measured {manifest['date'][:10]} on {manifest['cpu']}, {manifest['cores']} cores, "
        f"{manifest['memory_gib']:.0f} GiB, {manifest['system']}; "
        f"Python {manifest['python']}, {versions}, {blas}; commit {commit}."
    )


def write_results(name: str, results: Any, about: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write {"manifest", "results"} to ``folder``/NAME.json and return the path."""
    path = folder / f"{name}.json"
    write_text(path, json.dumps({"manifest": about, "results": results}, indent=1) + "\n")
    return path


def read_results(name: str, folder: Path = RESULTS) -> tuple[Any, dict[str, Any]]:
    """The results and the manifest of ``folder``/NAME.json."""
    path = folder / f"{name}.json"
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: run the benchmark first, without --table.")
    stored = json.loads(path.read_text(encoding="utf-8"))
    return stored["results"], stored["manifest"]


def write_text(path: Path, text: str) -> None:
    """Write a text file under a temporary name, then rename it: a reader sees the old file or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], n_text: int = 1) -> str:
    """A Markdown table: the first ``n_text`` columns hold text and stand to the left, the others numbers, to the right."""
    widths = [max(3, *(len(line[i]) for line in [header, *rows])) for i in range(len(header))]
    rule = ["-" * width if i < n_text else "-" * (width - 1) + ":" for i, width in enumerate(widths)]

    def line(cells: Sequence[str]) -> str:
        padded = [f"{cell:{'<' if i < n_text else '>'}{widths[i]}}" for i, cell in enumerate(cells)]
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(header), line(rule), *map(line, rows)])


def replace_table(document: Path, name: str, text: str) -> None:
    """Rewrite what stands between ``<!-- NAME-table -->`` and ``<!-- /NAME-table -->`` in a Markdown document."""
    opening, closing = f"<!-- {name}-table -->", f"<!-- /{name}-table -->"
    old = document.read_text(encoding="utf-8")
    if old.count(opening) != 1 or old.count(closing) != 1 or old.index(opening) > old.index(closing):
        raise ValueError(f"{document} must hold the lines {opening} and {closing}, once each and in this order: add them.")
    before, rest = old.split(opening)
    after = rest.split(closing)[1]
    write_text(document, f"{before}{opening}\n\n{text}\n\n{closing}{after}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory_gib() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return float("nan")


def _git(*arguments: str) -> str | None:
    """What git answers, or None outside a repository."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
