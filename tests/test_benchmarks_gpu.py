"""benchmarks/gpu.py at small sizes on the host: every part runs, its table says so, errors are kept."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import gpu
import gpu_common
import gpu_learning

QUICK = gpu_common.quick_config("cpu")


@pytest.mark.parametrize("letter", gpu.PARTS)
def test_every_part_runs_and_has_a_table(letter, tmp_path):
    entry = gpu.run_part(letter, QUICK)
    assert "error" not in entry
    gpu.merge(gpu.PARTS[letter], entry, tmp_path)
    stored = json.loads((tmp_path / "gpu.json").read_text())
    assert stored["results"][gpu.PARTS[letter]]["rows"] == entry["rows"]
    text = gpu.table(gpu.PARTS[letter], stored["results"][gpu.PARTS[letter]])
    assert "On no GPU. Measured" in text
    assert "torch" in text
    if letter != "c":
        assert "of other sizes than the goal" in text


def test_autograd_has_the_same_value_and_slopes():
    X, y = gpu_common.smooth_rows(QUICK.rows, QUICK.columns)
    folds = gpu_learning.on_device(gpu_learning.held_out_folds(X, y), "cpu")
    feature_map = gpu_learning.gaussian_map(QUICK.columns, QUICK.features)
    exact = gpu_learning.fixed_point(folds, feature_map)
    found = gpu_learning.autograd(folds, feature_map, QUICK, exact)
    assert found["value_difference"] < 1e-10
    assert found["gradient_difference"] < 1e-10


def test_a_part_that_fails_is_told_and_the_others_stay(tmp_path, monkeypatch, capsys):
    def broken(config):
        raise RuntimeError("no memory\nmore lines")

    monkeypatch.setitem(gpu.RUNS, "b", broken)
    gpu.merge("group_lasso", gpu.run_part("c", QUICK), tmp_path)
    entry = gpu.run_part("b", QUICK)
    assert entry["error"] == "RuntimeError: no memory"
    assert "Traceback" in capsys.readouterr().err
    gpu.merge("streamed", entry, tmp_path)
    document = tmp_path / "page.md"
    document.write_text("<!-- gpu-table -->\n<!-- /gpu-table -->\n")
    gpu.write_tables(document, tmp_path)
    text = document.read_text()
    assert "streamed failed: RuntimeError: no memory" in text
    assert "3 kernels of 20 features" in text


def test_contestants_that_fail_are_left_out_with_a_line(monkeypatch):
    def broken(*arguments):
        raise ValueError("no room")

    monkeypatch.setattr(gpu_learning, "whole_fit", broken)
    monkeypatch.setattr(gpu_learning, "autograd", broken)
    entry = gpu.run_part("a", QUICK)
    text = gpu.table("learning", entry)
    assert "KernelRegressor.fit, rows on the host: no room." in text
    assert "PyTorch autograd is left out: no room." in text


def test_goals_are_told_at_their_sizes_alone():
    assert gpu.goal(4.0, 5.0, 3, 3) == "goal at most 5: reached"
    assert gpu.goal(6.0, 5.0, 3, 3) == "goal at most 5: not reached"
    assert gpu.goal(4.0, 5.0, 3, 4) == "of other sizes than the goal"


def test_rows_are_the_same_every_time():
    one, two = (gpu_common.smooth_rows(50, 9, np.float32) for _ in range(2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])
    assert one[0].dtype == np.float32
    assert abs(one[1].std() - 1) < 1e-12
