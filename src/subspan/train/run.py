"""What a base session learns, apart from how, and its run on disk: settings, checkpoints and weights in one folder.

run.json                 settings and, once trained, results
log.csv                  one row per epoch
checkpoint.safetensors   network and momentum after some epoch; replaced in one step
weights.safetensors      the trained network

A run of a joined network has such a folder for each of its members, ``member-1`` and so on; its own has ``run.json``
and the joined network in ``weights.safetensors``.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from subspan.backbones.checkpoint import read_tensors, write_tensors
from subspan.backbones.network import Network
from subspan.files.atomic import replacing
from subspan.images.imageset import ImageSet, IntArray
from subspan.images.splits.split import Split
from subspan.train.parts.network import build_network
from subspan.train.recipe import Recipe, member_seed

SETTINGS, LOG, CHECKPOINT, WEIGHTS = "run.json", "log.csv", "checkpoint.safetensors", "weights.safetensors"


Labelled = tuple[IntArray, IntArray]  # rows of an array of images, and their classes


@dataclass(frozen=True, eq=False)
class Job:
    """What one network learns: images by their rows, of classes 0 .. classes - 1.

    Validation and test images are those of the first ``base_classes`` classes, and only their logits compete.
    """

    name: str
    folder: Path
    seed: int
    classes: int
    base_classes: int
    train: Labelled
    validation: Labelled
    test: Labelled
    split_digest: str = ""

    @classmethod
    def from_split(cls, images: ImageSet, split: Split, folder: Path, seed: int) -> "Job":
        """The base session of a split."""
        classes, base = len(split.training_classes), len(split.base_classes)
        label_of = np.full(len(images.class_names), -1, dtype=np.int64)
        label_of[list(split.training_classes)] = np.arange(classes)
        chosen = split.training_images, split.base_validation, split.base_test
        parts = [(rows, label_of[images.labels[rows]]) for rows in chosen]
        return cls(split.name, folder, seed, classes, base, *parts, split_digest=split.digest())

    def members(self, recipe: Recipe) -> "list[Job]":
        """One job for each member of a joined network, in a folder of its own; the job itself where none is joined."""
        if recipe.members == 1:
            return [self]
        seeds = [member_seed(self.seed, i) for i in range(recipe.members)]
        return [replace(self, folder=self.folder / f"member-{i}", seed=seed) for i, seed in enumerate(seeds, start=1)]


@dataclass(frozen=True)
class RunSettings:
    """What a run was asked to do; two runs with equal identity give the same weights on one kind of machine."""

    recipe: Recipe
    classes: int
    seed: int
    split: str = ""  # name, as on the command line
    split_digest: str = ""
    about: dict[str, Any] = field(default_factory=dict)  # versions, device: not part of the identity

    @classmethod
    def of(cls, job: Job, recipe: Recipe, about: dict[str, Any]) -> "RunSettings":
        """The settings by which a job's network is trained."""
        return cls(recipe, job.classes, job.seed, job.name, job.split_digest, about)

    @property
    def image_size(self) -> int:
        """Pixels on a side of the images that the run was given."""
        return int(self.about.get("image_size", self.recipe.stored_size))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "recipe": self.recipe.to_dict()}

    def told(self) -> dict[str, Any]:
        """What a feature file says of the run."""
        return {"recipe": self.recipe.to_dict(), "seed": self.seed, **self.about}

    def identity(self) -> dict[str, Any]:
        """What must agree between a checkpoint and the run that resumes from it, field by field.

        The size of images is that of the images a run is given; the name says nothing.
        """
        recipe = {name: value for name, value in self.recipe.to_dict().items() if name != "name"}
        return recipe | {
            "classes": self.classes,
            "seed": self.seed,
            "split": self.split_digest,
            "image_size": self.image_size,
        }

    def check_trained_on(self, split: Split) -> None:
        """Refuse a split that is not the run's, or is of other images."""
        if self.split_digest and self.split_digest != split.digest():
            raise ValueError(
                f"the run was trained on split {self.split!r} with digest {self.split_digest[:12]}, "
                f"these images give {split.digest()[:12]}: other images or another split"
            )


def check_folders(job: Job, recipe: Recipe, *, resume: bool) -> None:
    """Refuse to write over another training, and to train several networks in the folder of one or the other way."""
    several = recipe.members > 1
    if (job.folder / (LOG if several else "member-1")).exists():
        there, wanted = ("one network", "several") if several else ("several", "one network")
        raise ValueError(f"{job.folder} holds {there}, not {wanted} (members={recipe.members}): choose another folder")
    for folder in (member.folder for member in job.members(recipe)):
        begun = (folder / CHECKPOINT).exists()
        if begun and not resume:
            raise ValueError(f"{folder} holds a checkpoint already: resume it, or choose another folder")
        if (folder / WEIGHTS).exists() and not begun:
            raise ValueError(f"{folder} holds trained weights, and no checkpoint to resume: choose another folder")


def write_settings(folder: Path, settings: RunSettings, **more: Any) -> None:
    """Write what a run was asked to do, and what else is known of it."""
    with replacing(folder / SETTINGS) as file:
        file.write_text(json.dumps({**settings.to_dict(), **more}, indent=1) + "\n", encoding="utf-8")


def read_log(folder: Path, epochs: int) -> list[dict[str, Any]]:
    """The rows of the first so many epochs: those that a resumed run repeats are left aside."""
    path = folder / LOG
    if epochs == 0 or not path.exists():
        return []
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if int(row["epoch"]) < epochs]


def write_log(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One row per epoch, with a header."""
    with replacing(folder / LOG) as path, path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def save_checkpoint(folder: Path, state: dict[str, torch.Tensor], settings: RunSettings, epochs_done: int) -> None:
    """Write the state after ``epochs_done`` epochs."""
    _write(folder / CHECKPOINT, state, {"identity": settings.identity(), "epochs_done": epochs_done})


def find_checkpoint(folder: Path, settings: RunSettings) -> tuple[dict[str, torch.Tensor], int]:
    """The state of a checkpoint and the number of epochs done, 0 where there is none yet; another run's is refused."""
    path = folder / CHECKPOINT
    if not path.exists():
        return {}, 0
    tensors, meta = read_tensors(path)
    if "identity" not in meta:
        raise ValueError(f"{path} is no checkpoint of a base session: choose another folder")
    before = meta["identity"]
    for name, value in settings.identity().items():
        if before.get(name) != value:
            raise ValueError(f"{path} cannot be resumed: its {name} is {before.get(name)!r}, asked for is {value!r}")
    return tensors, int(meta["epochs_done"])


def save_trained(folder: Path, network: Network, settings: RunSettings, results: dict[str, Any]) -> None:
    """Write the trained network, as :func:`load_run` builds it, and what it came to."""
    _write(folder / WEIGHTS, network.state_dict(), {"settings": settings.to_dict()})
    write_settings(folder, settings, results=results)


def _write(path: Path, tensors: dict[str, torch.Tensor], meta: dict[str, Any]) -> None:
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{path} was not written, '{name}' is not finite: try a smaller --learning-rate")
    write_tensors(path, tensors, meta)


def record_of(folder: Path) -> dict[str, Any]:
    """Settings of a run and, of a finished one, ``results``; both empty where there is no record."""
    file = folder / SETTINGS
    return {"results": {}, **(json.loads(file.read_text("utf-8")) if file.is_file() else {})}


def load_run(path: Path) -> tuple[Network, RunSettings]:
    """The trained network of a run folder or a weights file; on the CPU, in evaluation mode."""
    file = path / WEIGHTS if path.is_dir() else path
    if not file.exists():
        raise FileNotFoundError(f"no trained weights at {path}: there is no {file.name}")
    tensors, meta = read_tensors(file)
    if "settings" not in meta:
        raise ValueError(f"{path} is no trained run but a file of another kind: name the folder of a run")
    settings = RunSettings(**meta["settings"] | {"recipe": Recipe.from_dict(meta["settings"]["recipe"])})
    network = build_network(settings.recipe, settings.classes, settings.seed)
    network.load_state_dict(tensors)
    return network.eval(), settings
