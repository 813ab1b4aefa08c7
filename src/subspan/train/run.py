"""A run on disk: its settings, checkpoints and trained weights in one folder.

run.json                 settings and, once trained, results
log.csv, tensorboard/    one record per epoch
checkpoint.safetensors   network and momentum after some epoch; replaced in one step
weights.safetensors      the trained network

A run of a joined network has such a folder for each of its members, ``member-1`` and so on; its own has ``run.json``
and the joined network in ``weights.safetensors``.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from subspan.backbones.checkpoint import read_tensors, write_tensors
from subspan.backbones.network import Network
from subspan.files.atomic import replacing
from subspan.images.splits.split import Split
from subspan.train.recipe import Recipe, build_network
from subspan.train.step import TrainStep

SETTINGS, LOG, BOARD = "run.json", "log.csv", "tensorboard"
CHECKPOINT, WEIGHTS = "checkpoint.safetensors", "weights.safetensors"


@dataclass(frozen=True)
class RunSettings:
    """What a run was asked to do; two runs with equal identity give the same weights on one kind of machine."""

    recipe: Recipe
    classes: int
    seed: int
    split: str = ""  # name, as on the command line
    split_digest: str = ""
    about: dict[str, Any] = field(default_factory=dict)  # versions, device: not part of the identity

    @property
    def image_size(self) -> int:
        """Pixels on a side of the images that the run was given."""
        return int(self.about.get("image_size", self.recipe.stored_size))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "recipe": self.recipe.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "RunSettings":
        """The inverse of :meth:`to_dict`; other keys are left aside."""
        names = ("classes", "seed", "split", "split_digest", "about")
        return cls(Recipe.from_dict(values["recipe"]), **{name: values[name] for name in names})

    def identity(self) -> dict[str, Any]:
        """What must agree between a checkpoint and the run that resumes from it."""
        return {
            "recipe": self.recipe.digest(),
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


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write JSON in one step."""
    with replacing(path) as file:
        file.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def save_checkpoint(folder: Path, step: TrainStep, settings: RunSettings, epochs_done: int) -> None:
    """Write the state after ``epochs_done`` epochs."""
    meta = {"identity": settings.identity(), "epochs_done": epochs_done}
    _write(folder / CHECKPOINT, step.tensors(), meta)


def load_checkpoint(folder: Path, step: TrainStep, settings: RunSettings) -> int:
    """Restore the state in place and return the number of epochs done; 0 where there is no checkpoint yet."""
    path = folder / CHECKPOINT
    if not path.exists():
        return 0
    tensors, meta = read_tensors(path)
    if "identity" not in meta:
        raise ValueError(f"{path} is no checkpoint of a base session: choose another folder")
    # A checkpoint from before image sizes stood in it counts as one of the crop size.
    before, wanted = {"image_size": settings.recipe.crop_size, **meta["identity"]}, settings.identity()
    if before["recipe"] != wanted["recipe"]:  # a field says more than a digest
        before, wanted = _recipe_fields(folder) | before, settings.recipe.to_dict() | wanted
    for name, value in wanted.items():
        if name in before and before[name] != value:
            raise ValueError(f"{path} cannot be resumed: its {name} is {before[name]!r}, asked for is {value!r}")
    step.restore({name: tensor.to(step.device) for name, tensor in tensors.items()})
    return int(meta["epochs_done"])


def _recipe_fields(folder: Path) -> dict[str, Any]:
    """The recipe of a run as its folder tells it, without the name; nothing where that is not recorded."""
    record = _record(folder)
    fields = Recipe.from_dict(record["recipe"]).to_dict() if record else {}
    return {name: value for name, value in fields.items() if name != "name"}


def save_trained(folder: Path, network: Network, settings: RunSettings, results: dict[str, Any]) -> None:
    """Write the trained network, as :func:`load_run` builds it, and what it came to."""
    folder.mkdir(exist_ok=True)
    _write(folder / WEIGHTS, network.state_dict(), {"settings": settings.to_dict()})
    write_json(folder / SETTINGS, {**settings.to_dict(), "results": results})


def _write(path: Path, tensors: dict[str, torch.Tensor], meta: dict[str, Any]) -> None:
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{path} was not written, '{name}' is not finite: try a smaller --learning-rate")
    write_tensors(path, tensors, meta)


def results_of(path: Path) -> dict[str, Any]:
    """What a finished run measured (validation and test accuracy, seconds); nothing where that is not recorded."""
    return _record(path).get("results", {})


def _record(folder: Path) -> dict[str, Any]:
    file = folder / SETTINGS
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def load_run(path: Path) -> tuple[Network, RunSettings]:
    """The trained network of a run folder or a weights file; on the CPU, in evaluation mode."""
    file = path / WEIGHTS if path.is_dir() else path
    if not file.exists():
        raise FileNotFoundError(f"no trained weights at {path}: there is no {file.name}")
    tensors, meta = read_tensors(file)
    if "settings" not in meta:
        raise ValueError(f"{path} is no trained run but a file of another kind: name the folder of a run")
    settings = RunSettings.from_dict(meta["settings"])
    network = build_network(settings.recipe, settings.classes, settings.seed)
    network.load_state_dict(
        {
            name: tensor.to(torch.get_default_dtype()) if tensor.is_floating_point() else tensor
            for name, tensor in tensors.items()
        }
    )
    return network.eval(), settings
