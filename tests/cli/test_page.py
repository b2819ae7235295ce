"""The page on the command line tells the truth: its commands run, and print what is shown."""

import re
import subprocess

import pytest

from tests.cli.shell import ROOT, START, environment
from tests.test_docs import numbers, words

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("safetensors")
PAGE = ROOT / "docs" / "command_line.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = ("pip ", "bochner --install-completion")
PROGRESS = r"^\[#*\.*\] .*$|^comparing with simple models$"
VARYING = re.compile(PROGRESS + r"|[\d.]+ s$|\([\d.]+ [kM]B\)|█+|\d{4}-\d\d-\d\dT[\d:+]+|bytes +[\d,]+|\s+$", re.MULTILINE)
"""What no two runs share: progress, times, sizes of files, bars, dates."""


def ran(command, folder):
    """What a command prints on both streams."""
    if command.startswith(NOT_RUN):
        return ""
    done = subprocess.run(
        ["bash", "-c", START + command],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout


def commands(text):
    """Commands of a page in order, each with what is shown below it."""
    for block in CONSOLE.finditer(text):
        for part in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def test_commands_print_what_is_shown(tmp_path):
    found = list(commands(PAGE.read_text(encoding="utf-8")))
    assert len(found) > 5
    for command, shown in found:
        printed, shown = VARYING.sub("", ran(command, tmp_path)), VARYING.sub("", shown)
        assert words(printed).split() == words(shown).split(), command
        assert numbers(printed) == pytest.approx(numbers(shown), rel=0.05, abs=0.02), command


def test_every_option_is_on_the_page():
    from bochner.cli.app import app

    text = PAGE.read_text(encoding="utf-8")
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert f"bochner {name}" in text
    import inspect

    from bochner.cli import app as module

    for name in inspect.signature(inspect.unwrap(module.fit)).parameters:
        if name not in ("data", "json", "quiet"):
            assert f"--{name.replace('_', '-')}" in text, name
