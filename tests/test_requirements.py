"""What is installed is locked: every file by its hash."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "requirements"
LOCKS = sorted(FOLDER.glob("*.lock"))
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(text):
    """The requirements of a file: lines that go on are one, comments none."""
    whole = text.replace("\\\n", " ")
    return [line for line in map(str.strip, whole.splitlines()) if line and not line.startswith("#")]


def unlocked(text):
    """The entries that do not name one version, or no hash, or something else than hashes beside it."""
    wrong = []
    for entry in entries(text):
        first, *rest = entry.split(" --")
        is_one = re.fullmatch(r"[\w.\[\]-]+==[\w.+!]+( ; sys_platform == \"linux\")?\s*", first)
        if not is_one or not rest or not all(HASH.fullmatch(f"--{each.strip()}") for each in rest):
            wrong.append(entry)
    return wrong


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_of_a_lock_has_a_version_and_hashes(path):
    assert unlocked(path.read_text()) == []


def test_the_locks_are_there_and_are_what_make_installs():
    assert [path.name for path in LOCKS] == ["dev.lock", "torch-cpu.lock", "torch.lock"]
    assert len(entries((FOLDER / "dev.lock").read_text())) > 50
    made = (FOLDER.parent / "Makefile").read_text()
    installs = [line for line in made.splitlines() if "pip install" in line and "--editable" not in line]
    assert installs
    assert all("--require-hashes" in line for line in installs if line.startswith("INSTALL"))
    assert any(line.startswith("INSTALL") for line in installs)


def test_what_has_no_lock_says_why():
    for path in FOLDER.glob("*.txt"):
        text = path.read_text()
        assert "\n# No lock: " in text, path
        assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", entry) for entry in entries(text)), path


@pytest.mark.parametrize(
    "line",
    [
        "numpy==2.0",
        "numpy>=2.0 --hash=sha256:" + "0" * 64,
        "numpy==2.0 --hash=md5:00",
        "-r other.txt",
        "numpy==2.0 \\\n  --pre",
    ],
)
def test_a_line_without_a_hash_is_found(line):
    good = "a==1 \\\n    --hash=sha256:" + "1" * 64
    assert unlocked(f"# comment\n{good}\n") == []
    assert len(unlocked(f"# comment\n{good}\n{line}\n")) == 1
