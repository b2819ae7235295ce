"""Peers of the hostile suite: what the scaler before them fails at is not counted as theirs."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
pytest.importorskip("hypothesis")
import hostile  # noqa: E402
import hostile_peers  # noqa: E402

from tests.hostile.cases import Case  # noqa: E402

LINE = (
    "estimator=- loss=squared engine=threads variant=plain columns={} target={} weights=none layout=C dtype=float64 "
    "n=30 m=3 seed=0"
)


def case(columns, target):
    return Case.parse(LINE.format(columns, target))


@pytest.mark.parametrize("name", ["KernelRidge", "SVR", "Ridge on RBFSampler"])
def test_a_scaler_that_overflows_is_told_from_its_peer(name):
    assert hostile_peers.attempt_peer(name, case("plain", "plain")).result == "finite"
    outcome = hostile_peers.attempt_peer(name, case("largest", "plain"))
    assert outcome.result == "scaler"
    assert outcome.message.startswith("RuntimeWarning: ")
    assert hostile_peers.attempt_peer(name, case("plain", "largest")).result == "scaler"


def test_a_peer_that_fails_behind_a_good_scaler_is_its_own_failure():
    outcome = hostile_peers.attempt_peer("SVC", case("plain", "one-class"))
    assert outcome.result == "failed"
    assert "number of classes" in outcome.message


@pytest.mark.parametrize(("name", "target"), [("KernelRegressor", "plain"), ("KernelClassifier", "two")])
def test_ours_are_asked_on_their_defaults(name, target):
    assert hostile_peers.attempt_ours(name, case("plain", target)).result == "finite"
    assert hostile_peers.attempt_ours(name, case("largest", target)).result == "error"


def test_the_scaler_has_a_column_and_old_results_do_not_claim_it():
    counts = {"cases": 9, "finite": 4, "error": 2, "scaler": 2, "failed": 1}
    old = {"cases": 9, "finite": 4, "error": 2, "failed": 3}
    assert hostile._numbers_of_peer("SVR", counts) == ["9", "4", "2", "2", "1"]
    assert hostile._numbers_of_peer("SVR", old) == ["9", "4", "2", "not told apart", "3"]
    ours = hostile.OURS_BESIDE[1]
    assert hostile._named(ours) == "`KernelRegressor` (ours, default settings)"
    assert hostile._numbers_of_peer(ours, counts | {"scaler": 0})[3] == "-"
