"""The benchmark of many centres at a tiny size: both ways give the same model, and the table says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import centres


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_tiny_run(device, monkeypatch, capsys):
    monkeypatch.setattr(centres, "MOST_DIRECT", 25)
    monkeypatch.setattr(centres, "MOST_DIRECT_ON_A_GPU", 25)
    results = centres.measure(400, (20, 40), device)
    small, large = results["sizes"]
    direct, iterated = (small["ways"][way] for way in centres.WAYS)
    assert iterated["test_rmse"] == pytest.approx(direct["test_rmse"], rel=2e-2)
    assert list(large["ways"]) == ["conjugate gradients"]
    lines = centres.table(results).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:4]] == ["20", "40"]
    assert "400 made rows" in lines[-1]
    assert "40 centres, conjugate gradients" in capsys.readouterr().err
