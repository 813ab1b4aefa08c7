"""Everything a catalogue knows after a session, immutable: what readers hold while the next session is learned."""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.catalogue.checkset import CheckSet
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.folds import Unseen
from subspan.catalogue.options import DESCRIPTION, CatalogueOptions
from subspan.catalogue.prints import Prints
from subspan.catalogue.records import CheckChange, SessionEntry, Taken
from subspan.catalogue.rejection import log_shares, threshold_for
from subspan.files import store
from subspan.learners.registry import create_method
from subspan.model import Model
from subspan.pretrained.registry import is_packaged
from subspan.state import extras_of

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # letters that would move a terminal
FORMAT = 1  # of what a catalogue adds to a version
FAMILIARITIES = "unseen_familiarities"
ENOUGH = 19  # photographs that models were not taught, from which a share of 5 % can be promised


@dataclass(frozen=True)
class Judgement:
    """What the check set said of one session, and who taught it."""

    check: CheckChange | None = None
    takes_from: tuple[Taken, ...] = ()
    warning: str | None = None
    author: str | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Judgement":
        check = None if values["check"] is None else CheckChange(**values["check"])
        taken = tuple(Taken(**one) for one in values["takes_from"])
        return cls(check, taken, values["warning"], values.get("author"))


@dataclass(frozen=True)
class Snapshot:
    """One state of a catalogue."""

    classifier: Model  # never changed: a session works on a copy
    options: CatalogueOptions
    backbone: Mapping[str, Any]  # `Backbone.about`
    check: CheckSet
    descriptions: Mapping[str, str]
    judgements: tuple[Judgement, ...]  # one per session
    prints: Prints = field(default_factory=Prints.none)
    measured: Unseen | None = None  # what is stored of `unseen`
    chain: tuple[str, ...] = ()  # ids of the versions in the store, this one's last; () before it is written
    trust: bool = False  # that what the store names outside its folder may be run, fetched and read

    @cached_property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.classifier.classes_.tolist())

    def changed(self, change: Callable[[Model], Any], **values: Any) -> "Snapshot":
        """A new snapshot after ``change`` on a copy of the classifier, not yet judged."""
        classifier = copy.copy(self.classifier)
        change(classifier)
        after = replace(self, classifier=classifier, judgements=(*self.judgements, Judgement()), **values)
        return replace(after, measured=None) if after.judge[1].sum() >= ENOUGH else after

    def judged(self, judgement: Judgement) -> "Snapshot":
        return replace(self, judgements=(*self.judgements[:-1], judgement))

    def by(self, author: str | None) -> "Snapshot":
        """The same, its last session taught by somebody."""
        return self.judged(replace(self.judgements[-1], author=author))

    # What the store names outside its folder

    def check_trust(self, *, network: bool = False, language: bool = False) -> None:
        """Refuse to load what somebody else may have named: the network, what language needs, a system's trained part.

        Only what an installed package brings is loaded without being trusted: it is not the store's.
        """
        if self.trust:
            return
        name, source, named = str(self.backbone["name"]), self.options.embeddings, []
        if network and not is_packaged(name):
            named.append(f"network {name!r}")
        if source and (language or named):
            from subspan.language.descriptions import packaged_model  # here: few catalogues need words

            if not (source == DESCRIPTION and packaged_model()):
                named.append(f"embeddings {source!r}")
        if self._trained_part:
            named.append(f"trained part {self._trained_part!r}")
        if named:
            raise CatalogueError(
                f"this catalogue would have {' and '.join(named)} loaded from outside its folder, which may run code; "
                "where you trust whoever made it, say --trust (in Python, trust=True)"
            )

    @cached_property
    def _trained_part(self) -> str:
        return getattr(create_method(str(self.classifier.method_)), "trained", "")

    # Scores

    def scores(self, features: FloatArray) -> NDArray[np.float64]:
        """Scores (n, C) as the head gives them."""
        return self._of_model(lambda: self.classifier.class_scores(features))

    def familiarity(self, features: FloatArray) -> NDArray[np.float64]:
        """How much photographs look like any class at all, (n,)."""
        return self._of_model(lambda: self.classifier.familiarity(features))

    def _of_model(self, answer: Callable[[], Any]) -> NDArray[np.float64]:
        self.check_trust()
        try:
            return np.asarray(answer(), np.float64)
        except ModuleNotFoundError:  # says which extra its method needs
            raise
        except Exception as error:  # what was written elsewhere may break in any way
            raise store.StoreError(f"its method cannot work with what this catalogue holds: {error}") from error

    @property
    def temperature(self) -> float:
        """By which scores become probabilities; 1 where the method's scores need none."""
        return 1.0 if create_method(str(self.classifier.method_)).calibrated else self.unseen.temperature

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Calibrated probabilities (n, C) of scores."""
        return np.exp(log_shares(scores / self.temperature))

    @cached_property
    def judge(self) -> tuple[Model, NDArray[np.bool_]]:
        """The model that judges the check set, and which examples (m,) it was not taught.

        Of base classes none, where the method can take back what was taught.
        """
        self.check_trust()
        check, model = self.check, self.classifier
        places = check.labels(self.classes)
        taught = model.is_base_[places] & ~check.held_out
        taught &= (model.examples_seen_ > np.bincount(places[taught], minlength=len(self.classes)))[places]
        less = model.without_examples(check.features[taught], np.array(check.names)[taught]) if taught.any() else None
        return (model, check.held_out) if less is None else (less, check.held_out | taught)

    @cached_property
    def unseen(self) -> Unseen:
        """What models said of photographs they were not taught: of all of them after `init`, then of the check set."""
        if self.measured is not None:
            return self.measured
        model, known = self.judge
        check = self.check.select(known)
        return Unseen.of(model, check.features, check.labels(self.classes)) if len(check) else Unseen(np.zeros(0))

    def threshold(self, share: float) -> float | None:
        """The familiarity below which to reject, at most this share of known photographs; None: too few to promise."""
        return threshold_for(self.unseen.familiarities, share)

    # The log

    def entries(self) -> list[SessionEntry]:
        records = self.classifier.sessions_
        versions: Sequence[str | None] = [*([None] * (len(records) - len(self.chain))), *self.chain]
        return [
            SessionEntry(
                number,
                record.kind,
                tuple(map(str, record.classes)),
                record.examples,
                record.date,
                record.seconds,
                version,
                **vars(judgement),
            )
            for number, (record, judgement, version) in enumerate(zip(records, self.judgements, versions, strict=True))
        ]

    # The store

    def to_version(self, parent: str | None = None) -> store.Version:
        """The snapshot as a version of a store, which follows the one with this id."""
        meta = {
            "catalogue": FORMAT,
            "parent": parent,
            "options": asdict(self.options),
            "backbone": dict(self.backbone),
            "descriptions": dict(self.descriptions),
            "judgements": [asdict(judgement) for judgement in self.judgements],
            "temperature": self.unseen.temperature,
        }
        arrays = self.check.to_arrays(self.classes) | self.prints.to_arrays(self.classes)
        arrays[FAMILIARITIES] = self.unseen.familiarities
        return self.classifier.to_version(arrays, meta)

    @classmethod
    def from_version(cls, version: store.Version, path: Path, chain: tuple[str, ...], trust: bool) -> "Snapshot":
        try:
            extras = extras_of(version)
            if extras is None or "catalogue" not in extras[1]:
                raise store.StoreError(
                    f"'{path}' holds a classifier of features, no catalogue of photographs; `subspan init` makes one"
                )
            arrays, meta = extras
            if type(meta["catalogue"]) is not int or not 1 <= meta["catalogue"] <= FORMAT:
                raise store.StoreError(
                    f"'{path}' is a catalogue of format {meta['catalogue']!r}; this Subspan reads 1 to {FORMAT}"
                )
            classifier = Model.from_version(version, path, chain, trust=trust)
            known = arrays.get(FAMILIARITIES)  # versions until 0.2 had none
            names = classifier.classes_.tolist()
            check = CheckSet.from_arrays(arrays, names)
            fits = check.features.shape == (len(check), classifier.n_features_in_)
            fits = fits and (check.held_out.dtype, check.held_out.shape) == (np.bool_, (len(check),))
            plain = all(type(name) is str and not CONTROL.search(name) for name in names)
            plain = plain and all(type(meta["backbone"][key]) is str for key in ("name", "digest"))
            if not (
                fits
                and plain
                and "preprocessing" in meta["backbone"]
                and len(meta["judgements"]) == len(classifier.sessions_)
            ):
                raise store.StoreError(f"'{path}' has names, judgements or a check set that no catalogue can have")
            return cls(
                classifier=classifier,
                options=CatalogueOptions(**meta["options"]),
                backbone=dict(meta["backbone"]),
                check=check,
                descriptions=dict(meta["descriptions"]),
                judgements=tuple(map(Judgement.from_dict, meta["judgements"])),
                prints=Prints.from_arrays(arrays, names),
                measured=None if known is None else Unseen(known, float(meta["temperature"])),
                chain=chain,
                trust=trust,
            )
        except (store.StoreError, ModuleNotFoundError):  # the latter says which extra its method needs
            raise
        except Exception as error:  # what was written elsewhere may break in any way
            raise store.StoreError(f"'{path}' is a catalogue with parts missing or foreign: {error!r}") from error


def judge(before: Snapshot, after: Snapshot, new: Sequence[str], warn_drop: float) -> Judgement:
    """What a session did to the other classes, on their kept examples; ``new`` are those it learned."""
    old_names = set(before.classes).intersection(after.classes).difference(new)
    old = before.check.select(before.check.of(list(old_names)))
    if len(old) == 0:
        return Judgement()
    answers = before.judge[0].class_scores(old.features).argmax(axis=1)
    probabilities = after.probabilities(after.judge[0].class_scores(old.features))
    answers_after = probabilities.argmax(axis=1)
    right = answers == old.labels(before.classes)
    right_after = answers_after == old.labels(after.classes)
    check = CheckChange(100 * float(right.mean()), 100 * float(right_after.mean()), len(old))
    places = [after.classes.index(name) for name in new]
    lost = right & np.isin(answers_after, places)
    share = probabilities[:, places].sum(axis=1)
    names = np.asarray(old.names)
    taken = []
    for name in dict.fromkeys(old.names):
        mine = names == name
        taken.append(Taken(name, int(lost[mine].sum()), int(mine.sum()), round(float(share[mine].mean()), 4)))
    taken.sort(key=lambda one: (-one.lost, -one.share, one.name))
    worth_naming = tuple(one for one in taken if one.lost > 0 or one.share >= 0.01)[:5]
    warning = None
    if check.drop > warn_drop:
        warning = (
            f"accuracy on the kept examples of the old classes fell by {check.drop:.1f} points, from "
            f"{check.before:.1f} to {check.after:.1f} % (you asked to be warned past {warn_drop:g}); "
            "`subspan undo` takes the session back"
        )
    return Judgement(check, worth_naming, warning)
