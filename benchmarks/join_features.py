"""What several networks of one split would give together, by their feature files, before they are trained at once.

    python benchmarks/join_features.py A.safetensors B.safetensors --kept 640 --out joined.safetensors
    subspan bench joined.safetensors --no-memory --draws 5

A recipe with `--members` does this with the networks themselves. Files must be of cosine heads, one split and one draw
of images. Features of unit length stand side by side; covariances between networks are not in the files and count as
zero. With --kept they are brought down to their principal directions, of class means and covariances.

Figures are in docs/tried.md.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from subspan.backbones.joined import principal_directions
from subspan.features.feature_set import FeatureSet

PER_IMAGE = ("base_test", "novel_test", "novel_support", "base_memory")
SAME = ("base_test_labels", "novel_test_labels", "novel_support_labels")


def joined(parts: list[FeatureSet], kept: int) -> FeatureSet:
    """One feature set out of several; ``kept`` features, or all where that is 0."""
    first = parts[0]
    for part in parts[1:]:
        same_labels = all(np.array_equal(getattr(part, name), getattr(first, name)) for name in SAME)
        if not same_labels or any(part.meta.get(key) != first.meta.get(key) for key in ("split_digest", "contents")):
            raise ValueError("the files are not of the same images in the same order")
    needed = ("base_mean", "base_memory", "base_covariance")
    if any(part.head != "cosine" or any(getattr(part, name) is None for name in needed) for part in parts):
        raise ValueError(f"files to be joined need a cosine head and {', '.join(needed)}")
    arrays = {
        name: np.concatenate([_unit(getattr(part, name)) for part in parts], axis=-1) / np.sqrt(len(parts))
        for name in (*PER_IMAGE, "base_weight", "base_mean")
    }
    starts = np.cumsum([0, *(part.width for part in parts)])
    covariance = np.zeros((starts[-1], starts[-1]))
    for part, start, stop in zip(parts, starts, starts[1:], strict=False):
        assert part.base_covariance is not None
        covariance[start:stop, start:stop] = part.base_covariance / len(parts)
    if kept:
        means = arrays["base_mean"]
        moment = torch.from_numpy(covariance + means.T @ means / len(means))
        directions = principal_directions(moment, kept).double().numpy()
        arrays = {name: values @ directions for name, values in arrays.items()}
        covariance = directions.T @ covariance @ directions
    described = {name: getattr(first, name) for name in ("base_names", "novel_names", "base_wnids", "novel_wnids")}
    return FeatureSet(
        **{name: values.astype(np.float32) for name, values in arrays.items()},
        **{name: getattr(first, name) for name in SAME},
        **described,
        base_covariance=covariance.astype(np.float32),
        embeddings=first.embeddings,
        head="cosine",
        head_scale=first.head_scale,
        meta={**first.meta, "joined": len(parts)},
    )


def session0(features: FeatureSet) -> float:
    """Percent of base test images that the rows of a cosine head tell right."""
    right = (_unit(features.base_test) @ _unit(features.base_weight).T).argmax(1) == features.base_test_labels
    return 100 * float(right.mean())


def _unit(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.float64)
    return values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--kept", type=int, default=0, help="features to keep; 0: all")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    whole = joined([FeatureSet.load(path) for path in given.files], given.kept)
    whole.save(given.out, precision="float16")
    print(f"{given.out}: {whole.width} features, session 0 at {session0(whole):.2f} %")


if __name__ == "__main__":
    main()
