"""The same features otherwise arranged: novel classes in another order, base classes that play novel ones."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from subspan.experiments.inputs import ProtocolError
from subspan.features.feature_set import FeatureSet

Order = NDArray[np.int64]  # (C1,): the novel class, counted from 0, that comes at each place


def shuffled_order(count: int, seed: int) -> Order:
    """An order of so many classes; each seed gives its own."""
    return np.random.default_rng([seed, count]).permutation(count)


def order_by_names(features: FeatureSet, names: Sequence[str]) -> Order:
    """The order in which all novel classes are named, by name or WordNet id."""
    for known in (features.class_names[features.base_count :], features.novel_wnids or ()):
        if sorted(known) == sorted(names):
            return np.array([known.index(name) for name in names])
    known = features.class_names[features.base_count :]
    wrong = [f"it lacks '{name}'" for name in known if name not in names]
    wrong += [f"it has '{name}', which is none" for name in names if name not in known]
    raise ProtocolError(
        f"an order names each of the {len(known)} novel classes once; {wrong[0] if wrong else 'one is there twice'}"
    )


def in_order(features: FeatureSet, embeddings: NDArray | None, order: Order) -> tuple[FeatureSet, NDArray | None]:
    """The features, and embeddings (C0 + C1, e), with novel class ``order[i]`` as the ``i``-th."""
    place, every = np.argsort(order), np.concatenate([np.arange(features.base_count), features.base_count + order])

    def listed(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(names[i] for i in order)

    changed = replace(
        features,
        novel_support_labels=place[features.novel_support_labels],
        novel_test_labels=place[features.novel_test_labels],
        novel_names=listed(features.novel_names),
        novel_wnids=listed(features.novel_wnids),
        embeddings={name: vectors[every] for name, vectors in features.embeddings.items()},
    )
    return changed, None if embeddings is None else embeddings[every]


def with_held_out_classes(features: FeatureSet, count: int, seed: int = 0) -> FeatureSet:
    """The features with so many base classes, drawn by seed, as novel ones; its own novel classes do not appear.

    The first half of a held-out class's test images are its support, without copies; the others are asked about. The
    network was trained on these classes, so they are easier than novel ones: a choice among settings, no result.
    """
    if not 1 <= count < features.base_count - 1:
        raise ProtocolError(f"--hold-out-classes must leave 2 of {features.base_count} base classes; got {count}")
    drawn = np.random.default_rng([seed, count]).permutation(features.base_count)
    novel, base = drawn[:count], np.sort(drawn[count:])
    every = np.concatenate([base, novel])
    place = np.full(features.base_count, -1)
    place[base], place[novel] = np.arange(len(base)), len(base) + np.arange(count)
    labels = place[features.base_test_labels]
    own, counts, by_class = labels >= len(base), np.bincount(labels), np.argsort(labels, kind="stable")
    rank = np.empty(len(labels), dtype=np.int64)  # among its class's images
    rank[by_class] = np.arange(len(labels)) - (np.cumsum(counts) - counts)[labels[by_class]]
    support, asked = own & (rank < (counts // 2)[labels]), own & (rank >= (counts // 2)[labels])
    if counts[len(base) :].min() < 2:
        raise ProtocolError("a base class that plays novel needs 2 test images, for support and to ask about")
    rows = {name: getattr(features, name) for name in ("base_weight", "base_bias", "base_mean", "base_memory")}
    lists = {kind: getattr(features, f"base_{kind}") for kind in ("names", "wnids")}
    parts = {"base": base, "novel": novel}
    return replace(
        features,
        **{name: None if array is None else array[base] for name, array in rows.items()},
        base_test=features.base_test[~own],
        base_test_labels=labels[~own],
        novel_support=features.base_test[support][:, None],
        novel_support_labels=labels[support] - len(base),
        novel_test=features.base_test[asked],
        novel_test_labels=labels[asked] - len(base),
        **{
            f"{part}_{kind}": None if names is None else tuple(names[i] for i in places)
            for kind, names in lists.items()
            for part, places in parts.items()
        },
        embeddings={name: vectors[every] for name, vectors in features.embeddings.items()},
        meta={**features.meta, "held_out_classes": sorted(novel.tolist())},
    )
