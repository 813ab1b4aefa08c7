"""The first version of a catalogue, from photographs or from a head that exists."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from subspan.catalogue.checkset import CheckSet, hold_out
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.language import class_vectors
from subspan.catalogue.looking import Progress, look
from subspan.catalogue.names import check_name
from subspan.catalogue.options import DESCRIPTION, CatalogueOptions
from subspan.catalogue.snapshot import Judgement, Snapshot
from subspan.classifier import IncrementalClassifier
from subspan.files import store
from subspan.learners.automatic import AUTO, automatic_method
from subspan.learners.registry import create_method
from subspan.pretrained.backbone import Backbone, Image
from subspan.pretrained.registry import load_backbone


@dataclass(frozen=True)
class GivenHead:
    """A linear head on the features of a backbone."""

    weights: NDArray[Any]  # (C, d)
    names: Sequence[str]  # (C,)
    bias: ArrayLike | None = None  # (C,)
    means: ArrayLike | None = None  # (C, d): class means of training features


Beginning = tuple[Snapshot, Backbone, tuple[str, ...]]  # with what was skipped


def from_photographs(
    photographs: Mapping[str, Sequence[Image]],
    options: CatalogueOptions,
    descriptions: Mapping[str, str],
    backbone: Backbone | None,
    skip_bad: bool,
    progress: Progress | None,
) -> Beginning:
    """Fit the base classes on photographs, a part of which is held out as the check set."""
    if len(photographs) < 2:
        raise CatalogueError(f"a catalogue begins with at least two classes; got {', '.join(photographs) or 'none'}")
    for name in photographs:
        check_name(name)
    _check_language(options)
    network = backbone or load_backbone(options.backbone)
    method = options.method if options.method != AUTO else automatic_method({"means", "covariance"}, network.dim)
    batch = look(network, photographs, skip_bad, progress)
    held_out = hold_out(batch.names, options.keep, options.seed)
    names = np.asarray(batch.names)
    tell = progress or (lambda *_: None)
    tell("fitting the base classes", 0, 1)
    vectors = class_vectors(options.embeddings, sorted(photographs), descriptions)
    classifier = IncrementalClassifier(method=method, memory=_memory_for(options, method), seed=options.seed)
    classifier.fit(batch.features[~held_out], names[~held_out], embeddings=vectors)
    tell("fitting the base classes", 1, 1)
    check = CheckSet(batch.features[held_out], tuple(names[held_out].tolist()), held_out[held_out])
    snapshot = Snapshot(classifier, options, network.about(), check, descriptions, (Judgement(),), trust=True)
    return snapshot, network, batch.skipped


def from_weights(
    head: GivenHead,
    check: Mapping[str, Sequence[Image]],
    options: CatalogueOptions,
    descriptions: Mapping[str, str],
    backbone: Backbone | None,
    skip_bad: bool,
    progress: Progress | None,
) -> Beginning:
    """Take a head over; photographs in ``check``, which it was not trained on, become the check set."""
    for name in head.names:
        check_name(name)
    _check_language(options)
    network = backbone or load_backbone(options.backbone)
    known = () if head.means is None else ("means",)
    method = options.method if options.method != AUTO else automatic_method(known, network.dim)
    if head.weights.ndim != 2 or head.weights.shape[1] != network.dim:
        raise CatalogueError(
            f"weights must be (classes, {network.dim}) for backbone '{network.name}'; got {head.weights.shape}"
        )
    unknown = [name for name in check if name not in head.names]
    if unknown:
        raise CatalogueError(f"class '{unknown[0]}' of the check photographs is not among the {len(head.names)} names")
    classifier = IncrementalClassifier.from_weights(
        head.weights,
        head.names,
        head.bias,
        means=head.means,
        embeddings=class_vectors(options.embeddings, head.names, descriptions),
        method=method,
        memory=_memory_for(options, method),
        seed=options.seed,
    )
    batch = look(network, check, skip_bad, progress)
    kept = _first_of_each(batch.names, options.keep)
    held_out = CheckSet(batch.features[kept], tuple(batch.names[i] for i in kept), np.ones(len(kept), bool))
    snapshot = Snapshot(classifier, options, network.about(), held_out, descriptions, (Judgement(),), trust=True)
    return snapshot, network, batch.skipped


def new_place(path: str | Path) -> Path:
    place = Path(path)
    if (place / store.POINTER).exists():
        raise CatalogueError(f"'{place}' exists already; `subspan add` teaches it more, and init needs a new name")
    if not place.absolute().parent.is_dir():
        raise CatalogueError(f"'{place}' cannot be made: the folder '{place.absolute().parent}' does not exist")
    return place


def _check_language(options: CatalogueOptions) -> None:
    """Refuse a method that uses language without a source of it."""
    if options.method != AUTO and "embeddings" in create_method(options.method).needs and not options.embeddings:
        raise CatalogueError(
            f"method '{options.method}' uses language; name its source, embeddings='{DESCRIPTION}' or a file of "
            "word vectors"
        )


def _memory_for(options: CatalogueOptions, method: str) -> int:
    """Examples to learn from again: none where the method would never look at them."""
    return options.memory if create_method(method).moves_old_rows else 0


def _first_of_each(names: Sequence[str], keep: int) -> list[int]:
    seen: Counter[str] = Counter()
    chosen = []
    for i, name in enumerate(names):
        if seen[name] < keep:
            chosen.append(i)
        seen[name] += 1
    return chosen
