"""Files: which ones are meant, of what format they are, whether they have changed, and errors that name them."""

from __future__ import annotations

import glob
import importlib
import lzma
import os
import tokenize
import zipfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bochner.errors import FileAccessError, InputError, MissingFileError, MissingPackageError, StateError, nearest

T = TypeVar("T")

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".npy": "npy",
    ".npz": "npz",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".zarr": "zarr",
}
"""The format of a file by the end of its name."""
COMPRESSED = {"csv": (".gz", ".bz2", ".zst", ".lz4"), "svmlight": (".gz", ".bz2", ".xz")}
"""Second suffixes that a format may have."""

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class UnreadableError(FileAccessError):
    """A file that cannot be read; the message names it and says why."""


@dataclass(frozen=True)
class FileMark:
    """A file (or a folder that is one store), its size in bytes, and when it was last modified, in nanoseconds."""

    path: str
    size: int
    modified: int


def mark(path: Path) -> FileMark:
    """What a file looks like now; a folder counts with all files in it."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    found = [file.stat() for file in (files or [path])]
    return FileMark(str(path), sum(f.st_size for f in found), max(f.st_mtime_ns for f in found))


def refuse_changed(marks: Sequence[FileMark]) -> None:
    """An error where a file is not what it was."""
    for old in marks:
        path = Path(old.path)
        if not path.exists():
            raise StateError(f"{old.path} was there when the rows were opened and is gone: call open_rows again.")
        new = mark(path)
        if new != old:
            raise StateError(
                f"{old.path} has changed since the rows were opened ({old.size} bytes then, {new.size} now, modified "
                f"{(new.modified - old.modified) / 1e9:+.3f} s later): call open_rows again, once nothing writes to it."
            )


def find_files(given: Paths) -> list[Path]:
    """The files meant by a path, a pattern such as ``part-*.csv``, a folder, or a list of these, in order."""
    if isinstance(given, str | os.PathLike):
        return _expand(os.path.expanduser(os.fspath(given)))
    files = [file for item in given for file in find_files(item)]
    if not files:
        raise MissingFileError("The list of files is empty: give at least one path.")
    return files


def format_of(files: Sequence[Path], given: str | None) -> str:
    """The format of files: the one given, or that of their suffixes, which must be one."""
    known = tuple(dict.fromkeys(SUFFIXES.values()))
    if given is not None:
        if given not in known:
            raise InputError(f"format must be one of {', '.join(known)}, got {given!r}.{suggest(given, known)}")
        return given
    formats: dict[str, Path] = {}
    for file in files:
        found = format_by_name(file)
        if found is None:
            raise InputError(
                f"{file} has none of the suffixes that tell a format ({', '.join(SUFFIXES)}; .gz after .csv and .svm): say "
                f"what it is, such as format='csv' (one of {', '.join(known)})."
            )
        formats.setdefault(found, file)
    if len(formats) > 1:
        both = " and ".join(f"{file} ({name})" for name, file in list(formats.items())[:2])
        raise InputError(f"All files must be of one format, got {both}: open them one at a time, or say which by format=.")
    return next(iter(formats))


def format_by_name(path: Path) -> str | None:
    """The format that a file's name tells, or None."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    if len(suffixes) > 1 and suffixes[-1] in COMPRESSED.get(SUFFIXES.get(suffixes[-2], ""), ()):
        return SUFFIXES[suffixes[-2]]
    return None


def suggest(name: str, known: Sequence[str]) -> str:
    """A sentence with the nearest of the known names, or nothing."""
    near = nearest(str(name), known)
    return f" Did you mean {near[0]!r}?" if near else ""


def need(module: str, what: str) -> Any:
    """A module that is not always installed, or an error that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise MissingPackageError(
            f"Reading {what} needs {package}, which cannot be imported: pip install {package}, or 'bochner[io]'."
        ) from error


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Errors of the libraries that read files, with the name of the file."""
    try:
        yield
    except UnreadableError:
        raise
    except MemoryError as error:
        raise UnreadableError(
            f"{path} could not be read as {what}: it asks for more memory than there is ({str(error).strip()}). Is the file "
            "whole? Copy it again from where it came from."
        ) from error
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        RuntimeError,
        NotImplementedError,
        zlib.error,
        lzma.LZMAError,
        tokenize.TokenError,
        SyntaxError,
        zipfile.BadZipFile,
    ) as error:
        raise UnreadableError(
            f"{path} could not be read as {what}: {str(error).strip() or type(error).__name__}. Is the file whole? If it is "
            "of another format, say which by format=."
        ) from error


def guarded(path: Path, what: str, items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items, with errors that name the file."""
    try:
        while True:
            with reading(path, what):
                item = next(items, None)
            if item is None:
                return
            yield item
    finally:
        items.close()


def _expand(given: str) -> list[Path]:
    path = Path(given)
    if path.is_dir() and format_by_name(path) != "zarr":
        files = sorted(_in_folder(path))
        if not files:
            raise MissingFileError(f"The folder {path} holds no file with one of the suffixes {', '.join(SUFFIXES)}.")
        return files
    if path.exists():
        return [path]
    files = [Path(found) for found in sorted(glob.glob(given, recursive=True))]
    if not files:
        folder = path.parent
        there = sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []
        hint = suggest(path.name, there) if folder.is_dir() else f" There is no folder {folder}."
        raise MissingFileError(f"No file matches {given!r} (from {os.getcwd()}), and one is needed: give its path.{hint}")
    return files


def _in_folder(folder: Path) -> Iterator[Path]:
    """Files of a known format in a folder and those below, but for hidden ones and those that begin with _."""
    for path in folder.iterdir():
        if path.name.startswith((".", "_")):
            continue
        if format_by_name(path) is not None:
            yield path
        elif path.is_dir():
            yield from _in_folder(path)
