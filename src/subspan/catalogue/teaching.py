"""What a session makes of a catalogue: from one snapshot and a batch of photographs to the snapshots after it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.language import class_vectors
from subspan.catalogue.looking import Batch
from subspan.catalogue.prints import prints_of, same_pictures
from subspan.catalogue.records import AddReport
from subspan.catalogue.snapshot import Snapshot, judge


def taught(
    start: Snapshot, batch: Batch, names: Sequence[str], descriptions: Mapping[str, str], warn_drop: float | None
) -> list[Snapshot]:
    """The snapshots after the new classes among ``names``, and after more of the known ones; each judged."""
    start.check_trust(language=any(name not in start.classes for name in names))
    limit = start.options.warn_drop if warn_drop is None else warn_drop
    labels = np.asarray(batch.names)
    now, made = start, []
    known = [name for name in names if name in start.classes]
    for session in ([name for name in names if name not in start.classes], known):
        if not session:
            continue
        mine = np.isin(labels, session)
        X, y = batch.features[mine], labels[mine]
        if session is known:
            after = now.changed(lambda model, X=X, y=y: model.add_examples(X, y))
        else:
            vectors = class_vectors(start.options.embeddings, session, descriptions)
            after = now.changed(lambda model, X=X, y=y, v=vectors: model.add_classes(X, y, embeddings=v))
        after = replace(
            after,
            check=now.check.with_taught(X, y.tolist(), now.options.keep),
            prints=now.prints.with_more(X, y.tolist()),
            descriptions={**now.descriptions, **{k: v for k, v in descriptions.items() if k in session}},
        )
        now = after.judged(judge(now, after, session, limit))
        made.append(now)
    return made


def report_of(snapshot: Snapshot, batch: Batch, began: float) -> AddReport:
    """What the last session of a written snapshot did, and how it now answers to the photographs it learned from."""
    entry, labels = snapshot.entries()[-1], np.asarray(batch.names)
    mine = np.isin(labels, entry.classes)
    answers = snapshot.scores(batch.features[mine]).argmax(axis=1)
    right = [snapshot.classes[a] == name for a, name in zip(answers, labels[mine], strict=True)]
    return AddReport(
        **vars(replace(entry, seconds=round(time.perf_counter() - began, 3))),
        own_accuracy=100 * float(np.mean(right)),
        skipped=batch.skipped,
    )


def renamed(start: Snapshot, old: str, new: str) -> Snapshot:
    """The same classes, one under another name; its row and its examples stay."""
    return start.changed(
        lambda model: model.rename_class(old, new),
        check=start.check.renamed(old, new),
        prints=start.prints.renamed(old, new),
        descriptions={new if name == old else name: text for name, text in start.descriptions.items()},
    )


def removed(start: Snapshot, name: str) -> Snapshot:
    """Without a class and its kept examples; judged on those of the others."""
    after = start.changed(
        lambda model: model.remove_class(name),
        check=start.check.select(~start.check.of([name])),
        prints=start.prints.select(start.prints.names != name),
        descriptions={other: text for other, text in start.descriptions.items() if other != name},
    )
    return after.judged(judge(start, after, [], start.options.warn_drop))


def merged(start: Snapshot, name: str, other: str) -> Snapshot:
    """With one class made part of another; judged on the kept examples of the others."""
    after = start.changed(
        lambda model: model.merge_classes(name, other),
        check=start.check.renamed(other, name),
        prints=start.prints.renamed(other, name),
        descriptions={one: text for one, text in start.descriptions.items() if one != other},
    )
    return after.judged(judge(start, after, [name], start.options.warn_drop))


def untaught(start: Snapshot, name: str, batch: Batch) -> Snapshot:
    """Without photographs that were taught as a class, which are known by their prints."""
    places = start.prints.places(batch.features, name)
    strange = [called for called, place in zip(batch.photographs, places, strict=True) if place < 0]
    if strange and name in start.classes:
        raise CatalogueError(f"{strange[0]} was not taught as '{name}', so it cannot be taken back")
    kept = np.ones(len(start.prints), bool)
    kept[places] = False
    same = same_pictures(prints_of(start.check.features), prints_of(batch.features))
    in_check = np.array([len(found) > 0 for found in same], bool) & start.check.of([name])
    after = start.changed(
        lambda model: model.remove_examples(batch.features, name),
        check=start.check.select(~in_check),
        prints=start.prints.select(kept),
    )
    return after.judged(judge(start, after, [name], start.options.warn_drop))
