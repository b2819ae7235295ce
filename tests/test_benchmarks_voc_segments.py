"""The parts of benchmarks/voc_segments.py that need no data: files of segments, and measures by hand."""

import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("maxflow")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import voc_segments


def segments(areas, seed=0):
    rng = np.random.default_rng(seed)
    return voc_segments.Segments(
        cues=rng.random((7, 3)),
        overlaps=rng.random((7, len(areas))),
        areas=np.array(areas),
        members=rng.random((7, 11)) < 0.5,
        sizes=rng.integers(1, 9, 11),
        seconds=0.25,
    )


def test_files(tmp_path):
    made = segments([3, 4])
    made.save(tmp_path / "a.npz")
    again = voc_segments.Segments.load(tmp_path / "a.npz")
    for field in fields(made):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(made, field.name))
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_measures():
    images = [segments([10, 30]), segments([60])]
    found = voc_segments.measure([np.array([0.4, 0.5]), np.array([0.9])], images)
    assert found["mean_best_overlap"] == pytest.approx(0.6)
    assert found["covering"] == pytest.approx(0.1 * 0.4 + 0.3 * 0.5 + 0.6 * 0.9)
    assert found["recall_at_0.5"] == pytest.approx(2 / 3)
    assert found["n_objects"] == 3
