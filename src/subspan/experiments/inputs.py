"""What every protocol does with a feature file before it runs: see that a method can, put the arrays on a device."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.arrays import append_one
from subspan.engine.contract import Base, Learner, State
from subspan.experiments.records import WeightSpace
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import spec_of
from subspan.values import tensor_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class ProtocolError(ValueError):
    """A protocol cannot run on this file with this method; the message says which rule is broken."""


def digest_of(name: str, protocol: "DataclassInstance") -> str:
    """A short hash of a protocol's name and all its settings, stamped on every result.

    Settings that came ``later`` count where they are set, so that results of before keep their hash.
    """
    unset = {
        name for name in getattr(protocol, "later", ()) if getattr(protocol, name) == getattr(type(protocol), name)
    }
    told = {key: value for key, value in asdict(protocol).items() if key not in unset}
    text = json.dumps({"protocol": name, **told}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def missing_for(features: FeatureSet, method: Learner, memory: bool, embeddings: NDArray | None) -> str | None:
    """What keeps a method from running on these features, as a sentence; None if nothing does."""
    needs = method.needs
    if "embeddings" in needs and embeddings is None:
        return f"method '{method.name}' needs embeddings of the classes; name a set or a file with --embeddings"
    for need, name in (("means", "base_mean"), ("covariance", "base_covariance")):
        if need in needs and getattr(features, name) is None:
            return f"method '{spec_of(method)}' needs the array '{name}', which the feature file lacks"
    if memory and features.base_memory is None:
        return "running with memory needs the array 'base_memory', which the feature file lacks"
    return None


def check_inputs(features: FeatureSet, method: Learner, memory: bool, embeddings: NDArray | None) -> None:
    """Raise unless the method can run on these features with these embeddings (C0 + C1, e)."""
    problem = missing_for(features, method, memory, embeddings)
    if problem:
        raise ProtocolError(problem)
    classes = features.base_count + features.novel_count
    if embeddings is not None and len(embeddings) != classes:
        raise ProtocolError(f"there are {classes} classes but {len(embeddings)} embeddings")


def items_by_class(features: FeatureSet, kind: str, least: int, wanted: str) -> list[NDArray[np.int64]]:
    """Positions of each novel class's "support" or "test" images, at least so many."""
    labels = getattr(features, f"novel_{kind}_labels")
    places = [np.flatnonzero(labels == c) for c in range(features.novel_count)]
    for name, place in zip(features.class_names[features.base_count :], places, strict=True):
        if len(place) < least:
            raise ProtocolError(f"{wanted} asked for, but class '{name}' has only {len(place)} {kind} images")
    return places


@dataclass(frozen=True)
class FeatureTensors:
    """A feature set on a device. A bias, where head and method have one, is the last weight of each row."""

    base: Base
    support: Tensor  # (S, copies, d): items of novel_support
    base_queries: Tensor  # (N, d): items of base_test
    novel_queries: Tensor  # (M, d): items of novel_test
    base_memory: Tensor | None  # (C0, d)
    embeddings: Tensor | None  # (C0 + C1, e)

    @classmethod
    def of(
        cls,
        features: FeatureSet,
        embeddings: NDArray | None,
        *,
        use_bias: bool,
        device: str | torch.device,
        dtype: torch.dtype,
    ) -> "FeatureTensors":
        """The arrays as tensors; ``use_bias`` is what the method says, the head may have none."""
        features = features.for_linear_scores()
        with_bias = features.base_bias is not None and use_bias

        def tensor(array: NDArray | None) -> Any:
            return None if array is None else tensor_of(array).to(device, dtype)

        def augmented(array: NDArray | None) -> Any:
            return append_one(tensor(array)) if with_bias and array is not None else tensor(array)

        rows, vectors = tensor(features.base_weight), tensor(embeddings)
        if with_bias:
            rows = torch.cat([rows, tensor(features.base_bias)[:, None]], dim=1)
        known = None if vectors is None else vectors[: features.base_count]
        return cls(
            base=Base(rows, augmented(features.base_mean), known, covariance=tensor(features.base_covariance)),
            support=augmented(features.novel_support),
            base_queries=augmented(features.base_test),
            novel_queries=augmented(features.novel_test),
            base_memory=augmented(features.base_memory),
            embeddings=vectors,
        )


def weight_space(
    method: Learner, state: State, embeddings: Tensor | None, names: tuple[str, ...]
) -> WeightSpace | None:
    """The rows (C, d) of the first problem after its session, base rows first; None for a method without targets.

    ``embeddings`` (K, e) are of the novel classes, ``names`` of all C.
    """
    count, rows = state.base_count, state.get("rows")
    targets = None if rows is None else method.targets(state.base, rows[0, count:], embeddings)
    if rows is None or targets is None:
        return None
    base, novel, ends = (one.double().cpu().numpy() for one in (*rows[0].tensor_split([count]), targets))
    return WeightSpace(base, novel, ends, names[:count], names[count:], moving=method.moving_targets)
