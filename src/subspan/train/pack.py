"""From a network and a split to the feature file that everything above reads."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from subspan.arrays import FloatArray
from subspan.backbones.heads import CosineHead, Head
from subspan.features.feature_set import FeatureSet
from subspan.features.labelled import class_statistics, learned_head
from subspan.images.imageset import ImageSet, IntArray
from subspan.images.splits.split import Split
from subspan.train.collect import Contents, by_class, choose
from subspan.train.extract import Extractor

_COVARIANCE_BYTES = 1 << 20  # of one triangle in float16: up to 1023 features


class Looking(Protocol):
    """What gives features of rows of images: (n, d) of them as they are, and (n, count, d) of augmented copies."""

    def plain(self, rows: IntArray) -> FloatArray: ...
    def copies(self, rows: IntArray, count: int, seed: int) -> FloatArray: ...


def feature_set(
    extractor: Looking,
    images: ImageSet,
    split: Split,
    contents: Contents,
    head: Head | None = None,
    meta: dict[str, Any] | None = None,
) -> FeatureSet:
    """The feature file's contents: rows of the base classes, features by purpose, names, and how it was made.

    Rows are those of the head that was trained; of a network without one they are learned here.
    """
    chosen, classes = choose(images, split, contents), len(split.base_classes)
    cosine, unit = isinstance(head, CosineHead), 1.0
    training = _per_class(extractor.plain, chosen.base_train)
    items = {
        "base_test": extractor.plain(np.concatenate(chosen.base_test)),
        "novel_test": extractor.plain(np.concatenate(chosen.novel_test)),
        "novel_support": extractor.copies(chosen.novel_support.reshape(-1), contents.copies, chosen.copies_seed),
    }
    if head is None:
        unit, weight, bias = learned_head(training)
        training = [(part / unit).astype(np.float32) for part in training]
        items = {name: (array / unit).astype(np.float32) for name, array in items.items()}
        answers = (items["base_test"] @ weight.T + bias).argmax(1)
    else:
        with torch.no_grad():
            answers = head(torch.from_numpy(items["base_test"]).to(head.weight.device))[:, :classes].argmax(1).cpu()
            linear = head.linear_form()
        weight, bias = (None if one is None else one[:classes].detach().cpu().float().numpy() for one in linear)
    width, wanted = training[0].shape[1], contents.covariance
    wanted = width * (width + 1) <= _COVARIANCE_BYTES if wanted is None else wanted
    right = np.asarray(answers) == chosen.described["base_test_labels"]
    made = {
        "session_sizes": [len(session) for session in split.sessions],
        f"session0_{split.queried}": 100 * float(right.mean()),
        **({} if head is not None else {"unit": unit}),
        **(meta or {}),
    }
    return FeatureSet(
        base_weight=np.asarray(weight),
        base_bias=bias,
        **items,
        **class_statistics(training, chosen.base_memory, unit=cosine, covariance=wanted),
        head="cosine" if cosine else "linear",
        head_scale=float(head.scale) if isinstance(head, CosineHead) else 1.0,
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


def _per_class(compute: Callable[[IntArray], FloatArray], rows: list[IntArray]) -> list[FloatArray]:
    return np.split(compute(np.concatenate(rows)), np.cumsum([len(part) for part in rows])[:-1])
