"""The catalogue: photographs in, answers out, one session at a time, all of it in a ``.subspan`` store.

What answers need is imported here; what only sessions or reports need, where they are made: most processes only answer.
"""

import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from subspan.arrays import FloatArray
from subspan.catalogue.errors import CatalogueError, CloseNameError, DoubtError
from subspan.catalogue.looking import Batch, Progress, look
from subspan.catalogue.names import by_clean_name, check_known, check_not_close, clean_descriptions, clean_name
from subspan.catalogue.options import CatalogueOptions
from subspan.catalogue.records import (
    AddReport,
    Candidate,
    CheckChange,
    ClassEntry,
    Evaluation,
    Finding,
    InitReport,
    Prediction,
    Review,
    SessionEntry,
    WeightMap,
)
from subspan.catalogue.snapshot import Judgement, Snapshot
from subspan.catalogue.streaming import looked_at_in_turn
from subspan.catalogue.versions import ahead, go_back, go_forth, present
from subspan.files import store
from subspan.images.imageset import DataError
from subspan.pretrained.backbone import Backbone, Image
from subspan.pretrained.registry import load_backbone

if TYPE_CHECKING:
    from subspan.catalogue.creation import Beginning
    from subspan.catalogue.export import ExportReport

REJECT_SHARE = 0.05  # of known photographs, what `reject=True` may reject
WORST = 3  # photographs to look at that a report names
OLD_NAMES = {"teach": "add", "teach_all": "add_all", "teach_features": "add_features"}
PATIENCE = 60.0  # seconds that a session tries to get its turn when others keep writing


class Catalogue:
    """A classifier of photographs in a store, for commands and services.

    All images may be encoded bytes, paths (`pathlib.Path`), Pillow images or uint8 arrays (height, width, 3). One
    object may be used from several threads: reading (`predict`, `classes`, `sessions`, `weight_map`, `evaluate`) never
    waits and goes on with the old version while `add`, `rename`, `remove` or `undo` is at work in another thread.
    Several processes may write to one store; each session is written whole or not at all, on top of whatever the
    others wrote. `refresh` takes up what other processes have written. Nothing prints; long work reports through
    ``progress``.

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
    def open(cls, path: str | Path, backbone: Backbone | str | None = None, *, trust: bool = False) -> "Catalogue":
        """The catalogue in a store.

        Parameters
        ----------
        backbone : where its network is to be found now, or the network itself, if not where the store says. Its weights
            must be the ones that the catalogue was made with.
        trust : whether what the store names outside its folder may be loaded: its network, unless a package brings it
            or it is named here, and what its method needs. It may be code, and come from whoever made the store.
        """
        return cls(Path(path), present(Path(path), trust), backbone)

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
        ray: bool = False,
        author: str | None = None,
    ) -> tuple["Catalogue", InitReport]:
        """A new catalogue from photographs of its base classes, all of which are taught.

        Parameters
        ----------
        photographs : class name to photographs.
        descriptions : class name to a sentence about it, for language methods.
        backbone : a network already loaded; by default ``options.backbone`` is.
        skip_bad : leave photographs that cannot be read out, and say so in the report, instead of raising.
        ray : look at them on the machines of a Ray cluster, all of which see the files.
        author : who teaches, for the log.
        """
        from subspan.catalogue.creation import from_photographs

        settings, said = options or CatalogueOptions(), clean_descriptions(descriptions)
        named = by_clean_name(photographs)
        return cls._begin(
            path, lambda: from_photographs(named, settings, said, backbone, skip_bad, progress, ray), author
        )

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
        author: str | None = None,
        **how: Any,
    ) -> tuple["Catalogue", InitReport]:
        """A new catalogue around a head that exists; no base photograph is needed.

        Parameters
        ----------
        weights : rows (C, d) of a linear head on the backbone's features. bias : (C,). means : class means (C, d) of
            training features, for methods that centre them.
        check : photographs of these classes that the head was not trained on; without them, sessions cannot say what
            they cost the base classes, and nothing can be rejected.
        how : ``backbone``, ``skip_bad`` and ``progress``, as for `create`.
        """
        from subspan.catalogue.creation import from_weights

        settings, said = options or CatalogueOptions(), clean_descriptions(descriptions)
        head = weights, list(map(clean_name, names)), bias, means, by_clean_name(check or {})
        return cls._begin(path, lambda: from_weights(*head, settings, said, **how), author)

    @classmethod
    def _begin(
        cls, path: str | Path, make: "Callable[[], Beginning]", author: str | None
    ) -> tuple["Catalogue", InitReport]:
        """Write the first version of a catalogue."""
        began, place = time.perf_counter(), Path(path)
        if (place / store.POINTER).exists():
            raise CatalogueError(f"'{place}' exists already; `subspan add` teaches it more, and init needs a new name")
        if not place.absolute().parent.is_dir():
            raise CatalogueError(f"'{place}' cannot be made: the folder '{place.absolute().parent}' does not exist")
        snapshot, network, skipped, findings = make()
        unseen = snapshot.unseen
        if unseen.right is not None:
            snapshot = snapshot.judged(Judgement(CheckChange(unseen.right, unseen.right, len(unseen.familiarities))))
        version = snapshot.by(author).to_version()
        store.write(place, [version], version.id)
        report = InitReport(
            classes=len(snapshot.classes),
            examples=snapshot.classifier.sessions_[0].examples,
            judged=len(unseen.familiarities),
            accuracy=unseen.right,
            method=str(snapshot.classifier.method),
            version=version.id,
            seconds=round(time.perf_counter() - began, 3),
            worst=tuple(findings[:WORST]),
            skipped=skipped,
        )
        return cls(place, replace(snapshot.by(author), chain=(version.id,)), network), report

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
                stored = self._snapshot.backbone
                if self._backbone_name is None:
                    self._snapshot.check_trust(network=True)
                network = load_backbone(self._backbone_name or str(stored["name"]), str(stored["digest"]))
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

    def predict(
        self,
        images: Sequence[Image],
        top: int = 5,
        reject: bool | float = False,
        *,
        bad: Callable[[int, DataError], object] | None = None,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        """The ``top`` most probable classes of every photograph.

        Probabilities are calibrated (see `subspan.catalogue.rejection`).

        Parameters
        ----------
        reject : whether a photograph may be answered with "none of these"; True promises to reject at most 5 % of
            photographs of known classes, a number at most that share.
        bad : called with the place and the error of a photograph that cannot be read, which then has no answer; without
            it the error is raised.
        """
        answers: list[Prediction] = []
        for place, (_, answer) in enumerate(self.stream(images, top, reject)):
            if isinstance(answer, Prediction):
                answers.append(answer)
            elif bad is None:
                raise answer
            else:
                bad(place, answer)
            if progress is not None:
                progress("looking at photographs", place + 1, len(images))
        return answers

    def stream(
        self, images: Iterable[Image], top: int = 5, reject: bool | float = False, *, ray: bool = False
    ) -> Iterator[tuple[Image, Prediction | DataError]]:
        """`predict` for any number of photographs in bounded memory: each with its answer, or with why it has none.

        Parameters
        ----------
        ray : look at them on the machines of a Ray cluster, all of which see the files.
        """
        self._threshold(self._snapshot, reject)  # what cannot be promised is said before the work
        if ray:
            from subspan.catalogue.sharded import looked_at_over_ray as looked_at  # here: few need it
        else:
            looked_at = looked_at_in_turn
        for part in looked_at(self.backbone, images):
            good = [place for place in range(len(part.images)) if place not in part.bad]
            answers = dict(zip(good, self.predict_features(part.features[good], top, reject), strict=True))
            yield from ((image, answers.get(i) or part.bad[i]) for i, image in enumerate(part.images))

    def predict_features(self, features: FloatArray, top: int = 5, reject: bool | float = False) -> list[Prediction]:
        """`predict` on features (n, d) that the backbone has computed already."""
        if top < 1:
            raise CatalogueError(f"top must be at least 1; got {top}")
        snapshot = self._snapshot
        threshold = self._threshold(snapshot, reject)
        if len(features) == 0:
            return []
        features = np.asarray(features, np.float32)
        probabilities = snapshot.probabilities(snapshot.scores(features))
        familiarities = snapshot.familiarity(features)
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
        return [
            Prediction(tuple(Candidate(snapshot.classes[c], float(row[c])) for c in order), own < threshold, own)
            for row, order, own in zip(probabilities, best, familiarities.tolist(), strict=True)
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
                f"rejecting at most {100 * share:g} % needs at least {np.ceil(1 / share) - 1:.0f} photographs asked of "
                f"models that were not taught them; this catalogue has {len(snapshot.unseen.familiarities)}"
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
        from subspan.catalogue.weight_map import map_of

        return map_of(self._snapshot)

    def evaluate(
        self, photographs: Mapping[str, Sequence[Image]], *, skip_bad: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        """Accuracy on photographs by class, what is taken for what, and what rejection would do.

        Classes that the catalogue does not know count as unknown: they do not enter the accuracy, and the trade-off
        curve says how many of them each threshold notices.
        """
        from subspan.catalogue.evaluation import evaluate_batch

        snapshot = self._snapshot
        batch = look(self.backbone, photographs, skip_bad, progress)
        if len(batch.names) == 0:
            raise CatalogueError("there is no photograph to evaluate")
        return evaluate_batch(snapshot, batch)

    def review(
        self, photographs: Mapping[str, Sequence[Image]], *, skip_bad: bool = False, progress: Progress | None = None
    ) -> Review:
        """What of photographs by class looks mislabelled, doubtful, unlike everything, or is there twice."""
        from subspan.catalogue.review import review

        batch = look(self.backbone, by_clean_name(photographs), skip_bad, progress)
        return Review(tuple(review(batch, self._snapshot)), batch.skipped)

    def export(self, file: str | Path, images: Sequence[Image]) -> "ExportReport":
        """Write backbone and head as one ONNX file, checked on these photographs before it gets its name."""
        from subspan.catalogue.export import export_onnx

        return export_onnx(Path(file), self._snapshot, self.backbone, images, REJECT_SHARE)

    # Writing

    def add(self, name: str, images: Sequence[Image], description: str | None = None, **how: Any) -> AddReport:
        """Learn a new class from a few photographs, or more about one that is known; how: as for `add_all`."""
        return self.add_all({name: images}, {} if description is None else {name: description}, **how)[0]

    def add_all(
        self,
        photographs: Mapping[str, Sequence[Image]],
        descriptions: Mapping[str, str] | None = None,
        *,
        warn_drop: float | None = None,
        skip_bad: bool = False,
        careful: bool | Callable[[DoubtError], bool] = False,
        new: bool = False,
        author: str | None = None,
        progress: Progress | None = None,
    ) -> list[AddReport]:
        """Learn several classes: the new ones in one session, more about known ones in another; all or nothing.

        Parameters
        ----------
        warn_drop : percentage points on the old classes past which the report warns; by default the catalogue's.
        careful : whether to learn nothing and raise `DoubtError` where photographs look like another class, or a
            function that is given it and says whether to go on. The first report then names the worst photographs.
        new : whether a new class may have nearly the name of a known one; `CloseNameError` where that is not said.
        author : who teaches, for the log.
        """
        if not photographs:
            raise CatalogueError("there is nothing to learn: no class was given")
        if warn_drop is not None and not warn_drop >= 0:
            raise CatalogueError(f"warn_drop must not be negative; got {warn_drop:g}")
        photographs, said = by_clean_name(photographs), clean_descriptions(descriptions)
        for name in photographs:
            if not new and name not in self._snapshot.classes:
                check_not_close(name, self._snapshot.classes)
        batch = look(self.backbone, photographs, skip_bad, progress)
        tell = progress or (lambda *_: None)
        tell("learning", 0, 1)
        worst: tuple[Finding, ...] = ()
        if careful:
            from subspan.catalogue.review import review

            found = review(batch, self._snapshot)
            worst, doubts = tuple(found[:WORST]), [one for one in found if one.kind == "mislabelled"]
            if doubts and (careful is True or not careful(DoubtError(doubts))):
                raise DoubtError(doubts)
        reports = self._add(batch, list(photographs), said, warn_drop, author)
        tell("learning", 1, 1)
        return [replace(reports[0], worst=worst), *reports[1:]]

    def add_features(self, name: str, features: FloatArray, author: str | None = None) -> AddReport:
        """`add` with features (n, d) that the backbone has computed already."""
        name = clean_name(name)
        called = tuple(f"example {place} of '{name}'" for place in range(1, len(features) + 1))
        names, places = (name,) * len(features), tuple(range(len(features)))
        batch = Batch(np.asarray(features, np.float32), names, (), called, places)
        return self._add(batch, [name], {}, None, author)[0]

    def _add(
        self,
        batch: Batch,
        names: Sequence[str],
        descriptions: Mapping[str, str],
        warn_drop: float | None,
        author: str | None,
    ) -> list[AddReport]:
        from subspan.catalogue.teaching import report_of, taught

        began = time.perf_counter()
        made = self._write(lambda start: taught(start, batch, names, descriptions, warn_drop), author)
        return [report_of(snapshot, batch, began) for snapshot in made]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Methods under the names that they had in version 0.1."""
            if name not in OLD_NAMES:
                raise AttributeError(f"'Catalogue' has no attribute '{name}'")
            text = f"Catalogue.{name} is Catalogue.{OLD_NAMES[name]} now; the old name goes in version 0.4"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(self, OLD_NAMES[name])

    def rename(self, old: str, new: str, author: str | None = None) -> SessionEntry:
        """Give a class another name; its row and its examples stay."""
        from subspan.catalogue.teaching import renamed

        new, others = clean_name(new), [name for name in self._snapshot.classes if name != old]
        try:
            check_not_close(new, () if new in others else others)
        except CloseNameError as error:
            warnings.warn(f"class '{new}' has nearly the name of '{error.known}'", stacklevel=2)
        return self._change((old,), lambda start: renamed(start, old, new), author)

    def remove(self, name: str, author: str | None = None) -> SessionEntry:
        """Forget a class and its kept examples; earlier versions still hold them until they are pruned."""
        from subspan.catalogue.teaching import removed

        return self._change((name,), lambda start: removed(start, name), author)

    def merge(self, name: str, other: str, author: str | None = None) -> SessionEntry:
        """Make a class part of another, as if its photographs had been taught so."""
        from subspan.catalogue.teaching import merged

        return self._change((name, other), lambda start: merged(start, name, other), author)

    def unteach(
        self, name: str, images: Sequence[Image], author: str | None = None, *, progress: Progress | None = None
    ) -> SessionEntry:
        """Take photographs back that were taught as a class, as if it had been taught the others only."""
        from subspan.catalogue.teaching import untaught

        check_known(name, self._snapshot.classes)
        batch = look(self.backbone, {name: images}, False, progress)
        return self._change((name,), lambda start: untaught(start, name, batch), author)

    def undo(self, expected: str | None = None, to: str | None = None) -> SessionEntry:
        """Take the last session back, or all that followed a version: the pointer moves. Gives the session undone.

        Parameters
        ----------
        expected : the version that the caller takes for the current one; `StoreChangedError` where it is another.
        to : id of the version to go back to, or its beginning; gives the first session undone.
        """
        return self._go(go_back, expected, to)

    def redo(self, expected: str | None = None, to: str | None = None) -> SessionEntry:
        """Bring back what was undone last, or with ``to`` any version not yet pruned. Gives the session."""
        return self._go(go_forth, expected, to)

    def _go(self, way: Callable[..., tuple[Snapshot, SessionEntry]], *where: str | None) -> SessionEntry:
        with self._writing:
            self._snapshot, entry = way(self.path, *where, self._snapshot.trust, self._check_same_network)
            return entry

    def undone(self) -> list[SessionEntry]:
        """The sessions that `redo` would bring back, the next one first."""
        return ahead(self.path, self._snapshot.trust)

    def prune(self, keep: int | None = None) -> list[str]:
        """Remove versions from the disk: those of undone sessions, and with ``keep`` all but the last so many.

        What is removed cannot be gone back to; the log keeps its lines. Gives the ids of the versions removed.
        """
        if keep is not None and keep < 1:
            raise CatalogueError(f"at least the current version must be kept; got keep={keep}")
        with self._writing:
            snapshot = self._take_up() or self._snapshot
            chain = snapshot.chain[-(keep or 0) :]
            store.write(self.path, chain, chain[-1], expected=snapshot.chain[-1])
            self._take_up(force=True)
            return store.prune(self.path)

    def _take_up(self, force: bool = False) -> Snapshot | None:
        """Read what the store holds now, if it is another version than ours. The caller holds the lock."""
        pointer = store.read(self.path)
        if pointer.current == self.version and not force:
            return None
        snapshot = present(self.path, self._snapshot.trust)
        self._check_same_network(snapshot)
        self._snapshot = snapshot
        return snapshot

    def _check_same_network(self, snapshot: Snapshot) -> None:
        if snapshot.backbone["digest"] != self._snapshot.backbone["digest"]:
            raise CatalogueError(f"'{self.path}' was replaced by a catalogue with another network; open it anew")

    def _change(self, names: Sequence[str], change: Callable[[Snapshot], Snapshot], author: str | None) -> SessionEntry:
        """One session about classes that must be known."""

        def checked(start: Snapshot) -> list[Snapshot]:
            for name in names:
                check_known(name, start.classes)
            return [change(start)]

        return self._write(checked, author)[-1].entries()[-1]

    def _write(self, change: Callable[[Snapshot], list[Snapshot]], author: str | None) -> list[Snapshot]:
        """Make snapshots from the latest state and write them; redone where another process was faster."""
        deadline = time.monotonic() + PATIENCE
        with self._writing:
            while True:
                start = self._take_up() or self._snapshot
                chain, written = start.chain, []
                for snapshot in change(start):
                    written.append(snapshot.by(author).to_version(parent=chain[-1]))
                    chain = (*chain, written[-1].id)
                try:
                    store.write(self.path, [*start.chain, *written], chain[-1], expected=start.chain[-1])
                except store.StoreChangedError:
                    if time.monotonic() > deadline:
                        raise
                    continue
                # Loaded anew: a snapshot leaves its earlier states on the disk instead of in memory.
                made = [
                    Snapshot.from_version(version, self.path, chain[: len(start.chain) + number], start.trust)
                    for number, version in enumerate(written, 1)
                ]
                self._snapshot = made[-1]
                return made


def _check_backbone(network: Backbone, snapshot: Snapshot) -> None:
    """Features of other weights, or of photographs shown otherwise, do not fit the rows."""
    stored = snapshot.backbone
    if network.digest != stored["digest"]:
        raise CatalogueError(
            f"backbone '{network.name}' has other weights (SHA-256 {network.digest[:12]}...) than "
            f"'{stored['name']}', which this catalogue was made with ({stored['digest'][:12]}...)"
        )
    shown = stored["preprocessing"]
    if network.about()["preprocessing"] != (shown if isinstance(shown, list) else [{**shown, "mirrored": False}]):
        raise CatalogueError(
            f"backbone '{network.name}' prepares photographs otherwise than when this catalogue was made: "
            f"{network.about()['preprocessing']} instead of {shown}"
        )
