"""All that is public is listed in tools/public_api.txt, and changes of it since the last release are told."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"
IMAGES = ("cv2", "skimage", "PIL", "maxflow")
NEEDING_IMAGES = "bochner.vision"
OPTIONAL = (*IMAGES, "matplotlib", "torch", "dask", "pyarrow", "pandas", "polars", "onnx", "safetensors", "typer")


@pytest.fixture
def public_api(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    yield importlib.import_module("public_api")
    sys.modules.pop("public_api")


def test_the_list_is_that_of_the_code(public_api):
    """Where the libraries of images are not installed, all of it but what needs them."""
    without = () if all(importlib.util.find_spec(name) for name in IMAGES) else (NEEDING_IMAGES,)
    listed = public_api.LISTED.read_text(encoding="utf-8").splitlines()
    listed = [line for line in listed if not line.removeprefix("class ").startswith(tuple(f"{name}." for name in without))]
    found = public_api.listing(without).splitlines()
    changed = sorted(set(found) ^ set(listed))
    assert found == listed, f"run `python tools/public_api.py` and write a fragment in changes/: {changed}"
    text = "\n".join(found)
    assert "class bochner.KernelRegressor(kernel='auto', *, n_features=None" in text
    assert "bochner.KernelRegressor.predict(self, X" in text
    for name in ("bochner.engines.SmallerBlocksWarning", "bochner.tables.TableEncoder", "bochner.exact.KernelRidgeGD"):
        assert f"class {name}(" in text


def test_most_of_the_list_needs_no_optional_package():
    """A Python in which none of them can be imported lists the same names."""
    done = subprocess.run([sys.executable, "-c", BARE, TOOLS], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    listed = (TOOLS / "public_api.txt").read_text(encoding="utf-8").splitlines()
    assert done.stdout.splitlines() == [line for line in listed if f"{NEEDING_IMAGES}." not in line]


BARE = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Refuse())
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/.."]
import public_api
sys.stdout.write(public_api.listing(without=["{NEEDING_IMAGES}"]))
"""


def test_changes_since_the_last_release_are_told(public_api):
    assert public_api.lacking(public_api.listing(), public_api.released(), public_api.kinds()) == []


def test_a_made_up_release_is_compared_with(public_api, tmp_path, monkeypatch, capsys):
    """There is no release yet: a list of one is written, in which a name is gone and another has other parameters."""
    old = public_api.LISTED.read_text(encoding="utf-8").splitlines()
    place = next(i for i, line in enumerate(old) if line.startswith("bochner.load("))
    old[place] = "bochner.load(path)"
    old.append("bochner.forgotten(X)")
    monkeypatch.setattr(public_api, "RELEASED", tmp_path / "released.txt")
    assert public_api.released() is None
    public_api.RELEASED.write_text("\n".join(old) + "\n", encoding="utf-8")
    now = public_api.LISTED.read_text(encoding="utf-8")
    for fragments, told in (((), [" is gone", " is new"]), (("fixed", "added"), [" is gone"]), (("changed",), [])):
        found = public_api.lacking(now, public_api.released(), fragments)
        assert len(found) == len(told)
        assert all(words in fault for words, fault in zip(told, found, strict=True))
    monkeypatch.setattr(public_api, "kinds", lambda: {"fixed"})
    monkeypatch.setattr(public_api, "listing", lambda: now)
    monkeypatch.setattr(sys, "argv", ["public_api.py", "--check"])
    assert public_api.main() == 1
    assert "is gone" in capsys.readouterr().out


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
