"""The log, and files that are replaced as a whole."""

import errno
import os

import numpy as np
import pytest

from bochner import durable
from bochner.durable import PARTIAL, Log, replace_file
from bochner.errors import FileAccessError, MissingFileError
from bochner.rows import UnreadableError

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

    with pytest.raises(FileAccessError if isinstance(error, OSError) else type(error)):
        replace_file(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


WHY = {
    errno.ENOSPC: "the disk is full, and nothing was written. Make room, or write elsewhere.",
    errno.EFBIG: "the file is larger than it may be here, and nothing was written. Raise the limit, or write elsewhere.",
    errno.EROFS: "this file system is read-only. Write elsewhere.",
    errno.EACCES: "there is no permission for that. Choose another place, or change the permissions.",
    errno.EIO: "Input/output error. Choose another place.",
}


@pytest.mark.parametrize("number", WHY, ids=errno.errorcode.get)
@pytest.mark.parametrize("function", ["open", "fsync", "replace"])
def test_what_the_system_refuses_is_told_of_the_file_that_was_asked_for(number, function, tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(b"old")

    def refuse(*_args, **_options):
        raise OSError(number, os.strerror(number), "model.1234.part")

    monkeypatch.setattr(*(durable, "open", refuse) if function == "open" else (os, function, refuse), raising=False)
    with pytest.raises(FileAccessError) as caught:
        replace_file(path, lambda file: file.write(b"new"))
    assert str(caught.value) == f"{path} cannot be written: {WHY[number]}"
    assert (caught.value.errno, caught.value.filename) == (number, str(path))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model"]


def test_a_folder_that_is_missing_or_no_folder_is_told(tmp_path):
    with pytest.raises(MissingFileError) as caught:
        replace_file(tmp_path / "no" / "model", lambda file: file.write(b"new"))
    assert str(caught.value) == (f"{tmp_path}/no/model cannot be written: there is no folder {tmp_path}/no. Make it first.")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileAccessError, match=r"file/model cannot be written: a part of this path is a file, .* Give ano"):
        replace_file(tmp_path / "file" / "model", lambda file: file.write(b"new"))
    with pytest.raises(FileAccessError, match=r"cannot be written: this is a folder. Give the name of a file."):
        replace_file(tmp_path, lambda file: file.write(b"new"))
    assert os.listdir(tmp_path) == ["file"]


def test_errors_of_what_writes_stay_what_they_are(tmp_path):
    def fail(_):
        raise UnreadableError("rows.csv could not be read")

    with pytest.raises(UnreadableError, match=r"^rows.csv could not be read$"):
        replace_file(tmp_path / "file", fail)
    assert os.listdir(tmp_path) == []


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
