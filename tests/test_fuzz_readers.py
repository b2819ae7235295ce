"""Some spoiled files of every kind are read or refused. The long run is benchmarks/fuzz_readers.py."""

import ast
import sys
from pathlib import Path

import pytest

for needed in ("pyarrow", "PIL", "safetensors", "typer"):
    pytest.importorskip(needed)
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import fuzz_readers  # noqa: E402
from fuzz_reader_files import readers  # noqa: E402

EACH = 60
EXECUTING = ("pickle.load", "pickle.loads", "joblib.load", "eval", "exec", "loadmat", "yaml.load", "torch.load")


@pytest.fixture(scope="module")
def outcomes():
    return fuzz_readers.run(range(EACH * len(readers())), seed=1)


def test_nothing_but_errors_of_ours_comes_out(outcomes):
    assert [failure for each in outcomes.values() for failure in each.failures] == []
    assert {each.refused + each.loaded for each in outcomes.values()} == {EACH}


def test_spoiled_files_are_refused_and_harmless_changes_are_not(outcomes):
    assert sum(each.refused for each in outcomes.values()) > EACH
    assert sum(each.loaded for each in outcomes.values()) > EACH


@pytest.mark.parametrize("number", [90665, 99908])
def test_what_the_long_run_has_found(number):
    """The header of an array that is no Python, and signals that are no numbers; both were errors of others once."""
    found = fuzz_readers.run(range(number, number + 1), seed=fuzz_readers.SEED)
    assert sum(each.refused for each in found.values()) == 1


def test_an_error_of_another_library_is_seen():
    def foreign():
        return int("x")

    for call, ours in ((foreign, False), (lambda: readers()[0].read(Path("nowhere")), True)):
        with pytest.raises((ValueError, OSError)) as raised:
            call()
        assert fuzz_readers.is_ours(raised.value) is ours


def test_nothing_unpickles():
    """No module of the package unpickles or runs what a file holds."""
    found = set()
    for path in (ROOT / "bochner").rglob("*.py"):
        name = path.relative_to(ROOT / "bochner").as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called, options = ast.unparse(node.func), {each.arg: each.value for each in node.keywords}
            if called in (
                "pickle.load",
                "pickle.loads",
                "joblib.load",
                "eval",
                "exec",
                "loadmat",
                "yaml.load",
                "torch.load",
            ):
                found.add((name, called))
            if called == "np.load" or called.endswith("read_array"):
                assert ast.unparse(options["allow_pickle"]) == "False", name
            if called == "partial" and node.args and ast.unparse(node.args[0]) == "np.load":
                assert ast.unparse(options["allow_pickle"]) == "False", name
    assert found == set()
