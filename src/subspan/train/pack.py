"""From a trained run to the feature file that everything above reads."""

from typing import Any

import numpy as np
import torch

from subspan.backbones import Network
from subspan.data import ImageSet, Split
from subspan.features import FeatureSet
from subspan.train.collect import Collected, Contents
from subspan.train.extract import FloatArray
from subspan.train.run import RunSettings


def feature_set(
    collected: Collected,
    network: Network,
    images: ImageSet,
    split: Split,
    settings: RunSettings,
    contents: Contents,
    meta: dict[str, Any] | None = None,
) -> FeatureSet:
    """The feature file's contents: head rows of the base classes, features by purpose, names, and how it was made."""
    if settings.split_digest and settings.split_digest != split.digest():
        raise ValueError(
            f"the run was trained on split {settings.split!r} with digest {settings.split_digest[:12]}, "
            f"these images give {split.digest()[:12]}: other images or another split"
        )
    head, classes = network.head, len(split.base_classes)

    def names(values: tuple[str, ...] | None, chosen: tuple[int, ...]) -> tuple[str, ...] | None:
        return None if values is None else tuple(values[c] for c in chosen)

    bias = head.bias
    base_weight = head.weight[:classes].detach().cpu().float().numpy()
    return FeatureSet(
        base_weight=base_weight,
        base_bias=None if bias is None else bias[:classes].detach().cpu().float().numpy(),
        base_mean=collected.base_mean,
        base_test=_stacked(collected.base_test),
        novel_test=_stacked(collected.novel_test),
        novel_support=collected.novel_support,
        base_memory=collected.base_memory,
        base_names=names(images.class_names, collected.base_classes),
        novel_names=names(images.class_names, collected.novel_classes),
        base_wnids=names(images.wnids, collected.base_classes),
        novel_wnids=names(images.wnids, collected.novel_classes),
        head=head.kind,
        head_scale=float(head.scale) if head.kind == "cosine" else 1.0,  # pyright: ignore[reportArgumentType]
        meta={
            "split": split.name,
            "split_digest": split.digest(),
            "session_sizes": [len(session) for session in split.sessions],
            "recipe": settings.recipe.to_dict(),
            "seed": settings.seed,
            "contents": {"copies": contents.copies, "draw_seed": contents.draw_seed, "novel": contents.novel},
            "session0_test": session0_accuracy(collected, network, classes),
            **settings.about,
            **(meta or {}),
        },
    )


def session0_accuracy(collected: Collected, network: Network, classes: int) -> float:
    """Percent of the base test features that the trained head classifies correctly."""
    queries = torch.from_numpy(np.concatenate(collected.base_test)).to(network.head.weight.device)
    labels = np.repeat(np.arange(len(collected.base_test)), [len(part) for part in collected.base_test])
    with torch.no_grad():
        predicted = network.head(queries)[:, :classes].argmax(1).cpu().numpy()
    return 100 * float((predicted == labels).mean())


def _stacked(parts: list[FloatArray]) -> FloatArray | list[FloatArray]:
    """(C, t, d) where all classes have equally many rows."""
    return np.stack(parts) if len({len(part) for part in parts}) == 1 else parts
