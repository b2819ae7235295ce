"""Known faults of locked packages: what is read off the pages of an index."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def audit():
    spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(version, *faults):
    return {"info": {"version": version}, "vulnerabilities": [{"id": fault, "withdrawn": None} for fault in faults]}


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"a/1.0": page("1.0")}, []),
        ({"a/1.0": page("1.0", "PYSEC-1"), "a": page("2.0")}, ["PYSEC-1"]),
        ({"a": page("1.0", "PYSEC-2")}, ["PYSEC-2"]),
        ({"a": page("2.0")}, None),
        ({"a": {"info": {"version": "1.0"}}}, None),
        ({}, None),
    ],
)
def test_a_version_has_the_faults_of_its_own_page_or_of_the_newest(audit, pages, expected):
    assert audit.faults_of("a", "1.0", pages.get) == expected


def test_what_was_withdrawn_is_no_fault(audit):
    told = page("1.0", "PYSEC-1", "PYSEC-2")
    told["vulnerabilities"][0]["withdrawn"] = "2026-01-01T00:00:00Z"
    assert audit.faults_of("a", "1.0", {"a": told}.get) == ["PYSEC-2"]


def test_a_known_fault_fails_and_what_is_unknown_is_named(audit, monkeypatch, capsys, tmp_path):
    (tmp_path / "one.lock").write_text(
        "a==1.0 \\\n    --hash=sha256:00\nb==3.1 ; sys_platform == 'linux' --hash=sha256:11\n"
    )
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    monkeypatch.setattr(audit, "LOCKS", ("one.lock",))
    monkeypatch.setattr(audit, "page", {"a": page("1.0"), "b": page("4.0")}.get)
    assert audit.main() == 0
    printed = capsys.readouterr().out
    assert "1 of 2 locked packages: no known fault." in printed
    assert "b 3.1" in printed
    monkeypatch.setattr(audit, "page", {"a": page("1.0", "PYSEC-1"), "b": page("4.0")}.get)
    assert audit.main() == 1
    assert "a 1.0: PYSEC-1" in capsys.readouterr().out


def test_every_locked_package_is_asked_for(audit):
    locked = {line.split("==")[0] for lock in audit.LOCKS for line in (ROOT / lock).read_text().splitlines() if "==" in line}
    found = {name for lock in audit.LOCKS for name, _ in audit.PINNED.findall((ROOT / lock).read_text())}
    assert found == {name.strip() for name in locked if not name.startswith("#")}
