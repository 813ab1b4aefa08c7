"""Made-up images of a few classes and a tiny network trained on the base ones, for systems that move the network."""

import dataclasses
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from subspan.backbones.network import Network
from subspan.engine import sessions
from subspan.engine.contract import Base, State
from subspan.engine.sessions import session_of
from subspan.images.imageset import ImageSet
from subspan.images.splits.sessions import FolderSessions
from subspan.images.splits.split import Split
from subspan.learners.training.network_system import NetworkSystem
from subspan.learners.training.run import Training, TrainingRun
from subspan.train.collect import Contents
from subspan.train.maps import SplitMaps, split_maps
from subspan.train.recipe import PAPER
from subspan.train.run import Job, RunSettings, load_run
from subspan.train.trainer import Runtime, train

BASE, NOVEL, WAYS, SIZE, EACH = 8, 4, 2, 24, 50
CPU = torch.device("cpu")
RECIPE = dataclasses.replace(
    PAPER, width=0.08, crop_size=SIZE, padding=2, batch_size=20, epochs=6, cuts=(5,), jitter=0.0, dropblock="none"
)


def made_up_images(seed: int = 0) -> ImageSet:
    """Twelve classes: waves of a direction and a colour of their own, moved and noisy."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(BASE + NOVEL), EACH)
    direction = generator.normal(size=(BASE + NOVEL, 2)) * 0.6
    colour = generator.uniform(-1, 1, (BASE + NOVEL, 3))
    ground = generator.uniform(-1, 1, (BASE + NOVEL, 3))
    y, x = np.mgrid[:SIZE, :SIZE]
    phase = generator.uniform(0, 2 * np.pi, len(labels))
    angles = direction[labels, 0, None, None] * y + direction[labels, 1, None, None] * x + phase[:, None, None]
    pictures = 128 + 20 * ground[labels][:, None, None] + 35 * np.sin(angles)[..., None] * colour[labels][:, None, None]
    pixels = np.clip(pictures + generator.normal(0, 45, pictures.shape), 0, 255).astype(np.uint8)
    files = tuple(f"c{label}/{i:03d}.png" for i, label in enumerate(labels))
    return ImageSet(pixels, labels, tuple(f"class {c}" for c in range(BASE + NOVEL)), None, files)


@dataclass(frozen=True, eq=False)
class World:
    """Images, their split and the folder of a run."""

    images: ImageSet
    split: Split
    folder: Path

    def load(self) -> tuple[Network, RunSettings]:
        return load_run(self.folder)

    @cache  # noqa: B019 (as long as the tests run)
    def maps(self, where: str = "unit") -> SplitMaps:
        network, settings = self.load()
        return split_maps(network, settings, self.images, self.split, Contents(), where=where, device=CPU)  # type: ignore[arg-type]


def make_world(folder: Path, seed: int = 0, **changes: object) -> World:
    """Train the tiny network into a folder; seconds."""
    images = made_up_images()
    split = FolderSessions(base_fraction=BASE / (BASE + NOVEL), ways=WAYS).make(images)
    job = Job.from_split(images, split, folder, seed=seed)
    quiet = Runtime(device="cpu", progress=False, checkpoint_every=0, validate_every=0)
    recipe = dataclasses.replace(RECIPE, **changes)  # type: ignore[arg-type]
    train(images.images, [job], recipe, quiet, about={"image_size": SIZE, "validation": 0})
    return World(images, split, folder)


def before_sessions(system: NetworkSystem) -> State:
    """What a system that is ready knows before the first session, in a batch of one."""
    return sessions.start(system, Base(torch.zeros(BASE, 1)), 1)


def after_one_session(system: NetworkSystem, maps: SplitMaps) -> State:
    """What a session of the first novel class leaves, of five images."""
    support = torch.tensor(maps.items.novel_support[:5]).flatten(0, 1)[None]
    return system.learn(before_sessions(system), session_of(support, torch.full(support.shape[:2], BASE), (BASE,)))


def run(**settings: object) -> TrainingRun:
    """A training on the CPU that is neither shown nor kept."""
    return TrainingRun(Training(**settings))  # type: ignore[arg-type]
