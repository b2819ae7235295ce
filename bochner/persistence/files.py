"""Files of models: arrays and a header of JSON in the format safetensors, written as a whole and checked when they are read.

The metadata of the file have two entries: ``bochner``, the header, and ``sha256``, a checksum of it and of all arrays. The
header has the keys

    format       the number of this layout, which grows when an older reader could not read it
    bochner      the version that wrote the file
    class        the name of the estimator's class
    parameters   those of its constructor, but for what belongs to a run (device, memory, progress) or cannot be stored
    left_out     the names of parameters that are not in the file; a loaded model has their defaults
    columns      the number and the names of the columns of the rows; with by_place, these stand for places, as in f0
    attributes   what was fitted
    encoder      the state of the encoder of tables, or null
    provenance   date, versions, number of rows, seed
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array
from bochner.durable import reading, replace_file
from bochner.errors import MissingPackageError
from bochner.estimators.encoding import PLACES
from bochner.estimators.provenance import FILE, is_in
from bochner.persistence import registry
from bochner.persistence.checks import check_model
from bochner.persistence.codec import Decoder, Encoder
from bochner.persistence.errors import BROKEN, ModelFileError
from bochner.persistence.rounding import rounded
from bochner.solvers.group_path import GroupLassoPath
from bochner.tables import TableEncoder

FORMAT = 1
"""The number of the layout that is written."""
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From the header of each earlier layout to that of the next one."""
OF_A_RUN = ("callback", "checkpoint", "device", "max_memory", "verbose")
"""Parameters that say how a fit is run, and not what is fitted."""
SUMS = ("moments_", "_few_centres")
"""Sums over the training rows: matrices of all pairs of features, which predictions do without."""
DTYPES = {"F64": "float64", "F32": "float32", "I64": "int64", "I32": "int32", "U8": "uint8", "BOOL": "bool"}
"""Types of arrays, by the names that safetensors has for them."""
LARGEST_HEADER = 100_000_000
"""Bytes of a header that safetensors reads."""


# -- writing ----------------------------------------------------------------------------------------------------------


def save(
    model: Any, path: str | Path, *, dtype: str | None = None, compact: bool = True, classes: Sequence[type] = ()
) -> None:
    """Write a fitted model to a file: see the method ``save`` of estimators."""
    check_is_fitted(model)
    name = type(model).__name__
    if registry.estimators().get(name) is not type(model):
        raise ModelFileError(
            f"{name} is not among the estimators of bochner that files name, {', '.join(registry.estimators())}: "
            "use pickle for a class of your own."
        )
    if dtype not in (None, "float32"):
        raise ModelFileError(f"dtype must be None (as it is) or 'float32', got {dtype!r}.")
    attributes, exact = (_fitted(model), []) if dtype is None else rounded(_fitted(model))
    encoder = Encoder(classes=registry.own_classes(classes), single=dtype is not None, exact=exact)
    header = json.dumps(_header(model, attributes, encoder, compact), allow_nan=False, separators=(",", ":"))
    metadata = {"bochner": header, "sha256": checksum(header, encoder.arrays)}
    content = _safetensors("numpy").save(encoder.arrays, metadata)
    replace_file(Path(path), lambda file: file.write(content))
    is_in(model, Path(path))


def _fitted(model: Any) -> dict[str, Any]:
    """All attributes of a model that are no parameters, but for the name of its file."""
    others = {*model.get_params(deep=False), FILE}
    return {name: value for name, value in list(vars(model).items()) if name not in others}


def _header(model: Any, attributes: dict[str, Any], encoder: Encoder, compact: bool) -> dict[str, Any]:
    names, places = attributes.pop("feature_names_in_", None), attributes.pop(PLACES, None)
    called = places if names is None else names
    columns = {
        "number": attributes.pop("n_features_in_", None),
        "names": None if called is None else [str(name) for name in called],
    }
    columns |= {} if places is None else {"by_place": True}
    tables = attributes.pop("encoder_", None)
    attributes["_learned_on"] = None  # the device of the fit
    stored = {
        name: encoder.encode(_compacted(name, value) if compact else value, name) for name, value in attributes.items()
    }
    parameters, left_out = _parameters(model, encoder)
    return {
        "format": FORMAT,
        "bochner": _own_version(),
        "class": type(model).__name__,
        "parameters": parameters,
        "left_out": left_out,
        "columns": columns,
        "attributes": stored,
        "encoder": None if tables is None else _encoder_state(tables),
        "provenance": _provenance(model, compact),
    }


def _parameters(model: Any, encoder: Encoder) -> tuple[dict[str, Any], list[str]]:
    """Parameters of the constructor, and the names of those that are not in the file."""
    stored: dict[str, Any] = {}
    left_out, lost = [], []
    for name, value in model.get_params(deep=False).items():
        by_chance = name == "random_state" and not (value is None or isinstance(value, int | np.integer))
        is_rows = name == "validation" and isinstance(value, tuple | list)
        if name in OF_A_RUN or by_chance or is_rows:
            left_out.append(name)
            lost += [name] if is_rows else []
            continue
        try:
            stored[name] = encoder.encode(value, f"parameters.{name}")
        except ModelFileError:
            left_out.append(name)
            lost.append(name)
    if lost:
        warnings.warn(
            f"{' and '.join(lost)} of {type(model).__name__} cannot be stored in a file and have their defaults in the "
            "model that is loaded. Predictions do not need them, a further fit does.",
            UserWarning,
            stacklevel=5,
        )
    return stored, left_out


def _compacted(name: str, value: Any) -> Any:
    """An attribute without what predictions do without."""
    if name in SUMS:
        return None
    return replace(value, coef=value.coef[:, :0]) if isinstance(value, GroupLassoPath) else value


def _encoder_state(tables: Any) -> Any:
    state = tables.state()
    try:
        return json.loads(json.dumps(state, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"encoder_.state() must be a dict that JSON can hold ({error}): leave the others out."
        ) from error


def _provenance(model: Any, compact: bool) -> dict[str, Any]:
    seed = getattr(model, "random_state", None)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "n_rows": _n_rows(model),
        "seed": int(seed) if isinstance(seed, int | np.integer) else None,
        "compact": compact,
    }


def _n_rows(model: Any) -> int | None:
    """Rows that a model was fitted on, as far as it knows."""
    dual = getattr(model, "dual_coef_", None)
    known = getattr(model, "_n_rows", None if dual is None else len(dual))
    return None if known is None else int(known)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _own_version() -> str:
    return import_module("bochner").__version__


def checksum(header: str, arrays: Mapping[str, Array]) -> str:
    """The SHA-256 of a header and of all arrays: their names, types, shapes and bytes."""
    total = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        total.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        total.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return total.hexdigest()


# -- reading ----------------------------------------------------------------------------------------------------------


def load(path: str | Path, *, classes: Sequence[type] = ()) -> Any:
    """The model that ``model.save(path)`` wrote; no code in the file is run, whatever it holds.

    Parameters
    ----------
    path : str or Path
        The file.
    classes : list of type, default=()
        Kernel classes of your own that the model uses.

    Raises
    ------
    ModelFileError
        Where the file is damaged or cut short, is no file of a model, or was written by a later version.

    Examples
    --------
    >>> import bochner, os, tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = bochner.KernelRegressor("gaussian", n_features=50, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "diabetes.safetensors"))
    ...     again = bochner.load(os.path.join(folder, "diabetes.safetensors"))
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    path, own = Path(path), registry.own_classes(classes)
    try:
        model = _model(read_header(path), own)
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be loaded. {error}") from error
    except BROKEN as error:
        raise ModelFileError(
            f"{path} cannot be loaded. What it holds is no model ({type(error).__name__}: {str(error)[:200]}): it is "
            "damaged, or was written by something else. Save the model again."
        ) from error
    is_in(model, path)
    return model


def read_header(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header of a file and its arrays, after the checksum of both was compared."""
    metadata, arrays = _read(path)
    if not isinstance(metadata.get("bochner"), str):
        raise ModelFileError("It is a file of safetensors, but not of bochner. Give what model.save(path) writes.")
    text = metadata["bochner"]
    header = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    if not isinstance(header, dict):
        raise ModelFileError("Its header is no object of JSON. Save the model again.")
    _check_format(header)
    if metadata.get("sha256") != checksum(text, arrays):
        raise ModelFileError(
            "Its checksum is another one than that of what it holds: it was damaged or changed after it was saved. Copy it "
            "again from where it came from, or save the model again."
        )
    for number in range(header["format"], FORMAT):
        header = UPGRADES[number](header)
    return header, arrays


def _check_format(header: dict[str, Any]) -> None:
    number = header.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ModelFileError(f"Its header has the format {number!r}, and formats are 1 to {FORMAT}. Save the model again.")
    if number > FORMAT:
        raise ModelFileError(
            f"It was written by bochner {header.get('bochner')} in format {number}, and this is bochner "
            f"{_own_version()}, which reads formats up to {FORMAT}: pip install --upgrade bochner."
        )


def _model(read: tuple[dict[str, Any], dict[str, Array]], own: Mapping[str, type]) -> Any:
    header, arrays = read
    name = header["class"]
    if name not in registry.estimators():
        raise ModelFileError(
            f"It holds a {name!r}, which is no estimator of this version of bochner: "
            "pip install --upgrade bochner, or save the model again."
        )
    cls = registry.estimators()[name]
    decoder = Decoder(arrays, classes=own)
    model = cls(**{name: decoder.decode(value) for name, value in header["parameters"].items()})
    columns = header["columns"]
    attributes = {name: decoder.decode(value) for name, value in header["attributes"].items()}
    if columns["number"] is not None:
        attributes["n_features_in_"] = columns["number"]
    if columns["names"] is not None:
        attributes[PLACES if columns.get("by_place") is True else "feature_names_in_"] = _names(columns)
    for name, value in attributes.items():
        _refuse_name(cls, name)
        setattr(model, name, value)
    if header["encoder"] is not None:
        model.encoder_ = TableEncoder.from_state(header["encoder"])
    check_model(model)
    return model


def _names(columns: dict[str, Any]) -> Array:
    names = columns["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) != columns["number"]:
        raise ModelFileError("Its columns have not one name each. Save the model again.")
    return np.array(names, dtype=object)


def _refuse_name(cls: type, name: str) -> None:
    """An error where an attribute of a file would stand in the way of what the class has."""
    fitted = name.isidentifier() and (name.endswith("_") or name.startswith("_")) and not name.startswith("__")
    there = getattr(cls, name, None)
    if not fitted or callable(there) or isinstance(there, property):
        raise ModelFileError(
            f"It has an attribute {name!r}, which is none of a fitted {cls.__name__}: "
            "pip install --upgrade bochner, or save the model again."
        )


def _read(path: Path) -> tuple[dict[str, str], dict[str, Array]]:
    """Metadata and arrays of a file of safetensors; no array takes more memory than the file has bytes."""
    library = _safetensors()
    with reading(path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{" or length > min(size - 8, LARGEST_HEADER):
        raise ModelFileError(_what_it_is(start, size))
    try:
        with library.safe_open(path, framework="np") as file:
            return file.metadata() or {}, {name: _array(file, name, size) for name in file.keys()}  # noqa: SIM118, no dict
    except library.SafetensorError as error:
        raise ModelFileError(
            f"It is no whole file of safetensors ({error}): it is damaged or was cut short. Copy it again from where it "
            "came from, or save the model again."
        ) from error


def _array(file: Any, name: str, size: int) -> Array:
    about = file.get_slice(name)
    dtype, shape = DTYPES.get(about.get_dtype()), about.get_shape()
    if dtype is None:
        raise ModelFileError(
            f"Its array {name!r} is of the type {about.get_dtype()}, and models have {', '.join(DTYPES)}. "
            "Save the model again."
        )
    if len(shape) > 3 or math.prod(max(length, 1) for length in shape) > size:
        raise ModelFileError(
            f"Its array {name!r} has the shape {tuple(shape)}, which no model of {size} bytes has. Save the model again."
        )
    return file.get_tensor(name)


def _what_it_is(start: bytes, size: int) -> str:
    """What a file may be that does not begin as one of safetensors does."""
    kinds = {b"\x80": "a pickle: use pickle.load or joblib.load", b"PK": "a zip file: use skops.io.load for those of skops"}
    guess = next((kind for magic, kind in kinds.items() if start.startswith(magic)), None)
    if guess is not None:
        return f"It looks like {guess}."
    return (
        f"Its {size} bytes do not begin as a file of safetensors does: it is empty, damaged or cut short, or was never one. "
        "Give what model.save(path) writes."
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError("Its header has a key twice. Save the model again.")
    return found


def _refuse_constant(name: str) -> None:
    raise ModelFileError(f"Its header holds {name}, which is no JSON. Save the model again.")


def _safetensors(part: str = "") -> Any:
    try:
        return import_module(f"safetensors.{part}" if part else "safetensors")
    except ImportError as error:
        raise MissingPackageError(
            'Files of models are written and read by safetensors, which is not here: pip install "bochner[save]"'
        ) from error
