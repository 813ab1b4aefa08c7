"""Feature arrays of a small made-up split: Gaussian clouds around random class centres."""

from typing import Any

import numpy as np

BASE_COUNT, WIDTH = 11, 16


def made_up_arrays(seed: int, novel: int, support_images: int) -> dict[str, Any]:
    """Arrays in the feature file's schema, word vectors inside; the same seed gives the same numbers."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(BASE_COUNT + novel, WIDTH))
    base, others = centers[:BASE_COUNT], centers[BASE_COUNT:]

    def around(part, *shape):
        return part.reshape(len(part), *(1,) * len(shape), WIDTH) + 0.8 * rng.normal(size=(len(part), *shape, WIDTH))

    return {
        "base_weight": base,
        "base_mean": base,
        "base_covariance": np.diag(np.linspace(0.5, 2.0, base.shape[1])),
        "base_memory": around(base),
        "base_test": around(base, 4),
        "novel_test": around(others, 4),
        "novel_support": around(others, support_images, 2),
        "embedding.words": rng.normal(size=(BASE_COUNT + novel, 4)),
    }
