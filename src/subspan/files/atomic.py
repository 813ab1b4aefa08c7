"""Files that are never seen half-written: whoever reads, or comes after a kill, finds the old one or the new one."""

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp-"  # how the names of what is unfinished begin


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A file beside ``path`` to write to; when the block ends well, it takes the place of ``path`` in one step.

    Missing folders are made. When the block fails, ``path`` is as before and nothing is left beside it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/new/notes.txt") as file:
    ...         length = file.write_text("whole")
    ...     [path.name for path in Path(folder, "new").iterdir()]
    ['notes.txt']
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"'{path}' is a folder; name the file to write")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_in(path.parent)
    try:
        temporary.touch(exist_ok=False)  # nobody can have laid a link there: the name cannot be foreseen
        mode = temporary.stat().st_mode  # what new files get here; some writers make files for their owner alone
        yield temporary
        temporary.chmod(mode)
        sync(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def temporary_in(folder: Path) -> Path:
    """A name in ``folder`` that nothing has yet."""
    return folder / f"{TEMPORARY}{uuid.uuid4().hex}"


def sync(file: Path) -> None:
    """Make what a file holds durable."""
    with open(file, "r+b") as stream:
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` durable; Windows keeps no such promise and opens no folders."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
