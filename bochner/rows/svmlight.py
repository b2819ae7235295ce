"""Files of LIBSVM and svmlight: a line ``target column:value column:value ...`` for each row, as sparse blocks.

Numbers of a few megabytes of text are read at once; where they do not fit the pattern, the lines are looked at one by one to
say which is wrong. Comments (# to the end of a line) and ``qid:`` are skipped.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from scipy import sparse

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.rows.files import UnreadableError, guarded
from bochner.rows.source import Block, Layout, Part, RowSource

TEXT_BYTES = 2**21
"""What is read of a file at a time."""
LINE_BYTES = 2**28
"""The longest line: what is compressed may unpack to one without an end."""
LARGEST_COLUMN = 2**53
"""Numbers of columns are below it, as all of them are exact in float64."""
WHAT = "svmlight text"
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SPACES = np.zeros(256, dtype=bool)
SPACES[list(b" \t\r\n\f\v")] = True
LINE = re.compile(rb"^\s*[^\s:]+(\s+\d+:\S+)*\s*$")


@dataclass(frozen=True)
class Lines:
    """The numbers of some lines: targets (k,), and in CSR form the columns as they are written and the values."""

    targets: Array
    indptr: Array
    columns: Array
    values: Array


class SvmlightPart(Part):
    """One file; ``first`` is the number that its first column is written with, 0 or 1."""

    def __init__(self, path: Path, n_columns: int, first: int, n_rows: int | None, dtype: Any) -> None:
        super().__init__(str(path), [path], n_rows)
        self.path, self.n_columns, self.first, self.dtype = path, n_columns, first, dtype

    def pieces(self, step: int) -> Generator[Block, None, None]:
        start = 0
        with closing(read_lines(self.path)) as parts:
            for lines in parts:
                columns = lines.columns - self.first
                self._check(columns, lines, start)
                shape = (len(lines.targets), self.n_columns)
                with np.errstate(over="ignore"):  # too large for float32: told as infinity
                    values = lines.values.astype(self.dtype, copy=False)
                X = sparse.csr_array((values, columns, lines.indptr), shape=shape)
                X.sum_duplicates()
                yield Block(start, X, lines.targets)
                start += len(lines.targets)

    def _check(self, columns: Array, lines: Lines, start: int) -> None:
        if not len(columns) or (columns.min() >= 0 and columns.max() < self.n_columns):
            return
        at = int(np.argmax((columns < 0) | (columns >= self.n_columns)))
        row = start + int(np.searchsorted(lines.indptr, at, side="right")) - 1
        written = int(lines.columns[at])
        advice = "say zero_based=True" if written < self.first else f"say n_columns={written + 1 - self.first} or more"
        raise InputError(
            f"{self.path}, row {row} has a column number {written}, and numbers from {self.first} to "
            f"{self.n_columns - 1 + self.first} were expected: {advice}."
        )


def open_svmlight(files: list[Path], n_columns: int | None, zero_based: bool | None, dtype: Any) -> RowSource:
    """A row source of svmlight files; the width comes from a first pass over all of them, unless it is given."""
    dtype = dtype or np.dtype(np.float64)
    counts: list[int | None] = [None] * len(files)
    first = 0 if zero_based else 1
    if n_columns is None:
        seen = [_survey(path) for path in files]
        counts = [n for n, _, _ in seen]
        if zero_based is None:
            first = 0 if min(low for _, low, _ in seen) == 0 else 1
        n_columns = max(1, max(high for _, _, high in seen) + 1 - first)
    parts = [SvmlightPart(path, n_columns, first, n, dtype) for path, n in zip(files, counts, strict=True)]
    return RowSource(parts, Layout(n_columns, dtype))


def _survey(path: Path) -> tuple[int, int, int]:
    """Number of rows, the smallest and the largest number of a column."""
    n_rows, low, high = 0, 2**62, 0
    with closing(read_lines(path)) as parts:
        for lines in parts:
            n_rows += len(lines.targets)
            if len(lines.columns):
                low, high = min(low, int(lines.columns.min())), max(high, int(lines.columns.max()))
    return n_rows, low, high


def read_lines(path: Path) -> Generator[Lines, None, None]:
    """The numbers of a file, some lines at a time."""
    n_before = 0
    with closing(guarded(path, WHAT, _texts(path))) as texts:
        for text in texts:
            found = parse(text, path, n_before)
            n_before += text.count(b"\n")
            if len(found.targets):
                yield found


def parse(text: bytes, path: Path, n_before: int) -> Lines:
    """The numbers of whole lines; ``n_before`` lines of the file come before them."""
    clean = text
    if b"#" in clean:
        clean = re.sub(rb"#[^\n]*", b"", clean)
    if b"qid:" in clean:
        clean = re.sub(rb"\bqid:\S+", b"", clean)
    code = np.frombuffer(clean, dtype=np.uint8)
    ends = np.append(np.flatnonzero(code == ord("\n")), len(code))
    space = SPACES[code]
    begins = np.flatnonzero(~space & np.append(True, space[:-1])) if len(code) else np.empty(0, dtype=np.intp)
    n_tokens = np.diff(np.searchsorted(begins, ends), prepend=0)
    n_pairs = np.diff(np.searchsorted(np.flatnonzero(code == ord(":")), ends), prepend=0)
    rows = n_tokens > 0
    sizes = n_pairs[rows]
    try:
        read = np.fromstring(clean.replace(b":", b" "), dtype=np.float64, sep=" ")
    except ValueError:
        read = np.empty(0)
    if np.any(n_tokens[rows] != 1 + sizes) or len(read) != len(sizes) + 2 * sizes.sum():
        _refuse_line(text, path, n_before)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    is_target = np.zeros(len(read), dtype=bool)
    is_target[2 * indptr[:-1] + np.arange(len(sizes))] = True
    pairs = read[~is_target].reshape(-1, 2)
    numbers = pairs[:, 0]
    if not np.all((numbers >= 0) & (numbers < LARGEST_COLUMN) & (numbers == np.trunc(numbers))):
        _refuse_line(text, path, n_before)
    columns = numbers.astype(np.int64)
    return Lines(read[is_target], indptr, columns, pairs[:, 1].copy())


def _texts(path: Path) -> Generator[bytes, None, None]:
    """Whole lines of a file, about ``TEXT_BYTES`` at a time."""
    opener = OPENERS.get(path.suffix.lower(), open)
    with cast("IO[bytes]", opener(path, "rb")) as file:
        rest = b""
        while chunk := file.read(TEXT_BYTES):
            head, newline, tail = chunk.rpartition(b"\n")
            if newline:
                yield rest + head + newline
                rest = tail
            else:
                rest += chunk
                if len(rest) > LINE_BYTES:
                    raise UnreadableError(
                        f"{path} has a line of more than {LINE_BYTES} bytes, which is too long: write one row a line."
                    )
        if rest:
            yield rest


def _refuse_line(text: bytes, path: Path, n_before: int) -> None:
    """An error that names the first line that is not ``target column:value ...``."""
    for i, line in enumerate(text.split(b"\n")):
        stripped = re.sub(rb"\bqid:\S+", b"", line.partition(b"#")[0])
        if stripped.strip() and not (LINE.match(stripped) and _all_numbers(stripped)):
            short = line[:80].decode(errors="replace")
            raise InputError(
                f"{path}, line {n_before + i + 1} must be `target column:value ...`, all numbers, got {short!r}. "
                "If the file is of another format, say which by format=."
            )
    raise InputError(f"{path} is not svmlight text. If it is of another format, say which by format=.")


def _all_numbers(line: bytes) -> bool:
    try:
        return all(float(part) is not None for token in line.split() for part in token.split(b":", 1))
    except ValueError:
        return False
