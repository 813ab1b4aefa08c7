"""The model store: round trips, damage, full disks, killed writers and writers at the same time."""

import errno
import json
import os
import pickle
import random
import resource
import shutil
import signal
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from new_python import python
from subspan.files import store
from subspan.files.store import StoreBusyError, StoreError, Version, load_version, make_version, read, write


def session(number: int, classes: int = 3) -> Version:
    """A small version that differs from every other number's."""
    weight = np.random.default_rng(number).standard_normal((classes, 4)).astype(np.float32)
    return make_version({"weight": weight, "counts": np.arange(number)}, {"session": number, "names": ["bär", "犬"]})


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A store with three versions, the last one current."""
    path = tmp_path / "zoo.subspan"
    write(path, [session(0), session(1), session(2)], session(2).id)
    return path


def same(first: Version, second: Version) -> bool:
    """Equal to the last bit: ids, names, dtypes, shapes, bytes, meta."""
    return (
        first.id == second.id
        and first.meta == second.meta
        and first.arrays.keys() == second.arrays.keys()
        and all(
            (a := first.arrays[name]).dtype == (b := second.arrays[name]).dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
            for name in first.arrays
        )
    )


def everything(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


# Round trips


def test_every_version_of_the_chain_comes_back(zoo: Path):
    assert read(zoo) == store.Pointer(session(2).id, (session(0).id, session(1).id, session(2).id))
    assert all(same(load_version(zoo, session(number).id), session(number)) for number in range(3))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
arrays = hnp.arrays(
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.uint8, np.bool_]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
array_names = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name != "__metadata__")


@given(st.dictionaries(array_names, arrays, max_size=4), st.dictionaries(st.text(), json_values, max_size=4))
def test_any_arrays_and_any_names_come_back_bit_for_bit(arrays: dict, meta: dict):
    with tempfile.TemporaryDirectory() as folder:
        version = make_version(arrays, meta)
        write(folder, [version], version.id)
        assert same(load_version(folder, version.id), version)


@pytest.mark.parametrize("view", [np.transpose, lambda a: a[::2, 1:], lambda a: a.astype(">f8"), np.asfortranarray])
def test_arrays_that_lie_otherwise_in_memory_are_stored_by_value(tmp_path: Path, view: Callable):
    array = view(np.arange(24.0).reshape(4, 6))
    version = make_version({"weight": array}, {})
    write(tmp_path / "zoo", [version], version.id)
    np.testing.assert_array_equal(load_version(tmp_path / "zoo", version.id).arrays["weight"], array)


def test_class_names_from_undecodable_folder_names_survive(tmp_path: Path):
    name = os.fsdecode(b"caf\xe9")
    version = make_version({}, {"names": [name]})
    write(tmp_path / "zoo", [version], version.id)
    assert load_version(tmp_path / "zoo", version.id).meta["names"] == [name]


def test_loaded_arrays_may_be_changed_without_changing_the_store(zoo: Path):
    load_version(zoo, session(1).id).arrays["weight"][:] = 0
    assert same(load_version(zoo, session(1).id), session(1))


def test_no_pickle_and_only_the_documented_files(zoo: Path):
    names = {Path(name).name for name in everything(zoo)}
    assert names == {"store.json", "lock", "version.json", "arrays.safetensors"}


# Arrays that versions share


def large(number: int, seed: int = 0) -> Version:
    weight = np.random.default_rng(seed).standard_normal((100, 80))
    return make_version({"weight": weight, "twice": weight.copy(), "counts": np.arange(number)}, {"session": number})


def size(path: Path) -> int:
    return sum(len(content) for content in everything(path).values())


def test_versions_share_what_did_not_change(zoo: Path):
    before = size(zoo)
    write(zoo, [large(0)], large(0).id)
    first = size(zoo)
    assert 64_000 < first - before < 67_000  # once, though two arrays hold it
    write(zoo, [large(0).id, *(large(number) for number in range(1, 9))], large(8).id)
    assert size(zoo) - first < 8 * 2_000
    assert all(same(load_version(zoo, id), large(number)) for number, id in enumerate(read(zoo).chain))
    write(zoo, [large(9, seed=1)], large(9, seed=1).id)
    store.prune(zoo)
    assert same(load_version(zoo, read(zoo).current), large(9, seed=1))
    assert len(list((zoo / "arrays").iterdir())) == 2


def test_an_array_that_grows_shares_what_it_was(zoo: Path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((90, 1280))
    versions = [make_version({"rows": rows[:count]}, {}) for count in range(60, 91)]
    write(zoo, versions, versions[-1].id)
    assert all(same(load_version(zoo, one.id), one) for one in versions)
    assert size(zoo) < 32_768 * len(versions) + rows.nbytes  # of each the last part; whole, they would be 24 MB


@pytest.mark.parametrize("damage", ["empty", "truncated", "longer", "random", "deleted", "folder"])
def test_damage_to_a_shared_array_is_noticed_and_mended(zoo: Path, damage: str):
    write(zoo, [session(0), large(0)], large(0).id)
    shared = min((zoo / "arrays").iterdir())
    DAMAGE[damage](shared)
    with pytest.raises(StoreError, match=shared.name[:12]):
        load_version(zoo, large(0).id)
    found = store.verify(zoo)
    assert found[session(0).id] is None
    assert shared.name in str(found[large(0).id])
    if damage != "folder":
        write(zoo, [session(0), large(1)], large(1).id)  # another version with the same array
        assert same(load_version(zoo, large(0).id), large(0))


def test_a_copy_holds_all_versions_and_takes_what_it_lacks(zoo: Path, tmp_path: Path):
    target = tmp_path / "copy.subspan"
    store.copy(zoo, target)
    write(zoo, [*read(zoo).chain, large(0)], large(0).id)
    pointer = store.copy(zoo, target)
    assert pointer == read(target) == read(zoo)
    assert all(same(load_version(target, id), load_version(zoo, id)) for id in pointer.chain)
    write(target, [session(5)], session(5).id)
    before = everything(target)
    with pytest.raises(StoreError, match="is no earlier copy of"):
        store.copy(zoo, target)
    assert everything(target) == before


@pytest.mark.parametrize("name", ["store.json", "version.json", "arrays.safetensors"])
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(zoo: Path, name: str):
    file = zoo / name if name == "store.json" else zoo / "versions" / session(2).id / name
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(StoreError, match=f"{name}' must be a plain file"):
        load_version(zoo, read(zoo).current)


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None])
def test_a_format_that_no_subspan_wrote_is_refused(zoo: Path, version: object):
    pointer = json.loads((zoo / "store.json").read_text())
    (zoo / "store.json").write_text(json.dumps({**pointer, "format_version": version}))
    with pytest.raises(StoreError, match="has format version"):
        read(zoo)


# Chains and pointers


def test_the_pointer_moves_back_and_a_new_branch_leaves_the_old_version_loadable(zoo: Path):
    write(zoo, [session(0).id, session(1).id], session(1).id)  # undo
    write(zoo, [session(0).id, session(1).id, session(3)], session(3).id)
    assert read(zoo).chain == (session(0).id, session(1).id, session(3).id)
    assert same(load_version(zoo, session(2).id), session(2))
    assert store.prune(zoo) == [session(2).id]
    assert set(store.version_ids(zoo)) == set(read(zoo).chain)


def test_versions_the_store_holds_are_not_written_again(zoo: Path):
    file = zoo / "versions" / session(0).id / "arrays.safetensors"
    before = file.stat()
    write(zoo, [session(0), session(3)], session(3).id)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    ("versions", "current", "message"),
    [
        ([session(0)], session(1).id, "must be one of the chain"),
        ([], session(1).id, "must be one of the chain"),
        (["f" * 64], "f" * 64, "version ffffffffffff is not in .*: 'version.json' is missing"),
        ([Version("f" * 64, {}, {})], "f" * 64, "changed after its id was computed"),
    ],
)
def test_chains_that_make_no_sense_change_nothing(zoo: Path, versions: list, current: str, message: str):
    before = everything(zoo)
    with pytest.raises(StoreError, match=message):
        write(zoo, versions, current)
    assert everything(zoo) == before


@pytest.mark.parametrize(
    ("arrays", "meta", "message"),
    [
        ({"names": np.array(["a"])}, {}, "array 'names' has dtype <U1"),
        ({"weight": np.array([object()])}, {}, "array 'weight' has dtype object"),
        ({}, {"accuracy": float("nan")}, "plain JSON"),
        ({}, {"when": {1, 2}}, "plain JSON"),
    ],
)
def test_content_that_cannot_be_stored_is_named(arrays: dict, meta: dict, message: str):
    with pytest.raises(StoreError, match=message):
        make_version(arrays, meta)


# Damage


@pytest.mark.parametrize("file", ["store.json", "version.json", "arrays.safetensors"])
def test_a_flipped_bit_anywhere_is_noticed_and_other_versions_load(zoo: Path, file: str):
    path = zoo / file if file == "store.json" else zoo / "versions" / session(2).id / file
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :])
        try:
            pointer = read(zoo)
            found = [load_version(zoo, name) for name in pointer.chain]
        except StoreError:
            pass
        else:  # a space of the pointer's indentation became another one
            assert [version.id for version in found] == [session(number).id for number in range(3)]
        assert same(load_version(zoo, session(1).id), session(1))


def as_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"x")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 1),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "zip": as_zip,
    "pickle": lambda path: path.write_bytes(pickle.dumps({"format": "subspan"})),
    "random": lambda path: path.write_bytes(random.Random(0).randbytes(999)),
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "list": lambda path: path.write_bytes(b"[1, 2]"),
    "deleted": lambda path: path.unlink(),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", ["store.json", "version.json", "arrays.safetensors"])
def test_a_damaged_file_is_named_and_other_versions_load(zoo: Path, file: str, damage: str):
    path = zoo / file if file == "store.json" else zoo / "versions" / session(2).id / file
    DAMAGE[damage](path)
    with pytest.raises(StoreError, match=file):
        load_version(zoo, read(zoo).current)
    assert same(load_version(zoo, session(1).id), session(1))


@pytest.mark.parametrize("damage", sorted(set(DAMAGE) - {"folder"}))
@pytest.mark.parametrize("file", ["version.json", "arrays.safetensors"])
def test_saving_again_mends_a_damaged_version(zoo: Path, file: str, damage: str):
    DAMAGE[damage](zoo / "versions" / session(2).id / file)
    write(zoo, [session(0), session(1), session(2)], session(2).id)
    assert same(load_version(zoo, session(2).id), session(2))


def test_a_deleted_version_is_named(zoo: Path):
    shutil.rmtree(zoo / "versions" / session(1).id)
    with pytest.raises(StoreError, match=f"version {session(1).id[:12]} is not in"):
        load_version(zoo, session(1).id)
    assert same(load_version(zoo, read(zoo).current), session(2))


def test_arrays_of_another_version_are_named(zoo: Path):
    file = zoo / "versions" / session(2).id / "arrays.safetensors"
    shutil.copy(zoo / "versions" / session(1).id / "arrays.safetensors", file)
    with pytest.raises(StoreError, match="array 'counts' is"):
        load_version(zoo, session(2).id)


def test_a_newer_format_is_refused_by_reader_and_writer(zoo: Path):
    pointer = json.loads((zoo / "store.json").read_text())
    (zoo / "store.json").write_text(json.dumps(pointer | {"format_version": 3}))
    for call in (lambda: read(zoo), lambda: write(zoo, [session(0)], session(0).id)):
        with pytest.raises(StoreError, match="format version 3; this Subspan reads 1 to 2"):
            call()


@pytest.mark.parametrize("id", ["", "..", "../../etc", "F" * 64, "0" * 63])
def test_an_id_is_never_taken_for_a_path(zoo: Path, id: str):
    with pytest.raises(StoreError, match="64 hexadecimal digits"):
        load_version(zoo, id)


# Places that are not a store


def test_what_is_not_a_store_is_refused_and_left_alone(tmp_path: Path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"jpg")
    file = tmp_path / "model.zip"
    as_zip(file)
    foreign = tmp_path / "other"
    foreign.mkdir()
    (foreign / "store.json").write_text('{"name": "a shop"}')
    before = everything(tmp_path)
    for path, message in [(folder, "it holds 'a.jpg'"), (file, "it is a file"), (foreign, "is foreign")]:
        with pytest.raises(StoreError, match=message):
            write(path, [session(0)], session(0).id)
    for path, message in [(folder, "missing"), (file, "it is a file"), (tmp_path / "none", "nothing there")]:
        with pytest.raises(StoreError, match=message):
            read(path)
    with pytest.raises(StoreError, match="nothing there"):
        store.prune(tmp_path / "none")
    assert everything(tmp_path) == before
    assert not (tmp_path / "none").exists()


def test_a_read_only_folder_is_an_error_of_one_sentence():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "zoo.subspan"
        write(path, [session(0)], session(0).id)
        folder.chmod(0o755)
        for entry in [path, path / "versions"]:
            entry.chmod(0o555)
        (path / "lock").chmod(0o444)
        root = os.geteuid() == 0
        if root:  # root may write anywhere: be somebody else for a moment
            os.seteuid(65534)
        try:
            with pytest.raises(StoreError, match=r"cannot be written, and keeps what it held: Permission denied"):
                write(path, [session(0), session(1)], session(1).id)
            with pytest.raises(StoreError, match="Permission denied"):
                write(folder / "new" if root else path / "new", [session(0)], session(0).id)
            assert same(load_version(path, read(path).current), session(0)), "other users may read what umask lets them"
            if root:
                os.seteuid(0)
                path.chmod(0o700)
                os.seteuid(65534)
                with pytest.raises(StoreError, match=r"store\.json' cannot be read: Permission denied"):
                    read(path)
        finally:
            if root:
                os.seteuid(0)
            for entry in [path, path / "versions"]:
                entry.chmod(0o755)


# Full disks


@pytest.mark.parametrize(("owner", "function"), [(store, "save_file"), (Path, "write_bytes"), (store, "sync")])
def test_a_full_disk_leaves_the_old_version_and_no_leftovers(zoo: Path, monkeypatch, owner: object, function: str):
    before = everything(zoo)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(owner, function, full)
        with pytest.raises(StoreError, match="keeps what it held: No space left on device"):
            write(zoo, [session(0), session(3)], session(3).id)
    assert everything(zoo) == before
    write(zoo, [session(0), session(3)], session(3).id)


def test_a_real_limit_on_file_size_leaves_the_old_version(zoo: Path):
    before = everything(zoo)
    big = make_version({"weight": np.arange(100_000)}, {})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"keeps what it held: .*File too large"):
            write(zoo, [session(0), big], big.id)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert everything(zoo) == before


# Killed writers, and writers at the same time


# Every line of input starts a writer that prints its process number, appends versions, and prints the id of each once
# it was acknowledged. The number in that line is the file operation before which it kills itself, 0 for never.
WRITERS = """
    import os, signal, sys
    import numpy as np
    from subspan.files.store import make_version, read, write

    def append_forever(path, last):
        operations = 0

        def count(event, _):
            nonlocal operations
            operations += event.split(".")[0] in ("open", "os", "fcntl", "shutil")
            if operations == last:
                os.kill(os.getpid(), signal.SIGKILL)

        os.write(1, f"{os.getpid()}\\n".encode())
        sys.addaudithook(count)
        while True:
            chain = list(read(path).chain[-3:])
            version = make_version({"weight": np.random.default_rng().random((100, 64))}, {"parent": chain[-1]})
            write(path, [*chain, version], version.id)
            os.write(1, f"{version.id}\\n".encode())

    print("ready", flush=True)
    for line in sys.stdin:
        if (writer := os.fork()) == 0:
            append_forever(sys.argv[1], int(line))
        os.waitpid(writer, 0)
        os.write(1, b"killed\\n")
"""


def check_after_kill(path: Path, before: str, acknowledged: list[str]) -> None:
    """The writer's last acknowledged version is the current one, or the one before what it had just switched to.

    Where it had none acknowledged the same holds of the version that was current ``before``.
    """
    pointer = read(path)
    assert [before, *acknowledged][-1] in pointer.chain[-2:]
    for name in pointer.chain:
        load_version(path, name)


def test_writers_killed_at_random_moments_leave_the_old_or_the_new_version(zoo: Path):
    moments = random.Random(0)
    acknowledged = list(read(zoo).chain)
    leftovers = 0
    with python(WRITERS, zoo) as (requests, output):
        for _ in range(60):
            before, known = read(zoo).current, len(acknowledged)
            requests.write("0\n")
            requests.flush()
            writer, duration = int(output.readline()), 0.01
            for _ in range(moments.randint(0, 3)):
                start = time.monotonic()
                acknowledged.append(output.readline().strip())
                duration = time.monotonic() - start
            time.sleep(moments.uniform(0, 1.5 * duration))
            os.kill(writer, signal.SIGKILL)
            while (line := output.readline().strip()) != "killed":
                acknowledged.append(line)
            leftovers += len(list(zoo.rglob(".tmp-*")))
            check_after_kill(zoo, before, acknowledged[known:])
    assert len(acknowledged) > 60, "the writers were killed before they wrote"
    assert leftovers > 5, "the writers were not killed while they wrote"
    for name in acknowledged:
        load_version(zoo, name)
    write(zoo, [session(0)], session(0).id)
    assert not list(zoo.rglob(".tmp-*")), "the next writer removes what killed ones left"


def test_writers_killed_before_each_of_their_file_operations_leave_the_old_or_the_new_version(zoo: Path):
    acknowledged = list(read(zoo).chain)
    with python(WRITERS, zoo) as (requests, output):
        for operation in range(1, 60):
            before, known = read(zoo).current, len(acknowledged)
            requests.write(f"{operation}\n")
            requests.flush()
            output.readline()
            while (line := output.readline().strip()) != "killed":
                acknowledged.append(line)
            check_after_kill(zoo, before, acknowledged[known:])
    assert len(acknowledged) > 10, "sixty operations are more than one version takes"
    for name in acknowledged:
        load_version(zoo, name)


APPEND_TEN = """
    import sys
    import numpy as np
    from subspan.files.store import StoreBusyError, make_version, read, write

    path, writer = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    busy = 0
    for number in range(10):
        while True:
            chain = read(path).chain
            version = make_version({"weight": np.zeros(3)}, {"class": f"{writer}-{number}", "parent": chain[-1]})
            try:
                write(path, [*chain, version], version.id, expected=chain[-1], timeout=60)
                break
            except StoreBusyError:
                busy += 1
    print(busy)
"""


def test_two_writers_at_once_lose_nothing(zoo: Path):
    with python(APPEND_TEN, zoo, "left") as left, python(APPEND_TEN, zoo, "right") as right:
        for requests, _ in (left, right):
            requests.write("go\n")
            requests.flush()
        assert sum(int(output.readline()) for _, output in (left, right)) > 0, "the writers never met"
    versions = [load_version(zoo, name) for name in read(zoo).chain]
    learned = [version.meta["class"] for version in versions[3:]]
    assert sorted(learned) == sorted(f"{name}-{number}" for name in ("left", "right") for number in range(10))
    assert [version.meta["parent"] for version in versions[3:]] == [version.id for version in versions[2:-1]]


def test_a_write_based_on_an_old_state_is_refused(zoo: Path):
    write(zoo, [session(0), session(3)], session(3).id, expected=session(2).id)
    with pytest.raises(StoreBusyError, match="was changed by another process"):
        write(zoo, [session(0), session(4)], session(4).id, expected=session(2).id)
    assert read(zoo).current == session(3).id
    with pytest.raises(StoreError, match="nothing there"):
        write(zoo / "none", [session(0)], session(0).id, expected=session(2).id)


def test_a_busy_store_says_so_and_can_be_read_meanwhile(zoo: Path, monkeypatch: pytest.MonkeyPatch):
    writing, finish = threading.Event(), threading.Event()
    save_file = store.save_file

    def slow_save_file(*arguments) -> None:
        writing.set()
        finish.wait(30)
        save_file(*arguments)

    monkeypatch.setattr(store, "save_file", slow_save_file)
    writer = threading.Thread(target=write, args=(zoo, [session(0), session(3)], session(3).id))
    writer.start()
    assert writing.wait(30)
    for call in (lambda: write(zoo, [session(0)], session(0).id, timeout=0.05), lambda: store.prune(zoo, timeout=0.05)):
        with pytest.raises(StoreBusyError, match=r"is busy: another process has been writing to it for 0\.05 s"):
            call()
    assert same(load_version(zoo, read(zoo).current), session(2))
    assert list(zoo.rglob(".tmp-*")), "nobody removed the living writer's work"
    finish.set()
    writer.join()
    assert same(load_version(zoo, read(zoo).current), session(3))
