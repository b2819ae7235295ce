"""benchmarks/scale.py at small sizes: every part runs, and its table has the goals and the plan."""

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import scale
import scale_growth
import scale_report
import scale_rows


@pytest.fixture(scope="module")
def options():
    return Namespace(quick=True, folder=None, data=None)


def test_files_hold_the_rows_that_are_made(tmp_path):
    path = tmp_path / "rows.parquet"
    scale_rows.write_rows(path, 120)
    (block,) = scale.open_rows(path, target="y").blocks(1000)
    X, y = next(iter(scale_rows.made_rows(120)))
    np.testing.assert_array_equal(block.X, X)
    np.testing.assert_array_equal(block.y, y)


def test_images_are_shifted_by_no_more_than_two_pixels():
    images = np.zeros((1, 9, 9))
    images[0, 4, 4] = 255
    (block,) = scale_rows.shifted_digits(images, np.array([3]), 200).blocks(200)
    down, right = np.divmod(block.X.argmax(axis=1), 9)
    assert set(down) == set(right) == {2, 3, 4, 5, 6}
    assert (block.y == 1).all()


def test_passes_and_the_plan(options, monkeypatch):
    monkeypatch.setattr(scale, "QUICK_SIZES", (300, 600, 1200))
    monkeypatch.setattr(scale, "QUICK_FEATURES", 20)
    entry = scale.passes(options)
    assert [row["n"] for row in entry["rows"]] == [300, 600, 1200]
    text = scale_report.passes_table(entry)
    assert all(words in text for words in ("1,200 rows from disk", "slope of the time"))
    text = scale_report.table("fits", scale.fits(options))
    assert "peak memory of the fit at 1,200" in text


def test_a_plan_by_hand():
    """Two cores take 2000 rows a second: a billion on 128 cores take 10^9 / (128 x 1000) seconds."""
    row = {"set": "made", "n": 20_000, "m": 50, "streamed": 10.0}
    text = scale_report.plan({"rows": [row], "n_features": 2000, "cores": 2})
    assert "1,000 rows a second and core" in text
    first = next(line for line in text.splitlines() if line.split("|")[1:3] and line.split("|")[1].strip() == "8")
    assert [cell.strip() for cell in first.split("|")[2:5]] == ["128", "51.0", "7812"]
    assert "32 MB" in text


def test_exponents_of_growth():
    found = [{"axis": "features", "value": d, "seconds": 1e-6 * d**2} for d in (500, 1000, 2000)]
    assert scale_growth.growth_table(found).splitlines()[-1].split("|")[-2].strip() == "2.00"
    assert {entry["axis"] for entry in scale_growth.growth(quick=True)} == {"rows", "columns", "features", "kernels"}


def test_two_workers_beside_two_threads(options):
    pytest.importorskip("distributed")
    entry = scale.workers(options)
    assert set(entry["found"]) == {"in memory", "1 worker", "2 workers"}
    assert "two Dask workers of one thread" in scale_report.table("workers", entry)
