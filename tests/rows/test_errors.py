"""Errors say what was expected, what came, and what to type instead; and leave nothing open."""

import builtins
import gzip
import os
import re
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from bochner import open_rows
from bochner.rows import UnreadableError, csv_files, from_arrays, from_blocks
from tests.rows.tables import FORMATS, N, make_table, open_files, write

each_format = pytest.mark.parametrize("name", FORMATS)


@pytest.fixture(autouse=True)
def nothing_stays_open(tmp_path):
    """No thread of ours, and no file of the test's folder."""
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("bochner-rows")]
    if os.path.isdir("/proc/self/fd"):
        assert not open_files(tmp_path)


@pytest.fixture
def table_file(tmp_path):
    make_table().frame.to_parquet(tmp_path / "houses.parquet")
    return tmp_path / "houses.parquet"


def refused(message, kind=ValueError):
    return pytest.raises(kind, match=message)


def test_no_file_matches(table_file, tmp_path):
    with refused(r"No file matches '.*house.parquet'.* Did you mean 'houses.parquet'\?", FileNotFoundError):
        open_rows(tmp_path / "house.parquet")
    with refused(r"No file matches '.*part-\*.csv'", FileNotFoundError):
        open_rows(str(tmp_path / "part-*.csv"))
    with refused("There is no folder .*nowhere", FileNotFoundError):
        open_rows(tmp_path / "nowhere" / "a.csv")
    with refused("list of files is empty", FileNotFoundError):
        open_rows([])
    (tmp_path / "empty").mkdir()
    with refused("holds no file with one of the suffixes .parquet", FileNotFoundError):
        open_rows(tmp_path / "empty")


def test_formats(table_file, tmp_path):
    (tmp_path / "a.xyz").write_text("1")
    with refused(r"a.xyz has none of the suffixes .*format='csv'"):
        open_rows(tmp_path / "a.xyz")
    with refused("format must be one of parquet, .*got 'parqet'. Did you mean 'parquet'?"):
        open_rows(table_file, format="parqet")
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    with refused(r"All files must be of one format, got .*a.npy \(npy\) and .*houses.parquet \(parquet\)"):
        open_rows([tmp_path / "a.npy", table_file])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"target": "Y"},
            r"houses.parquet has no column 'Y' \(asked for by target=\).*Its columns are 'a', 'b', 'c', 'd', 'y', 'w'",
        ),
        ({"target": "yy"}, r"no column 'yy'.* Did you mean 'y'\?"),
        ({"weight": "weights"}, "no column 'weights'"),
        ({"columns": ["a", "x"]}, r"no column 'x' \(asked for by columns=\)"),
        ({"target": 6}, "target=6 is no column of .*houses.parquet, which has 6: give a number from 0 to 5"),
        ({"target": 1.5}, "target must be a name or a number of a column of .*got 1.5"),
        ({"target": "y", "columns": ["a", "y"]}, "Column 'y' is the target and also among columns: take it out"),
        ({"weight": "w", "columns": [5]}, "Column 'w' is the weight and also among columns"),
        ({"target": "y", "weight": "y"}, "Column 'y' is both target and weight"),
        ({"columns": ["a", 0]}, "Column 'a' is given twice in columns="),
        ({"target": list("abcdyw")}, "no columns left for X"),
        ({"dtype": "int8"}, "dtype must be 'float32' or 'float64', got 'int8'"),
        ({"dtype": "flot"}, "dtype must be 'float32' or 'float64', got 'flot'"),
        (
            {"n_columns": 3},
            "n_columns= is an option of svmlight files, and .*houses.parquet is of format parquet: leave it out",
        ),
        ({"header": False}, "header= is an option of csv files"),
        ({"decimal": ","}, "decimal= is an option of csv files"),
    ],
)
def test_options_of_tables(options, message, table_file):
    with refused(message):
        open_rows(table_file, **options)


def test_options_of_other_formats(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((4, 3)))
    np.save(tmp_path / "y.npy", np.ones(5))
    np.save(tmp_path / "flat.npy", np.ones(5))
    np.savez(tmp_path / "t.npz", X=np.ones((4, 3)), price=np.ones(4), words=np.array(["a"] * 4))
    (tmp_path / "t.svm").write_text("1 1:2\n")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with refused("target=3 is no column of .*X.npy, which has 3"):
        open_rows(tmp_path / "X.npy", target=3)
    with refused("array 'y' has 5 rows, and 'X' has 4"):
        open_rows(tmp_path / "X.npy", target=tmp_path / "y.npy")
    with refused(r"got 2 for 1 of X"):
        open_rows(tmp_path / "X.npy", target=[tmp_path / "y.npy", tmp_path / "flat.npy"])
    with refused(r"array 'X' has shape \(5,\), and \(rows, columns\) was expected"):
        open_rows(tmp_path / "flat.npy")
    with refused("no array 'prices' .*Did you mean 'price'.*Its arrays are 'X', 'price', 'words'"):
        open_rows(tmp_path / "t.npz", target="prices")
    with refused("Array 'X' is the target and also among columns"):
        open_rows(tmp_path / "t.npz", target="X")
    with refused("array 'words' holds <U1, not numbers"):
        open_rows(tmp_path / "t.npz", columns=["X", "words"])
    with refused("names of arrays or numbers of columns of X, not both"):
        open_rows(tmp_path / "t.npz", columns=["X", 1])
    with refused("target= is of no use to svmlight files"):
        open_rows(tmp_path / "t.svm", target=0)
    with refused("n_columns must be a whole number, 1 or more, got 0"):
        open_rows(tmp_path / "t.svm", n_columns=0)
    with refused("delimiter must be one character"):
        open_rows(tmp_path / "t.csv", delimiter=";;")
    with refused("n_rows must be a whole number, 1 or more, got 0"):
        open_rows(tmp_path / "t.csv").blocks(0)
    with refused("n must be a whole number, 1 or more, got 2.5"):
        open_rows(tmp_path / "t.csv").sample(2.5)


def test_sparse_archives(tmp_path):
    sparse.save_npz(tmp_path / "t.npz", sparse.eye_array(3, format="csr"))
    with refused(r"is a sparse matrix: read it by X = scipy.sparse.load_npz\(path\)"):
        open_rows(tmp_path / "t.npz")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_that_hold_no_numbers(suffix, tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "city": ["Rome", "Oslo"], "day": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    with refused(f"column 'city' holds text{', such as .Rome.' if suffix == 'csv' else ''}: encode it as numbers first"):
        open_rows(path)
    with refused("column 'day' holds dates or times"):
        open_rows(path, columns=["a", "day"])
    with refused("column 'day' holds dates or times"):
        open_rows(path, columns="a", target="day")
    with refused("column 'city' holds text"):
        open_rows(path, columns="a", weight="city")
    assert open_rows(path, columns="a", target="city").n_rows == 2


def test_columns_of_lists(tmp_path):
    pq.write_table(pa.table({"v": [[1.0, 2.0]]}), tmp_path / "t.parquet")
    with refused("column 'v' holds list<.*>, not numbers"):
        open_rows(tmp_path / "t.parquet")


def test_targets_of_text_and_of_numbers(tmp_path):
    (tmp_path / "0.csv").write_text("a,y\n1,2\n")
    (tmp_path / "1.csv").write_text("a,y\n1,spam\n")
    with refused("1.csv, target 'y' holds text, and in .*0.csv it holds numbers"):
        open_rows(tmp_path, target="y")


def test_equal_names(tmp_path):
    (tmp_path / "t.csv").write_text("a,a\n1,2\n")
    with refused("two columns named 'a'"):
        open_rows(tmp_path / "t.csv")


@pytest.mark.parametrize("header", [True, False])
def test_text_far_down_in_csv(header, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "CSV_BYTES", 64)
    (tmp_path / "t.csv").write_text("skip,a,b\n" * header + "9,1,2\n" * 100 + "9,3,n/k\n" + "9,4,5\n")
    source = open_rows(tmp_path / "t.csv", columns=[2, 1], header=header)
    name = "column 'b'" if header else "column 2"
    with refused(f"t.csv, {name}, row 100 holds text, 'n/k', where there were numbers before"):
        list(source.blocks(7))


def test_files_with_different_columns(table_file, tmp_path):
    make_table().frame.drop(columns="b").assign(z=1.0).to_parquet(tmp_path / "other.parquet")
    message = "other.parquet has other columns than .*houses.parquet: it lacks 'b'; it has 'z', which the other has not"
    with refused(message):
        open_rows([table_file, tmp_path / "other.parquet"], target="y")
    assert open_rows([table_file, tmp_path / "other.parquet"], columns=["a", "c"], target="y").n_rows == 2 * N
    np.save(tmp_path / "1.npy", np.ones((2, 3)))
    np.save(tmp_path / "2.npy", np.ones((2, 4)))
    with refused("2.npy has 4 columns, and .*1.npy has 3"):
        open_rows(tmp_path / "[12].npy")


@each_format
def test_files_that_are_cut_short(name, tmp_path):
    path, options = write(name, make_table(3000), tmp_path)
    if path.is_dir():
        chunk = max(path.rglob("c/*/*"), key=lambda file: file.stat().st_size)
        chunk.write_bytes(chunk.read_bytes()[:20])
    elif name in ("csv", "svmlight"):  # of a plain text no end is missing, but its last line may be
        path.write_bytes(path.read_bytes()[:-30].rpartition(b"\n")[0] + (b"\n1,2" if name == "csv" else b"\n1 3:"))
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with refused(re.escape(str(path)), (UnreadableError, ValueError)):
        list(open_rows(path, **options).blocks(100))


@each_format
def test_files_of_another_kind(name, tmp_path):
    path = tmp_path / FORMATS[name][0]
    path.write_bytes(b"\x00\x01\x02 not at all\n" * 3)
    with refused(re.escape(str(path)), (UnreadableError, ValueError)):
        list(open_rows(path).blocks(10))


@pytest.mark.parametrize("name", [name for name in FORMATS if "svmlight" not in name])
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN or a missing value"), (-np.inf, "infinity in float64")])
def test_values_that_are_not_finite(name, value, what, tmp_path):
    """In the second of two files: its name, the column, and the row in the file and in the whole."""
    label = "column 'c'" if name in ("parquet", "feather", "arrow", "csv", "csv.gz") else "column 2"
    good, bad = make_table(20), make_table(30)
    bad.X[17, 2] = value
    file, writer, options = FORMATS[name]
    writer(good, tmp_path / f"0{file}")
    writer(bad, tmp_path / f"1{file}")
    source = open_rows([tmp_path / f"0{file}", tmp_path / f"1{file}"], **options)
    blocks = source.blocks(8)
    before = [next(blocks), next(blocks)]
    assert [block.start for block in before] == [0, 8]
    with refused(rf"1{re.escape(file)}, {label}, row 17 \(row 37 of all\) holds {what}: drop that row"):
        list(blocks)


def test_a_missing_value_in_row_73_000_000(tmp_path):
    """Of the second of two files; a hole takes no room on the disk."""
    for name, n in (("0.npy", 5), ("1.npy", 73_000_001)):
        rows = np.lib.format.open_memmap(tmp_path / name, "w+", np.float16, (n, 1))
        if n > 5:
            rows[-1] = np.nan
        del rows
    with refused(r"1\.npy, column 0, row 73000000 \(row 73000005 of all\) holds NaN or a missing value"):
        for _ in open_rows(tmp_path).blocks(2_000_000):
            pass


@pytest.mark.parametrize(("value", "what"), [("nan", "NaN or a missing value"), ("-inf", "infinity in float64")])
def test_values_of_svmlight_that_are_not_finite(value, what, tmp_path):
    (tmp_path / "0.svm").write_text("1 1:2\n" * 5)
    (tmp_path / "1.svm").write_text(f"1 1:2\n1\n1 3:{value} 4:1\n")
    with refused(rf"1.svm, column 2, row 2 \(row 7 of all\) holds {what}"):
        list(open_rows(tmp_path).blocks(3))
    (tmp_path / "0.svm").write_text(f"1 1:2\n{value} 4:1\n")
    with refused(f"0.svm, target, row 1 holds {what}"):
        list(open_rows(tmp_path / "0.svm").blocks(3))


@pytest.mark.parametrize("role", ["y", "w"])
def test_targets_and_weights_that_are_not_finite(role, tmp_path):
    frame = make_table(30).frame
    frame.loc[4, role] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    source = open_rows(tmp_path / "t.parquet", target="y", weight="w")
    with refused(f"t.parquet, {'target .y.' if role == 'y' else 'weight'}, row 4 holds NaN or a missing value"):
        list(source.blocks(10))


def test_missing_classes(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "y": ["ham", None]}).to_parquet(tmp_path / "t.parquet")
    with refused("target 'y', row 1 holds NaN or a missing value"):
        list(open_rows(tmp_path / "t.parquet", target="y").blocks(10))


def test_negative_weights():
    with refused("X, weight, row 1 is -2.0: weights must be zero or more"):
        list(from_arrays(np.ones((3, 2)), weight=[1, -2, 1]).blocks(2))


def test_too_large_for_float32():
    assert next(from_arrays(np.full((2, 2), 1e300)).blocks(2)).X[0, 0] == 1e300
    assert from_arrays(np.full((2000, 2), 1e308)).sample(2).X.shape == (2, 2)  # the sum is infinite, no number is
    with refused("X, column 0, row 0 holds infinity in float32"):
        list(from_arrays(np.full((2, 2), 1e300), dtype="float32").blocks(2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n1 0:2\n", None),
        ("1 1:2\nx 1:2\n", r"line 2 must be `target column:value ...`, all numbers, got 'x 1:2'"),
        ("1 1:2\n1 a:2\n", "line 2 must be"),
        ("1 1:2\n3:2 4:1\n", "line 2 must be"),
        ("1 1:2 3\n3:2\n", "line 1 must be"),
        ("1 1.5:2\n", "line 1 must be"),
        ("1 -1:2\n", "line 1 must be"),
        ("1,2 1:2\n", "line 1 must be"),
        ("1 3: 4:5\n", "line 1 must be"),
    ],
)
def test_lines_of_svmlight(text, message, tmp_path):
    (tmp_path / "t.svm").write_text(text)
    if message is None:
        assert open_rows(tmp_path / "t.svm").n_columns == 2
        with refused("row 1 has a column number 0, and numbers from 1 to 5 were expected: say zero_based=True"):
            list(open_rows(tmp_path / "t.svm", n_columns=5).blocks(2))
        (tmp_path / "t.svm").write_text("1 9:2\n")
        with refused("row 0 has a column number 9, .*: say n_columns=9 or more"):
            list(open_rows(tmp_path / "t.svm", n_columns=5).blocks(2))
    else:
        with refused(f"t.svm, {message}"):
            open_rows(tmp_path / "t.svm")


@each_format
@pytest.mark.parametrize("when", ["before", "during"])
def test_files_that_change(name, when, tmp_path):
    path, options = write(name, make_table(), tmp_path)
    source = open_rows(path, **options)
    assert source.fingerprint() == open_rows(path, **options).fingerprint()
    blocks = source.blocks(1)
    if when == "during":
        next(blocks)
        for file in [path, *path.rglob("*")]:
            os.utime(file, (1, 1))
    else:
        write(name, make_table(N - 1), tmp_path)
    with refused(f"{re.escape(str(path))} has changed since the rows were opened", RuntimeError):
        list(blocks)
    assert source.fingerprint() != open_rows(path, **options).fingerprint()


def test_files_that_are_written_anew_during_a_pass(tmp_path):
    """What cannot be read any more has changed: the error says that."""
    path, options = write("parquet", make_table(3000), tmp_path)
    blocks = open_rows(path, **options).blocks(1)
    next(blocks)
    path.write_bytes(b"PAR1" + bytes(path.stat().st_size))
    with refused("t.parquet has changed since", RuntimeError):
        list(blocks)


def test_files_that_go(table_file):
    source = open_rows(table_file)
    table_file.unlink()
    with refused("houses.parquet was there when the rows were opened and is gone", RuntimeError):
        list(source.blocks(10))


@pytest.mark.parametrize(
    ("name", "package"), [("parquet", "pyarrow"), ("hdf5", "h5py"), ("zarr", "zarr"), ("csv", "pyarrow")]
)
def test_missing_extras(name, package, tmp_path, monkeypatch):
    path, options = write(name, make_table(), tmp_path)

    def without(module, *args, **kwargs):
        raise ImportError(module)

    monkeypatch.setattr("bochner.rows.files.importlib.import_module", without)
    with refused(rf"needs {package}, which cannot be imported: pip install {package}, or 'bochner\[io\]'", ImportError):
        open_rows(path, **options)


def test_formats_that_need_no_extras(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("pyarrow", "h5py", "zarr"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    found = [write(name, make_table(), tmp_path) for name in ("npy", "npz", "svmlight", "svmlight gz")]
    monkeypatch.setattr(builtins, "__import__", without)
    for path, options in found:
        assert open_rows(path, **options).n_rows == N


def test_compressed_text_that_is_not(tmp_path):
    (tmp_path / "t.svm.gz").write_bytes(gzip.compress(b"1 1:2\n" * 1000)[:-12])
    with refused("t.svm.gz could not be read as svmlight text: .*Is the file whole?", UnreadableError):
        open_rows(tmp_path / "t.svm.gz")


X = np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: from_arrays(np.ones(3)), r"X must be a table \(rows, columns\) of one column or more, got shape \(0,\)"),
        (lambda: from_arrays(np.array([["a", "b"]])), "X must hold numbers, got <U1"),
        (lambda: from_arrays(X, y=np.ones(4)), "y has 4 rows, and X has 3"),
        (lambda: from_arrays(X, weight=np.ones((3, 2))), r"weight must be of shape \(0,\)"),
        (lambda: from_arrays(X, names=["a"]), "names has 1 names for 2 columns"),
        (lambda: from_blocks([]), "from_blocks got no blocks"),
        (lambda: from_blocks([(X, None, None, X)]), r"block 0 must be X, \(X, y\) or \(X, y, weight\), got 4 items"),
        (lambda: from_blocks([(X, np.ones(2))]), r"block 0: y must be of shape \(3,\) or \(3, targets\), got \(2,\)"),
        (lambda: list(from_blocks([X, X[:, :1]]).blocks(2)), "Block 1 has 1 columns, and block 0 has 2"),
        (lambda: list(from_blocks([(X, [1, 2, 3]), X]).blocks(2)), r"Block 1 has targets None, and block 0 has of shape"),
        (lambda: list(from_blocks([X, sparse.csr_array(X)]).blocks(2)), "must both be sparse or both dense"),
        (lambda: list(from_blocks([X], n_rows=4).blocks(2)), "had 3 rows in this pass, and 4 were expected"),
    ],
)
def test_arrays_and_blocks(call, message):
    with refused(message):
        call()


def test_iterables_that_cannot_be_restarted():
    with refused(
        "got an iterator .generator., which can be read only once: give a function that makes a new one", TypeError
    ):
        from_blocks(block for block in [X, X])
    with refused("needs a function that returns an iterator of blocks, or a list, got int", TypeError):
        from_blocks(3)
    once = iter([X, X])
    with refused("returned the same iterator twice: give a function"):
        list(from_blocks(lambda: once).blocks(2))
    left = [X]
    source = from_blocks(lambda: (left.pop() for _ in range(len(left))))
    with refused("gave no rows, as if they could be read only once"):
        list(source.blocks(3))


def test_a_pass_of_another_length():
    lengths = iter([3, 3, 2])
    source = from_blocks(lambda: iter([X[: next(lengths)]]))
    assert [block.n_rows for block in source.blocks(5)] == [3]
    with refused("the iterable of blocks had 2 rows in this pass, and 3 were expected"):
        list(source.blocks(5))


def test_names_of_columns_in_errors():
    bad = X.copy()
    bad[1, 1] = np.nan
    with refused("X, column 'b', row 1 holds NaN"):
        list(from_arrays(bad, names=["a", "b"]).blocks(2))
    with refused("X, column 1, row 1 holds NaN"):
        list(from_arrays(sparse.csr_array(bad)).blocks(3))
    with refused(r"X, target 1, row 2 holds NaN"):
        list(from_arrays(X, y=[[1, 2], [3, 4], [5, np.nan]]).blocks(3))
    with refused("the iterable of blocks, column 1, row 4 holds NaN"):
        list(from_blocks([X, bad], names=None).blocks(3))
