"""A file is replaced whole or not at all."""

import os
import sys

import pytest

from subspan.files.atomic import replacing


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("old")

    def fail_halfway():
        with replacing(path) as file:
            file.write_text("half")
            assert path.read_text() == "old", "readers see the old file while the new one is written"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    assert path.read_text() == "old"


def test_a_block_that_ends_well_replaces_it(tmp_path):
    path = tmp_path / "new" / "notes.txt"
    for text in ("first", "second"):
        with replacing(path) as file:
            file.write_text(text)
        assert path.read_text() == text
    assert [p.name for p in path.parent.iterdir()] == ["notes.txt"]


def test_a_writer_that_makes_files_for_their_owner_alone_does_not_keep_them_from_others(tmp_path):
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "shared") as file:
        private = tmp_path / "private"
        private.write_text("of the owner")
        private.chmod(0o600)
        private.replace(file)  # as safetensors does
    assert (tmp_path / "shared").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "shared").read_text() == "of the owner"


def test_where_the_system_is_windows_no_folder_is_opened(tmp_path, monkeypatch):
    def open_files_only(path, *given):
        assert not os.path.isdir(path), "Windows opens no folders"
        return opened(path, *given)

    opened = os.open
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "open", open_files_only)
    with replacing(tmp_path / "notes.txt") as file:
        file.write_text("whole")
    assert (tmp_path / "notes.txt").read_text() == "whole"
