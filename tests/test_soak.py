"""Some seconds of fits, files and predictions in one process. The long run is benchmarks/soak.py."""

import sys
from pathlib import Path

import pytest

from tests.public import ESTIMATORS

pytest.importorskip("safetensors")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import soak


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="Linux alone says what a process holds")
def test_ten_seconds(monkeypatch):
    monkeypatch.setattr(soak, "SHAPES", soak.SHAPES[:2])
    counts, watch = soak.soak(10 / 60)
    assert soak.faults_of(counts, watch) == []
    assert counts.fits > 0
    assert counts.predictions > 100


def test_threads_share_a_model_on_centres():
    assert [model.finish_ for model in soak.shared()] == ["fourier", "centres"]


def test_every_public_estimator_is_among_the_learners():
    assert {name.partition(",")[0] for name in soak.LEARNERS} == set(ESTIMATORS)


def test_what_is_wrong_is_said():
    counts = soak.Counts(different=2, errors=["ValueError: x"])
    watch = soak.Watch([0, 1, 2, 3], [100, 100, 100, 200], [5, 5, 6, 6], [9, 9, 9, 9])
    told = ["2 results of other bits", "ValueError: x", "1 more files in the second half"]
    assert soak.faults_of(counts, watch) == [*told, "memory rises by 100.0 MB in the second half"]
