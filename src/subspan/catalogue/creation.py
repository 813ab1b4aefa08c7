"""The first version of a catalogue, from photographs or from a head that exists."""

from collections.abc import Mapping, Sequence, Set

import numpy as np
from numpy.typing import ArrayLike, NDArray

from subspan.catalogue.checkset import CheckSet, chosen_to_keep, first_of_each
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.folds import FOLDS, asked_unseen
from subspan.catalogue.language import class_vectors
from subspan.catalogue.looking import Progress, look
from subspan.catalogue.options import DESCRIPTION, CatalogueOptions
from subspan.catalogue.prints import Prints
from subspan.catalogue.records import Finding
from subspan.catalogue.review import review
from subspan.catalogue.snapshot import Judgement, Snapshot
from subspan.learners.automatic import automatic_method
from subspan.learners.registry import AUTO, create_method
from subspan.model import Model
from subspan.pretrained.backbone import Backbone, Image
from subspan.pretrained.registry import load_backbone

Beginning = tuple[Snapshot, Backbone, tuple[str, ...], list[Finding]]  # with what was skipped, and what to look at


def from_photographs(
    photographs: Mapping[str, Sequence[Image]],
    options: CatalogueOptions,
    descriptions: Mapping[str, str],
    backbone: Backbone | None,
    skip_bad: bool,
    progress: Progress | None,
    ray: bool,
) -> Beginning:
    """Fit the base classes on all photographs; what that is worth, five models of the others of a fifth each say."""
    if not photographs:
        raise CatalogueError("a catalogue begins with at least one class; got none")
    network, method, memory = _prepared(options, backbone, {"means", "covariance"})
    about = network.about()
    if ray:
        from subspan.catalogue.sharded import taught_over_ray  # here: few need it

        model = Model(method=method, memory=memory, seed=options.seed)
        taught, check, skipped = taught_over_ray(
            photographs, network, model, options.keep, options.seed, skip_bad, progress
        )
        return Snapshot(taught, options, about, check, descriptions, (Judgement(),), trust=True), network, skipped, []
    batch = look(network, photographs, skip_bad, progress)
    names = np.asarray(batch.names)
    vectors = class_vectors(options.embeddings, sorted(photographs), descriptions)
    fits = iter(range(FOLDS + 2))

    def fitted(chosen: NDArray[np.bool_]) -> Model:
        if progress is not None:
            progress("fitting the base classes", next(fits), FOLDS + 1)
        model = Model(method=method, memory=memory, seed=options.seed)
        return model.fit(batch.features[chosen], names[chosen], embeddings=vectors)

    classifier = fitted(np.ones(len(names), bool))
    told = np.zeros((len(names), len(classifier.classes_)))
    unseen = asked_unseen(fitted, batch.features, names, told)
    if progress is not None:
        progress("fitting the base classes", FOLDS + 1, FOLDS + 1)
    kept = chosen_to_keep(batch.names, options.keep, options.seed)
    check = CheckSet(batch.features[kept], tuple(names[kept].tolist()), np.zeros(kept.sum(), bool))
    prints = Prints.of(batch.features, batch.names)
    snapshot = Snapshot(classifier, options, about, check, descriptions, (Judgement(),), prints, unseen, trust=True)
    return snapshot, network, batch.skipped, review(batch, scores=told) if create_method(method).calibrated else []


def from_weights(
    weights: ArrayLike,
    names: Sequence[str],
    bias: ArrayLike | None,
    means: ArrayLike | None,
    check: Mapping[str, Sequence[Image]],
    options: CatalogueOptions,
    descriptions: Mapping[str, str],
    backbone: Backbone | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Beginning:
    """Take a head over; photographs in ``check``, which it was not trained on, become the check set."""
    network, method, memory = _prepared(options, backbone, set() if means is None else {"means"})
    rows = np.asarray(weights)
    if rows.ndim != 2 or rows.shape[1] != network.dim:
        raise CatalogueError(
            f"weights must be (classes, {network.dim}) for backbone '{network.name}'; got {rows.shape}"
        )
    if unknown := [name for name in check if name not in names]:
        raise CatalogueError(f"class '{unknown[0]}' of the check photographs is not among the {len(names)} names")
    vectors = class_vectors(options.embeddings, names, descriptions)
    classifier = Model.from_weights(
        rows, names, bias, means=means, embeddings=vectors, method=method, memory=memory, seed=options.seed
    )
    batch = look(network, check, skip_bad, progress)
    kept = first_of_each(batch.names, options.keep)
    held_out = CheckSet(batch.features[kept], tuple(batch.names[i] for i in kept), np.ones(len(kept), bool))
    snapshot = Snapshot(classifier, options, network.about(), held_out, descriptions, (Judgement(),), trust=True)
    return snapshot, network, batch.skipped, []


def _prepared(options: CatalogueOptions, backbone: Backbone | None, known: Set[str]) -> tuple[Backbone, str, int]:
    """Network, method and memory of a catalogue whose base session gives what is ``known``."""
    method = options.method
    if method != AUTO and "embeddings" in create_method(method).needs and not options.embeddings:
        raise CatalogueError(
            f"method '{method}' uses language; name its source, embeddings='{DESCRIPTION}' or a file of word vectors"
        )
    network = backbone or load_backbone(options.backbone)
    if method == AUTO:
        method = automatic_method(known, network.dim)
    return network, method, options.memory if create_method(method).moves_old_rows else 0
