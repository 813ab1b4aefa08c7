"""A small made-up feature set: Gaussian clouds around random class centres."""

from dataclasses import replace

import numpy as np

from subspan.features.feature_set import FeatureSet

C0, C1, D = 11, 7, 16  # 7 novel classes by threes: sessions of 3, 3 and 1


def make_features(seed=0, *, bias=False, test=4, images=4, noise=0.7, **changes) -> FeatureSet:
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(C0 + C1, D))

    def around(c, *shape):
        return centers[c] + noise * rng.normal(size=(*shape, D))

    arrays = {
        "base_weight": centers[:C0] + 0.1 * rng.normal(size=(C0, D)),
        "base_mean": centers[:C0],
        "base_memory": np.stack([around(c) for c in range(C0)]),
        "base_test": np.stack([around(c, test) for c in range(C0)]),
        "novel_test": np.stack([around(C0 + c, test) for c in range(C1)]),
        "novel_support": np.stack([around(C0 + c, images, 2) for c in range(C1)]),
        "embedding.names": rng.normal(size=(C0 + C1, 5)),
    }
    if bias:
        arrays["base_bias"] = rng.normal(size=C0)
    return FeatureSet.from_arrays(arrays | changes)


# The same numbers otherwise in memory.
TURNED = {
    "reversed": lambda array: array[::-1].copy()[::-1],
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
}


def turned_arrays(features: FeatureSet, turned: str) -> FeatureSet:
    arrays = {name: array for name, array in vars(features).items() if isinstance(array, np.ndarray)}
    return replace(features, **{name: TURNED[turned](array) for name, array in arrays.items()})
