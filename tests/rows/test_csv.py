"""CSV files as they come: other delimiters and decimals, no names, an index; and counting their rows."""

import bz2
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bochner import open_rows
from bochner.rows import csv_files, from_blocks
from tests.rows.tables import NAMES, N, make_table, opened, write


def refused(message):
    return pytest.raises(ValueError, match=message)


@pytest.fixture
def frame():
    return make_table().frame


# -- how files are written -------------------------------------------------------------------------------------------------


def test_the_index_of_pandas_is_no_column(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv")
    source = open_rows(tmp_path / "t.csv", target="y", weight="w")
    assert source.names == NAMES
    np.testing.assert_array_equal(next(source.blocks(N)).X, frame[list(NAMES)].to_numpy())
    asked = open_rows(tmp_path / "t.csv", columns=[0, 1])
    assert asked.names == ("", "a")
    np.testing.assert_array_equal(next(asked.blocks(N)).X[:, 0], np.arange(N))


def test_files_with_and_without_an_index(frame, tmp_path):
    frame.to_csv(tmp_path / "0.csv", index=False)
    frame.to_csv(tmp_path / "1.csv")
    source = open_rows(tmp_path, target="y", weight="w")
    assert (source.names, source.n_rows) == (NAMES, 2 * N)


@pytest.mark.parametrize("options", [{"target": -1}, {"target": 4, "weight": 5}, {}])
def test_a_first_line_that_is_a_row(frame, options, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False, header=False)
    with refused("t.csv has numbers where names of columns are expected, .*: say header=False if its first line is a row"):
        open_rows(tmp_path / "t.csv", **options)
    assert open_rows(tmp_path / "t.csv", header=False, **options).n_rows == N
    assert open_rows(tmp_path / "t.csv", header=True, **options).n_rows == N - 1


def test_a_first_line_that_is_a_row_with_a_class(frame, tmp_path):
    frame.assign(kind="ham").to_csv(tmp_path / "t.csv", index=False, header=False)
    with refused("has numbers where names of columns are expected"):
        open_rows(tmp_path / "t.csv", target=-1)
    with refused("no column 'kind' .* Has the file no line of names.* header=False, and give columns by their numbers"):
        open_rows(tmp_path / "t.csv", target="kind")
    assert open_rows(tmp_path / "t.csv", target=-1, header=False).n_columns == 6


def test_equal_numbers_in_the_place_of_names(tmp_path):
    (tmp_path / "t.csv").write_text("1,1\n1,2\n")
    with refused("two columns named '1': names must differ, so rename one. Has the file no line of names"):
        open_rows(tmp_path / "t.csv")


@pytest.mark.parametrize("names", [range(5), range(1, 6), [400.5, 401, 401.5, 402, 410], [9, 7, 5, 3, 1]], ids=str)
def test_names_that_are_numbers(names, tmp_path):
    """Those of a table without names, and of spectra, are in order."""
    names = [str(name) for name in names]
    pd.DataFrame(np.eye(5), columns=names).to_csv(tmp_path / "t.csv", index=False)
    assert open_rows(tmp_path / "t.csv").names == tuple(names)


@pytest.mark.parametrize(("names", "row"), [("0.5,1.5", True), ("0,1", False), ("0.5", True), ("7", False), ("a,1", False)])
def test_few_names_that_are_numbers(names, row, tmp_path):
    (tmp_path / "t.csv").write_text(f"{names}\n" + names.replace("a", "3") + "\n")
    if row:
        with refused("numbers where names"):
            open_rows(tmp_path / "t.csv")
    else:
        assert open_rows(tmp_path / "t.csv").names == tuple(names.split(","))


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("header", [None, False])
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_other_delimiters(frame, delimiter, header, suffix, tmp_path):
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False, sep=delimiter, header=header is None)
    with refused(r"has one column where ',' separates columns; it begins with '.*'. Say delimiter=") as error:
        open_rows(path, header=header)
    assert repr(delimiter) in str(error.value)
    assert open_rows(path, header=header, delimiter=delimiter).n_columns == 6


def test_a_delimiter_that_is_not_the_files(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    with refused("has one column where ';' separates columns.* Say delimiter=','"):
        open_rows(tmp_path / "t.csv", delimiter=";", target="y")
    (tmp_path / "one.csv").write_text("a\n1\n")
    assert open_rows(tmp_path / "one.csv").n_columns == 1


def test_decimal_commas(frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    with refused(r"column 'a' holds text, such as '-?\d,\d+': for a comma before the fraction say decimal=','"):
        open_rows(tmp_path / "t.csv", delimiter=";")
    source = open_rows(tmp_path / "t.csv", delimiter=";", decimal=",", target="y", weight="w")
    block = next(source.blocks(N))
    np.testing.assert_array_equal(block.X, frame[list(NAMES)].to_numpy())
    np.testing.assert_array_equal(block.y, frame["y"].to_numpy())
    frame[["a"]].to_csv(tmp_path / "one.csv", index=False, sep=";", decimal=",")
    assert open_rows(tmp_path / "one.csv", delimiter=";", decimal=",").n_rows == N
    with refused(r"decimal must be '.' or ',', got ';'"):
        open_rows(tmp_path / "t.csv", decimal=";")


@pytest.mark.parametrize(("suffix", "codec"), csv_files.CODECS.items())
def test_compressed_files(frame, suffix, codec, tmp_path):
    path = tmp_path / f"t.csv{suffix}"
    with pa.output_stream(str(path), compression=codec) as file:
        file.write(frame.to_csv(index=False).encode())
    assert path.read_bytes()[:4] != b"a,b,"
    np.testing.assert_array_equal(next(open_rows(path, target="y", weight="w").blocks(N)).X, frame[list(NAMES)].to_numpy())


# -- counting --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [None, gzip.compress, bz2.compress])
def test_counting_tells_how_far_it_is(compress, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "CSV_BYTES", 2**10)
    text = make_table(5000).frame.to_csv(index=False).encode()
    suffix = {None: "", gzip.compress: ".gz", bz2.compress: ".bz2"}[compress]
    for i in range(2):
        (tmp_path / f"{i}.csv{suffix}").write_bytes(compress(text) if compress else text)
    source, told = open_rows(tmp_path), []
    assert not source.is_counted
    assert source.count(told.append) == 10_000
    assert source.is_counted
    rows, shares = [record["done"] for record in told], [record["share"] for record in told]
    assert len(told) > 20
    assert rows == sorted(rows)
    assert rows[-1] == 10_000
    assert shares == sorted(shares)
    assert shares[0] < 1
    assert shares[-1] == 1
    if compress is None:  # rows are of about one length, and pyarrow reads up to 32 blocks ahead
        ahead = 34 * 2**10 / (2 * len(text))
        np.testing.assert_allclose(shares, np.array(rows) / 10_000, rtol=0, atol=ahead + 0.01)
    told.clear()
    assert source.count(told.append) == 10_000
    assert not told


@pytest.mark.parametrize("name", ["feather", "arrow"])
def test_counting_other_files(name, tmp_path):
    source, told = opened(name, make_table(), tmp_path), []
    assert source.count(told.append) == N
    assert [record["done"] for record in told][-1] == N


def test_counting_blocks_and_lines():
    told = []
    assert from_blocks([np.ones((3, 2)), np.ones((4, 2))]).count(told.append) == 7
    assert [(record["done"], record["share"]) for record in told] == [(3, None), (7, None)]


def test_a_file_that_changes_before_it_is_counted(tmp_path):
    path, options = write("csv", make_table(), tmp_path)
    source = open_rows(path, **options)
    write("csv", make_table(N - 1), tmp_path)
    with pytest.raises(RuntimeError, match=r"t\.csv has changed since the rows were opened"):
        source.count()
