"""The way between the versions of a catalogue: the present one, back by undo, and forth again by redo.

Undo moves the pointer of the store and removes nothing: what was undone follows the present version in the chain until
something else is taught, and lies in the store until it is pruned.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.records import SessionEntry
from subspan.catalogue.snapshot import Snapshot
from subspan.files import store

Check = Callable[[Snapshot], object]  # raises where a snapshot cannot take the place of the present one


def present(path: Path, trust: bool) -> Snapshot:
    """What the store holds now."""
    chain, _ = _chains(store.read(path))
    try:
        version = store.load_version(path, chain[-1])
    except store.StoreError as error:
        if len(chain) > 1:
            raise store.StoreError(f"{error}; `subspan undo` goes back to the version before it") from error
        raise
    return Snapshot.from_version(version, path, chain, trust)


def go_back(
    path: str | Path,
    expected: str | None = None,
    to: str | None = None,
    trust: bool = False,
    check: Check | None = None,
) -> tuple[Snapshot, SessionEntry]:
    """Go back by one session or ``to`` a version, even from a damaged one; gives what is then, and the session undone.

    Parameters
    ----------
    expected : the version that the caller takes for the present one; `StoreChangedError` where it is another.
    to : the id of a version, or its beginning; then the session undone is the first that followed it.
    """
    place = Path(path)
    chain, later = _chains(_expected(place, expected))
    if len(chain) == 1:
        raise CatalogueError("there is nothing to undo: only one version is left")
    number = len(chain) - 1 if to is None else chain.index(_found(to, chain[:-1], "lies before the present one")) + 1
    before = Snapshot.from_version(store.load_version(place, chain[number - 1]), place, chain[:number], trust)
    if check is not None:
        check(before)
    try:
        undone = _snapshot(place, chain[: number + 1], trust).entries()[-1]
    except store.StoreError as error:
        last = len(before.judgements)
        undone = SessionEntry(last, "damaged", (), 0, "", 0.0, chain[number], None, warning=str(error))
    store.write(place, chain + later, chain[number - 1], expected=chain[-1])
    return before, undone


def go_forth(
    path: str | Path,
    expected: str | None = None,
    to: str | None = None,
    trust: bool = False,
    check: Check | None = None,
) -> tuple[Snapshot, SessionEntry]:
    """Go forth to what was undone last, or ``to`` any version that the store still holds; gives what is then."""
    place = Path(path)
    chain, later = _chains(_expected(place, expected))
    if to is None:
        if not later:
            raise CatalogueError("there is nothing to redo: nothing was undone since the last session")
        way = chain + later
        number = len(chain)
    else:
        held = [id for id in store.version_ids(place) if id not in chain]
        id = _found(to, held, "was undone")
        way = chain + later if id in later else _way_to(place, id, chain)
        number = way.index(id)
    after = _snapshot(place, way[: number + 1], trust)
    if check is not None:
        check(after)
    store.write(place, way, way[number], expected=chain[-1])
    return after, after.entries()[-1]


def ahead(path: Path, trust: bool) -> list[SessionEntry]:
    """The sessions that redo would bring back, the next one first."""
    chain, later = _chains(store.read(path))
    return _snapshot(path, chain + later, trust).entries()[-len(later) :] if later else []


def _chains(pointer: store.Pointer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The versions up to the present one, and those after it, which were undone."""
    number = pointer.chain.index(pointer.current) + 1
    return pointer.chain[:number], pointer.chain[number:]


def _expected(path: Path, expected: str | None) -> store.Pointer:
    # What passes here may be outdated a moment later: the store compares again, under its lock.
    pointer = store.read(path)
    if expected not in (None, pointer.current):
        raise store.StoreChangedError(f"the current version of '{path}' must be {expected}; it is {pointer.current}")
    return pointer


def _found(to: str, ids: Sequence[str], rule: str) -> str:
    """The id that begins so; the last where several do."""
    found = [id for id in ids if to and id.startswith(to)]
    if not found:
        raise CatalogueError(f"'{to}' is no version that {rule} (`subspan sessions --json` has their ids)")
    return found[-1]


def _way_to(path: Path, id: str, chain: tuple[str, ...]) -> tuple[str, ...]:
    """The chain that ends with a version, found by what each says it followed."""
    way = (id,)
    while way[0] not in chain:
        parent = store.load_version(path, way[0]).meta.get("extra", {}).get("parent")
        if not isinstance(parent, str) or parent in way:
            raise CatalogueError(f"version {id[:12]} does not say which one it followed; it cannot be gone to")
        way = (parent, *way)
    return (*chain[: chain.index(way[0])], *way)


def _snapshot(path: Path, chain: tuple[str, ...], trust: bool) -> Snapshot:
    return Snapshot.from_version(store.load_version(path, chain[-1]), path, chain, trust)
