"""Chooses what the recipe `strong` leaves open, on the development split and on images that no test set has.

    PYTHONPATH=src python3 benchmarks/choose_strong.py --data DIR --out runs/choice

Four networks of `strong` are trained on `random:0:validation`, each at one level of three options:

    member   CutMix on   crops by area   pools
    1             60 %            25 %   blurred
    2             90 %            25 %   max
    3             60 %            50 %   max
    4             90 %            50 %   blurred

so that every pair of them shares the level of one option and differs in the two others. A pair is joined and scored:
percent of base images told right in session 0, plus a quarter of the percent of all images that `prototype` tells right
after the last session, five draws. The rule, written before the first run:

- A level is taken for all members where its pair is more than 0.2 above the mean of the four pairs that differ in that
  option, and above the pair of the other level. Else members have both levels by turns.
- Trained networks may be shown larger images than they were trained with. The size with the best session 0, as a mean
  over the six pairs, is taken if it is more than 0.1 above the stored size, and `prototype` with all four joined does
  not lose more than 0.5 by it.

What is measured on: validation images of base classes, and images from the end of the novel classes' support pools. Of
both, and of the support, images that the fixed split tests are left out, as it is the one that is trained next. No test
image of either split takes part in the choice.

What it chose on 2026-11-18 is what `strong` is: CutMix on 90 % and half of the crops by area for all, pools by turns.
Figures are in docs/tried.md.
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from join_features import joined, session0
from subspan.backbones.joined import join_networks
from subspan.backbones.network import Network
from subspan.experiments.multi_session import MultiSession
from subspan.features.feature_set import FeatureSet
from subspan.images.imageset import ImageSet
from subspan.images.read import read_images
from subspan.images.splits.parse import parse_split
from subspan.images.splits.split import Split
from subspan.learners.registry import create_method
from subspan.train.collect import Contents
from subspan.train.extract import Extractor
from subspan.train.pack import feature_set
from subspan.train.recipe import RECIPES, Recipe
from subspan.train.run import Job, RunSettings
from subspan.train.trainer import Runtime, accuracies, train

LEVELS = {"cutmix": ("0.6", "0.9"), "resized_share": ("0.25", "0.5"), "pool": ("blurred", "max")}
DESIGN = ((0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 0))  # the level of each option for each member
PAIRS = list(itertools.combinations(range(len(DESIGN)), 2))
ENLARGED = (112 / 104, 120 / 104)  # sides of larger images, in those of the stored ones
LEAST_GAIN, LEAST_GAIN_OF_SIZE, MOST_LOSS = 0.2, 0.1, 0.5

Read = Callable[[Path, int], ImageSet]


def choose(data: Path, out: Path, recipe: Recipe, runtime: Runtime, read: Read) -> dict[str, Any]:
    """Train, measure and decide; everything that was measured, and the choice, in ``out``/choice.json as well."""
    images = read(data, recipe.stored_size)
    split = untested(parse_split("random:0:validation").make(images), parse_split("fixed").make(images))
    [outcome] = train(images.images, [Job.from_split(images, split, out / "run", 0)], recipe, runtime)
    networks, device = [member.network for member in outcome.members], outcome.network.head.weight.device
    measured: dict[str, Any] = {
        "recipe": recipe.to_dict(),
        "base_queries": len(split.base_queries),
        "novel_queries": sum(map(len, split.novel_test)),
        "seconds": outcome.results["seconds"],
        "members": [member.results["validation"] for member in outcome.members],
    }
    files = features_of(networks, recipe, images, split, device)
    groups = [(i,) for i in range(len(networks))] + PAIRS + [tuple(range(len(networks)))]
    for group in groups:
        measured[_name(group)] = scores([files[i] for i in group], device)
    measured["levels"] = levels(measured)
    _write(out, measured)
    sizes = [recipe.stored_size, *(round(recipe.stored_size * factor) for factor in ENLARGED)]
    for size in sizes:
        shown = images if size == recipe.stored_size else read(data, size)
        pairs = [[networks[i] for i in pair] for pair in PAIRS]
        measured[f"pairs at {size}"] = [session0_at(pair, recipe, shown, split) for pair in pairs]
    best = max(sizes, key=lambda size: np.mean(measured[f"pairs at {size}"]))
    if best != recipe.stored_size:
        files = features_of(networks, recipe, read(data, best), split, device)
        measured[f"all at {best}"] = scores(files, device)
    measured["size"] = shown_size(measured, recipe.stored_size, best, _name(groups[-1]))
    _write(out, measured)
    return measured


def untested(split: Split, other: Split) -> Split:
    """The split without what another one tests, but for its training images."""
    tested = np.concatenate([other.base_test, *other.novel_test])

    def left(rows: np.ndarray) -> np.ndarray:
        return rows[~np.isin(rows, tested)]

    pools, queries = ([*map(left, each)] for each in (split.novel_support_pool, split.novel_test))
    return dataclasses.replace(
        split,
        base_validation=left(split.base_validation),
        novel_support_pool=tuple(pools),
        novel_test=tuple(queries),
    )


def features_of(
    networks: Sequence[Network], recipe: Recipe, images: ImageSet, split: Split, device: torch.device
) -> list[FeatureSet]:
    """The feature set of each network, with all base and novel queries."""
    contents = Contents(base_test=0, novel_test=0, covariance=True)
    settings = RunSettings(recipe, len(split.base_classes), 0, split.name, split.digest())
    extractors = [Extractor(network, recipe, images.images, device=device) for network in networks]
    return [feature_set(each, images, split, contents, each.network.head, settings.told()) for each in extractors]


def scores(files: Sequence[FeatureSet], device: torch.device) -> dict[str, float]:
    """Session 0 and the last session of `prototype` of networks side by side, and the two in one number."""
    together = joined([*files], 0)
    result = MultiSession().run(together, create_method("prototype"), memory=False, device=device)
    first, last = session0(together), float(result.weighted[:, -1].mean())
    parts = {"base": float(result.base[:, -1].mean()), "novel": float(result.novel[:, -1].mean())}
    return {"session0": first, "prototype": last, **parts, "score": first + last / 4}


def levels(measured: dict[str, Any]) -> dict[str, str]:
    """The level of each option for all members, or both by turns, in the order of the design."""
    chosen: dict[str, str] = {}
    for option, (name, values) in enumerate(LEVELS.items()):
        score = {pair: measured[_name(pair)]["score"] for pair in PAIRS}
        alike = {DESIGN[i][option]: (i, j) for i, j in PAIRS if DESIGN[i][option] == DESIGN[j][option]}
        differ = float(np.mean([score[pair] for pair in PAIRS if pair not in alike.values()]))
        best = max(alike, key=lambda level: score[alike[level]])
        for_all = score[alike[best]] > differ + LEAST_GAIN
        chosen[name] = values[best] if for_all else "/".join(values[row[option]] for row in DESIGN)
    return chosen


def shown_size(measured: dict[str, Any], stored: int, best: int, all_joined: str) -> int:
    """Pixels on a side of the images that trained networks shall be shown."""
    gain = np.mean(measured[f"pairs at {best}"]) - np.mean(measured[f"pairs at {stored}"])
    if gain <= LEAST_GAIN_OF_SIZE:
        return stored
    loss = measured[all_joined]["prototype"] - measured[f"all at {best}"]["prototype"]
    return best if loss <= MOST_LOSS else stored


def session0_at(networks: Sequence[Network], recipe: Recipe, images: ImageSet, split: Split) -> float:
    """Session 0 of networks joined, on images of any size."""
    job = Job.from_split(images, split, Path(), 0)
    return accuracies(join_networks(networks), images.images, job, recipe)["validation"] or 0.0


def _name(group: Sequence[int]) -> str:
    return "+".join(str(i + 1) for i in group)


def _write(out: Path, measured: dict[str, Any]) -> None:
    (out / "choice.json").write_text(json.dumps(measured, indent=1) + "\n", "utf-8")


def study_recipe(epochs: int) -> Recipe:
    """`strong` with the four members of the design, all their features kept."""
    columns = zip(LEVELS.items(), zip(*DESIGN, strict=True), strict=True)
    varied = tuple(f"{name}={'/'.join(values[level] for level in column)}" for (name, values), column in columns)
    members = {"members": len(DESIGN), "varied": varied, "kept_features": 0}
    return dataclasses.replace(RECIPES["strong"], name="choice", epochs=epochs, **members)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="miniImageNet with the lists of the fixed split")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--epochs", type=int, default=42)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    runtime = Runtime(device=given.device, checkpoint_every=0, validate_every=0)
    measured = choose(
        given.data, given.out, study_recipe(given.epochs), runtime, lambda path, size: read_images(path, size=size)
    )
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
