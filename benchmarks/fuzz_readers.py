"""What the readers of data, checkpoints and stores make of spoiled files, by chance and on purpose.

    python benchmarks/fuzz_readers.py             100,000 of each family of ASKED, 5000 of each other kind
    python benchmarks/fuzz_readers.py --only LIBSVM CSV mat VOC --each 100000
                                                  so many of each of these families, shared out among their kinds
    python benchmarks/fuzz_readers.py --quick     100 of each kind, results in fuzz_readers-quick.json
    python benchmarks/fuzz_readers.py --table     no run: rewrite the table of docs/reliability.md

Each file must be read, or refused with an error that this package raises itself, a ValueError or an OSError (a CommandError
on the command line). It must take no more memory than a multiple of its size and what is fixed, and open, write or run
nothing outside its folder. Whatever is not so is counted as a failure, and its file is kept in the folder of --keep.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fuzz_models import OF_THE_MACHINE, Outcome, _is_module
from fuzz_reader_files import BY_CHANCE, Reader, readers
from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results

from bochner.archives import DENSEST
from bochner.cli.running import CommandError

DOCUMENT = ROOT / "docs" / "reliability.md"
SEED = 20261119
ASKED = ("LIBSVM", "CSV", "mat", "VOC")
"""Families of which a full run spoils so many: readers of what other people send."""
ASKED_FILES, OTHER_FILES, QUICK_FILES = 100_000, 5000, 100
"""Files of each of these families, of each other kind, and of each kind in a quick run."""
PART = 1000
"""Files that a process sees at a time."""
BESIDE = 64_000_000
"""Most bytes that reading may take beside DENSEST times the size of the file: blocks of text, and pixels."""
PICTURE_BYTES = 9 * 179_000_000
"""The same for pictures: the largest that Pillow opens, in its own pixels and as ours."""
SECONDS = 30
PACKAGE = str(ROOT / "bochner")
FORBIDDEN = ("subprocess.", "shutil.", "socket.", "pickle.", "ctypes.", "os.system", "os.exec", "os.fork", "os.spawn")
CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")


class Watch:
    """An audit hook, which cannot be taken off, and notes what happens outside a folder between two calls."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._folder: str | None = None
        sys.addaudithook(self._see)

    def begin(self, folder: Path) -> None:
        """From now on files in ``folder`` alone may be opened."""
        self.events, self._folder = [], f"{folder}{os.sep}"

    def end(self) -> list[str]:
        """What else happened."""
        self._folder = None
        return self.events

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._folder is None:
            return
        if event == "open" or event in CHANGING:
            first = arguments[0]
            name = os.path.normpath(os.fspath(first)) if isinstance(first, str | os.PathLike) else ""
            if name and not name.startswith(self._folder) and not _is_module(name) and not name.startswith(OF_THE_MACHINE):
                self.events.append(f"{event} {name}")
        elif event.startswith(FORBIDDEN):
            self.events.append(event)


@cache
def the_watch() -> Watch:
    """The one of this process."""
    return Watch()


class TooSlowError(Exception):
    """A file that keeps its reader busy."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """A context that lasts no longer."""

    def stop(*_: Any) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def is_ours(error: BaseException) -> bool:
    """Whether this package raised an error itself, of a type that it promises."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, ValueError | OSError | CommandError) and frames[-1].filename.startswith(PACKAGE)


def try_file(reader: Reader, folder: Path, watch: Watch) -> tuple[str, float, int]:
    """What a reader makes of a file, "refused", "read" or what went wrong; seconds; and the most bytes that it took."""
    tracemalloc.reset_peak()
    before, arrow = tracemalloc.get_traced_memory()[0], pa.total_allocated_bytes()
    size = max(1, (folder / reader.path).stat().st_size)
    start = time.perf_counter()
    watch.begin(folder)
    try:
        with limited(SECONDS):
            reader.read(folder)
        result = "loaded"
    except TooSlowError:
        result = f"took more than {SECONDS} s"
    except Exception as error:  # noqa: BLE001, any other one is what is looked for
        result = "refused" if is_ours(error) else f"{type(error).__name__}: {error}"[:300]
    strayed = watch.end()
    peak = tracemalloc.get_traced_memory()[1] - before + pa.total_allocated_bytes() - arrow
    if strayed:
        result = f"touched {strayed[0]}"
    elif peak > DENSEST * size + (PICTURE_BYTES if reader.name.startswith("VOC") else BESIDE):
        result = f"took {peak} bytes for a file of {size}"
    return result, time.perf_counter() - start, peak


def run(kind: str, numbers: range, seed: int, keep: Path | None = None) -> Outcome:
    """Spoil files of a kind, of these numbers, and see what their reader makes of each."""
    (reader,) = (each for each in readers() if each.name == kind)
    outcome, watch = Outcome(), the_watch()
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = Path(name) / "files"
        lay_down(reader, folder)
        result = try_file(reader, folder, watch)[0]  # which imports what reading needs
        if result != "loaded" and not result.startswith("touched"):
            raise AssertionError(f"The whole file of {kind} is not read: {result}")
        for number in numbers:
            spoiled = spoil(reader, number, seed)
            if reader.family == "checkpoint":  # whose other files are written to as well
                lay_down(reader, folder)
            (folder / reader.path).write_bytes(spoiled)
            note(outcome, number, reader, spoiled, try_file(reader, folder, watch), keep)
    tracemalloc.stop()
    return outcome


def spoil(reader: Reader, number: int, seed: int) -> bytes:
    """The file of a number: the ways take turns, those on purpose twice as often."""
    rng = np.random.default_rng([seed, zlib.crc32(reader.name.encode()), number])
    ways = [*BY_CHANCE.values(), *reader.on_purpose.values(), *reader.on_purpose.values()]
    spoiled = reader.content
    while spoiled == reader.content:
        spoiled = ways[number % len(ways)](rng, reader.content)
    return spoiled


def lay_down(reader: Reader, folder: Path) -> None:
    """The files as they should be."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in {**reader.beside, reader.path: reader.content}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def note(
    outcome: Outcome, number: int, reader: Reader, data: bytes, tried: tuple[str, float, int], keep: Path | None
) -> None:
    """Count what became of one file."""
    result, seconds, peak = tried
    outcome.slowest_s, outcome.peak_bytes = max(outcome.slowest_s, seconds), max(outcome.peak_bytes, peak)
    if result in ("refused", "loaded"):
        setattr(outcome, result, getattr(outcome, result) + 1)
        return
    outcome.failures.append(f"number {number}: {result}")
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{number}-{Path(reader.path).name}").write_bytes(data)


def plan(only: list[str] | None, each: int | None, quick: bool) -> dict[str, int]:
    """How many files of each kind are spoiled; ``each`` is of a family, shared out among its kinds."""
    kinds = [reader for reader in readers() if not only or reader.family in only]
    counts = {}
    for reader in kinds:
        n_kinds = sum(other.family == reader.family for other in kinds)
        of_family = each if each else ASKED_FILES if reader.family in ASKED else OTHER_FILES * n_kinds
        counts[reader.name] = QUICK_FILES if quick else -(-of_family // n_kinds)
    return counts


def run_all(counts: dict[str, int], seed: int, keep: Path | None) -> dict[str, Outcome]:
    """So many files of each kind, in several processes, part after part."""
    parts = [(kind, range(i, min(i + PART, n))) for kind, n in counts.items() for i in range(0, n, PART)]
    total: dict[str, Outcome] = {}
    with ProcessPoolExecutor() as pool:
        found = pool.map(partial(run, seed=seed, keep=keep), *zip(*parts, strict=True))
        for (kind, part), outcome in zip(parts, found, strict=True):
            total[kind] = total[kind].joined(outcome) if kind in total else outcome
            print(f"{kind}: {part.stop:,} of {counts[kind]:,} files", file=sys.stderr)
    return total


def table(results: dict[str, Any]) -> str:
    """Counts of each kind of file, and of all."""
    rows = []
    for kind, entry in results["kinds"].items():
        counts = [entry["refused"], entry["loaded"], len(entry["failures"])]
        rows.append([kind, *(f"{count:,}" for count in [sum(counts), *counts]), f"{entry['peak_bytes'] / 1e6:.1f}"])
    totals = [sum(int(row[i].replace(",", "")) for row in rows) for i in range(1, 5)]
    rows.append(["all", *(f"{total:,}" for total in totals), max((row[5] for row in rows), key=float)])
    return markdown_table(["what is spoiled", "files", "refused", "read", "anything else", "most memory, MB"], rows)


def main() -> None:
    """Run, write the results, and say what came of it."""
    families = list(dict.fromkeys(reader.family for reader in readers()))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_FILES} files of each kind")
    parser.add_argument("--only", nargs="+", choices=families, metavar="FAMILY", help=f"of {', '.join(families)}")
    parser.add_argument("--each", type=int, metavar="N", help="files of each family")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the stored results")
    parser.add_argument("--keep", type=Path, default=None, help="folder for files that make something else happen")
    options = parser.parse_args()
    is_full = not (options.quick or options.only or options.each)
    name = "fuzz_readers" if is_full else "fuzz_readers-quick" if options.quick else "fuzz_readers-some"
    if not options.table:
        about = manifest(SEED, ("bochner", "numpy", "scipy", "pyarrow", "pillow"))
        outcomes = run_all(plan(options.only, options.each, options.quick), SEED, options.keep)
        write_results(name, {"kinds": {kind: vars(outcome) for kind, outcome in outcomes.items()}}, about)
        for kind, outcome in outcomes.items():
            print("\n".join(f"{kind}, {failure}" for failure in outcome.failures[:5]), end="\n" if outcome.failures else "")
    results, about = read_results(name)
    print(table(results))
    if is_full:
        replace_table(DOCUMENT, "fuzz_readers", f"{table(results)}\n\n{describe(about)}")


if __name__ == "__main__":
    main()
