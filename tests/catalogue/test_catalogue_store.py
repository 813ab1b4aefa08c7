"""The store under a catalogue: killed teachers, two processes at once, a full disk."""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import made_photographs as made
from new_python import python
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.files import store

BASE = ["blue", "red"]


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one: what is killed is a process, not the machine."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


def make(path: Path) -> Path:
    photographs = {name: made.photographs(name, 6) for name in BASE}
    Catalogue.create(path, photographs, CatalogueOptions(method="prototype", keep=2), backbone=made.tiny_backbone())
    return path


# Adds to one class, "warm", and says how long more of it took and in how many file operations. Then every line of
# input, a name and a number, starts a teacher that prints its process number, adds classes, and prints the name of each
# once `add_features` has returned. The number is the file operation before which it kills itself, 0 for never.
TEACHERS = """
    import os, signal, sys, time
    import numpy as np
    import torch
    torch.set_num_threads(1)
    import made_photographs as made
    from subspan.catalogue.catalogue import Catalogue

    backbone = made.tiny_backbone()
    features = np.random.default_rng(0).random((2, made.WIDTH)).astype(np.float32)
    operations = last = 0

    def count(event, _):
        global operations
        operations += event.split(".")[0] in ("open", "os", "fcntl", "shutil")
        if operations == last:
            os.kill(os.getpid(), signal.SIGKILL)

    for repetition in range(2):
        begin = time.monotonic()
        catalogue = Catalogue.open(sys.argv[1], backbone)
        if repetition:
            sys.addaudithook(count)
        catalogue.add_features("warm", features)

    def teach_until_killed(prefix, chosen):
        global operations, last
        catalogue = Catalogue.open(sys.argv[1], backbone)
        os.write(1, f"{os.getpid()}\\n".encode())
        operations, last = 0, chosen
        for number in range(1000):
            catalogue.add_features(f"{prefix}-{number}", features)
            os.write(1, f"{prefix}-{number}\\n".encode())

    print("ready", time.monotonic() - begin, operations, sep="\\n", flush=True)
    for line in sys.stdin:
        if (teacher := os.fork()) == 0:
            teach_until_killed(*map(int, line.split()))
        os.waitpid(teacher, 0)
        os.write(1, b"killed\\n")
"""


@pytest.mark.slow
def test_after_200_kills_the_catalogue_holds_exactly_what_was_acknowledged(memory_folder: Path):
    path = make(memory_folder / "c.subspan")
    moments = random.Random(0)
    learned = ["warm", "warm"]  # acknowledged, or found to have been switched to at the moment of the kill
    leftovers = 0
    with python(TEACHERS, path) as (requests, output):
        duration, operations = float(output.readline()), int(output.readline())
        for kill in range(200):
            by_clock = kill % 2 == 0
            requests.write(f"{kill} {0 if by_clock else moments.randint(1, 2 * operations)}\n")
            requests.flush()
            teacher = int(output.readline())
            if by_clock:
                time.sleep(moments.uniform(0, 1.5 * duration))
                os.kill(teacher, signal.SIGKILL)
            while (line := output.readline().strip()) != "killed":
                learned.append(line)
            leftovers += any(name.startswith(".tmp-") for name in os.listdir(path / "versions"))
            found = [entry.classes[0] for entry in Catalogue.open(path).sessions()[1:]]
            assert found[: len(learned)] == learned
            # Killed between the switch of the pointer and the answer: the one session whose answer never came.
            assert len(found) - len(learned) <= 1
            learned = found
    assert len(learned) > 50, "the teachers were killed before they taught"
    assert leftovers > 20, "the teachers were not killed while they wrote"
    catalogue = Catalogue.open(path, made.tiny_backbone())
    assert [one.name for one in catalogue.classes()] == [*BASE, *learned[1:]]
    chain = store.read(path).chain
    assert len(chain) == len(learned) + 1
    for id in chain:
        store.load_version(path, id)
    catalogue.prune(keep=1)
    assert not list(path.rglob(".tmp-*"))


TWO_TEACHERS = """
    import os, sys
    import numpy as np
    import torch
    torch.set_num_threads(1)
    import made_photographs as made
    from subspan.catalogue.catalogue import Catalogue

    backbone = made.tiny_backbone()
    features = np.random.default_rng(0).random((2, made.WIDTH)).astype(np.float32)
    print("ready", flush=True)
    teachers = []
    for name in ("left", "right"):
        if (teacher := os.fork()) == 0:
            catalogue = Catalogue.open(sys.argv[1], backbone)
            for number in range(5):
                catalogue.add_features(f"{name} {number}", features)
            os._exit(0)
        teachers.append(teacher)
    print([os.waitstatus_to_exitcode(os.waitpid(teacher, 0)[1]) for teacher in teachers], flush=True)
"""


def test_two_processes_that_teach_at_once_lose_no_class(tmp_path: Path):
    path = make(tmp_path / "c.subspan")
    with python(TWO_TEACHERS, path) as (_, output):
        assert output.readline() == "[0, 0]\n"
    catalogue = Catalogue.open(path)
    taught = [one.name for one in catalogue.classes()][2:]
    assert sorted(taught) == sorted(f"{side} {number}" for side in ("left", "right") for number in range(5))
    assert [entry.classes[0] for entry in catalogue.sessions()[1:]] == taught


def test_a_writer_that_holds_the_lock_gives_a_busy_sentence(tmp_path: Path, monkeypatch):
    path = make(tmp_path / "c.subspan")
    catalogue = Catalogue.open(path, made.tiny_backbone())
    write = store.write
    monkeypatch.setattr(store, "write", lambda *a, **k: write(*a, **{**k, "timeout": 0.05}))
    with FileLock(path / store.LOCK), pytest.raises(store.StoreBusyError, match="is busy: another process"):
        catalogue.add("pink", made.photographs("pink", 3))
    assert len(catalogue.sessions()) == 1
    catalogue.add("pink", made.photographs("pink", 3))


def test_a_full_disk_is_one_sentence_and_the_catalogue_stays_as_it_was(tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("needs root to mount a small file system")
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=256k", "none", disk], capture_output=True).returncode:
        pytest.skip("this machine does not let a test mount a file system")
    try:
        path = make(disk / "c.subspan")
        catalogue = Catalogue.open(path, made.tiny_backbone())
        catalogue.add("pink", made.photographs("pink", 3))
        (disk / "ballast").write_bytes(b"\0" * (shutil.disk_usage(disk).free - 8192))
        with pytest.raises(store.StoreError, match=r"cannot be written, and keeps what it held: .*No space left"):
            catalogue.add("grey", made.photographs("grey", 3))
        for one in (catalogue, Catalogue.open(path)):
            assert [entry.name for entry in one.classes()] == [*BASE, "pink"]
        assert catalogue.predict(made.photographs("pink", 1))
        (disk / "ballast").unlink()
        catalogue.add("grey", made.photographs("grey", 3))
        assert np.isin("grey", [entry.name for entry in Catalogue.open(path).classes()])
    finally:
        subprocess.run(["umount", disk], check=True)
