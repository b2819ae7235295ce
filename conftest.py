"""For all tests, those in docstrings too: figures do not pile up."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close what a test has drawn by pyplot."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
