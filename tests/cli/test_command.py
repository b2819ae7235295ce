"""The command ``bochner``: its help, its version, and what it says where an extra is missing."""

import subprocess
import sys

import pytest

import bochner
from bochner import cli


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"bochner {bochner.__version__}\n"


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    told = capsys.readouterr().out
    assert all(f"  {name} " in told for name in cli.COMMANDS)


def test_no_command_and_an_unknown_one(capsys):
    assert cli.main([]) == 2
    assert "usage: bochner" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        cli.main(["paint"])
    assert caught.value.code == 2


def test_options_go_to_the_command(capsys):
    pytest.importorskip("cv2")
    with pytest.raises(SystemExit) as caught:
        cli.main(["voc", "segments", "--help"])
    assert caught.value.code == 0
    assert "usage: bochner voc segments" in capsys.readouterr().out


def ran(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("module", cli.COMMANDS["voc"].needs)
def test_an_extra_that_is_missing_is_named(module):
    code = f"import sys\nsys.modules[{module!r}] = None\nfrom bochner.cli import main\nsys.exit(main(['voc', 'show', '.']))"
    found = ran(code)
    assert found.returncode == 1
    assert found.stderr == f"bochner voc needs {module}, which is not installed: pip install bochner[vision]\n"


def test_the_command_imports_vision_only_when_it_is_asked_for():
    found = ran("import sys\nimport bochner.cli\nsys.stdout.write(' '.join(sys.modules))")
    loaded = set(found.stdout.split())
    assert "bochner.cli" in loaded
    assert not {"bochner.vision", "PIL", "cv2", "skimage", "maxflow"} & loaded
