"""The pure parts of the benchmarks: slopes, floors and verdicts from figures that are given."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def skl(monkeypatch):
    pytest.importorskip("resource", reason="benchmarks/skl.py measures memory by POSIX means")
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("skl")
    for name in ("skl", "harness"):
        sys.modules.pop(name, None)


def test_slope_of_a_power_law_is_its_exponent(skl):
    rows = [1_000, 3_000, 10_000]
    assert skl.log_slope(rows, [1e-6 * n**1.3 for n in rows]) == pytest.approx(1.3)


def test_slope_over_the_largest_decade_leaves_smaller_sizes_out(skl):
    curve = [{"rows": n, "median_s": 5.0 if n < 10_000 else 1e-3 * n} for n in (1_000, 3_000, 10_000, 30_000, 100_000)]
    decade, every = skl.slopes(curve)
    assert decade == pytest.approx(1.0)
    assert every < decade


def test_floor_counts_the_faster_gram_matrix_only(skl):
    times = {"evaluation": 9.0, "product": 1.0, skl.GRAM[0]: 4.0, skl.GRAM[1]: 3.0}
    times = {name: {"best_s": seconds, "median_s": seconds} for name, seconds in times.items()}
    assert skl.floor_seconds(times, "best_s") == 4.0
    table = skl.floor_table({"rows": 10, "columns": 2, "features": 4, "peak_bytes": 1e9, "times": times})
    assert "2.25 times its floor" in table
    assert "goal at most 1.5: not reached" in table


@pytest.mark.parametrize(("grid", "verdict"), [(50.0, "25.0 times as much"), (None, "was not measured")])
def test_verdict_on_whole_fits(skl, grid, verdict):
    seconds = {skl.ONE_FIT: 1.0, skl.OURS: 2.0} | ({skl.GRID: grid} if grid else {})
    entries = {name: {"median_s": s, "ratio_to_one_fit": s, "test_rmse": 0.1} for name, s in seconds.items()}
    table = skl.fits_table({"data_sets": {"kin40k": {"rows": 100, "columns": 8, "learners": entries}}})
    assert "costs 2.00 fixed-kernel fits, goal at most 3: reached" in table
    assert verdict in table


def test_parts_measured_apart_share_one_file(skl, tmp_path, monkeypatch):
    write, read = skl.write_results, skl.read_results
    monkeypatch.setattr(skl, "write_results", lambda *arguments: write(*arguments, folder=tmp_path))
    monkeypatch.setattr(skl, "read_results", lambda name: read(name, tmp_path))
    skl.merge("floor", {"rows": 1}, {"commit": "old"})
    skl.merge("fits", {"features": 2}, {"commit": "new"})
    results, about = read("skl", tmp_path)
    assert results == {
        "fits": {"manifest": {"commit": "new"}, "features": 2},
        "floor": {"manifest": {"commit": "old"}, "rows": 1},
    }
    assert about == {"commit": "new"}
