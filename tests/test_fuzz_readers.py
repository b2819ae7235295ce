"""Some spoiled files of every kind are read or refused. The long run is benchmarks/fuzz_readers.py."""

import ast
import struct
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

for needed in ("pyarrow", "PIL", "safetensors", "typer"):
    pytest.importorskip(needed)
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import fuzz_reader_files  # noqa: E402
import fuzz_readers  # noqa: E402
from fuzz_reader_files import readers, views  # noqa: E402

EACH = 60
EXECUTING = ("pickle.load", "pickle.loads", "joblib.load", "eval", "exec", "loadmat", "yaml.load", "torch.load")


@pytest.fixture(scope="module")
def outcomes():
    return {reader.name: fuzz_readers.run(reader.name, range(EACH), seed=1) for reader in readers()}


def test_nothing_but_errors_of_ours_comes_out(outcomes):
    assert [failure for each in outcomes.values() for failure in each.failures] == []
    assert {each.refused + each.loaded for each in outcomes.values()} == {EACH}


def test_spoiled_files_are_refused_and_harmless_changes_are_not(outcomes):
    assert sum(each.refused for each in outcomes.values()) > EACH
    assert sum(each.loaded for each in outcomes.values()) > EACH


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("npy", b"'<f8'", b"',f8'"),  # which is no type, and was a SyntaxError of NumPy's
        ("views, mat", struct.pack("<d", views()["view_0"][0, 0]), b"\x01\0\0\0\0\0\xf0\x7f"),  # a signal, no number
    ],
)
def test_what_a_long_run_has_found(kind, good, bad, tmp_path):
    """Errors of others, once."""
    (reader,) = (each for each in readers() if each.name == kind)
    assert reader.content.count(good) == 1
    fuzz_readers.lay_down(reader, tmp_path)
    (tmp_path / reader.path).write_bytes(reader.content.replace(good, bad))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracemalloc.start()
        assert fuzz_readers.try_file(reader, tmp_path, fuzz_readers.the_watch())[0] == "refused"
        tracemalloc.stop()


def test_the_same_number_is_the_same_file_and_each_number_another():
    for reader in readers():
        files = [fuzz_readers.spoil(reader, number, seed=1) for number in range(20)]
        assert files == [fuzz_readers.spoil(reader, number, seed=1) for number in range(20)]
        assert reader.content not in files


def test_how_many_files_are_spoiled():
    full = fuzz_readers.plan(None, None, quick=False)
    families = {reader.name: reader.family for reader in readers()}
    for family in ("LIBSVM", "CSV", "mat", "VOC"):
        assert sum(n for name, n in full.items() if families[name] == family) >= 100_000
    assert min(full.values()) >= 5000
    some = fuzz_readers.plan(["mat", "VOC"], 600, quick=False)
    assert {families[name] for name in some} == {"mat", "VOC"}
    assert sum(some.values()) == 1200


def test_files_of_matlab_are_spoiled_within_their_compression():
    plain, packed = (each.content for each in readers() if each.family == "mat")
    assert fuzz_reader_files.uncompressed(packed) == plain
    assert fuzz_reader_files.uncompressed(fuzz_reader_files.compressed(plain)) == plain
    for way in fuzz_reader_files.MAT_WAYS.values():
        changed = {
            i
            for seed in range(300)
            for i, (a, b) in enumerate(zip(plain, way(np.random.default_rng(seed), plain), strict=True))
            if a != b
        }
        assert changed
        assert min(changed) >= fuzz_reader_files.MAT_HEADER


def test_an_error_of_another_library_is_seen():
    def foreign():
        return int("x")

    for call, ours in ((foreign, False), (lambda: readers()[0].read(Path("nowhere")), True)):
        with pytest.raises((ValueError, OSError)) as raised:
            call()
        assert fuzz_readers.is_ours(raised.value) is ours


def test_nothing_unpickles():
    """No module of the package unpickles or runs what a file holds."""
    found = set()
    for path in (ROOT / "bochner").rglob("*.py"):
        name = path.relative_to(ROOT / "bochner").as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called, options = ast.unparse(node.func), {each.arg: each.value for each in node.keywords}
            if called in (
                "pickle.load",
                "pickle.loads",
                "joblib.load",
                "eval",
                "exec",
                "loadmat",
                "yaml.load",
                "torch.load",
            ):
                found.add((name, called))
            if called == "np.load" or called.endswith("read_array"):
                assert ast.unparse(options["allow_pickle"]) == "False", name
            if called == "partial" and node.args and ast.unparse(node.args[0]) == "np.load":
                assert ast.unparse(options["allow_pickle"]) == "False", name
    assert found == set()
