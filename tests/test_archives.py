"""Archives of arrays that nobody vouches for: read as NumPy reads them, or refused before anything is allocated."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from bochner.archives import DENSEST, ArchiveError, read_arrays

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "text": np.array("some"),
    "empty": np.empty((0, 3)),
    "flags": np.array([True, False]),
}


def archive(members, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer


def npy(shape, descr="<f8", numbers=b"\0" * 24):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + numbers


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_numpy_reads_them(save):
    buffer = io.BytesIO()
    save(buffer, **ARRAYS)
    found, expected = read_arrays(buffer), np.load(io.BytesIO(buffer.getvalue()))
    assert list(found) == expected.files
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])
        assert (array.dtype, array.flags.f_contiguous) == (expected[name].dtype, expected[name].flags.f_contiguous)
        assert array.flags.writeable


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (archive({"a.npy": npy("(1000000000000,)")}), "needs more than the 24 bytes"),
        (archive({"a.npy": npy("(0, 1000000000000)", numbers=b"")}), "needs more than the 0 bytes"),
        (archive({"a.npy": npy("(3,)", "|O")}), "Python objects"),
        (archive({"a.npy": npy("(3,)")}, zipfile.ZIP_LZMA), "in a way that numpy.savez does not use"),
        (archive({"a.npy": b"\x80\x04cos\nsystem\n."}), "not a whole one"),
        (io.BytesIO(b"no archive"), "no archive of arrays"),
        (io.BytesIO(), "no archive of arrays"),
    ],
    ids=["long", "wide", "objects", "lzma", "pickle", "text", "nothing"],
)
def test_what_is_refused(content, told):
    tracemalloc.start()
    with pytest.raises(ArchiveError, match=told):
        read_arrays(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_a_file_that_promises_more_than_it_can_hold():
    data = archive({"a.npy": npy("(3,)")}).getvalue()
    start = data.index(b"PK\x01\x02")  # the directory, which is what is believed
    for at, told in ((24, "of arrays, more than a file"), (20, "of compressed arrays, and the file has")):
        spoiled = data[: start + at] + (2**31).to_bytes(4, "little") + data[start + at + 4 :]
        with pytest.raises(ArchiveError, match=told):
            read_arrays(io.BytesIO(spoiled))


def test_nothing_can_be_denser():
    zeros = archive({"a.npy": npy("(10000000,)", "|u1", bytes(10**7))})
    assert 0.9 * DENSEST < 10**7 / len(zeros.getvalue()) < DENSEST
    assert read_arrays(zeros)["a"].shape == (10**7,)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_nothing_is_executed(method, tmp_path):
    class Escape:
        def __reduce__(self):
            return (open, (str(tmp_path / "escaped"), "w"))

    buffer = io.BytesIO()
    np.save(buffer, np.array([Escape()], dtype=object), allow_pickle=True)
    with pytest.raises(ArchiveError, match="Python objects, which are not read"):
        read_arrays(archive({"a.npy": buffer.getvalue()}, method))
    assert not (tmp_path / "escaped").exists()
