"""Files of this and of all earlier versions load, and predict what they predicted then."""

import json
from pathlib import Path

import numpy as np
import pytest

import bochner
from tests.persistence.models import ESTIMATORS

pytest.importorskip("safetensors")

ARCHIVE = sorted((Path(__file__).parent / "archive").glob("*.safetensors"))


@pytest.mark.parametrize("path", ARCHIVE, ids=[path.stem for path in ARCHIVE])
def test_archived_models_predict_as_they_did(path):
    stored = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    model, X = bochner.load(path), stored["X"]
    X = {name: np.array(view) for name, view in X.items()} if isinstance(X, dict) else np.array(X)
    assert stored["expected"]
    for method, expected in stored["expected"].items():
        found = getattr(model, method)(X)
        if np.asarray(expected).dtype.kind == "f":  # another machine may round in another way
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
        else:
            assert found.tolist() == expected


def test_every_estimator_is_in_the_archive():
    archived = {type(bochner.load(path)).__name__ for path in ARCHIVE}
    assert archived == set(ESTIMATORS), "run python tools/model_archive.py"


def test_files_of_the_archive_are_small():
    assert all(path.stat().st_size < 16_000 for path in ARCHIVE)
