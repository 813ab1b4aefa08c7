"""Trained networks of one split, joined after the fact, and their feature file: members need not share a recipe.

    python benchmarks/join_runs.py --runs A B C --data DIR --out joined.safetensors
    subspan bench joined.safetensors --no-memory --draws 5

`subspan train --members` trains networks of one recipe and joins them the same way; this is for finding out which
networks are worth joining. With feature files alone, join_features.py comes close.

Figures are in docs/tried.md.
"""

import argparse
import dataclasses
from pathlib import Path

import torch

from subspan.images.read import read_images
from subspan.images.splits.parse import parse_split
from subspan.train.collect import Contents
from subspan.train.extract import Extractor
from subspan.train.pack import feature_set
from subspan.train.parts.device import find_device
from subspan.train.parts.network import join_members
from subspan.train.run import Job, load_run
from subspan.train.trainer import accuracies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="folders of trained networks")
    parser.add_argument("--data", type=Path, required=True, help="the images")
    parser.add_argument("--kept-features", type=int, default=640, help="as for subspan train")
    parser.add_argument("--flip-average", action="store_true", help="average with the mirrored image")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    device = find_device(given.device)
    networks, settings = zip(*(load_run(path) for path in given.runs), strict=True)
    first = settings[0]
    for path, one in zip(given.runs, settings, strict=True):
        for name in ("crop_size", "mean", "std"):
            if getattr(one.recipe, name) != getattr(first.recipe, name):
                ours, theirs = getattr(first.recipe, name), getattr(one.recipe, name)
                raise ValueError(f"{path} has {name} {theirs}, {given.runs[0]} has {ours}: they see images differently")
        if one.image_size != first.image_size:
            raise ValueError(f"{path} has images of {one.image_size} pixels, {given.runs[0]} of {first.image_size}")
        if one.split_digest != first.split_digest:
            raise ValueError(f"{path} is of {one.split}, {given.runs[0]} of {first.split}, or of other images")
    recipe = dataclasses.replace(
        first.recipe,
        name="joined",
        members=len(networks),
        kept_features=given.kept_features,
    )
    images = read_images(given.data, size=first.image_size)
    split = parse_split(first.split, None).make(images)
    first.check_trained_on(split)
    networks = [one.to(device, memory_format=torch.channels_last) for one in networks]
    joined = join_members(networks, recipe, images.images, split.training_images, device)
    extractor = Extractor(joined, recipe, images.images, device=device, flip_average=given.flip_average)
    about = dataclasses.replace(first, recipe=recipe)
    whole = feature_set(
        extractor, images, split, Contents(covariance=True), joined.head, about.told() | extractor.about
    )
    whole.save(given.out, precision="int8")
    print(f"{given.out}: {whole.width} features, session 0 at {whole.meta['session0_test']:.2f} % of test images")
    job = Job.from_split(images, split, given.out.parent, first.seed)
    right = accuracies(joined, images.images, job, recipe)["validation"]
    if right is not None:
        print(f"validation {right:.2f} %")


if __name__ == "__main__":
    main()
