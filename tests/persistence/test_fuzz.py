"""Some thousands of spoiled model files are refused, or predict. The long run is benchmarks/fuzz_models.py."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("safetensors")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import fuzz_models
import fuzz_mutations

N_FILES = 2000
BY_CHANCE = ("bits flipped", "cut short", "bytes moved", "another length", "another list of arrays")


@pytest.fixture(scope="module")
def outcomes():
    return fuzz_models.run(range(N_FILES), seed=1)


def test_nothing_but_errors_of_ours_comes_out(outcomes):
    assert [failure for each in outcomes.values() for failure in each.failures] == []
    assert sum(each.refused + each.loaded for each in outcomes.values()) == N_FILES


def test_damage_by_chance_is_always_found(outcomes):
    assert all(outcomes[kind].loaded == 0 for kind in BY_CHANCE)


def test_right_checksums_let_some_files_through_to_the_other_checks(outcomes):
    on_purpose = [each for kind, each in outcomes.items() if kind not in BY_CHANCE]
    assert all(each.loaded > 0 and each.refused > 0 for each in on_purpose)


def test_memory_stays_within_bounds(outcomes):
    assert max(each.peak_bytes for each in outcomes.values()) < fuzz_models.BESIDE


def test_files_are_put_together_as_they_were():
    for path in fuzz_models.ARCHIVE.glob("*.safetensors"):
        data = path.read_bytes()
        about, arrays = fuzz_mutations.opened(data)
        again = fuzz_mutations.closed(about, arrays)
        other, others = fuzz_mutations.opened(again)
        assert other == about
        assert all(np.array_equal(arrays[name], others[name]) for name in arrays)


def test_the_watch_sees_files_and_programs(tmp_path):
    watch = fuzz_models.Watch()
    (tmp_path / "other").write_text("x")
    watch.begin(tmp_path / "model")
    (tmp_path / "other").read_text()
    compile("1", "x", "eval")
    assert watch.end() == [f"open {tmp_path / 'other'}", "compile"]
