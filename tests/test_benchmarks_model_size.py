"""The benchmark of sizes: what it measures are the bytes of files, and what the page says of them holds."""

import pickle
import sys
from pathlib import Path

import pytest

from tests.default_models import M, N, default_regressor

pytest.importorskip("safetensors")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import model_size


def test_sizes_of_a_model_on_centres():
    """Rows of the fit are 8 bytes a number, 4 in float32; sums of all pairs of centres come with compact=False."""
    model = default_regressor()
    found = model_size.sizes(model)
    assert found["float64"] - found["float32"] == pytest.approx(4 * (N * M + N), abs=100)  # centres, and coef_ of features
    assert found["compact=False"] > found["float64"] + 8 * N * N
    assert found["pickle"] == len(pickle.dumps(model)) > 8 * N * N


def test_the_table_has_megabytes():
    sizes = {"float64": 1_500_000, "float32": 750_000, "compact=False": 9_000_000, "pickle": 9_100_000}
    text = model_size.table({"columns": 100, "models": {"a model": sizes}})
    assert [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")] == [
        "a model",
        "1.50",
        "0.75",
        "9.00",
        "9.10",
    ]
