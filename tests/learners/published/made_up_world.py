"""Features as a network gives them: positive, with a common offset, noise that is alike in all classes but far from
round, and novel classes that resemble base classes."""

import numpy as np
from quick_parts import with_part
from sklearn.linear_model import LogisticRegression

from subspan.experiments.multi_session import MultiSession
from subspan.features.feature_set import FeatureSet

C0, C1, D = 20, 6, 32
CHANCE = 100 / (C0 + C1)


def make_world(seed=0, *, noise=1.2, images=6, test=25, families=0, logistic=False) -> FeatureSet:
    """With families, classes are variants of a few: what one class is like tells of others of its family.

    ``logistic``: base rows and biases are those of logistic regression, as a linear head learns them.
    """
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(C0, D))
    if families:
        base = rng.normal(size=(families, D))[np.arange(C0) % families] + 0.5 * base
    pairs = [rng.choice(C0, 2, replace=False) for _ in range(C1)]
    novel = np.stack([0.9 * base[i] + 0.6 * base[j] for i, j in pairs]) + 0.4 * rng.normal(size=(C1, D))
    centers = 3.0 + np.concatenate([base, novel])
    spread = np.geomspace(3, 0.3, D)[:, None] * np.linalg.qr(rng.normal(size=(D, D)))[0]

    def around(c, *shape):
        return np.maximum(centers[c] + noise * rng.normal(size=(*shape, D)) @ spread, 0)

    train = np.stack([around(c, 200) for c in range(C0)])
    means = train.mean(1)
    deviations = (train - means[:, None]).reshape(-1, D)
    head = {"base_weight": means - means.mean(0)}
    if logistic:
        learned = LogisticRegression(C=1e-3).fit(train.reshape(-1, D), np.repeat(np.arange(C0), train.shape[1]))
        head = {"base_weight": learned.coef_, "base_bias": learned.intercept_}
    return FeatureSet.from_arrays(
        {
            **head,
            "base_mean": means,
            "base_covariance": deviations.T @ deviations / len(deviations),
            "base_test": np.stack([around(c, test) for c in range(C0)]),
            "novel_test": np.stack([around(C0 + c, test) for c in range(C1)]),
            "novel_support": np.stack([around(C0 + c, images, 1) for c in range(C1)]),
            "base_memory": train[:, 0],
            # words tell of classes what features do, as far as they tell anything
            "embedding.words": centers @ rng.normal(size=(D, 12)) + 0.5 * rng.normal(size=(C0 + C1, 12)),
        }
    )


def last_session(spec: str, *, shots=2, worlds=4, memory=False, **options) -> dict[str, float]:
    """Accuracy after the last session, mean over a few worlds and draws: of all classes, of base, of novel ones."""
    protocol = MultiSession(ways=3, shots=shots, draws=4)
    made = [make_world(seed, **options) for seed in range(worlds)]
    found = [
        protocol.run(world, with_part(spec, world), memory=memory, embeddings=world.embeddings["words"])
        for world in made
    ]
    base = float(np.mean([result.base[:, -1].mean() for result in found]))
    novel = float(np.mean([result.novel[:, -1].mean() for result in found]))
    return {"all": (C0 * base + C1 * novel) / (C0 + C1), "base": base, "novel": novel}
