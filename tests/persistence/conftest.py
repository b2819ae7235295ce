"""A place for a file of a model, and one with a model in it."""

import pytest

from tests.persistence.models import fitted


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def saved(path):
    fitted("KernelRegressor", "gaussian").save(path)
    return path
