"""Base training features, example by example: what the trained part of a system is trained on.

Real ones come from a run and its images. Where only a feature file is at hand, draws from N(class mean, pooled
covariance) stand for them; what is trained on those says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.arrays import as_numpy, as_tensor
from subspan.engine.contract import Base
from subspan.features.feature_set import FeatureSet
from subspan.learners.parts.base_samples import base_samples
from subspan.learners.parts.vectors import unit
from subspan.values import tensor_of

Source = Literal["real", "drawn"]


@dataclass(frozen=True, eq=False)
class TrainingFeatures:
    """The base classes as a system meets them in training, such that linear scores equal the trained head's."""

    features: Tensor  # (C0, n, d); a class with fewer than n examples is filled up with zeros
    counts: Tensor  # (C0,): examples of each class
    base: Base  # rows (C0, d) without bias, means, covariance, embeddings
    source: Source
    bias: Tensor | None = None  # (C0,)
    turned: Tensor | None = None  # (C0, n, 3, d): the same images turned by 90, 180 and 270 degrees
    names: tuple[str, ...] = ()

    @property
    def class_count(self) -> int:
        return self.features.shape[0]

    @property
    def width(self) -> int:
        return self.features.shape[-1]

    def examples(self) -> tuple[Tensor, Tensor]:
        """All features (N, d), class after class, and their labels (N,)."""
        real = torch.arange(self.features.shape[1], device=self.counts.device) < self.counts[:, None]
        return self.features[real], torch.nonzero(real)[:, 0]

    def to(self, device: torch.device, dtype: torch.dtype = torch.float32) -> "TrainingFeatures":
        """The same on a device, in a type."""

        like = self.features.new_zeros((), dtype=dtype, device=device)
        moved = {name: None if (t := getattr(self, name)) is None else t.to(like) for name in ("bias", "turned")}
        base = self.base.mapped(lambda array: array.to(like))
        return replace(self, features=self.features.to(like), counts=self.counts.to(device), base=base, **moved)

    @classmethod
    def drawn(
        cls, features: FeatureSet, count: int, seed: int, embeddings: NDArray | None = None, *, signal: float = 1.0
    ) -> "TrainingFeatures":
        """``count`` draws for every class from the statistics of a feature file; embeddings (C0 + C1, e).

        A network tells the classes of its training images better than those of others. With a ``signal`` below 1 the
        centres of the draws keep so much of the class means' distance from their common mean.
        """
        for name in ("base_mean", "base_covariance"):
            if getattr(features, name) is None:
                raise ValueError(
                    f"drawing training features needs the array '{name}', which the feature file lacks; train on real "
                    "ones with --run and --data"
                )
        base = _base_session(features, embeddings)
        examples = as_tensor(base_samples(as_numpy(base.means), as_numpy(base.covariance), count, seed))
        if signal != 1:
            examples = examples - (1 - signal) * (base.means - base.means.mean(0))[:, None]
        return cls(examples, torch.full((len(examples),), count), base, "drawn", **_head_of(features))

    @classmethod
    def real(
        cls,
        features: FeatureSet,
        by_class: Sequence[NDArray],
        turned: Sequence[NDArray] | None = None,
        embeddings: NDArray | None = None,
    ) -> "TrainingFeatures":
        """From the network's features (n, d) of every base class and, if given, of turned images (n, 3, d)."""
        scale = features.head_scale if features.head == "cosine" else None
        return cls(
            _filled(by_class, scale),
            torch.tensor([len(part) for part in by_class]),
            _base_session(features, embeddings),
            "real",
            turned=None if turned is None else _filled(turned, scale),
            **_head_of(features),
        )


def _base_session(features: FeatureSet, embeddings: NDArray | None) -> Base:
    features = features.for_linear_scores()
    known = None if embeddings is None else embeddings[: features.base_count]
    rows, means, words = map(_tensor, (features.base_weight, features.base_mean, known))
    return Base(rows, means, words, covariance=_tensor(features.base_covariance))


def _tensor(array: NDArray | None) -> Tensor | None:
    return None if array is None else tensor_of(array).float()


def _head_of(features: FeatureSet) -> dict[str, Any]:
    """What is known of the base classes beside their features."""
    return {"bias": _tensor(features.base_bias), "names": features.class_names[: features.base_count]}


def _filled(by_class: Sequence[NDArray], scale: float | None) -> Tensor:
    """Arrays (n_c, ..., d) as one tensor (C, n, ..., d) with zeros at the end; unit vectors times a scale, if given."""
    filled = torch.zeros(len(by_class), max(map(len, by_class)), *by_class[0].shape[1:])
    for whole, part in zip(filled, by_class, strict=True):
        vectors = tensor_of(part).float()
        whole[: len(part)] = vectors if scale is None else unit(vectors) * scale
    return filled
