"""From a trained run to the feature file that everything above reads."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from subspan.backbones.heads import CosineHead, EuclideanHead
from subspan.backbones.network import Network
from subspan.features.feature_set import FeatureSet, Precision
from subspan.images.imageset import ImageSet
from subspan.images.splits.split import Split
from subspan.train.collect import Collected, Contents, labels_of
from subspan.train.run import RunSettings
from subspan.values import option


@dataclass(frozen=True)
class Storage:
    """How a feature file is written."""

    on_disk: Precision = option("int8", "int8, float16 or float32 in the file")


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
    head, classes = network.head, len(split.base_classes)
    class_names = None if images.class_names == images.wnids else images.class_names

    def names(values: tuple[str, ...] | None, chosen: tuple[int, ...]) -> tuple[str, ...] | None:
        return None if values is None else tuple(values[c] for c in chosen)

    weight, bias = head.linear_form() if isinstance(head, EuclideanHead) else (head.weight, head.bias)
    support = collected.novel_support
    return FeatureSet(
        base_weight=weight[:classes].detach().cpu().float().numpy(),
        base_bias=None if bias is None else bias[:classes].detach().cpu().float().numpy(),
        base_mean=collected.base_mean,
        base_test=np.concatenate(collected.base_test),
        base_test_labels=labels_of(collected.base_test),
        novel_test=np.concatenate(collected.novel_test),
        novel_test_labels=labels_of(collected.novel_test),
        novel_support=support.reshape(-1, *support.shape[2:]),
        novel_support_labels=np.repeat(np.arange(len(support)), support.shape[1]),
        base_memory=collected.base_memory,
        base_covariance=collected.base_covariance,
        base_names=names(class_names, collected.base_classes),
        novel_names=names(class_names, collected.novel_classes),
        base_wnids=names(images.wnids, collected.base_classes),
        novel_wnids=names(images.wnids, collected.novel_classes),
        head="cosine" if isinstance(head, CosineHead) else "linear",
        head_scale=float(head.scale) if isinstance(head, CosineHead) else 1.0,
        meta={
            "split": split.name,
            "split_digest": split.digest(),
            "session_sizes": [len(session) for session in split.sessions],
            "recipe": settings.recipe.to_dict(),
            "seed": settings.seed,
            "contents": {"copies": contents.copies, "draw_seed": contents.draw_seed, "novel": contents.novel},
            f"session0_{split.queried}": session0_accuracy(collected, network, classes),
            **settings.about,
            **(meta or {}),
        },
    )


def session0_accuracy(collected: Collected, network: Network, classes: int) -> float:
    """Percent of the base queries' features that the trained head classifies correctly."""
    queries = torch.from_numpy(np.concatenate(collected.base_test)).to(network.head.weight.device)
    with torch.no_grad():
        predicted = network.head(queries)[:, :classes].argmax(1).cpu().numpy()
    return 100 * float((predicted == labels_of(collected.base_test)).mean())
