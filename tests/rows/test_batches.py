"""Tables of any columns from files and streams, and back: the same cells, in batches, with errors that name the file."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from bochner.rows import batches, json_lines
from bochner.rows.csv_files import CsvStyle
from bochner.rows.writing import write_file, write_stream

pa = pytest.importorskip("pyarrow")
SUFFIXES = ("csv", "tsv", "parquet", "arrow", "jsonl")


def table(n=50):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.standard_normal(n), "b": rng.choice(["x, y", "z"], n), "c": np.arange(n)})
    frame.loc[::7, "b"] = None
    return pa.Table.from_pandas(frame, preserve_index=False)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_comes_back(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    assert write_file(path, table().to_batches(max_chunksize=20)) == 50
    found, given = batches.read_table(path).to_pandas(), table().to_pandas()
    pd.testing.assert_frame_equal(found.replace("", None), given.where(given.notna(), None), check_dtype=False)
    assert batches.bytes_in_memory(path) > 0


def test_a_stream_is_csv():
    written = io.BytesIO()
    write_stream(written, table().to_batches())
    assert batches.read_table(io.BytesIO(written.getvalue())).column("c").to_pylist() == list(range(50))


def test_nothing_is_left_of_a_table_that_fails(tmp_path):
    def halfway():
        yield from table().to_batches()
        raise ValueError("no more")

    for suffix in SUFFIXES:
        with pytest.raises(ValueError, match="no more"):
            write_file(tmp_path / f"t.{suffix}", halfway())
    with pytest.raises(ValueError, match="no rows to predict"):
        write_file(tmp_path / "t.csv", [])
    with pytest.raises(ValueError, match=r"without compression. Leave .gz out"):
        write_file(tmp_path / "t.csv.gz", table().to_batches())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "style", "message"),
    [
        ("1,2\n3,4\n", CsvStyle(), r"numbers in its first line \(1, 2\), .* say header=False"),
        ("a,a\n3,4\n", CsvStyle(), "two columns named 'a'.* If its first line is a row, say header=False"),
        ("a,b\n1,2\n3\n", CsvStyle(), "rows of different lengths .* say so by delimiter="),
        ("a,b\n", CsvStyle(), "has no rows"),
        ("", CsvStyle(), "is empty"),
    ],
)
def test_files_that_cannot_be_meant(tmp_path, text, style, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises((ValueError, OSError), match=message):
        batches.read_table(tmp_path / "t.csv", style)


def test_options_of_csv_are_for_csv(tmp_path):
    (tmp_path / "t.jsonl").write_text("{}\n")
    for style, told in ((CsvStyle(header=False), "header=False"), (CsvStyle(";"), "delimiter=")):
        with pytest.raises(ValueError, match=f"{told} is for CSV"):
            batches.read_table(tmp_path / "t.jsonl", style)


def test_without_a_line_of_names(tmp_path):
    (tmp_path / "t.csv").write_text("1;x\n2;y\n")
    found = batches.read_table(tmp_path / "t.csv", CsvStyle(";", header=False))
    assert found.to_pydict() == {"f0": [1, 2], "f1": ["x", "y"]}


# -- JSON lines ----------------------------------------------------------------------------------------------------------


def json_file(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_json_lines_come_in_blocks(tmp_path, monkeypatch):
    """Fields that come late, whole numbers and others, and lines longer than a block; pandas reads the same."""
    monkeypatch.setattr(json_lines, "JSON_BYTES", 500)
    rows = [{"a": i, "b": None if i < 300 else f"t{i}"} for i in range(600)]
    rows[350]["a"], rows[400]["late"], rows[450]["b"] = 0.5, True, "long" * 300
    path = json_file(tmp_path / "t.jsonl", rows)
    found = list(batches.read_batches(path))
    assert len(found) > 20
    assert max(batch.num_rows for batch in found) < 60
    expected = pd.read_json(path, lines=True)
    whole = batches.read_table(path).to_pandas()
    assert list(whole.columns) == list(expected.columns)
    for name in expected:
        assert [None if pd.isna(v) else v for v in whole[name]] == [None if pd.isna(v) else v for v in expected[name]]


def test_text_after_dates_is_text(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "JSON_BYTES", 200)
    days = [f"2024-01-{i % 28 + 1:02d}" for i in range(60)]
    path = json_file(tmp_path / "t.jsonl", [{"day": day} for day in [*days, "never"]])
    assert batches.read_table(path).column("day").to_pylist() == [*days, "never"]
    with pytest.raises(batches.NotThatTypeError, match="'day' holds something else than in its first rows"):
        list(batches.read_batches(path))


def test_lines_that_are_no_json(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(OSError, match=r"t\.jsonl could not be read as json"):
        batches.read_table(tmp_path / "t.jsonl")
    json_file(tmp_path / "u.jsonl", [{"a": 1}, {"a": "x"}])
    with pytest.raises(OSError, match=r"u\.jsonl could not be read as json: .*changed from number to string"):
        batches.read_table(tmp_path / "u.jsonl")
