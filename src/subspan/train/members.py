"""Runs of several networks: members with seeds of their own, trained side by side and joined into one network."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.backbones import Network
from subspan.backbones.joined import JoinedBackbone, join_networks, principal_directions
from subspan.train.evaluate import batches, evaluation_mode, normalised
from subspan.train.job import Job
from subspan.train.recipe import Recipe, kept_directions, member_seed


def member_jobs(job: Job, recipe: Recipe) -> list[Job]:
    """One job per member, each in a folder of its own; the job itself where there is one network only."""
    if recipe.members == 1:
        return [job]
    return [
        dataclasses.replace(job, folder=job.folder / f"member-{i + 1}", seed=member_seed(job.seed, i))
        for i in range(recipe.members)
    ]


def join_members(
    networks: Sequence[Network],
    recipe: Recipe,
    images: NDArray[np.uint8] | Tensor,
    rows: NDArray[np.int64],
    device: torch.device,
) -> Network:
    """The joined network; what it keeps of the members' features is what holds most of the images ``rows``."""
    joined = join_networks(networks)
    kept = kept_directions(recipe, joined.head.weight.shape[1])
    if not kept:
        return joined
    assert isinstance(joined.backbone, JoinedBackbone)
    width = joined.head.weight.shape[1]
    moment = torch.zeros(width, width, dtype=torch.float64, device=device)
    with evaluation_mode(joined):
        for pixels in batches(images, rows, device):
            features = joined.backbone.side_by_side(normalised(pixels, recipe.mean, recipe.std)).double()
            moment += features.T @ features
    return join_networks(networks, principal_directions(moment / len(rows), kept))
