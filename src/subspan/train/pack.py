"""From a trained run to the feature file that everything above reads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.backbones.heads import CosineHead
from subspan.features.feature_set import FeatureSet
from subspan.images.imageset import ImageSet, IntArray
from subspan.images.splits.split import Split
from subspan.train.collect import Contents, by_class, choose
from subspan.train.extract import Extractor
from subspan.train.run import RunSettings

_COVARIANCE_BYTES = 1 << 20  # of one triangle in float16: up to 1023 features


def feature_set(
    extractor: Extractor,
    images: ImageSet,
    split: Split,
    settings: RunSettings,
    contents: Contents,
    meta: dict[str, Any] | None = None,
) -> FeatureSet:
    """The feature file's contents: head rows of the base classes, features by purpose, names, and how it was made."""
    chosen, head, classes = choose(images, split, contents), extractor.network.head, len(split.base_classes)
    cosine = head if isinstance(head, CosineHead) else None
    training = _per_class(extractor.plain, chosen.base_train)
    width, wanted = training[0].shape[1], contents.covariance
    wanted = width * (width + 1) <= _COVARIANCE_BYTES if wanted is None else wanted
    base_test = extractor.plain(np.concatenate(chosen.base_test))
    with torch.no_grad():
        queries = torch.from_numpy(base_test).to(head.weight.device)
        answers = head(queries)[:, :classes].argmax(1).cpu().numpy()
        weight, bias = head.linear_form()
    made = {
        "session_sizes": [len(session) for session in split.sessions],
        "recipe": settings.recipe.to_dict(),
        "seed": settings.seed,
        f"session0_{split.queried}": 100 * float((answers == chosen.described["base_test_labels"]).mean()),
        **settings.about,
        **(meta or {}),
    }
    return FeatureSet(
        base_weight=weight[:classes].detach().cpu().float().numpy(),
        base_bias=None if bias is None else bias[:classes].detach().cpu().float().numpy(),
        base_mean=np.stack([part.astype(np.float64).mean(0) for part in training]).astype(np.float32),
        base_test=base_test,
        novel_test=extractor.plain(np.concatenate(chosen.novel_test)),
        novel_support=extractor.copies(chosen.novel_support.reshape(-1), contents.copies, chosen.copies_seed),
        base_memory=np.stack([part[place] for part, place in zip(training, chosen.base_memory, strict=True)]),
        base_covariance=within_class_covariance(training, unit=cosine is not None) if wanted else None,
        head="linear" if cosine is None else "cosine",
        head_scale=1.0 if cosine is None else float(cosine.scale),
        **{**chosen.described, "meta": chosen.described["meta"] | made},
    )


def collect_base(
    extractor: Extractor, images: ImageSet, split: Split, *, turned: bool
) -> tuple[list[FloatArray], list[FloatArray] | None]:
    """Features of the training images of the base classes by class: C0 arrays (n, d).

    If asked for, also of the images turned by 90, 180 and 270 degrees, C0 arrays (n, 3, d).
    """
    split.check_made_from(images)
    rows = by_class(images, split, split.base_train)
    plain = _per_class(extractor.plain, rows)
    if not turned:
        return plain, None
    return plain, _per_class(lambda every: np.stack([extractor.turned(every, q) for q in (1, 2, 3)], axis=1), rows)


def within_class_covariance(classes: list[NDArray[Any]], *, unit: bool = False) -> FloatArray:
    """Covariance (d, d) of features (n, d) around the means of their classes, pooled over the classes.

    Deviations count equally whatever the class and are divided by their number less the number of classes. With
    ``unit`` features are scaled to length one first, which is all that a cosine head sees of them.
    """
    scatter = np.zeros((classes[0].shape[1],) * 2)
    for part in classes:
        part = part.astype(np.float64)
        if unit:
            part = part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
        deviations = part - part.mean(0)
        scatter += deviations.T @ deviations
    return (scatter / max(1, sum(map(len, classes)) - len(classes))).astype(np.float32)


def _per_class(compute: Callable[[IntArray], FloatArray], rows: list[IntArray]) -> list[FloatArray]:
    return np.split(compute(np.concatenate(rows)), np.cumsum([len(part) for part in rows])[:-1])
