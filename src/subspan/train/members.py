"""Runs of joined networks: members with seeds of their own, trained apart and made into one network."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.backbones.joined import join_backbones, join_networks, principal_directions
from subspan.backbones.network import Network
from subspan.train.evaluate import evaluation_mode, inputs
from subspan.train.job import Job
from subspan.train.recipe import Recipe, kept_directions
from subspan.train.run import CHECKPOINT, WEIGHTS
from subspan.train.seeds import member_seed


def member_jobs(job: Job, recipe: Recipe) -> list[Job]:
    """One job per member, each in a folder of its own; the job itself where nothing is joined."""
    if not recipe.joined:
        return [job]
    return [
        dataclasses.replace(job, folder=_member_folder(job, i), seed=member_seed(job.seed, i))
        for i in range(recipe.members)
    ]


def check_folders(job: Job, recipe: Recipe) -> None:
    """Refuse to write over another training: several networks over one or the other way round, or weights."""
    single, several = ((folder / CHECKPOINT).exists() for folder in (job.folder, _member_folder(job, 0)))
    if single if recipe.joined else several:
        there, wanted = ("one network", "several")[:: 1 if single else -1]
        raise ValueError(f"{job.folder} holds {there}, not {wanted} (members={recipe.members}): choose another folder")
    learners = [learner.folder for learner in member_jobs(job, recipe)]
    begun = [folder for folder in learners if (folder / CHECKPOINT).exists()]
    for folder in (job.folder, _member_folder(job, 0), *learners):
        own = begun if folder not in learners else folder in begun
        if (folder / WEIGHTS).exists() and not own:
            raise ValueError(f"{folder} holds trained weights, and no checkpoint to resume: choose another folder")


def _member_folder(job: Job, member: int) -> Path:
    return job.folder / f"member-{member + 1}"


def join_members(
    networks: Sequence[Network],
    recipe: Recipe,
    images: NDArray[np.uint8] | Tensor,
    rows: NDArray[np.int64],
    device: torch.device,
) -> Network:
    """The joined network; what it keeps of the members' features is what holds most of the images ``rows``."""
    whole = join_backbones(networks)
    kept = kept_directions(recipe, whole.feature_dim)
    if not kept:
        return join_networks(networks)
    moment = torch.zeros(whole.feature_dim, whole.feature_dim, dtype=torch.float64, device=device)
    with evaluation_mode(whole):
        for shown in inputs(images, rows, recipe, device):
            features = whole(shown).double()
            moment += features.T @ features
    return join_networks(networks, principal_directions(moment / len(rows), kept))
