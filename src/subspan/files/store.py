"""The model directory ``NAME.subspan``: immutable, checksummed versions and one pointer that is switched atomically.

    zoo.subspan/
        store.json                       the pointer: format, current id, chain of ids (oldest first)
        lock                             held by the one process that is writing
        versions/ID/version.json         format, meta, and dtype, shape and SHA-256 of every array
        versions/ID/arrays.safetensors   the small arrays
        arrays/SHA256                    a part of a large one, which versions share

ID is the SHA-256 of ``version.json``, so an id vouches for everything below it, and a version never changes once it has
its name. Whoever reads needs no lock: the pointer is replaced in one step, after all it points to is on the disk. No
pickle is written or read, and no link is followed out of the directory: it may come from anybody.
"""

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.numpy import save_file

from subspan.files.arrays import Array, read_arrays
from subspan.files.atomic import TEMPORARY, replacing, sync, sync_folder, temporary_in

FORMAT = 2  # 1 had no shared arrays
POINTER, LOCK, VERSIONS, SHARED = "store.json", "lock", "versions", "arrays"
LARGE = (
    2**14
)  # bytes from which an array is shared, in parts, so that one that grows at its end shares all but the last
PART, PARTS = 2**15, 32  # bytes of the smallest parts; of large arrays parts are larger, so that they are not more
MANIFEST, ARRAYS = "version.json", "arrays.safetensors"
DTYPES = ["bool", "complex64", "float16", "float32", "float64"]
DTYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]

StorePath = str | os.PathLike[str]


class StoreError(ValueError):
    """The model directory cannot be read or written; the message names the file and the rule."""


class StoreBusyError(StoreError):
    """Another process is writing, or has written since the caller last read."""


class StoreChangedError(StoreBusyError):
    """Another process has written since the caller last read: read again, redo the change, write again."""


@dataclass(frozen=True)
class Version:
    """One immutable state of a model; two are equal when their ids are.

    Parameters
    ----------
    id : SHA-256 in hexadecimal, as :func:`make_version` computes it.
    arrays : named arrays of any shape, numbers or booleans only.
    meta : plain JSON values (a tuple comes back as a list).
    """

    id: str
    arrays: Mapping[str, Array] = field(compare=False)
    meta: Mapping[str, Any] = field(compare=False)


@dataclass(frozen=True)
class Pointer:
    """Which versions a store offers: ``chain`` oldest first, ``current`` one of them."""

    current: str
    chain: tuple[str, ...]


def make_version(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> Version:
    """A version with its id: equal content, equal id. The arrays are not copied: leave them as they are from here on.

    >>> make_version({"rows": np.eye(3)}, {"names": ["ash"]}) == make_version({"rows": np.eye(3)}, {"names": ["ash"]})
    True
    """
    return Version(_digest(_manifest(_plain(arrays), meta)), arrays, meta)


def read(path: StorePath) -> Pointer:
    """The pointer of the store at ``path``."""
    root = Path(path)
    if not os.path.isdir(root):
        what = "it is a file; a store is a directory" if os.path.exists(root) else "there is nothing there"
        raise StoreError(f"'{root}' is not a Subspan store: {what}")
    file = root / POINTER
    content = _parse(file, _read_bytes(file, root, f"'{root}' is not a Subspan store, or was never finished"))
    current, chain = content.get("current"), content.get("chain")
    if not (isinstance(chain, list) and all(map(_is_id, chain)) and isinstance(current, str) and current in chain):
        raise StoreError(f"'{file}' is damaged: its chain must be a list of version ids, the current one among them")
    return Pointer(current, tuple(chain))


def version_ids(path: StorePath) -> list[str]:
    """Ids of all version folders of the store, in the chain or not, oldest first."""
    try:
        folders = [entry for entry in (Path(path) / VERSIONS).iterdir() if _is_id(entry.name)]
        return [entry.name for entry in sorted(folders, key=lambda entry: (entry.stat().st_mtime_ns, entry.name))]
    except OSError as error:
        raise StoreError(f"'{path}' has no readable '{VERSIONS}' folder: {error.strerror}") from error


def load_version(path: StorePath, id: str) -> Version:
    """One version with its arrays in memory, whatever state the pointer and the other versions are in."""
    if not _is_id(id):
        raise StoreError(f"a version id is 64 hexadecimal digits, not {id!r}")
    root = Path(path)
    content = _manifest_of(root, id)
    described, meta, file = content["arrays"], content["meta"], root / VERSIONS / id / ARRAYS
    if file.exists() and not _inside(file, root).is_file():
        raise StoreError(f"'{file}' must be a plain file")
    arrays, _ = read_arrays(_inside(file, root), "", StoreError)
    for name in {**described, **arrays}:
        if name not in arrays:
            arrays[name] = _read_shared(root, name, described[name])
        said = {key: value for key, value in described.get(name, {}).items() if key != "parts"}
        if (held := _describe(arrays[name])) != said:
            raise StoreError(f"'{file}' is damaged: array '{name}' is {held}, the manifest says {said or 'nothing'}")
    return Version(id, arrays, meta)


def write(
    path: StorePath,
    versions: Sequence[Version | str],
    current: str,
    *,
    expected: str | None = None,
    timeout: float = 10.0,
) -> Pointer:
    """Make ``versions`` the chain of the store at ``path``, made if new, and ``current`` its current one.

    When this returns, all of it is on the disk; when it raises, or is killed, the store is as it was before.

    Parameters
    ----------
    versions : the chain, oldest first. Those the store holds already are not written again; for them the id is enough.
    current : id of one of them.
    expected : the current id the caller last read. When the store has moved on since, nothing is written and
        :class:`StoreChangedError` is raised: read again, redo the change, write again.
    timeout : seconds to wait for another writer before :class:`StoreBusyError`.
    """
    root = Path(path)
    chain = tuple(version if isinstance(version, str) else version.id for version in versions)
    if current not in chain:
        raise StoreError(f"the current version must be one of the chain, {current!r} is not")
    if expected is not None:
        read(root)
    with _writing(root, timeout):
        if expected is not None and (now := read(root).current) != expected:
            raise StoreChangedError(
                f"'{root}' was changed by another process: expected version {expected[:12]}, found {now[:12]}"
            )
        # What the chain holds already was whole when it came there. Checking it again would make the thousandth session
        # a thousand times as slow as the first, and let damage to an old version stop new ones.
        known = read(root).chain if (root / POINTER).exists() else ()
        for version in versions:
            if not (isinstance(version, str) and version in known):
                _hold(root, version)
        _point(root, current, chain)
    return Pointer(current, chain)


def prune(path: StorePath, *, timeout: float = 10.0) -> list[str]:
    """Remove the versions that are not in the chain, and arrays that no other shares; returns the versions' ids."""
    root = Path(path)
    read(root)
    with _writing(root, timeout):
        chain = read(root).chain
        removed = [name for name in version_ids(root) if name not in chain]
        for name in removed:
            _remove(root / VERSIONS / name)
        used: set[str] = set()
        try:
            for name in chain:
                for array in _manifest_of(root, name)["arrays"].values():
                    used.update(map(str, array.get("parts", ())))
        except StoreError:  # of a version that is damaged nobody knows what it shares
            return removed
        for file in (root / SHARED).iterdir():
            if _is_id(file.name) and file.name not in used:
                file.unlink()
    return removed


def verify(path: StorePath) -> dict[str, str | None]:
    """What is wrong with each version of the store, oldest first; None where it is whole."""
    found: dict[str, str | None] = {}
    for id in dict.fromkeys([*read(path).chain, *version_ids(path)]):
        try:
            load_version(path, id)
            found[id] = None
        except StoreError as error:
            found[id] = str(error)
    return found


def copy(path: StorePath, target: StorePath, *, timeout: float = 10.0) -> Pointer:
    """Copy a store, version by version, each checked; a target that holds some of them gets the others."""
    pointer, root = read(path), Path(target)
    if (root / POINTER).exists() and read(root).current not in pointer.chain:
        raise StoreError(f"'{root}' is no earlier copy of '{path}': its current version is not among that one's")
    with _writing(root, timeout):
        for id in pointer.chain:
            _hold(root, load_version(path, id))
        _point(root, pointer.current, pointer.chain)
    return pointer


# Content and its checksums


def _manifest_of(root: Path, id: str) -> dict[str, Any]:
    """What a version says of itself."""
    manifest = root / VERSIONS / id / MANIFEST
    data = _read_bytes(manifest, root, f"version {id[:12]} is not in '{root}'")
    if (found := _digest(data)) != id:
        raise StoreError(f"'{manifest}' is damaged: its SHA-256 must be the version's id, but is {found[:12]}...")
    content = _parse(manifest, data)
    described = content.get("arrays")
    sound = isinstance(described, dict) and all(isinstance(one, dict) for one in described.values())
    if not sound or not isinstance(content.get("meta"), dict):
        raise StoreError(f"'{manifest}' is foreign: it must describe its arrays and hold meta")
    return content


def _read_shared(root: Path, name: str, described: Mapping[str, Any]) -> Array:
    """An array that lies in shared parts, as the manifest describes it; its checksum is the caller's to check."""
    dtype, shape, parts = (described.get(key) for key in ("dtype", "shape", "parts"))
    if not (dtype in DTYPES and isinstance(shape, list) and isinstance(parts, list) and all(map(_is_id, parts))):
        raise StoreError(f"array '{name}' of '{root}' is missing; the manifest says {described}")
    read_parts = []
    for part in parts:
        read_parts.append(_read_bytes(root / SHARED / part, root, f"array '{name}' of '{root}' is not whole"))
        if _digest(read_parts[-1]) != part:
            raise StoreError(f"'{root / SHARED / part}' is damaged: its SHA-256 must be its name")
    try:
        return np.frombuffer(b"".join(read_parts), np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype)
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"'{root / SHARED}' is damaged: array '{name}' cannot be made of its parts: {error}"
        ) from error


def _hold_shared(root: Path, array: Array) -> None:
    """See to it that the parts of an array are among the shared ones, whole."""
    for part in _parts(array):
        file, digest = root / SHARED / _digest(part), _digest(part)
        with contextlib.suppress(StoreError):
            if _digest(_read_bytes(file, root, "")) == digest:
                continue
        with replacing(file) as temporary:
            temporary.write_bytes(part)


def _parts(array: Array) -> list[memoryview]:
    """The bytes of a large array in parts of one size, which changes when the array has doubled."""
    data = array.reshape(-1).view(np.uint8).data
    size = PART
    while size * PARTS < len(data):
        size *= 2
    return [data[start : start + size] for start in range(0, len(data), size)]


def _plain(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """C-ordered little-endian arrays (safetensors would write the memory of any other kind as it lies)."""
    plain = {}
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise StoreError(f"array '{name}' has dtype {array.dtype}; a store holds {', '.join(DTYPES)}")
        plain[name] = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return plain


def _describe(array: Array) -> dict[str, Any]:
    """What the manifest says of one array."""
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest(),
    }


def _manifest(plain: Mapping[str, Array], meta: Mapping[str, Any]) -> bytes:
    arrays = {name: _describe(array) for name, array in plain.items()}
    for name, array in plain.items():
        if array.nbytes >= LARGE:
            arrays[name]["parts"] = [_digest(part) for part in _parts(array)]
    try:
        return _to_json({"format": "subspan", "format_version": FORMAT, "arrays": arrays, "meta": dict(meta)})
    except (TypeError, ValueError) as error:
        raise StoreError(f"the meta of a version must be plain JSON: {error}") from None


def _to_json(content: Mapping[str, Any], indent: int | None = None) -> bytes:
    # ASCII: class names may come from folder names that are no valid Unicode, and must survive.
    return json.dumps(content, sort_keys=True, ensure_ascii=True, allow_nan=False, indent=indent).encode("ascii")


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _point(root: Path, current: str, chain: Sequence[str]) -> None:
    """Switch the pointer."""
    pointer = {"format": "subspan", "format_version": FORMAT, "current": current, "chain": list(chain)}
    with replacing(root / POINTER) as file:
        file.write_bytes(_to_json(pointer, indent=1))


def _is_id(name: object) -> bool:
    return isinstance(name, str) and len(name) == 64 and set(name) <= set("0123456789abcdef")


def _inside(file: Path, root: Path) -> Path:
    """The file itself, which must not be a link out of the store, nor behind one."""
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
        raise StoreError(f"'{file}' lies outside '{root}', where a link in the store leads")
    return file


def _read_bytes(file: Path, root: Path, missing: str) -> bytes:
    """The content of a file of the store; where there is none the error begins with ``missing``."""
    try:
        if not stat.S_ISREG(_inside(file, root).stat().st_mode):
            raise StoreError(f"'{file}' must be a plain file")  # a pipe would keep its reader waiting
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{missing}: '{file.name}' is missing") from None
    except OSError as error:
        raise StoreError(f"'{file}' cannot be read: {error.strerror}") from error


def _parse(file: Path, data: bytes) -> dict[str, Any]:
    """The JSON object in ``data``, of a format this code reads."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"'{file}' is damaged or foreign: it is not JSON ({error})") from None
    if not isinstance(content, dict) or content.get("format") != "subspan":
        raise StoreError(f"'{file}' is foreign: it does not say that its format is 'subspan'")
    version = content.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise StoreError(f"'{file}' has format version {version!r}; this Subspan reads 1 to {FORMAT}, as whole numbers")
    return content


# Files that are whole or absent


@contextlib.contextmanager
def _writing(root: Path, timeout: float) -> Iterator[None]:
    """Hold the store's lock; what goes wrong with the disk meanwhile becomes a StoreError."""
    try:
        _check_may_write(root)
        for name in (VERSIONS, SHARED, LOCK):
            _inside(root / name, root)
            if name != LOCK:
                (root / name).mkdir(parents=True, exist_ok=True)
        sync_folder(root.parent)
        # The system frees it when the process ends, however it ends.
        with FileLock(root / LOCK, timeout, poll_interval=0.01):
            _remove_leftovers(root)
            yield
    except Timeout as error:
        raise StoreBusyError(f"'{root}' is busy: another process has been writing to it for {timeout:g} s") from error
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise StoreError(f"'{root}' cannot be written, and keeps what it held: {reason}") from error


def _check_may_write(root: Path) -> None:
    """Refuse anything that is neither a store, nor the beginning of one that a killed writer left, nor empty."""
    if (root / POINTER).exists() or (os.path.lexists(root) and not root.is_dir()):
        read(root)
    elif root.exists():
        ours = (LOCK, VERSIONS, SHARED)
        foreign = [name for name in os.listdir(root) if name not in ours and not name.startswith(TEMPORARY)]
        if foreign:
            raise StoreError(f"'{root}' is not a Subspan store and is left alone: it holds '{min(foreign)}'")


def _hold(root: Path, version: Version | str) -> None:
    """See to it that the store holds ``version``, whole; one that is damaged is written again."""
    name = version if isinstance(version, str) else version.id
    try:
        load_version(root, name)
        return
    except StoreError:
        if isinstance(version, str):  # an id alone does not bring it there
            raise
    arrays = _plain(version.arrays)
    manifest = _manifest(arrays, version.meta)
    if _digest(manifest) != name:
        raise StoreError(f"version {name[:12]} was changed after its id was computed; versions are immutable")
    target = root / VERSIONS / name
    temporary = temporary_in(target.parent)
    try:
        temporary.mkdir()
        for array in (array for array in arrays.values() if array.nbytes >= LARGE):
            _hold_shared(root, array)
        save_file({key: array for key, array in arrays.items() if array.nbytes < LARGE}, temporary / ARRAYS)
        (temporary / MANIFEST).write_bytes(manifest)
        shutil.copymode(temporary / MANIFEST, temporary / ARRAYS)  # safetensors lets only the owner read
        for file in (ARRAYS, MANIFEST):
            sync(temporary / file)
        sync_folder(temporary)
        if os.path.lexists(target):
            _remove(target)
        temporary.rename(target)
        sync_folder(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _remove(version: Path) -> None:
    """Remove the folder of a version; readers see it lose its name before it loses its files."""
    doomed = temporary_in(version.parent)
    version.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)  # the next writer removes what is left


def _remove_leftovers(root: Path) -> None:
    """Remove what killed writers left. The caller holds the lock, so no living writer's work is among it."""
    for folder in (root, root / VERSIONS, root / SHARED):
        for leftover in folder.glob(f"{TEMPORARY}*"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
