"""The pure parts of the benchmarks: slopes, floors and verdicts from figures that are given."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("resource", reason="benchmarks/skl.py measures memory by POSIX means")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import skl
import skl_fits
import skl_floor
import skl_growth
import skl_process


def test_slope_of_a_power_law_is_its_exponent():
    rows = [1_000, 3_000, 10_000]
    assert skl_growth.log_slope(rows, [1e-6 * n**1.3 for n in rows]) == pytest.approx(1.3)


def test_slope_over_the_largest_decade_leaves_smaller_sizes_out():
    curve = [{"rows": n, "median_s": 5.0 if n < 10_000 else 1e-3 * n} for n in (1_000, 3_000, 10_000, 30_000, 100_000)]
    decade, every = skl_growth.slopes(curve)
    assert decade == pytest.approx(1.0)
    assert every < decade


def test_floor_counts_the_faster_gram_matrix_only():
    times = {"evaluation": 9.0, "product": 1.0, skl_floor.GRAM[0]: 4.0, skl_floor.GRAM[1]: 3.0}
    times = {name: {"best_s": seconds, "median_s": seconds} for name, seconds in times.items()}
    assert skl_floor.floor_seconds(times, "best_s") == 4.0
    table = skl_floor.floor_table({"rows": 10, "columns": 2, "features": 4, "peak_bytes": 1e9, "times": times})
    assert "2.25 times its floor" in table
    assert "goal at most 1.5: not reached" in table


@pytest.mark.parametrize(("grid", "verdict"), [(50.0, "25.0 times as much"), (None, "was not measured")])
def test_verdict_on_whole_fits(grid, verdict):
    seconds = {skl_fits.ONE_FIT: 1.0, skl_fits.OURS: 2.0} | ({skl_fits.GRID: grid} if grid else {})
    entries = {name: {"median_s": s, "ratio_to_one_fit": s, "test_rmse": 0.1} for name, s in seconds.items()}
    table = skl_fits.fits_table({"data_sets": {"kin40k": {"rows": 100, "columns": 8, "learners": entries}}})
    assert "costs 2.00 fixed-kernel fits, goal at most 3: reached" in table
    assert verdict in table


def test_parts_measured_apart_share_one_file(tmp_path, monkeypatch):
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


def test_a_run_in_a_fresh_process_gives_seconds_and_memory():
    measured = skl_process.in_process("evaluation", 50, 2, 8)
    assert measured["seconds"] > 0
    assert measured["peak_bytes"] >= 0


def test_absent_data_of_whole_fits_stop_the_run_at_once(tmp_path):
    with pytest.raises(
        SystemExit, match=r"There is no file .*kin40k\.data\.csv\.gz.*--data DIR(.|\n)*--parts b,c needs no data"
    ):
        skl.find_data(tmp_path)


def test_the_grid_is_that_of_the_accuracy_benchmark():
    X = np.array([[1.0, -1.0], [-1.0, 1.0]])
    grid = skl_fits.learners(X, 8)[skl_fits.GRID]().param_grid
    assert grid == {"rbfsampler__gamma": pytest.approx([0.05, 0.15, 0.5, 1.5, 5.0]), "ridge__alpha": [1e-5, 1e-3, 1e-1]}
