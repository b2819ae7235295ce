"""Files of MATLAB, against SciPy's reader; spoiled ones are refused."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from scipy import sparse
from scipy.io import loadmat, savemat

from bochner.archives import DENSEST
from bochner.reproduce.errors import ReproduceError
from bochner.reproduce.mat_files import read_mat

RNG = np.random.default_rng(0)


def cell(*entries):
    result = np.empty((1, len(entries)), dtype=object)
    result[0] = entries
    return result


NUMBERS = {
    **{kind: RNG.integers(0, 100, size=(3, 4)).astype(kind) for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")},
    "double": RNG.standard_normal((5, 2)),
    "single": RNG.standard_normal((5, 2)).astype(np.float32),
    "whole": np.arange(12.0).reshape(3, 4),
    "logical": RNG.random((2, 6)) < 0.5,
    "cube": RNG.random((2, 3, 4)),
    "empty": np.empty((0, 3)),
    "one": np.array([[3.0]]),
}


def both(tmp_path, variables, **options):
    savemat(tmp_path / "some.mat", variables, **options)
    return read_mat(tmp_path / "some.mat"), loadmat(tmp_path / "some.mat")


@pytest.mark.parametrize("compressed", [False, True])
def test_numbers(compressed, tmp_path):
    found, expected = both(tmp_path, NUMBERS, do_compression=compressed)
    assert set(found) == set(NUMBERS)
    for name in NUMBERS:
        np.testing.assert_array_equal(found[name], expected[name])
        assert found[name].dtype in (expected[name].dtype, np.bool_)  # SciPy has truth values as uint8


def test_sparse_text_and_cells(tmp_path):
    matrix = sparse.random_array((7, 5), density=0.3, rng=np.random.default_rng(1), format="csc")
    variables = {"s": matrix, "t": np.array(["abc", "def"]), "c": cell(NUMBERS["double"], matrix, cell(np.ones((2, 2))))}
    found, expected = both(tmp_path, variables)
    np.testing.assert_array_equal(found["s"].toarray(), expected["s"].toarray())
    assert found["t"].tolist() == expected["t"].tolist()
    assert found["c"].shape == expected["c"].shape == (1, 3)
    np.testing.assert_array_equal(found["c"][0, 0], expected["c"][0, 0])
    np.testing.assert_array_equal(found["c"][0, 1].toarray(), expected["c"][0, 1].toarray())
    np.testing.assert_array_equal(found["c"][0, 2][0, 0], expected["c"][0, 2][0, 0])


def test_structures_are_left_out(tmp_path):
    found, _ = both(tmp_path, {"a": np.ones((2, 2)), "s": {"x": 1.0}, "z": np.ones((2, 2)) * 1j})
    assert set(found) == {"a"}


def element(kind, data):
    return struct.pack("<II", kind, len(data)) + data + b"\0" * (-len(data) % 8)


@pytest.mark.parametrize(
    ("array_class", "dimensions", "held"),
    [(1, (1, 2**30), b""), (6, (2**15, 2**15), element(9, b"\0" * 8)), (4, (1, 2**30), b""), (6, (-1, 3), b"")],
    ids=["cell", "numbers", "text", "negative"],
)
def test_dimensions_are_not_believed(array_class, dimensions, held, tmp_path):
    parts = [element(6, struct.pack("<II", array_class, 0)), element(5, struct.pack("<2i", *dimensions)), element(1, b"X")]
    header = b" " * 124 + struct.pack("<H", 0x0100) + b"IM"
    (tmp_path / "some.mat").write_bytes(header + element(14, b"".join(parts) + held))
    with pytest.raises(ReproduceError, match="cannot be read as MATLAB 5"):
        read_mat(tmp_path / "some.mat")


def test_other_files(tmp_path):
    for data in (b"", b"MATLAB 7.3 MAT-file" + b" " * 500, b"\x80\x04cos\nsystem\n."):
        (tmp_path / "some.mat").write_bytes(data)
        with pytest.raises(ReproduceError, match="does not begin as files of MATLAB 5 to 7 do"):
            read_mat(tmp_path / "some.mat")


@pytest.mark.parametrize(
    ("array_class", "held"),
    [(6, (9, 8)), (6, (2, 1)), (4, (2, 1)), (1, None)],
    ids=["numbers", "numbers of a byte each", "letters", "elements of no bytes"],
)
def test_zeros_that_are_compressed_take_no_more_than_a_file_may(array_class, held, tmp_path):
    """A few kilobytes that unpack to 32 MB, which as Python's objects would be more than a gigabyte."""
    n_bytes = 2**25
    kind, width = held or (0, 8)
    head = element(6, struct.pack("<II", array_class, 0)) + element(5, struct.pack("<2i", n_bytes // width, 1))
    head += element(1, b"X") + (struct.pack("<II", kind, n_bytes) if held else b"")
    packed = zlib.compress(struct.pack("<II", 14, len(head) + n_bytes) + head + bytes(n_bytes), 9)
    header = b" " * 124 + struct.pack("<H", 0x0100) + b"IM"
    (tmp_path / "some.mat").write_bytes(header + struct.pack("<II", 15, len(packed)) + packed)
    tracemalloc.start()
    with pytest.raises(ReproduceError, match="cannot be read as MATLAB 5"):
        read_mat(tmp_path / "some.mat")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < DENSEST * (tmp_path / "some.mat").stat().st_size + 2**20
