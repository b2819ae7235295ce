"""The files that benchmarks/fuzz_readers.py spoils, what reads them, and ways to spoil some of them on purpose."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fuzz_mutations import STRANGE_NUMBERS, STRANGE_TEXT, cut_short, flip_bits, move_bytes
from PIL import Image
from pyarrow import feather, parquet
from scipy.io import savemat
from scipy.sparse import csc_array

from bochner import checkpoint
from bochner.cli.data import read_table
from bochner.durable import Log
from bochner.reproduce.views import read_views
from bochner.rows import open_rows
from bochner.vision.datasets import VOCDataset
from bochner.vision.pool import SegmentPool
from bochner.vision.store import Store

Generator = np.random.Generator
Mutation = Callable[[Generator, bytes], bytes]
BY_CHANCE: dict[str, Mutation] = {"bits": flip_bits, "cut": cut_short, "moved": move_bytes}
WORDS = re.compile(rb"[^\s,:;\"{}\[\]]+")
KEY = {"estimator": "KernelRegressor", "X": "rows"}


@dataclass(frozen=True)
class Reader:
    """A kind of file: the one that is spoiled, what lies beside it, and what reads it, given the folder."""

    family: str
    """Kinds that one reader reads."""
    name: str
    path: str
    content: bytes
    read: Callable[[Path], Any]
    beside: dict[str, bytes]
    on_purpose: dict[str, Mutation]


# -- on purpose -----------------------------------------------------------------------------------------------------------


def other_word(rng: Generator, data: bytes) -> bytes:
    """One number or name of a text is a strange one."""
    words = list(WORDS.finditer(data))
    if not words:
        return data + b"x"
    word = words[rng.integers(len(words))]
    choices = [*STRANGE_NUMBERS, *STRANGE_TEXT, "inf", "-inf", "1e400", "0x10", "9" * 400, "1_0", "٣", "=cmd()"]
    try:
        text = str(choices[rng.integers(len(choices))]).encode()
    except ValueError:  # a number of too many digits for str
        text = b"1" + b"0" * 400
    return data[: word.start()] + text + data[word.end() :]


def npy_of(header: str, numbers: bytes) -> bytes:
    """An array with a header that may say anything."""
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", min(len(text), 65535)) + text + numbers


def other_archive(rng: Generator, data: bytes) -> bytes:
    """An archive, put together well, whose arrays say other shapes and types, or hold objects, or have strange names."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[rng.integers(len(members))]
    shapes = (
        "(10**12,)",
        "(1000000000000,)",
        "(4611686018427387904, 4)",
        "(0, 1000000000000)",
        "(-1,)",
        "()",
        "(1,)" * 9,
        "x",
    )
    shape = shapes[rng.integers(len(shapes))]
    kinds = ("<f8", "|O", "<U1000000000", "|V0", "[('a', '|O')]", "<c16", "|S0", "M8[ns]", "eval('1')", "<f4")
    kind = kinds[rng.integers(len(kinds))]
    match rng.integers(6):
        case 0:
            members[name] = npy_of(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (3,), }}", b"\0" * 24)
        case 1:
            members[name] = npy_of(f"{{'descr': '<f8', 'fortran_order': True, 'shape': {shape}, }}", b"\0" * 24)
        case 2:
            members[name] = b"\x80\x04cos\nsystem\n(S'touch escaped'\ntR."
        case 3:
            members["../../escaped.npy"] = members.pop(name)
        case 4:
            array = np.array([{"__reduce__": "os.system"}, None], dtype=object)
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=True)
            members[name] = buffer.getvalue()
        case _:
            del members[name]
    method = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA][rng.integers(4)]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return buffer.getvalue()


def inside(pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes], way: Mutation) -> Mutation:
    """The same within a file that is compressed, whose checksum is right again."""
    return lambda rng, data: pack(way(rng, unpack(data)))


def other_json(rng: Generator, data: bytes) -> bytes:
    """A document of JSON with another value somewhere."""
    strange = [None, [], {}, [[]], "../..", 10**400, -1, 0.5, True, {"key": 1}]
    found = json.loads(data)
    names = list(found)
    found[names[rng.integers(len(names))]] = strange[rng.integers(len(strange))]
    return json.dumps(found if rng.random() < 0.8 else strange[rng.integers(len(strange))]).encode()


def other_records(rng: Generator, data: bytes) -> bytes:
    """A log with right checksums and records that say something else."""
    strange: list[Any] = [None, [], 3, "x", {}, {"question": 3}, {"question": "q", "value": "x"}, {"question": ["q"]}]
    text = json.dumps(strange[rng.integers(len(strange))]).encode()
    lines = data.splitlines(keepends=True)
    lines.insert(int(rng.integers(len(lines) + 1)), b"%08x %s\n" % (zlib.crc32(text), text))
    return b"".join(lines)


def other_picture(rng: Generator, data: bytes) -> bytes:
    """A PNG whose header says another size, depth or colour, with a right checksum."""
    header = bytearray(data[16:29])
    place = int(rng.integers(3))
    if place < 2:
        sizes = (0, 1, 2**31 - 1, 2**32 - 1, 10_000, 13_000, 50_000, 7)
        header[4 * place : 4 * place + 4] = struct.pack(">I", sizes[rng.integers(len(sizes))])
    else:
        header[8 + int(rng.integers(5))] = int(rng.integers(20))
    return data[:16] + bytes(header) + struct.pack(">I", zlib.crc32(b"IHDR" + bytes(header))) + data[33:]


def other_names(rng: Generator, data: bytes) -> bytes:
    """Names of images that lead elsewhere."""
    names = ("../../etc/passwd", "/etc/passwd", "..", ".", "a/b", "C:\\x", "\0", "a b -1", "é", "one\n../one", "one.jpg")
    lines = data.splitlines(keepends=True)
    lines.insert(int(rng.integers(len(lines) + 1)), names[rng.integers(len(names))].encode() + b"\n")
    return b"".join(lines)


# -- files of MATLAB, on purpose ------------------------------------------------------------------------------------------

MAT_HEADER, COMPRESSED, ARRAY, DIMENSIONS, CLASS = 128, 15, 14, 5, 6
LENGTHS = (0, 1, 3, 4, 7, 8, 9, 64, 2**16, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1)


def tags(data: bytes, start: int, stop: int) -> list[int]:
    """Where the tags of elements are, those within arrays among them."""
    found = []
    while start + 8 <= stop:
        kind, size = struct.unpack("<II", data[start : start + 8])
        found.append(start)
        if kind >> 16:  # a few bytes, in the tag itself
            start += 8
            continue
        if kind == ARRAY:
            found += tags(data, start + 8, min(start + 8 + size, stop))
        start += 8 + size + -size % 8
    return found


def other_number(rng: Generator, data: bytes, place: int, choices: tuple[int, ...]) -> bytes:
    """Another number of four bytes at a place."""
    return data[:place] + struct.pack("<I", choices[rng.integers(len(choices))]) + data[place + 4 :]


def other_kind(rng: Generator, data: bytes) -> bytes:
    """An element says that it is of another type."""
    found = tags(data, MAT_HEADER, len(data))
    return other_number(rng, data, found[rng.integers(len(found))], (*range(20), 2**16 + 1, 4 * 2**16 + 9, 2**32 - 1))


def other_size(rng: Generator, data: bytes) -> bytes:
    """An element says that it is of another size."""
    found = tags(data, MAT_HEADER, len(data))
    place = found[rng.integers(len(found))] + 4
    (size,) = struct.unpack("<I", data[place : place + 4])
    return other_number(rng, data, place, (*LENGTHS, size + 1, max(size, 1) - 1, size + 8, max(size, 8) - 8, 2 * size))


def other_dimensions(rng: Generator, data: bytes) -> bytes:
    """An array says that it has other rows or columns."""
    found = [at for at in tags(data, MAT_HEADER, len(data)) if struct.unpack("<I", data[at : at + 4])[0] == DIMENSIONS]
    return other_number(rng, data, found[rng.integers(len(found))] + 8 + 4 * int(rng.integers(2)), LENGTHS)


def other_class(rng: Generator, data: bytes) -> bytes:
    """An array says that it is of another class, logical or complex."""
    found = [at for at in tags(data, MAT_HEADER, len(data)) if struct.unpack("<I", data[at : at + 4])[0] == CLASS]
    flags = tuple(kind | bits for kind in range(20) for bits in (0, 0x200, 0x800, 0xA00))
    choice = [at for at in found if struct.unpack("<I", data[at + 4 : at + 8])[0] == 8]
    return other_number(rng, data, choice[rng.integers(len(choice))] + 8, flags)


MAT_WAYS: dict[str, Mutation] = {
    "type": other_kind,
    "size": other_size,
    "dimensions": other_dimensions,
    "class": other_class,
}


def uncompressed(data: bytes) -> bytes:
    """A file of compressed variables as one of plain ones."""
    found, at = data[:MAT_HEADER], MAT_HEADER
    while at < len(data):
        _, size = struct.unpack("<II", data[at : at + 8])
        found += zlib.decompress(data[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def compressed(data: bytes) -> bytes:
    """The other way round; variables whose sizes are wrong end where the file does."""
    found, at = data[:MAT_HEADER], MAT_HEADER
    while at < len(data):
        size = struct.unpack("<I", data[at + 4 : at + 8])[0] if at + 8 <= len(data) else 0
        packed = zlib.compress(data[at : at + 8 + size])
        found += struct.pack("<II", COMPRESSED, len(packed)) + packed
        at += 8 + size
    return found


def swollen(rng: Generator, data: bytes) -> bytes:
    """One more variable, of very many zeros in few bytes: numbers, letters, or elements of no bytes."""
    n_bytes = int(2 ** rng.integers(10, 26))
    what = int(rng.integers(3))
    cls, stored, width = ((6, 9, 8), (4, 2, 1), (1, 0, 8))[what]
    head = struct.pack("<IIII", 6, 8, cls, 0) + struct.pack("<IIii", 5, 8, n_bytes // width, 1)
    head += struct.pack("<HHI", 1, 1, ord("z")) + (b"" if what == 2 else struct.pack("<II", stored, n_bytes))
    packer, zeros = zlib.compressobj(), bytes(2**20)
    packed = packer.compress(struct.pack("<II", ARRAY, len(head) + n_bytes) + head)
    packed += b"".join(packer.compress(zeros[: min(2**20, n_bytes - i)]) for i in range(0, n_bytes, 2**20)) + packer.flush()
    return data + struct.pack("<II", COMPRESSED, len(packed)) + packed


# -- files ----------------------------------------------------------------------------------------------------------------


def table() -> pa.Table:
    """A small table with a column of text."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {name: rng.standard_normal(30).round(3) for name in "abc"}
    return pa.table({**columns, "n": rng.integers(100, size=30), "kind": rng.choice(["x", "yy", "z"], 30)})


def svmlight() -> bytes:
    """Lines with comments and query numbers."""
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(2)} qid:{i} " + " ".join(f"{j}:{rng.random():.4f}" for j in range(1, 9, 1 + i % 3))
        for i in range(30)
    ]
    return ("# a comment\n" + "\n".join(lines) + "\n").encode()


def written(write: Callable[[Any], Any]) -> bytes:
    """What a function writes to a file."""
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def same_gzip(data: bytes) -> bytes:
    """The same bytes whatever the time is."""
    return gzip.compress(data, mtime=0)


def views() -> dict[str, Any]:
    """Two views of sixteen rows, and labels."""
    rng = np.random.default_rng(0)
    return {"view_0": rng.random((16, 3)), "view_1": rng.random((16, 5)), "y": np.repeat([0, 1], 8)}


def mat(*, do_compression: bool = False) -> bytes:
    """The same as MATLAB has them, and beside them variables of the other classes that are read."""
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = views()["view_0"], views()["view_1"]
    others = {"names": ["one", "two"], "few": csc_array(views()["view_0"] > 0.5), "half": np.ones((2, 2), dtype=bool)}
    content = {"X": cell, "Y": views()["y"][:, None], **others}
    return written(lambda file: savemat(file, content, do_compression=do_compression))


def picture(kind: str) -> bytes:
    """A photograph (JPEG), or a mask with a palette (PNG)."""
    labels = np.zeros((24, 32), dtype=np.uint8)
    labels[4:12, 5:20], labels[15:20, 2:9], labels[14] = 1, 3, 255
    if kind == "png":
        mask = Image.frombytes("P", (32, 24), labels.tobytes())
        mask.putpalette([int(value) for value in np.random.default_rng(0).integers(256, size=768)])
        return written(lambda file: mask.save(file, "PNG"))
    pixels = np.random.default_rng(0).integers(256, size=(24, 32, 3)).astype(np.uint8)
    return written(lambda file: Image.fromarray(pixels).save(file, "JPEG"))


def voc() -> dict[str, bytes]:
    """A tree of PASCAL VOC with two images."""
    found = {"voc/ImageSets/Segmentation/train.txt": b"one\ntwo\n"}
    for name in ("one", "two"):
        found[f"voc/JPEGImages/{name}.jpg"] = picture("jpeg")
        found[f"voc/SegmentationClass/{name}.png"] = found[f"voc/SegmentationObject/{name}.png"] = picture("png")
    return found


def kept() -> dict[str, bytes]:
    """The folder of a checkpoint."""
    key = {"key": KEY, "constants": {"seed": 3}, "made": False}
    records = [{"question": f"q{i}", "value": 0.5, "log_alpha": 1.0, "gradient": {"scale": [0.1, 0.2]}} for i in range(5)]
    lines = [json.dumps(record).encode() for record in records]
    sums = {"pass": np.array("first"), "done": np.array(500), "0/_gram": np.ones((4, 4)), "0/_target_sum": np.ones(2)}
    return {
        f"kept/{checkpoint.FIT}": json.dumps(key).encode(),
        f"kept/{checkpoint.LOG}": b"".join(b"%08x %s\n" % (zlib.crc32(line), line) for line in lines),
        f"kept/{checkpoint.PASS.format('moments')}": written(lambda file: np.savez(file, **sums)),
    }


def store() -> dict[str, bytes]:
    """A store of results on images."""
    pool = SegmentPool(np.arange(12).reshape(3, 4) % 5, np.random.default_rng(0).random((6, 5)) < 0.5)
    configuration = {"bochner": "0.1.0", "format": 1, "options": {"n": 3}}
    from bochner.vision.store import key_of, pack

    return {
        "store/store.json": json.dumps(configuration).encode(),
        "store/one.npz": pack(pool.arrays(), key_of(configuration)),
        "pool.npz": written(lambda file: np.savez_compressed(file, **pool.arrays())),
    }


# -- reading --------------------------------------------------------------------------------------------------------------


def all_blocks(path: Path, **options: Any) -> None:
    """Every row of a file."""
    with closing(open_rows(path, **options).blocks(64)) as blocks:
        for block in blocks:
            block.X.sum()


def read_checkpoint(folder: Path) -> None:
    """What a fit asks of a checkpoint: its log, its constants and its sums."""
    with checkpoint.opened(folder / "kept", KEY) as found:
        found.known("seed")
        for i in range(5):
            found.answer(f"q{i}")
        sums = found.saved("moments", "first")
        if sums is not None:
            int(sums["done"])


def read_log(folder: Path) -> None:
    """The log by itself."""
    Log(folder / "kept" / checkpoint.LOG).close()


def read_voc(folder: Path) -> None:
    """Images and masks of a set."""
    images = VOCDataset(folder / "voc")
    for name in images.names:
        images.size(name)
        images.image(name)
        images.truth(name)
        images.mark(name)


def read_store(folder: Path) -> None:
    """A result of a store, as a pool of segments."""
    found = Store.existing(folder / "store")
    if found.has("one"):
        found.load("one")


@cache
def readers() -> list[Reader]:
    """All kinds of files."""
    text, archive = {"a strange word": other_word}, {"another archive": other_archive}
    csv_text = "\n".join(
        [",".join(table().column_names), *(",".join(map(str, row.values())) for row in table().to_pylist())]
    )
    csv = (csv_text + "\n").encode()
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in table().to_pylist())
    npz = written(lambda file: np.savez_compressed(file, X=np.random.default_rng(0).random((40, 3)), y=np.arange(40)))
    numbers = table().select(["a", "b", "c"])
    path = "rows"

    def rows(name: str, suffix: str, content: bytes, purpose: dict[str, Mutation], **options: Any) -> Reader:
        family = name.split(",")[0]
        return Reader(
            family, name, path + suffix, content, lambda f: all_blocks(f / (path + suffix), **options), {}, purpose
        )

    def command(name: str, suffix: str, content: bytes, purpose: dict[str, Mutation]) -> Reader:
        family = name.removesuffix(" of the command line")
        return Reader(family, name, path + suffix, content, lambda f: read_table(str(f / (path + suffix))), {}, purpose)

    def multiview(name: str, where: str, content: bytes, purpose: dict[str, Mutation]) -> Reader:
        return Reader("views", name, where, content, lambda f: read_views(f / where), {}, purpose)

    def of(name: str, where: str, files: dict[str, bytes], read: Callable[[Path], Any], **purpose: Mutation) -> Reader:
        return Reader(name.split(",")[0], name, where, files[where], read, files, purpose)

    def within_gzip(way: Mutation) -> Mutation:
        return inside(same_gzip, gzip.decompress, way)

    def within_bzip2(way: Mutation) -> Mutation:
        return inside(bz2.compress, bz2.decompress, way)

    mats = {**MAT_WAYS, **BY_CHANCE}
    within_mat = {f"{name} inside": inside(compressed, uncompressed, way) for name, way in mats.items()}
    fit, log, sums = kept()
    return [
        rows("LIBSVM", ".svm", svmlight(), text),
        rows("LIBSVM, gzip", ".svm.gz", same_gzip(svmlight()), {"a strange word": within_gzip(other_word)}),
        rows("LIBSVM, bzip2", ".svm.bz2", bz2.compress(svmlight()), {"a strange word": within_bzip2(other_word)}),
        rows("CSV", ".csv", csv, text, encode=True),
        command("CSV of the command line", ".csv", csv, text),
        command("JSON lines", ".jsonl", lines, text),
        rows("Parquet", ".parquet", written(lambda f: parquet.write_table(numbers, f)), {}),
        rows("Arrow", ".arrow", written(lambda f: feather.write_feather(numbers, f)), {}),
        rows("npy", ".npy", written(lambda f: np.save(f, np.ones((40, 3)))), {}),
        rows("npz", ".npz", npz, archive),
        multiview("views, npz", "v.npz", written(lambda f: np.savez(f, **views())), archive),
        replace(multiview("views, mat", "v.mat", mat(), MAT_WAYS), family="mat"),
        replace(
            multiview("views, mat compressed", "v.mat", mat(do_compression=True), {**within_mat, "zeros": swollen}),
            family="mat",
        ),
        of("VOC, image set", "voc/ImageSets/Segmentation/train.txt", voc(), read_voc, names=other_names),
        of("VOC, JPEG", "voc/JPEGImages/one.jpg", voc(), read_voc),
        of("VOC, mask", "voc/SegmentationClass/one.png", voc(), read_voc, header=other_picture),
        of("checkpoint, which fit", fit, kept(), read_checkpoint, json=other_json),
        of("checkpoint, log", log, kept(), read_checkpoint, records=other_records),
        of("checkpoint, sums", sums, kept(), read_checkpoint, archive=other_archive),
        of("store, configuration", "store/store.json", store(), read_store, json=other_json),
        of("store, arrays", "store/one.npz", store(), read_store, archive=other_archive),
        of("segments", "pool.npz", store(), lambda f: SegmentPool.load(f / "pool.npz"), archive=other_archive),
    ]
