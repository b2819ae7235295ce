"""The command ``bochner``: its help, its version, its start, and what it says where an extra is missing."""

import inspect
import re
import subprocess
import sys
from types import NoneType
from typing import get_args, get_origin, get_type_hints

import pytest

import bochner
from bochner import cli


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"bochner {bochner.__version__}\n"


def test_help_lists_the_commands(capsys):
    assert cli.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(f" {name} " in told for name in cli.COMMANDS)
    assert "Exit codes: 0 done, 1" in told


@pytest.mark.parametrize("name", sorted(cli.OF_APP))
def test_every_command_has_help_with_an_example(name, capsys):
    assert cli.main([name, "--help"]) == 0
    told = capsys.readouterr().out
    assert f"Usage: bochner {name}" in told
    assert told.count(f"bochner {name} ") >= 2  # the usage, and an example
    assert "Exit codes" in told


@pytest.mark.parametrize("name", sorted(cli.OF_APP))
def test_help_says_what_options_take_in_words(name, capsys):
    """No types of Python's, but for options that are Typer's own."""
    assert cli.main([name, "--help"]) == 0
    options = capsys.readouterr().out.partition("\u2500 Options ")[2]
    assert "--json" in options
    types = re.compile(r"<(str|int|float|bool|list)\b")
    assert not [line for line in options.splitlines() if types.search(line) and "--help" not in line]


def test_no_command_and_an_unknown_one(capsys):
    assert cli.main([]) == 2
    assert "Usage: bochner" in capsys.readouterr().err
    assert cli.main(["paint"]) == 2
    commands = ", ".join(cli.COMMANDS)
    assert capsys.readouterr().err == f"Error: There is no command 'paint'. Use one of {commands}.\n"
    assert cli.main(["preddict"]) == 2
    assert "Did you mean 'predict'?" in capsys.readouterr().err


def test_errors_know_what_every_option_of_few_values_may_be():
    """Those with a type of their own, which Typer checks."""
    from bochner.cli.app import EXPECTED, fit

    plain = {bool, str, list, NoneType}
    hints = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(inspect.unwrap(fit)).items()}
    typed = {name for name, kinds in hints.items() if not {get_origin(kind) or kind for kind in kinds} <= plain}
    assert {f"--{name}" for name in typed} == set(EXPECTED)


def test_options_go_to_the_command(capsys):
    pytest.importorskip("cv2")
    with pytest.raises(SystemExit) as caught:
        cli.main(["voc", "segments", "--help"])
    assert caught.value.code == 0
    assert "usage: bochner voc segments" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["bochner", "bochner.cli"])
def test_the_package_runs_as_the_command(module):
    done = subprocess.run([sys.executable, "-m", module, "paint"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: There is no command 'paint'.")


def ran(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("module", cli.APART["voc"].needs)
def test_an_extra_that_is_missing_is_named(module):
    code = f"import sys\nsys.modules[{module!r}] = None\nfrom bochner.cli import main\nsys.exit(main(['voc', 'show', '.']))"
    found = ran(code)
    assert found.returncode == 1
    assert found.stderr == f"bochner voc needs {module}, which is not installed: pip install bochner[vision]\n"


def test_without_the_extra_of_the_command_line():
    start = "import sys\nsys.modules['typer'] = None\nfrom bochner.cli import main\n"
    found = ran(start + "sys.exit(main(['fit', 'data.csv']))")
    assert found.returncode == 1
    assert found.stderr == "bochner fit needs typer, which is not installed: pip install bochner[cli]\n"
    found = ran(start + "sys.exit(main(['--help']))")
    assert found.returncode == 0
    assert "pip install bochner[cli]" in found.stdout
    assert all(f"  {name} " in found.stdout for name in cli.COMMANDS)
    assert ran(start + "sys.exit(main(['--version']))").stdout == f"bochner {bochner.__version__}\n"
    assert ran(start + "sys.exit(main([]))").returncode == 2


@pytest.mark.parametrize("arguments", [[], ["--help"], ["fit", "--help"], ["--version"]])
def test_it_starts_without_numpy(arguments):
    """What takes long to import waits until a command needs it."""
    code = f"import sys\nfrom bochner.cli import main\nmain({arguments!r})\nsys.stdout.write('|' + ' '.join(sys.modules))"
    loaded = set(ran(code).stdout.rpartition("|")[2].split())
    assert "bochner.cli" in loaded
    assert not {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "torch", "bochner.vision", "PIL", "cv2"} & loaded


def test_shells_complete_commands_and_options():
    def completed(words, number):
        code = "import sys\nfrom bochner.cli import main\nsys.exit(main([]))"
        asked = {"_BOCHNER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        setting = "\n".join(f"os.environ[{name!r}] = {value!r}" for name, value in asked.items())
        return ran(f"import os\n{setting}\n{code}").stdout.split()

    assert set(cli.COMMANDS) <= set(completed("bochner ", 1))
    assert completed("bochner pre", 1) == ["predict"]
    assert "--target" in completed("bochner fit --t", 2)


def test_a_report_without_matplotlib_is_refused_before_the_fit(tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(60)))
    start = f"import os, sys\nos.chdir({str(tmp_path)!r})\nsys.modules['matplotlib'] = None\nfrom bochner.cli import main\n"
    for words in (["fit", "data.csv", "-t", "b", "--report", "page.html"], ["report", "model.safetensors"]):
        found = ran(start + f"sys.exit(main({words!r}))")
        assert found.returncode == 1
        assert found.stderr == 'Error: A report needs matplotlib, which is not installed: pip install "bochner[plots]"\n'
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
