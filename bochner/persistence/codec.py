"""Between fitted attributes and what a file holds: plain JSON, and arrays by name.

Objects are written as the name of their class and their fields, and made again by their own constructor. Nothing in a file
is run: class names are looked up in :mod:`bochner.persistence.registry`, and in classes that the caller hands over.
"""

from __future__ import annotations

import math
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.estimators.views import View, Views
from bochner.kernels import Kernel
from bochner.persistence import registry
from bochner.persistence.errors import ModelFileError
from bochner.statistics import Moments
from bochner.tables import TableEncoder

KINDS = ("float64", "float32", "int64", "int32", "uint8", "bool")
"""Types of arrays of numbers that files hold; others are brought to the next wider one of them."""
MOST_USES = 50
"""How often one array of a file may be used: more would make a large model of a small file."""
MOST_ZEROS = 8
"""How many times as much memory as the arrays of a file take may be made of diagonals by filling in zeros."""
DEEPEST = 40
"""Objects inside objects."""


class Encoder:
    """Values to JSON; arrays go to ``arrays``. ``classes`` are the user's own, by name.

    With ``single``, matrices of float64 are stored in float32, but for those of kernels and of sums, and for ``exact`` ones.
    """

    def __init__(
        self,
        *,
        classes: Mapping[str, type] = types.MappingProxyType({}),
        single: bool = False,
        exact: Sequence[Array] = (),
    ) -> None:
        self.arrays: dict[str, Array] = {}
        self._classes = classes
        self._single = single
        self._exact = {id(array) for array in exact}
        self._names: dict[int, str] = {}
        self._uses: Counter[int] = Counter()
        self._filled = 0
        """Bytes of the matrices of which diagonals are stored."""
        self._kept: list[Any] = []
        """Arrays whose ids are names: they must not be freed on the way."""

    def encode(self, value: Any, where: str) -> Any:
        """A value as JSON; ``where`` is its name, for arrays and errors."""
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, np.generic):
            return self.encode(value.item(), where)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$float": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, list):
            return [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"$tuple": [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]}
        if isinstance(value, slice):
            return {"$slice": [self.encode(end, where) for end in (value.start, value.stop, value.step)]}
        if isinstance(value, dict):
            return self._dict(value, where)
        return self._object(value, where)

    def _dict(self, value: dict[Any, Any], where: str) -> Any:
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {str(key): self.encode(item, f"{where}.{key}") for key, item in value.items()}
        return {"$dict": [[self.encode(key, where), self.encode(item, where)] for key, item in value.items()]}

    def _array(self, value: Array, where: str) -> Any:
        if value.dtype.kind in "OUST":
            items = [self.encode(item, where) for item in value.ravel().tolist()]
            if any(isinstance(item, dict | list) for item in items):
                raise ModelFileError(
                    f"{where} is an array of objects, and files hold arrays of numbers and of text: "
                    "use one of these, or pickle."
                )
            return {"$list": items, "shape": list(value.shape), "dtype": "object" if value.dtype.kind == "O" else "str"}
        if self._is_worth(value):
            self._filled += value.nbytes
            return {"$diagonal": {"$array": self._name(np.diagonal(value).copy(), where)}}
        name = self._name(value, where)
        stored: dict[str, Any] = {"$array": name}
        if self._is_rounded(value):
            stored["as"] = "float64"
        if _is_turned(value):
            stored["order"] = "F"
        return stored

    def _is_rounded(self, value: Array) -> bool:
        return self._single and value.dtype == np.float64 and value.ndim > 1 and id(value) not in self._exact

    def _is_worth(self, value: Array) -> bool:
        """Whether an array is a diagonal matrix, of which the diagonal is enough, and a reader will make it again."""
        if value.ndim != 2 or value.shape[0] != value.shape[1] or len(value) < 2 or value.dtype != np.float64:
            return False
        there = sum(array.nbytes for array in self.arrays.values())
        room = self._filled + value.nbytes <= MOST_ZEROS * there
        return room and np.count_nonzero(value) == np.count_nonzero(np.diagonal(value))

    def _name(self, value: Array, where: str) -> str:
        """The name of an array of numbers among those of the file."""
        if id(value) in self._names and self._uses[id(value)] % MOST_USES:
            self._uses[id(value)] += 1
            return self._names[id(value)]
        kind = value.dtype.name
        if kind not in KINDS:
            wider = {"f": "float32", "i": "int64", "u": "int64"}.get(value.dtype.kind)
            if wider is None or not np.can_cast(value.dtype, wider):
                raise ModelFileError(
                    f"{where} is an array of {value.dtype}, and files hold {', '.join(KINDS)}: use one of these, or pickle."
                )
            kind = wider
        if self._is_rounded(value):
            kind = "float32"
        name = where if where not in self.arrays else f"{where}#{len(self.arrays)}"
        turned = value.T if _is_turned(value) else value
        self.arrays[name] = np.array(turned, dtype=kind, order="C")
        self._names[id(value)], self._uses[id(value)] = name, 1
        self._kept.append(value)
        return name

    def _object(self, value: Any, where: str) -> Any:
        cls = type(value)
        own = self._classes.get(cls.__name__) is cls
        if cls is View:
            return {"$class": "View", "fields": self._dict(vars(value), where)}
        if cls is TableEncoder:
            return {"$class": cls.__name__, "fields": value.state()}
        if not own and registry.parts().get(cls.__name__) is not cls:
            raise ModelFileError(_refusal(value, where))
        before, self._single = self._single, self._single and not isinstance(value, Moments | Kernel)
        content = {f.name: self.encode(getattr(value, f.name), f"{where}.{f.name}") for f in fields(value)}
        self._single = before
        if own:
            _check_own(value, where)
        return {"$own" if own else "$class": cls.__name__, "fields": content}


class Decoder:
    """JSON and arrays back to values; all that is not as an :class:`Encoder` writes it is an error."""

    def __init__(self, arrays: Mapping[str, Array], *, classes: Mapping[str, type] = types.MappingProxyType({})) -> None:
        self._arrays = arrays
        self._classes = classes
        self._uses: Counter[str] = Counter()
        self._depth = 0
        self._in_views = False
        """Whether the tables of ``Views`` are decoded, the only place of a ``View``."""
        self._room = MOST_ZEROS * sum(array.nbytes for array in arrays.values())

    def decode(self, value: Any) -> Any:
        """The value that JSON stands for."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        self._depth += 1
        if self._depth > DEEPEST:
            raise ModelFileError(f"It has objects inside objects, more than {DEEPEST} deep. Save the model again.")
        try:
            return [self.decode(item) for item in value] if isinstance(value, list) else self._decode_dict(value)
        finally:
            self._depth -= 1

    def _decode_dict(self, value: dict[str, Any]) -> Any:
        kind = next((key for key in value if key.startswith("$")), None)
        if kind is None:
            return {key: self.decode(item) for key, item in value.items()}
        content = value[kind]
        match kind:
            case "$float":
                return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
            case "$tuple":
                return tuple(self.decode(item) for item in content)
            case "$slice":
                start, stop, step = content
                return slice(*(_whole_or_none(end) for end in (start, stop, step)))
            case "$dict":
                return {self.decode(key): self.decode(item) for key, item in content}
            case "$list":
                return _text_array(**{key.removeprefix("$"): item for key, item in value.items()})
            case "$array":
                return self._array(content, value.get("as"), value.get("order"))
            case "$diagonal":
                return self._diagonal(self.decode(content))
            case "$class" | "$own":
                return self._object(content, value["fields"], own=kind == "$own")
        raise ModelFileError(
            f"It has an entry of the kind {kind!r}, which this version does not know: "
            "pip install --upgrade bochner, or save the model again."
        )

    def _array(self, name: str, dtype: str | None, order: str | None) -> Array:
        if name not in self._arrays:
            raise ModelFileError(f"Its array {name!r} is not there. Save the model again.")
        self._uses[name] += 1
        if self._uses[name] > MOST_USES:
            raise ModelFileError(f"It uses its array {name!r} more than {MOST_USES} times. Save the model again.")
        array = self._arrays[name]
        if dtype not in (None, "float64") or order not in (None, "F"):
            raise ModelFileError(
                f"Its array {name!r} is to be {dtype!r} in the order {order!r}, which are not known. Save the model again."
            )
        array = array if dtype is None else array.astype(dtype, copy=False)
        return array.T if order == "F" else array

    def _diagonal(self, diagonal: Any) -> Array:
        if not isinstance(diagonal, np.ndarray) or diagonal.ndim != 1 or diagonal.dtype != np.float64:
            raise ModelFileError("It has a diagonal matrix without a diagonal. Save the model again.")
        self._room -= diagonal.nbytes * len(diagonal)
        if self._room < 0:
            raise ModelFileError("Its diagonal matrices are too large for its size. Save the model again.")
        return np.diag(diagonal)

    def _object(self, name: Any, content: Any, *, own: bool) -> Any:
        if not isinstance(name, str) or not isinstance(content, dict):
            raise ModelFileError("It has an object without a name or fields. Save the model again.")
        if own:
            if name not in self._classes:
                raise ModelFileError(
                    f"It has a kernel {name} of somebody's own: import its class and give it to load, classes=[{name}]."
                )
            return self._made(self._classes[name], content)
        if name in registry.parts():
            return self._made(registry.parts()[name], content)
        if name == "View" and self._in_views:
            view: Any = View()
            vars(view).update({key: self.decode(content[key]) for key in content if key in VIEW_FIELDS})
            return view
        if name == TableEncoder.__name__:
            return TableEncoder.from_state(content)
        raise ModelFileError(
            f"It has an object of the class {name!r}, which is not among those of models: "
            "pip install --upgrade bochner, or save the model again."
        )

    def _made(self, cls: Any, content: dict[str, Any]) -> Any:
        known = {f.name for f in fields(cls)} if is_dataclass(cls) else set()
        if unknown := set(content) - known:
            raise ModelFileError(
                f"Its {cls.__name__} has the unknown field {min(unknown)!r}: "
                "pip install --upgrade bochner, or save the model again."
            )
        values = {}
        for name, item in content.items():
            self._in_views = cls is Views and name == "tables"
            values[name] = self.decode(item)
        self._in_views = False
        return cls(**values)


VIEW_FIELDS = ("n_features_in_", "feature_names_in_", "encoder_")
"""What is known of the columns of a view."""


def _is_turned(array: Array) -> bool:
    """Whether an array is in Fortran's order alone: products with it then have other bits than in C's."""
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _whole_or_none(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ModelFileError(f"It has a slice with the end {value!r}. Save the model again.")


def _text_array(**entry: Any) -> Array:
    """An array of text, or of objects that JSON knows."""
    items, shape = entry["list"], tuple(entry["shape"])
    if math.prod(shape) != len(items) or any(isinstance(item, dict | list) for item in items):
        raise ModelFileError(f"It has an array of {len(items)} texts in the shape {shape}. Save the model again.")
    if entry["dtype"] == "str":
        if not all(isinstance(item, str) for item in items):
            raise ModelFileError("It has an array of text with other things in it. Save the model again.")
        if len(items) * max(map(len, items), default=0) > 100 * (sum(map(len, items)) + 10_000):
            raise ModelFileError("It has an array of text, one of which is too long. Save the model again.")
        return np.array(items, dtype=str).reshape(shape)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def _check_own(value: Any, where: str) -> None:
    """An error where the fields of an object of the user's own do not make it again."""
    cls = type(value)
    try:
        again = cls(**{f.name: getattr(value, f.name) for f in fields(value)})
        same = again == value and set(vars(again)) == set(vars(value))
    except TypeError:
        same = False
    if not same:
        names = ", ".join(f.name for f in fields(value))
        raise ModelFileError(
            f"{where} is {cls.__name__}, which is not made again by {cls.__name__}({names}):"
            " make it a frozen dataclass whose fields are its parameters, or use pickle."
        )


def _refusal(value: Any, where: str) -> str:
    name = type(value).__name__
    if hasattr(value, "check_rows") and is_dataclass(value):
        return (
            f"{where} is a kernel of your own, {name}, and files name no code but that of bochner: save with "
            f"classes=[{name}], and load with bochner.load(path, classes=[{name}]); or use pickle."
        )
    return (
        f"{where} is a {name}, and files hold numbers, text, arrays, and the kernels and feature maps of bochner: "
        "use pickle."
    )
