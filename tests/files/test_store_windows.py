"""The store where the system is Windows: its lock and its folders, with an ``msvcrt`` made of ``fcntl``.

What this shows is that the branch runs, takes and frees the lock, and opens no folder. Whether Windows itself keeps
what it promises was not tried.
"""

import errno
import fcntl
import importlib
import os
import sys
import types

import numpy as np
import pytest

import subspan.files


@pytest.fixture
def windows_store(monkeypatch):
    """``subspan.files.store`` and what it stands on as imported on Windows, and the calls that ``msvcrt`` got."""
    calls = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        """Exclusive until the file is closed; EACCES at once for whoever finds it taken, as LK_NBLCK is documented."""
        calls.append((mode, count))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EACCES, "Permission denied") from None

    def open_files_only(path, flags, *mode, **place):
        assert not os.path.isdir(path), "Windows opens no folders"
        return real_open(path, flags, *mode, **place)

    real_open = os.open
    made = types.ModuleType("msvcrt")
    made.LK_NBLCK, made.locking = 2, locking
    monkeypatch.setitem(sys.modules, "msvcrt", made)
    for name in ("atomic", "store"):  # imported anew here, and as they were for all other tests
        monkeypatch.delitem(sys.modules, f"subspan.files.{name}", raising=False)
        monkeypatch.setattr(subspan.files, name, None, raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        patch.setattr(os, "open", open_files_only)
        patch.setitem(sys.modules, "fcntl", None)  # there is none
        yield importlib.import_module("subspan.files.store"), calls


def test_versions_are_written_and_read_under_the_lock(windows_store, tmp_path):
    store, calls = windows_store
    first, second = (store.make_version({"rows": np.full(3, number)}, {"session": number}) for number in (1, 2))
    store.write(tmp_path / "a.subspan", [first], first.id)
    store.write(tmp_path / "a.subspan", [first, second], second.id)
    assert store.read(tmp_path / "a.subspan").chain == (first.id, second.id)
    np.testing.assert_array_equal(store.load_version(tmp_path / "a.subspan", second.id).arrays["rows"], [2, 2, 2])
    assert set(calls) == {(2, 1)}, "one byte, without waiting"


def test_only_one_writer_has_the_lock_and_closing_frees_it(windows_store, tmp_path):
    store, _ = windows_store
    busy = pytest.raises(store.StoreBusyError, match=r"is busy: another process has been writing to it for 0\.05 s")
    with store._locked(tmp_path / "lock", 1), busy, store._locked(tmp_path / "lock", 0.05):
        raise AssertionError("two writers at once")
    with store._locked(tmp_path / "lock", 0):
        pass
