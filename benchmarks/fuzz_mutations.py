"""Ways to spoil a model file: by chance, or by somebody who knows its layout and writes a right checksum."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bochner.persistence.files import checksum
from bochner.persistence.registry import estimators, parts

Generator = np.random.Generator
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
NAMES = {np.dtype(code).name: name for name, code in DTYPES.items()}
STRANGE_TEXT = (
    "",
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\x",
    "\0",
    "é" * 50,
    "nan",
    "$class",
    "os.system",
    "__class__",
    "a" * 5000,
)
STRANGE_NUMBERS = (0, 1, -1, 2, 10**6, 10**12, 10**400, -(2**63), 0.5, -0.0, 1e308, 5e-324, 1e-300, True, False)


# -- a file in pieces -------------------------------------------------------------------------------------------------


def taken_apart(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a file of safetensors, and the bytes of all arrays."""
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def put_together(header: Any, body: bytes) -> bytes:
    """A file of safetensors from its pieces, whatever they are."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def opened(data: bytes) -> tuple[Any, dict[str, Any]]:
    """The header of a model, and its arrays."""
    header, body = taken_apart(data)
    about = json.loads(header.pop("__metadata__")["bochner"])
    arrays = {}
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        arrays[name] = np.frombuffer(body[start:stop], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return about, arrays


def closed(about: Any, arrays: dict[str, Any], text: str | None = None) -> bytes:
    """A model file with a right checksum; ``text`` stands for the header where it is no JSON any more."""
    if text is None:
        try:
            text = json.dumps(about)
        except RecursionError:
            text = "[" * 3000
    header: dict[str, Any] = {"__metadata__": {"bochner": text, "sha256": checksum(text, arrays)}}
    body = b""
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).tobytes()
        entry = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape)}
        header[name] = entry | {"data_offsets": [len(body), len(body) + len(content)]}
        body += content
    return put_together(header, body)


# -- by chance --------------------------------------------------------------------------------------------------------


def flip_bits(rng: Generator, data: bytes) -> bytes:
    """Some bits are others."""
    spoiled = bytearray(data)
    for place in rng.integers(len(data), size=rng.integers(1, 9)):
        spoiled[place] ^= 1 << int(rng.integers(8))
    return bytes(spoiled)


def cut_short(rng: Generator, data: bytes) -> bytes:
    """The end is missing."""
    return data[: rng.integers(len(data))]


def move_bytes(rng: Generator, data: bytes) -> bytes:
    """Bytes are lost, doubled, or come in between."""
    start, n = int(rng.integers(len(data))), int(rng.integers(1, 64))
    piece = [b"", data[start : start + 2 * n], rng.bytes(n), b"\0" * n][rng.integers(4)]
    return data[:start] + piece + data[start + (n if rng.random() < 0.5 else 0) :]


def other_length(rng: Generator, data: bytes) -> bytes:
    """The length of the header is another one."""
    (length,) = struct.unpack("<Q", data[:8])
    choices = [0, 1, 2, length - 1, length + 1, len(data), len(data) - 8, 2**31, 2**32, 2**63, 2**64 - 1, 10**8]
    return struct.pack("<Q", max(int(choices[rng.integers(len(choices))]), 0)) + data[8:]


def other_tensors(rng: Generator, data: bytes) -> bytes:
    """The list of arrays says other shapes, types, places or names; the checksum is that of before."""
    header, body = taken_apart(data)
    names = [name for name in header if name != "__metadata__"]
    if not names:
        header["extra"] = {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8]}
        return put_together(header, body)
    name = names[rng.integers(len(names))]
    entry = header[name]
    match rng.integers(6):
        case 0:
            entry["shape"] = [[10**12], [2**62, 4], [0, 10**15], [-1], [], [1] * 40, "big", [1.5]][rng.integers(8)]
        case 1:
            entry["dtype"] = ["F32", "I64", "BOOL", "F8_E4M3", "BF16", "C64", "X9", "", 3][rng.integers(9)]
        case 2:
            entry["data_offsets"] = [[0, 10**15], [8, 0], [-8, 8], [0], [2**64, 2**64]][rng.integers(5)]
        case 3:
            header[_pick(rng, STRANGE_TEXT)] = header.pop(name)
        case 4:
            del header[name]
        case 5:
            header["__metadata__"] = [{}, None, {"bochner": 3}, [], {"bochner": "{}"}, "x"][rng.integers(6)]
    return put_together(header, body)


# -- on purpose, with a right checksum --------------------------------------------------------------------------------


def other_values(rng: Generator, data: bytes) -> bytes:
    """Some values of the header of the model are strange ones."""
    about, arrays = opened(data)
    for _ in range(rng.integers(1, 4)):
        holder, key = _place(rng, about)
        holder[key] = strange(rng, arrays)
    return closed(about, arrays)


def lost_and_doubled(rng: Generator, data: bytes) -> bytes:
    """Values of the header are missing, or stand in the place of others."""
    about, arrays = opened(data)
    for _ in range(rng.integers(1, 3)):
        holder, key = _place(rng, about)
        if rng.random() < 0.4 and isinstance(holder, dict):
            del holder[key]
        else:
            other, there = _place(rng, about)
            holder[key] = copy.deepcopy(other[there])
    return closed(about, arrays)


def other_text(rng: Generator, data: bytes) -> bytes:
    """Characters of the header of the model are others."""
    about, arrays = opened(data)
    text = json.dumps(about)
    for _ in range(rng.integers(1, 4)):
        place, n = int(rng.integers(len(text))), int(rng.integers(0, 5))
        text = (
            text[:place]
            + _pick(rng, ("", "}", "]", "[", "{", '"', ",", "1", "NaN", "e9", "[" * 3000, "\\ud800"))
            + text[place + n :]
        )
    return closed(None, arrays, text)


def other_arrays(rng: Generator, data: bytes) -> bytes:
    """Arrays have other shapes, types or numbers."""
    about, arrays = opened(data)
    if not arrays:
        return other_values(rng, data)
    name = _pick(rng, list(arrays))
    array = arrays[name]
    match rng.integers(8):
        case 0:
            array = array.T
        case 1:
            array = array[: rng.integers(len(array) + 1)] if array.ndim else array
        case 2:
            array = array.astype(_pick(rng, ["float32", "int64", "int32", "uint8", "bool"]))
        case 3:
            array = np.full(array.shape, _pick(rng, [np.nan, np.inf, -np.inf, 0.0, 1e308, -1.0, 1e-320]))
        case 4:
            array = array.ravel()
        case 5:
            array = array[..., None]
        case 6:
            array = np.concatenate([array, array]) if array.ndim else array
        case 7:
            array = np.zeros((0, 10**6))
    arrays[name] = array
    return closed(about, arrays)


def of_two_files(rng: Generator, data: bytes, other: bytes) -> bytes:
    """Attributes or arrays of another model."""
    about, arrays = opened(data)
    there, others = opened(other)
    match rng.integers(3):
        case 0:
            return closed(about, arrays | others)
        case 1:
            about["class"] = there["class"]
        case 2:
            name = _pick(rng, list(there["attributes"]))
            about["attributes"][name] = there["attributes"][name]
    return closed(about, others | arrays)


def strange(rng: Generator, arrays: dict[str, Any]) -> Any:
    """A value that nobody expects."""
    match rng.integers(9):
        case 0:
            return _pick(rng, STRANGE_NUMBERS)
        case 1:
            return _pick(rng, STRANGE_TEXT)
        case 2:
            return _pick(rng, [None, [], {}, [[]], {"a": {}}])
        case 3:
            return {"$array": _pick(rng, [*arrays, "nothing", 3])} | _pick(rng, [{}, {"order": "F"}, {"as": "object"}])
        case 4:
            fields = _pick(rng, [{}, {"scale": 0}, {"kernel": None}, {"maps": {"$tuple": []}}, {"a": 1}])
            return {"$class": _pick(rng, [*parts(), *estimators(), "Popen"]), "fields": fields}
        case 5:
            return {"$tuple": [_pick(rng, STRANGE_NUMBERS)] * int(_pick(rng, [0, 1, 3, 1000]))}
        case 6:
            value: Any = 1
            for _ in range(int(_pick(rng, [30, 60, 300]))):
                value = [value] if rng.random() < 0.5 else {"$tuple": [value]}
            return value
        case 7:
            return {
                "$list": ["a"],
                "shape": _pick(rng, [[1], [10**12], [0], [-1, -1]]),
                "dtype": _pick(rng, ["str", "object", 1]),
            }
        case _:
            return {
                _pick(rng, ["$slice", "$dict", "$diagonal", "$float", "$own", "$code", "$"]): _pick(
                    rng, [[1, 2, 3], "inf", "x", None, [[1, 2]]]
                )
            }


MUTATIONS: dict[str, Callable[[Generator, bytes], bytes]] = {
    "bits flipped": flip_bits,
    "cut short": cut_short,
    "bytes moved": move_bytes,
    "another length": other_length,
    "another list of arrays": other_tensors,
    "strange values": other_values,
    "values lost or doubled": lost_and_doubled,
    "another text of the header": other_text,
    "other arrays": other_arrays,
}


def _pick(rng: Generator, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _place(rng: Generator, tree: Any) -> tuple[Any, Any]:
    """A place somewhere in a tree of JSON: what holds it, and its key. Deep places are as likely as others."""
    places: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            places.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return _pick(rng, places) if places else (tree, "new")
