"""What was computed of each image, one file an image, all of one configuration; whole whenever the program is killed."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bochner
from bochner.archives import read_arrays
from bochner.arrays import Array
from bochner.durable import PARTIAL, Log, replace_file, suppressed, write_all
from bochner.errors import FileContentError, InputError
from bochner.vision.datasets import ImageSet

HEADER, FAILED = "store.json", "failed.log"
KEY = "configuration"
"""The array of a file that says of which configuration and image it is."""
FORMAT = 1
"""Changes with the meaning of what is stored."""
UNREADABLE = (OSError, ValueError, KeyError)


class StoreError(FileContentError):
    """A store that cannot be used: one line that says why, and what to do."""


def configuration_of(**options: Any) -> dict[str, Any]:
    """Options, dataclasses among them, as plain values, with the version of the package."""
    values = {name: _plain(value) for name, value in options.items()}
    found: dict[str, Any] = json.loads(json.dumps({"bochner": bochner.__version__, "format": FORMAT, **values}))
    return found


def key_of(configuration: Mapping[str, Any]) -> str:
    """A short text that tells configurations apart."""
    return hashlib.blake2b(json.dumps(configuration, sort_keys=True).encode(), digest_size=8).hexdigest()


def pack(arrays: Mapping[str, Array], key: str) -> bytes:
    """The bytes of a file of arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{KEY: np.array(key), **arrays})
    return buffer.getvalue()


class Store:
    """A folder with a file of arrays for each image.

    ``stale`` says what to do with a folder of another configuration: "refuse" it with an error that says what differs, or
    "redo": files of another configuration then count as not there, and are replaced one by one.
    """

    def __init__(self, folder: str | Path, configuration: Mapping[str, Any], stale: str = "refuse") -> None:
        if stale not in ("refuse", "redo"):
            raise InputError(f"stale must be 'refuse' or 'redo', got {stale!r}.")
        self.folder = Path(folder)
        self.configuration = dict(configuration)
        self.key = key_of(configuration)
        self.images: ImageSet | None = None
        """Where the images are; None where files are taken for those of their names."""
        self.replaces: str | None = None
        """What differs from the configuration that was there, where files are to be replaced."""
        before = read_header(self.folder)
        if before == self.configuration:
            return
        if before is None and not any(self.folder.glob("*.npz")):
            self._write_header()
            return
        self.replaces = "it is not known of which" if before is None else _difference(before, self.configuration)
        if stale == "refuse":
            advice = "Use another folder, or make them again (stale='redo', --stale redo)"
            raise StoreError(f"{self.folder} holds results of another configuration: {self.replaces}. {advice}.")
        self._write_header()

    @classmethod
    def existing(cls, folder: str | Path) -> Store:
        """A store that was made before, as it is."""
        configuration = read_header(Path(folder))
        if configuration is None:
            raise StoreError(
                f"{folder}: nothing has been computed here; "
                "run the steps before this one first (bochner voc), or give another folder (--out)."
            )
        return cls(folder, configuration)

    def of_images(self, images: ImageSet) -> Store:
        """The same store, in which files of other images of the same names do not count."""
        store = copy(self)
        store.images = images
        return store

    def file_key(self, name: str) -> str:
        """What the file of an image says it is of: the configuration, and the image where that is known."""
        return self.key if self.images is None else f"{self.key} {self.images.mark(name)}"

    def path(self, name: str) -> Path:
        """The file of an image."""
        if not name or Path(name).name != name or "\0" in name:
            raise StoreError(
                f"{self.folder}: names of images have no folders in them, got {name!r}; give the name of the file alone."
            )
        return self.folder / f"{name}.npz"

    def has(self, name: str) -> bool:
        """Whether an image is done: its file is there, whole, and of this configuration."""
        with suppress(*UNREADABLE), open(self.path(name), "rb") as file:
            return self._is_own(name, str(read_arrays(file)[KEY]))
        return False

    def load(self, name: str) -> dict[str, Array]:
        """The arrays of an image."""
        if not self.path(name).is_file():
            raise StoreError(f"{self.path(name)}: this image has not been computed; run its step of bochner voc first.")
        try:
            with open(self.path(name), "rb") as file:
                arrays = read_arrays(file)
            key = str(arrays.pop(KEY))
        except UNREADABLE as error:
            raise StoreError(f"{self.path(name)}: the file is damaged; run its step of bochner voc again.") from error
        if not self._is_own(name, key):
            raise StoreError(
                f"{self.path(name)}: the file is of another configuration or image; run its step of bochner voc again."
            )
        return arrays

    def save(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Write the arrays of an image, in the place of earlier ones."""
        self.put(name, pack(arrays, self.file_key(name)))

    def put(self, name: str, packed: bytes) -> None:
        """Write a file that :func:`pack` made."""
        replace_file(self.path(name), lambda file: write_all(file, packed))

    @contextmanager
    def writing(self) -> Iterator[Log]:
        """A context for one program at a time, with the log of images that fail, emptied; tidies up after a killed one."""
        try:
            log = Log(self.folder / FAILED)
        except BlockingIOError as error:
            raise StoreError(
                f"{self.folder}: another program is writing here now; wait for it, or give another folder (--out)."
            ) from error
        try:
            log.cut(0)
            for partial in self.folder.glob(f"*{PARTIAL}"):
                suppressed(partial.unlink)
            yield log
        finally:
            log.close()

    def _is_own(self, name: str, key: str) -> bool:
        return key.split(" ")[0] == self.key if self.images is None else key == self.file_key(name)

    def _write_header(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self.configuration, indent=1).encode()
            replace_file(self.folder / HEADER, lambda file: write_all(file, text))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else error
            raise StoreError(f"{self.folder}: cannot write here ({reason}); give another folder (--out).") from error


def read_header(folder: Path) -> dict[str, Any] | None:
    """The configuration of a folder; None where there is none."""
    with suppress(OSError, ValueError, TypeError):
        return dict(json.loads((folder / HEADER).read_text(encoding="utf-8")))
    return None


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What differs between two configurations, in words; options of options by their names with dots."""
    before, now = dict(_flat(old)), dict(_flat(new))
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    told = [f"{name} was {before.get(name, 'not there')} and is {now.get(name, 'not there')}" for name in names]
    return "; ".join(told[:3]) + (f"; and {len(told) - 3} more" if len(told) > 3 else "")


def _flat(configuration: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in configuration.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
