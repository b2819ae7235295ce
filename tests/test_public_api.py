"""All that is public is listed in tools/public_api.txt, and changes of it since the last release are told."""

import importlib
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture
def public_api(monkeypatch):
    pytest.importorskip("cv2")
    monkeypatch.syspath_prepend(TOOLS)
    yield importlib.import_module("public_api")
    sys.modules.pop("public_api")


def test_the_list_is_that_of_the_code(public_api):
    found, listed = public_api.listing(), public_api.LISTED.read_text(encoding="utf-8")
    changed = sorted(set(found.splitlines()) ^ set(listed.splitlines()))
    assert found == listed, f"run `python tools/public_api.py` and write a fragment in changes/: {changed}"
    assert "class bochner.KernelRegressor(kernel='auto', *, n_features=None" in found
    assert "bochner.KernelRegressor.predict(self, X" in found


def test_changes_since_the_last_release_are_told(public_api):
    assert public_api.lacking(public_api.listing(), public_api.released(), public_api.kinds()) == []


@pytest.mark.parametrize(
    ("now", "before", "fragments", "faults"),
    [
        ("a(x)\n", None, [], 0),
        ("a(x)\n", "a(x)\n", [], 0),
        ("a(x)\nb\n", "a(x)\n", [], 1),
        ("a(x)\nb\n", "a(x)\n", ["added"], 0),
        ("a(x)\n", "a(x)\nb\n", ["added"], 1),
        ("a(x, y)\n", "a(x)\n", ["fixed"], 2),
        ("a(x, y)\n", "a(x)\n", ["changed"], 0),
    ],
)
def test_what_a_changelog_must_tell(public_api, now, before, fragments, faults):
    assert len(public_api.lacking(now, before, fragments)) == faults
