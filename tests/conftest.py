"""Seeds and shared arrays. Arrays handed to tests are read-only, so that no test can depend on another."""

import os

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=30)
settings.load_profile("fixed")


def pytest_report_header(config):
    """The GPU, where the tests that need one are asked for."""
    if config.option.markexpr != "gpu":
        return None
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none that PyTorch sees"
    return f"GPU: {gpu}; PyTorch {torch.__version__}, CUDA {torch.version.cuda}"


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def histograms():
    """Two tables (300, 50) of rows that are positive and sum to one."""
    rng = np.random.default_rng(0)
    X, Z = rng.random((300, 50)), rng.random((300, 50))
    X /= X.sum(axis=1, keepdims=True)
    Z /= Z.sum(axis=1, keepdims=True)
    for A in (X, Z):
        A.flags.writeable = False
    return X, Z


def pytest_collection_modifyitems(config, items):
    """Leave out what needs scikit-learn's array API dispatch, unless SCIPY_ARRAY_API=1 was set before anything was imported.

    tests/estimators/test_dispatch.py runs just those, in a process of their own.
    """
    if os.environ.get("SCIPY_ARRAY_API") == "1":
        return
    left_out = [item for item in items if "check_array_api" in item.name or "dispatch_too" in item.name]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
