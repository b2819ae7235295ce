"""How much memory there is: sizes as text, and what a machine or a container leaves."""

import numpy as np
import pytest

from bochner import memory
from bochner.memory import as_bytes, free_bytes, machine_bytes, readable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2GB", 2e9),
        ("500MB", 5e8),
        ("1.5 gb", 1.5e9),
        (" 512MiB ", 2.0**29),
        ("1Ti", 2.0**40),
        ("64k", 64e3),
        ("1000", 1e3),
        ("7b", 7.0),
        (8e9, 8e9),
        (np.int64(3), 3.0),
    ],
)
def test_sizes(text, expected):
    assert as_bytes(text) == expected


@pytest.mark.parametrize(
    "value", [0, -1, "0GB", "", "much", "GB", "1.2.3GB", "5XB", "5 i", np.nan, np.inf, True, [1], b"1GB"]
)
def test_what_is_no_size(value):
    with pytest.raises(ValueError, match=r"max_memory must be a positive number of bytes, text such as '2GB'.* got "):
        as_bytes(value)


@pytest.mark.parametrize(
    ("n_bytes", "expected"), [(0, "0 bytes"), (999, "999 bytes"), (1e3, "1 kB"), (1.234e9, "1.23 GB"), (5e15, "5e+03 TB")]
)
def test_readable(n_bytes, expected):
    assert readable(n_bytes) == expected


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of which 100 GB are free, with a folder of control groups to be filled."""
    monkeypatch.setattr(memory, "_available", lambda: 100e9)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    return tmp_path


def fill(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_of_", ".", 1)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_no_container(machine):
    assert free_bytes() == 100e9
    assert as_bytes(None) == 50e9


def test_a_container_without_a_limit(machine):
    fill(machine, memory_of_max="max\n", memory_of_current="5000\n")
    assert free_bytes() == 100e9


def test_a_container(machine):
    fill(machine, memory_of_max="8000000000\n", memory_of_current="3000000000\n")
    assert free_bytes() == 5e9
    assert as_bytes(None) == 2.5e9


def test_files_that_a_container_has_cached_are_free(machine):
    fill(machine, memory_of_max="8000000000\n", memory_of_current="7900000000\n")
    fill(machine, memory_of_stat="anon 1000000000\nfile 6900000000\ninactive_file 6000000000\nactive_file 900000000\n")
    assert free_bytes() == 6.1e9


@pytest.mark.parametrize("text", ["", "inactive_file\n", "inactive_file much\n"])
def test_what_cannot_be_read_of_them_is_not_counted(machine, text):
    fill(machine, memory_of_max="8000000000\n", memory_of_current="7000000000\n", memory_of_stat=text)
    assert free_bytes() == 1e9


def test_a_container_of_the_first_version(machine):
    fill(machine, memory__memory_of_limit_in_bytes="4000000000\n", memory__memory_of_usage_in_bytes="3500000000\n")
    fill(machine, memory__memory_of_stat="inactive_file 1\ntotal_inactive_file 500000000\n")
    assert free_bytes() == 1e9


def test_a_container_that_is_full(machine):
    fill(machine, memory_of_max="1000\n", memory_of_current="2000\n")
    assert free_bytes() == 0


def test_the_machine_itself():
    assert 0 < free_bytes() <= machine_bytes()
