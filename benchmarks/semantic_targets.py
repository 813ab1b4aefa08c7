"""How peaked, and how long, are the targets of the semantic regularizer on the bundled features?

For each kind of packaged embeddings, as they are or scaled to unit length, and for each temperature: the softmax over
the 60 base classes that Eq. 8 gives each of the 40 novel classes (mean entropy in nats, mean share of the first class,
how many classes that is: the exponential of the entropy), and the norm of the target against the mean norm of the base
rows. Takes a second; what it printed last is in docs/language.md.

    python benchmarks/semantic_targets.py
"""

import warnings

import numpy as np
import torch

from subspan.features.feature_set import bundled
from subspan.language.errors import UnknownNameWarning
from subspan.language.packaged import packaged_embeddings

TEMPERATURES = {"as they are": (0.3, 1.0, 3.0, 10.0), "unit length": (0.02, 0.05, 0.1, 0.3, 3.0)}


def main() -> None:
    features = bundled()
    assert features.base_wnids is not None
    assert features.novel_wnids is not None
    rows = torch.as_tensor(features.base_weight, dtype=torch.float64)
    length = rows.norm(dim=1).mean()
    print(f"norm of base rows {length:.2f}, of their mean {rows.mean(0).norm():.4f}; log 60 = {np.log(60):.2f}")
    print(f"{'embeddings':12} {'scaled':12} {'tau':>5} {'entropy':>8} {'classes':>8} {'first':>6} {'norm':>6}")
    for kind in ("glove300", "glove100", "description"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownNameWarning)  # komondor: a uniform target, counted as such
            given = packaged_embeddings(kind, features.base_wnids + features.novel_wnids)
        vectors = torch.as_tensor(given, dtype=torch.float64)
        for scaled, temperatures in TEMPERATURES.items():
            used = vectors if scaled == "as they are" else torch.nn.functional.normalize(vectors, dim=1)
            base, novel = used[: features.base_count], used[features.base_count :]
            for tau in temperatures:
                share = torch.softmax(novel @ base.T / tau, dim=1)  # (C1, C0)
                entropy = torch.special.entr(share).sum(1)
                first, norm = share.amax(1).mean(), (share @ rows).norm(dim=1).mean() / length
                print(
                    f"{kind:12} {scaled:12} {tau:5g} {entropy.mean():8.2f} {entropy.exp().mean():8.1f} {first:6.2f} "
                    f"{norm:6.2f}"
                )


if __name__ == "__main__":
    main()
