"""What only shows where there is a person: a bar on a terminal, a page in a browser."""

import os
import re
import subprocess

import pytest

from tests.cli.shell import PROGRAM, environment, people, shell

pty = pytest.importorskip("pty", reason="terminals are those of POSIX")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("safetensors")
FIT = "fit people.csv -t income --drop id,class,since,w --kernel gaussian -o m.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("terminal")
    people(160).to_csv(place / "people.csv", index=False)
    return place


def on_a_terminal(command, folder, output=subprocess.PIPE):
    """What a command writes to a standard error stream that is a terminal, to its output, and its exit code.

    An ``output`` of None is the terminal too.
    """
    screen, own_end = pty.openpty()
    run = subprocess.Popen(
        ["bash", "-c", f"exec {PROGRAM} {command}"],
        cwd=folder,
        env=environment(TERM="xterm"),
        stdout=own_end if output is None else output,
        stderr=own_end,
    )
    os.close(own_end)
    written = b""
    while True:
        try:
            some = os.read(screen, 65536)
        except OSError:  # on Linux, of a terminal that nobody writes to any more
            break
        if not some:
            break
        written += some
    os.close(screen)
    out, _ = run.communicate(timeout=60)
    return written.decode(), (out or b"").decode(), run.returncode


def test_a_bar_on_a_terminal_says_which_step_it_is(folder):
    seen, out, code = on_a_terminal(FIT, folder)
    assert code == 0
    assert "\u2501" in seen
    steps = [int(number) for number in re.findall(r"step (\d+) of ", seen)]  # short ones may go by between two pictures
    assert steps, seen[-2000:]
    assert steps == sorted(steps)
    assert seen.index("step ") < seen.index("comparing with simple models")
    after = seen[seen.rindex("\x1b[2K") :]
    assert not any(mark in after for mark in ("\u2501", "step", "comparing"))  # the line is gone in the end
    assert out.startswith("KernelRegressor")
    assert "step" not in out


def test_no_bar_where_it_is_not_wanted(folder):
    seen, out, code = on_a_terminal(f"{FIT} --effort fast --quiet", folder)
    assert code == 0
    assert "\x1b" not in seen  # notes may be there, but nothing that moves
    assert "held-out error" not in seen
    assert out.startswith("KernelRegressor")


def test_predictions_on_a_terminal_have_digits_to_read(folder):
    """All that they have go to a pipe."""
    shell(f"bochner {FIT} --features 20 --std", folder)
    seen, _, code = on_a_terminal("predict m.safetensors people.csv --std", folder, output=None)
    assert code == 0
    piped = shell("bochner predict m.safetensors people.csv --std", folder).stdout
    shown, whole = ([[float(x) for x in line.split(",")] for line in text.split()[2:]] for text in (seen, piped))
    assert len(shown) == len(whole) == 160
    assert shown == [[float(f"{x:.6g}") for x in row] for row in whole]
    assert shown != whole


def test_a_page_is_opened_in_the_browser(folder):
    shell(f"bochner {FIT} --features 20", folder)
    browser = folder / "browser.sh"
    browser.write_text('#!/bin/sh\nprintf "%s" "$1" > opened.txt\n')
    browser.chmod(0o755)
    done = shell("bochner report m.safetensors -o page.html --open", folder, BROWSER=f"{browser} %s")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "page.html\n"
    assert (folder / "opened.txt").read_text() == (folder / "page.html").as_uri()


def test_no_browser_is_told_of(folder, monkeypatch, capsys):
    import webbrowser

    from bochner.cli.models import show_page

    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    show_page("page.html")
    assert capsys.readouterr().err == "Note: no browser was found: open page.html in one, or name one by BROWSER.\n"
