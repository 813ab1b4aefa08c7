"""The catalogue: photographs in, answers out, one session at a time, all of it in a ``.subspan`` store."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from subspan import store
from subspan.catalogue.checkset import CheckSet, FloatArray, hold_out
from subspan.catalogue.language import DESCRIPTION, class_vectors
from subspan.catalogue.options import CatalogueOptions
from subspan.catalogue.records import (
    Candidate,
    CheckChange,
    ClassAccuracy,
    ClassEntry,
    Evaluation,
    InitReport,
    MapPoint,
    Prediction,
    SessionEntry,
    TeachReport,
    TradeOff,
    WeightMap,
)
from subspan.catalogue.rejection import familiarity
from subspan.catalogue.snapshot import Judgement, Snapshot, judge
from subspan.classifier import IncrementalClassifier
from subspan.data.errors import DataError
from subspan.methods import create_method
from subspan.plane import principal_plane
from subspan.pretrained import Backbone, Image, load_backbone

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, how much there is
REJECT_SHARE = 0.05  # of known photographs, what `reject=True` may reject
CURVE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
NEAREST = 3  # base classes marked on the map for each newest class
# Method "auto", chosen on miniImageNet's base classes by benchmarks/practitioner.py --choose: with photographs of the
# base classes to learn from again, plain fine-tuning is best; without any, the subspace holds the base rows best.
WITH_PHOTOGRAPHS, WITH_MEANS, WEIGHTS_ONLY = "finetune", "prototype", "subspace"
PATIENCE = 60.0  # seconds that a session tries to get its turn when others keep writing


class CatalogueError(ValueError):
    """What was asked of a catalogue cannot be done; the message says why, and the catalogue is as it was."""


class Catalogue:
    """A classifier of photographs in a store, for commands and services.

    All images may be encoded bytes, paths (`pathlib.Path`), Pillow images or uint8 arrays (height, width, 3). One
    object may be used from several threads: reading (`predict`, `classes`, `sessions`, `weight_map`, `evaluate`) never
    waits and goes on with the old version while `teach`, `rename`, `remove` or `undo` is at work in another thread.
    Several processes may write to one store; each session is written whole or not at all, on top of whatever the
    others wrote. `refresh` takes up what other processes have written. Nothing prints; long work reports through
    ``progress``.

    The surface that others build on:

    - ``Catalogue.open(path)``; ``Catalogue.create(path, photographs)``; ``Catalogue.create_from_weights(...)``
    - ``predict(images, top=5, reject=False) -> list[Prediction]``
    - ``teach(name, images, description=None) -> TeachReport``; ``teach_all({name: images}) -> list[TeachReport]``
    - ``rename(old, new)``, ``remove(name)``, ``undo()``, ``prune()``: each gives what is now the last `SessionEntry`
      or the ids removed
    - ``classes() -> list[ClassEntry]``; ``sessions() -> list[SessionEntry]``; ``weight_map() -> WeightMap``
    - ``evaluate({name: images}) -> Evaluation``; ``version``; ``path``; ``refresh() -> bool``

    Errors are `CatalogueError`, `DataError` (a bad image), `StoreError` and `StoreBusyError` (the store), and
    `BackboneError`; all are `ValueError` with one sentence, and none changes the catalogue.
    """

    def __init__(self, path: Path, snapshot: Snapshot, backbone: Backbone | str | None = None) -> None:
        self.path = path
        self._snapshot = snapshot
        self._writing = threading.Lock()
        self._loading = threading.Lock()
        self._backbone = backbone if isinstance(backbone, Backbone) else None
        self._backbone_name = backbone if isinstance(backbone, str) else None
        if self._backbone is not None:
            _check_backbone(self._backbone, snapshot)

    # Opening and making

    @classmethod
    def open(cls, path: str | Path, backbone: Backbone | str | None = None) -> "Catalogue":
        """The catalogue in a store.

        Parameters
        ----------
        backbone : where its network is to be found now, or the network itself, if not where the store says. Its weights
            must be the ones that the catalogue was made with. A network that is code (``module:``) is never loaded
            because a store says so: it must be named here.
        """
        place = Path(path)
        return cls(place, _read(place), backbone)

    @classmethod
    def create(
        cls,
        path: str | Path,
        photographs: Mapping[str, Sequence[Image]],
        options: CatalogueOptions | None = None,
        *,
        descriptions: Mapping[str, str] | None = None,
        backbone: Backbone | None = None,
        skip_bad: bool = False,
        progress: Progress | None = None,
    ) -> tuple["Catalogue", InitReport]:
        """A new catalogue from photographs of its base classes; a part of them is held out as the check set.

        Parameters
        ----------
        photographs : class name to photographs.
        descriptions : class name to a sentence about it, for language methods.
        backbone : a network already loaded; by default ``options.backbone`` is.
        skip_bad : leave photographs that cannot be read out, and say so in the report, instead of raising.
        """
        began = time.perf_counter()
        options, descriptions = options or CatalogueOptions(), _clean_descriptions(descriptions)
        place = _new_place(path)
        if len(photographs) < 2:
            raise CatalogueError(
                f"a catalogue begins with at least two classes; got {', '.join(photographs) or 'none'}"
            )
        network = backbone or load_backbone(options.backbone)
        batch = _look(network, photographs, skip_bad, progress)
        for name in photographs:
            _check_name(name)
            if name not in batch.names:
                raise CatalogueError(f"class '{name}' has no photograph that can be read")
        held_out = hold_out(batch.names, options.keep, options.seed)
        method = _method_for(options, WITH_PHOTOGRAPHS)
        classifier = IncrementalClassifier(method=method, memory=options.memory, seed=options.seed)
        names = np.asarray(batch.names)
        if progress is not None:
            progress("fitting the base classes", 0, 1)
        vectors = class_vectors(options.embeddings, sorted(photographs), descriptions)
        classifier.fit(batch.features[~held_out], names[~held_out], embeddings=vectors)
        if progress is not None:
            progress("fitting the base classes", 1, 1)
        check = CheckSet(batch.features[held_out], tuple(names[held_out].tolist()), held_out[held_out])
        snapshot = Snapshot(classifier, options, network.about(), check, descriptions, (Judgement(),))
        catalogue = cls._begin(place, snapshot, network)
        report = InitReport(
            classes=len(photographs),
            examples=int((~held_out).sum()),
            held_out=int(held_out.sum()),
            accuracy=catalogue._snapshot.accuracy(),
            method=method,
            version=catalogue.version,
            seconds=round(time.perf_counter() - began, 3),
            skipped=batch.skipped,
        )
        return catalogue, report

    @classmethod
    def create_from_weights(
        cls,
        path: str | Path,
        weights: ArrayLike,
        names: Sequence[str],
        options: CatalogueOptions | None = None,
        *,
        bias: ArrayLike | None = None,
        means: ArrayLike | None = None,
        check: Mapping[str, Sequence[Image]] | None = None,
        descriptions: Mapping[str, str] | None = None,
        backbone: Backbone | None = None,
        skip_bad: bool = False,
        progress: Progress | None = None,
    ) -> tuple["Catalogue", InitReport]:
        """A new catalogue around a head that exists; no base photograph is needed.

        Parameters
        ----------
        weights : rows (C, d) of a linear head on the backbone's features. bias : (C,). means : class means (C, d) of
            training features, for methods that centre them.
        check : photographs of these classes that the head was not trained on; without them, sessions cannot say what
            they cost the base classes, and nothing can be rejected.
        """
        began = time.perf_counter()
        options, descriptions = options or CatalogueOptions(), _clean_descriptions(descriptions)
        place = _new_place(path)
        for name in names:
            _check_name(name)
        network = backbone or load_backbone(options.backbone)
        rows = np.asarray(weights)
        if rows.ndim != 2 or rows.shape[1] != network.dim:
            raise CatalogueError(
                f"weights must be (classes, {network.dim}) for backbone '{network.name}'; got {tuple(rows.shape)}"
            )
        method = _method_for(options, WEIGHTS_ONLY if means is None else WITH_MEANS)
        vectors = class_vectors(options.embeddings, list(names), descriptions)
        classifier = IncrementalClassifier.from_weights(
            rows,
            list(names),
            bias,
            means=means,
            embeddings=vectors,
            method=method,
            memory=options.memory,
            seed=options.seed,
        )
        unknown = [name for name in check or {} if name not in names]
        if unknown:
            raise CatalogueError(f"class '{unknown[0]}' of the check photographs is not among the {len(names)} names")
        batch = _look(network, check or {}, skip_bad, progress)
        kept = _first_of_each(batch.names, options.keep)
        held_out = CheckSet(batch.features[kept], tuple(batch.names[i] for i in kept), np.ones(len(kept), bool))
        snapshot = Snapshot(classifier, options, network.about(), held_out, descriptions, (Judgement(),))
        catalogue = cls._begin(place, snapshot, network)
        report = InitReport(
            classes=len(names),
            examples=0,
            held_out=len(held_out),
            accuracy=catalogue._snapshot.accuracy(),
            method=method,
            version=catalogue.version,
            seconds=round(time.perf_counter() - began, 3),
            skipped=batch.skipped,
        )
        return catalogue, report

    @classmethod
    def _begin(cls, path: Path, snapshot: Snapshot, backbone: Backbone) -> "Catalogue":
        accuracy = snapshot.accuracy()
        if accuracy is not None:
            snapshot = snapshot.judged(Judgement(CheckChange(accuracy, accuracy, len(snapshot.check))))
        version = snapshot.to_version()
        store.write(path, [version], version.id)
        return cls(path, replace(snapshot, chain=(version.id,)), backbone)

    # Reading

    @property
    def version(self) -> str:
        """Id of the version that answers."""
        return self._snapshot.chain[-1]

    @property
    def options(self) -> CatalogueOptions:
        return self._snapshot.options

    @property
    def backbone(self) -> Backbone:
        """The network, loaded when it is first needed; its weights are those the catalogue was made with."""
        with self._loading:
            if self._backbone is None:
                stored = str(self._snapshot.backbone["name"])
                name = self._backbone_name or stored
                if self._backbone_name is None and stored.startswith("module:"):
                    raise CatalogueError(
                        f"'{self.path}' uses the code '{stored}' as its network; name it to run it: --backbone {stored}"
                    )
                network = load_backbone(name)
                _check_backbone(network, self._snapshot)
                self._backbone = network
            return self._backbone

    def refresh(self) -> bool:
        """Take up what other processes have written; whether there was anything new."""
        if store.read(self.path).current == self.version:
            return False
        with self._writing:
            return self._take_up() is not None

    def features(self, images: Sequence[Image]) -> FloatArray:
        """Features (n, d) of photographs."""
        return self.backbone.features(images)

    def predict(self, images: Sequence[Image], top: int = 5, reject: bool | float = False) -> list[Prediction]:
        """The ``top`` most probable classes of every photograph.

        Probabilities are calibrated on the held-out examples (see `subspan.catalogue.rejection`).

        Parameters
        ----------
        reject : whether a photograph may be answered with "none of these"; True promises to reject at most 5 % of
            photographs like the held-out ones, a number at most that share.
        """
        return self.predict_features(self.backbone.features(images), top, reject)

    def predict_features(self, features: FloatArray, top: int = 5, reject: bool | float = False) -> list[Prediction]:
        """`predict` on features (n, d) that the backbone has computed already."""
        if top < 1:
            raise CatalogueError(f"top must be at least 1; got {top}")
        snapshot = self._snapshot
        threshold = self._threshold(snapshot, reject)
        if len(features) == 0:
            return []
        scores = snapshot.scores(np.asarray(features, np.float32))
        probabilities, known = snapshot.probabilities(scores), familiarity(scores) >= threshold
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
        return [
            Prediction(tuple(Candidate(snapshot.classes[c], float(row[c])) for c in order), rejected=not bool(familiar))
            for row, order, familiar in zip(probabilities, best, known, strict=True)
        ]

    def _threshold(self, snapshot: Snapshot, reject: bool | float) -> float:
        if reject is False:
            return -np.inf
        share = REJECT_SHARE if reject is True else float(reject)
        if not 0 < share < 1:
            raise CatalogueError(f"a share of rejected photographs lies between 0 and 1; got {share:g}")
        threshold = snapshot.threshold(share)
        if threshold is None:
            raise CatalogueError(
                f"rejecting at most {100 * share:g} % needs at least {int(np.ceil(1 / share)) - 1} held-out examples; "
                f"this catalogue has {len(snapshot.known_familiarities)}"
            )
        return threshold

    def classes(self) -> list[ClassEntry]:
        """All classes in the order of their rows, base classes first."""
        snapshot = self._snapshot
        kept = Counter(snapshot.check.names)
        return [
            ClassEntry(name, bool(base), int(count), kept[name], snapshot.descriptions.get(name))
            for name, base, count in zip(
                snapshot.classes, snapshot.classifier.is_base_, snapshot.classifier.examples_seen_, strict=True
            )
        ]

    def sessions(self) -> list[SessionEntry]:
        """What happened, oldest first."""
        return self._snapshot.entries()

    def weight_map(self) -> WeightMap:
        """The rows on their two principal components; the newest classes and the base classes nearest to them marked.

        Nearness is the cosine between whole rows, not distance on the map.
        """
        snapshot = self._snapshot
        rows = np.asarray(snapshot.classifier.coef_, np.float64)
        is_base = snapshot.classifier.is_base_
        mean, plane, shares = principal_plane(rows)
        points = (rows - mean) @ plane.T
        learned = [entry.classes for entry in snapshot.entries() if entry.kind == "add_classes"]
        newest = [name for name in snapshot.classes if learned and name in learned[-1]]
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)
        near: set[int] = set()
        for name in newest:
            cosines = np.where(is_base, unit @ unit[snapshot.classes.index(name)], -np.inf)
            near |= set(np.argsort(-cosines)[:NEAREST].tolist())
        return WeightMap(
            tuple(
                MapPoint(name, float(x), float(y), bool(base), name in newest, i in near)
                for i, (name, (x, y), base) in enumerate(zip(snapshot.classes, points, is_base, strict=True))
            ),
            (float(shares[0]), float(shares[1])),
        )

    def evaluate(
        self,
        photographs: Mapping[str, Sequence[Image]],
        *,
        skip_bad: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Accuracy on photographs by class, what is taken for what, and what rejection would do.

        Classes that the catalogue does not know count as unknown: they do not enter the accuracy, and the trade-off
        curve says how many of them each threshold notices.
        """
        snapshot = self._snapshot
        batch = _look(self.backbone, photographs, skip_bad, progress)
        if len(batch.names) == 0:
            raise CatalogueError("there is no photograph to evaluate")
        scores = snapshot.scores(batch.features)
        place = {name: i for i, name in enumerate(snapshot.classes)}
        truth = np.array([place.get(name, -1) for name in batch.names])
        answers, familiarities = scores.argmax(axis=1), familiarity(scores)
        known = truth >= 0
        right = answers == truth
        per_class = []
        for name in photographs:
            mine = np.flatnonzero(truth == place.get(name, -2))
            if len(mine) == 0:
                continue
            wrong = Counter(snapshot.classes[answers[i]] for i in mine if not right[i])
            per_class.append(ClassAccuracy(name, len(mine), int(right[mine].sum()), tuple(wrong.most_common())))
        curve = []
        for share in CURVE:
            threshold = snapshot.threshold(share)
            if threshold is None or not known.any():
                continue
            accepted = familiarities >= threshold
            curve.append(
                TradeOff(
                    promised=share,
                    threshold=threshold,
                    known_rejected=100 * float((~accepted[known]).mean()),
                    accuracy_of_accepted=100 * float(right[known & accepted].mean())
                    if (known & accepted).any()
                    else 0.0,
                    unknown_rejected=100 * float((~accepted[~known]).mean()) if (~known).any() else None,
                )
            )
        return Evaluation(
            accuracy=100 * float(right[known].mean()) if known.any() else None,
            examples=int(known.sum()),
            unknown_examples=int((~known).sum()),
            per_class=tuple(per_class),
            curve=tuple(curve),
            skipped=batch.skipped,
        )

    # Writing

    def teach(
        self,
        name: str,
        images: Sequence[Image],
        description: str | None = None,
        *,
        warn_drop: float | None = None,
        progress: Progress | None = None,
    ) -> TeachReport:
        """Learn a new class from a few photographs, or more about a class that is known."""
        descriptions = {} if description is None else {name: description}
        return self.teach_all({name: images}, descriptions, warn_drop=warn_drop, progress=progress)[0]

    def teach_all(
        self,
        photographs: Mapping[str, Sequence[Image]],
        descriptions: Mapping[str, str] | None = None,
        *,
        warn_drop: float | None = None,
        skip_bad: bool = False,
        progress: Progress | None = None,
    ) -> list[TeachReport]:
        """Learn several classes: the new ones in one session, more about known ones in another; all or nothing.

        Parameters
        ----------
        warn_drop : percentage points on the old classes past which the report warns; by default the catalogue's.
        """
        if not photographs:
            raise CatalogueError("there is nothing to learn: no class was given")
        for name in photographs:
            _check_name(name)
        batch = _look(self.backbone, photographs, skip_bad, progress)
        return self._teach(batch, list(photographs), _clean_descriptions(descriptions), warn_drop)

    def teach_features(self, name: str, features: FloatArray) -> TeachReport:
        """`teach` with features (n, d) that the backbone has computed already."""
        _check_name(name)
        batch = _Batch(np.asarray(features, np.float32), (name,) * len(features), ())
        return self._teach(batch, [name], {}, None)[0]

    def _teach(
        self, batch: "_Batch", names: Sequence[str], descriptions: Mapping[str, str], warn_drop: float | None
    ) -> list[TeachReport]:
        for name in names:
            if name not in batch.names:
                raise CatalogueError(f"class '{name}' has no photograph that can be read")
        began = time.perf_counter()
        labels = np.asarray(batch.names)

        def learn(start: Snapshot) -> list[Snapshot]:
            limit = start.options.warn_drop if warn_drop is None else warn_drop
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
                    descriptions={**now.descriptions, **{k: v for k, v in descriptions.items() if k in session}},
                )
                now = after.judged(judge(now, after, session, limit))
                made.append(now)
            return made

        made = self._write(learn)
        reports = []
        for snapshot in made:
            entry = snapshot.entries()[-1]
            mine = np.isin(labels, entry.classes)
            answers = snapshot.scores(batch.features[mine]).argmax(axis=1)
            right = [snapshot.classes[a] == name for a, name in zip(answers, labels[mine], strict=True)]
            reports.append(
                TeachReport(
                    kind=entry.kind,
                    classes=entry.classes,
                    examples=entry.examples,
                    version=str(entry.version),
                    session=entry.session,
                    seconds=round(time.perf_counter() - began, 3),
                    check=entry.check,
                    own_accuracy=100 * float(np.mean(right)),
                    takes_from=entry.takes_from,
                    warning=entry.warning,
                    skipped=batch.skipped,
                )
            )
        return reports

    def rename(self, old: str, new: str) -> SessionEntry:
        """Give a class another name; its row and its examples stay."""
        _check_name(new)

        def change(start: Snapshot) -> list[Snapshot]:
            descriptions = {new if name == old else name: text for name, text in start.descriptions.items()}
            after = start.changed(
                lambda model: model.rename_class(old, new),
                check=start.check.renamed(old, new),
                descriptions=descriptions,
            )
            return [after]

        return self._write(change)[-1].entries()[-1]

    def remove(self, name: str) -> SessionEntry:
        """Forget a class and its kept examples; earlier versions still hold them until they are pruned."""

        def change(start: Snapshot) -> list[Snapshot]:
            descriptions = {other: text for other, text in start.descriptions.items() if other != name}
            after = start.changed(
                lambda model: model.remove_class(name),
                check=start.check.select(~start.check.of([name])),
                descriptions=descriptions,
            )
            return [after.judged(judge(start, after, [], start.options.warn_drop))]

        return self._write(change)[-1].entries()[-1]

    def undo(self) -> SessionEntry:
        """Take the last session back: the pointer moves to the version before it. Gives the session undone."""
        with self._writing:
            return undo_last(self.path, self)

    def prune(self, keep: int | None = None) -> list[str]:
        """Remove versions from the disk: those of undone sessions, and with ``keep`` all but the last so many.

        What is removed cannot be gone back to; the log keeps its lines. Gives the ids of the versions removed.
        """
        if keep is not None and keep < 1:
            raise CatalogueError(f"at least the current version must be kept; got keep={keep}")
        with self._writing:
            snapshot = self._take_up() or self._snapshot
            if keep is not None and keep < len(snapshot.chain):
                chain = snapshot.chain[-keep:]
                store.write(self.path, chain, chain[-1], expected=snapshot.chain[-1])
                self._take_up(force=True)
            return store.prune(self.path)

    def _take_up(self, force: bool = False) -> Snapshot | None:
        """Read what the store holds now, if it is another version than ours. The caller holds the lock."""
        pointer = store.read(self.path)
        if pointer.current == self.version and not force:
            return None
        snapshot = _read(self.path)
        if snapshot.backbone["digest"] != self._snapshot.backbone["digest"]:
            raise CatalogueError(f"'{self.path}' was replaced by a catalogue with another network; open it anew")
        self._snapshot = snapshot
        return snapshot

    def _write(self, change: Callable[[Snapshot], list[Snapshot]]) -> list[Snapshot]:
        """Make snapshots from the latest state and write them; redone where another process was faster."""
        deadline = time.monotonic() + PATIENCE
        with self._writing:
            while True:
                start = self._take_up() or self._snapshot
                made = change(start)
                versions = [snapshot.to_version() for snapshot in made]
                ids = [version.id for version in versions]
                try:
                    store.write(self.path, [*start.chain, *versions], ids[-1], expected=start.chain[-1])
                except store.StoreChangedError:
                    if time.monotonic() > deadline:
                        raise
                    continue
                chains = [(*start.chain, *ids[: i + 1]) for i in range(len(ids))]
                # Loaded anew: a snapshot leaves its earlier states on the disk instead of in memory.
                made = [
                    Snapshot.from_version(version, self.path, chain)
                    for version, chain in zip(versions, chains, strict=True)
                ]
                self._snapshot = made[-1]
                return made


def undo_last(path: str | Path, catalogue: Catalogue | None = None) -> SessionEntry:
    """Take the last session of the store back, even where its version is damaged; gives the session undone."""
    place = Path(path)
    pointer = store.read(place)
    chain = pointer.chain[: pointer.chain.index(pointer.current) + 1]
    if len(chain) == 1:
        raise CatalogueError("there is nothing to undo: only one version is left")
    before = Snapshot.from_version(store.load_version(place, chain[-2]), place, chain[:-1])
    try:
        undone = Snapshot.from_version(store.load_version(place, chain[-1]), place, chain).entries()[-1]
    except store.StoreError as error:
        last = len(before.judgements)
        undone = SessionEntry(last, "damaged", (), 0, "", 0.0, chain[-1], None, (), str(error))
    store.write(place, chain[:-1], chain[-2], expected=chain[-1])
    if catalogue is not None:
        catalogue._snapshot = before
    return undone


@dataclass(frozen=True)
class _Batch:
    """Photographs that were looked at."""

    features: FloatArray  # (n, d)
    names: tuple[str, ...]  # (n,): their classes
    skipped: tuple[str, ...]


def _look(
    backbone: Backbone, photographs: Mapping[str, Sequence[Image]], skip_bad: bool, progress: Progress | None
) -> _Batch:
    """Features and classes of photographs."""
    images = [image for name in photographs for image in photographs[name]]
    names = [name for name in photographs for _ in photographs[name]]
    bad: dict[int, str] = {}
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress("looking at photographs", done, len(images))

    def note(place: int, error: DataError) -> None:
        bad[place] = str(error)

    features = backbone.features(images, advance=advance, bad=note if skip_bad else None)
    good = [i for i in range(len(images)) if i not in bad]
    return _Batch(features[good], tuple(names[i] for i in good), tuple(bad[i] for i in sorted(bad)))


def _read(path: Path) -> Snapshot:
    pointer = store.read(path)
    chain = pointer.chain[: pointer.chain.index(pointer.current) + 1]
    try:
        version = store.load_version(path, pointer.current)
    except store.StoreError as error:
        if len(chain) > 1:
            raise store.StoreError(
                f"{error}; the versions before it are whole: `subspan undo` goes back to them"
            ) from error
        raise
    return Snapshot.from_version(version, path, chain)


def _new_place(path: str | Path) -> Path:
    place = Path(path)
    if (place / store.POINTER).exists():
        raise CatalogueError(f"'{place}' exists already; `subspan add` teaches it more, and init needs a new name")
    if not place.absolute().parent.is_dir():
        raise CatalogueError(f"'{place}' cannot be made: the folder '{place.absolute().parent}' does not exist")
    return place


def _check_backbone(network: Backbone, snapshot: Snapshot) -> None:
    """Features of other weights, or of photographs shown otherwise, do not fit the rows."""
    stored = snapshot.backbone
    if network.digest != stored["digest"]:
        raise CatalogueError(
            f"backbone '{network.name}' has other weights (SHA-256 {network.digest[:12]}...) than "
            f"'{stored['name']}', which this catalogue was made with ({stored['digest'][:12]}...)"
        )
    if network.preprocessing.to_dict() != stored["preprocessing"]:
        raise CatalogueError(
            f"backbone '{network.name}' prepares photographs otherwise than when this catalogue was made: "
            f"{network.preprocessing.to_dict()} instead of {stored['preprocessing']}"
        )


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise CatalogueError(f"a class name is text that is not empty; got {name!r}")
    if len(name) > 200 or not name.isprintable() or name != name.strip():
        raise CatalogueError(
            f"a class name has at most 200 printable characters and no space at its ends; got {name[:60]!r}"
        )


def _clean_descriptions(descriptions: Mapping[str, str] | None) -> dict[str, str]:
    return {name: text.strip() for name, text in (descriptions or {}).items() if text.strip()}


def _method_for(options: CatalogueOptions, automatic: str) -> str:
    """The method a catalogue is made with: what the options say, or what suits the way it is made."""
    if options.method != "auto":
        needs = create_method(options.method).needs
        if "embeddings" in needs and not options.embeddings:
            raise CatalogueError(
                f"method '{options.method}' uses language; name its source, embeddings='{DESCRIPTION}' or a file of "
                "word vectors"
            )
        return options.method
    return automatic


def _first_of_each(names: Sequence[str], keep: int) -> list[int]:
    seen: Counter[str] = Counter()
    chosen = []
    for i, name in enumerate(names):
        if seen[name] < keep:
            chosen.append(i)
        seen[name] += 1
    return chosen
