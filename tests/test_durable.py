"""The log, and files that are replaced as a whole."""

import errno
import os

import numpy as np
import pytest

from bochner import durable
from bochner.durable import PARTIAL, Log, replace_file

LOG = "log"
RECORDS = [{"question": str(k), "value": value} for k, value in enumerate([0.1, 1e-300, float("inf"), -0.0, 1 / 3])]


# -- the log -------------------------------------------------------------------------------------------------------------


def filled(path, records=RECORDS):
    log = Log(path)
    for record in records:
        log.add(record)
    log.close()
    return path.read_bytes()


def test_records_come_back_bit_for_bit(tmp_path):
    filled(tmp_path / LOG)
    log = Log(tmp_path / LOG)
    assert repr(log.records) == repr(RECORDS)
    log.close()


def test_a_log_that_is_cut_anywhere_has_the_records_before(tmp_path):
    data = filled(tmp_path / LOG)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    for size in range(len(data) + 1):
        (tmp_path / LOG).write_bytes(data[:size])
        log = Log(tmp_path / LOG)
        whole = int(np.count_nonzero(ends <= size))
        assert len(log.records) == whole
        for record in RECORDS[whole:]:
            log.add(record)
        log.close()
        assert (tmp_path / LOG).read_bytes() == data


def test_a_changed_byte_ends_a_log(tmp_path):
    data = bytearray(filled(tmp_path / LOG))
    data[len(data) // 2] ^= 1
    (tmp_path / LOG).write_bytes(data)
    log = Log(tmp_path / LOG)
    assert 0 < len(log.records) < len(RECORDS)
    log.close()


def test_a_record_that_does_not_fit_leaves_none_behind(tmp_path, monkeypatch):
    before = filled(tmp_path / LOG)
    log = Log(tmp_path / LOG)

    def half(file, data):
        file.write(data[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "write_all", half)
    with pytest.raises(OSError, match="No space"):
        log.add(RECORDS[0])
    log.close()
    assert (tmp_path / LOG).read_bytes() == before


def test_a_log_has_one_writer(tmp_path):
    pytest.importorskip("fcntl")
    log = Log(tmp_path / LOG)
    with pytest.raises(BlockingIOError):
        Log(tmp_path / LOG)
    log.close()
    Log(tmp_path / LOG).close()


# -- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, error):
    path = tmp_path / "file"
    replace_file(path, lambda file: file.write(b"old"))

    def fail(file):
        file.write(b"ne")
        raise error

    with pytest.raises(type(error)):
        replace_file(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    """One begins while the other is at it: each is whole, and the one that ends last stays."""
    path = tmp_path / "file"

    def slowly(file):
        file.write(b"first, ")
        replace_file(path, lambda other: other.write(b"second, whole"))
        assert path.read_bytes() == b"second, whole"
        file.write(b"whole")

    replace_file(path, slowly)
    assert path.read_bytes() == b"first, whole"
    assert os.listdir(tmp_path) == ["file"]


def test_the_partial_file_stands_beside_the_file_and_allows_long_names(tmp_path):
    path = tmp_path / ("\u00fc" * 127)  # 254 bytes
    seen = []
    replace_file(path, lambda _: seen.append(os.listdir(tmp_path)))
    assert [name.endswith(PARTIAL) for name in seen[0]] == [True]
    assert os.listdir(tmp_path) == [path.name]
