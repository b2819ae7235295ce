"""Differences between predictions of two interpreters, from arrays that are given."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import same_bits

HERE = {"archive a predict": np.array([1.0, -2.0]), "fit A 0": np.array([4.0, 2.0]), "fit A 1": np.array([0.0, 1.0])}


def answers(monkeypatch, there):
    """Two interpreters: one has HERE, the other predicts otherwise where ``there`` says so."""
    arrays = {sys.executable: HERE, "other": HERE | there}

    def told(python, _option, _program, path, _tables):
        np.savez(path, **arrays[python])
        return "2.0"

    monkeypatch.setattr(same_bits, "told", told)


def test_differences_are_parts_of_the_largest_prediction(monkeypatch):
    answers(monkeypatch, {"fit A 0": np.array([4.0, 1.0]), "archive a predict": np.array([1.0, -1.0])})
    found = same_bits.differences("other")
    assert found["largest"] == {"archive": 0.5, "fit": 0.25}
    assert found["fits"] == {"A": 0.25}


@pytest.mark.parametrize("key", ["fit A 0", "fit A 1", "archive a predict"])
def test_predictions_that_turn_nan_are_different(monkeypatch, key):
    answers(monkeypatch, {key: np.array([np.nan, 1.0])})
    found = same_bits.differences("other")
    kind = key.partition(" ")[0]
    assert np.isnan(found["largest"][kind])
    assert kind == "archive" or np.isnan(found["fits"]["A"])


@pytest.mark.parametrize(("largest", "ends"), [(1e-6, False), (1e-3, True), (float("nan"), True)])
def test_a_table_ends_with_an_error_where_fits_differ_too_much(monkeypatch, tmp_path, largest, ends):
    results, about = same_bits.read_results("same_bits")
    results = json.loads(json.dumps(results))
    results["others"][0]["largest"]["fit"] = largest
    document = tmp_path / "reliability.md"
    document.write_text("<!-- same_bits-table -->\n\n<!-- /same_bits-table -->\n")
    monkeypatch.setattr(same_bits, "read_results", lambda _: (results, about))
    monkeypatch.setattr(same_bits, "DOCUMENT", document)
    monkeypatch.setattr(sys, "argv", ["same_bits.py", "--table"])
    if ends:
        with pytest.raises(SystemExit, match="Fits differ by more than"):
            same_bits.main()
    else:
        same_bits.main()
    text = document.read_text()
    assert text.count("Measured") == 1
    assert "The seconds were measured 20" in text
