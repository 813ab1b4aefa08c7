"""What the released code's one step in training mode costs: is it why some of our cells end above the paper's?

There the first step of every incremental session runs the network in training mode, so each session moves the batch
statistics of the frozen network once, a tenth of the way towards those of its 125 support images. Here the sessions of
one split run twice, without memory: with the network left as it is, and with that slip. Features of support and test
images are computed anew after every move; the rows are learned on features of evaluation mode in both cases.

Measured on 2026-11-15 on one NVIDIA H200 with a short run on split 0 (24 epochs, 71.9 % in session 0, `gap --seed 1` of
docs/tried.md), by

    python benchmarks/batch_norm_drift.py --run runs/gap-seed-1 --data ../shared/data/mini-imagenet

Accuracy on all classes after sessions 1 to 8, the network left as it is, and with the slip:

    finetune    44.7  38.8  31.2  28.1  25.0  22.5  21.5  19.8
                44.6  39.6  32.2  29.0  25.9  23.8  22.9  20.8
    subspace    58.7  54.8  46.2  42.0  38.3  36.4  34.6  32.7
                58.6  55.2  46.9  43.3  38.6  37.6  35.2  33.8

So on this split and short network the slip costs nothing: it gains 0.9 points on average with `finetune` (at most 1.4)
and 0.6 with `subspace` (at most 1.3).
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from subspan.backbones.network import Network
from subspan.engine import sessions
from subspan.engine.contract import Base, Learner, State
from subspan.images.imageset import ImageSet
from subspan.images.read import read_images
from subspan.images.splits.parse import parse_split
from subspan.images.splits.split import Split
from subspan.learners.registry import create_method
from subspan.train.collect import Contents, balanced_rows
from subspan.train.extract import Extractor
from subspan.train.parts.device import find_device
from subspan.train.recipe import Recipe
from subspan.train.run import load_run

SHOTS, COPIES, SEED = 5, 5, 0


class Sessions:
    """The sessions of one split, with the network that gives the features."""

    def __init__(self, network: Network, recipe: Recipe, images: ImageSet, split: Split, device: torch.device) -> None:
        self.network, self.recipe, self.images, self.split, self.device = network, recipe, images, split, device
        contents = Contents()
        self.base_test = balanced_rows(images, split, 1000, contents.draw_seed)
        self.novel_test = [test[:25] for test in split.novel_test]
        self.first_of_class = {c: i for i, c in enumerate((*split.base_classes, *split.novel_classes))}

    def labels(self, rows: np.ndarray) -> Tensor:
        return torch.tensor([self.first_of_class[int(c)] for c in self.images.labels[rows]], device=self.device)

    def extractor(self) -> Extractor:
        return Extractor(self.network, self.recipe, self.images.images, device=self.device)

    def features(self, rows: np.ndarray) -> Tensor:
        return torch.from_numpy(self.extractor().plain(rows)).to(self.device)

    def support(self, session: int) -> np.ndarray:
        """Rows of the images (ways * shots,) that a session learns from."""
        sizes = [len(classes) for classes in self.split.sessions]
        first = sum(sizes[:session])
        return np.concatenate([pool[:SHOTS] for pool in self.split.novel_support_pool[first : first + sizes[session]]])

    def drift(self, rows: np.ndarray) -> None:
        """One forward pass in training mode over the copies of these images, as one batch."""
        shown = self.extractor().shown_copies(rows, COPIES, SEED)
        self.network.train()
        with torch.no_grad():
            self.network.features(shown.flatten(0, 1))
        self.network.eval()

    def run(self, method: Learner, slip: bool) -> list[tuple[float, float]]:
        """Accuracy (base, novel) in percent after each session, session 0 first."""
        weight = self.network.head.weight.detach().float().to(self.device)
        state = sessions.start(method, Base(rows=weight[: len(self.split.base_classes)]), 1)
        accuracies = [self.accuracy(method, state, 0)]
        for session in range(len(self.split.sessions)):
            images = self.support(session)
            if slip:
                self.drift(images)
            support = torch.from_numpy(self.extractor().copies(images, COPIES, SEED)).to(self.device)
            labels = self.labels(images).repeat_interleave(COPIES)
            classes = range(state.rows.shape[1], int(labels.max()) + 1)
            given = sessions.session_of(support.flatten(0, 1)[None], labels[None], classes, seeds=(session,))
            state = sessions.learn(method, state, given)
            accuracies.append(self.accuracy(method, state, session + 1))
        return accuracies

    def accuracy(self, method: Learner, state: State, done: int) -> tuple[float, float]:
        """Accuracy (base, novel) in percent on all classes after so many sessions."""
        seen = sum(len(classes) for classes in self.split.sessions[:done])
        both = []
        for parts in (self.base_test, self.novel_test[:seen]):
            if not parts:
                both.append(float("nan"))
                continue
            images = np.concatenate(parts)
            right = sessions.scores(method, state, self.features(images))[0].argmax(-1) == self.labels(images)
            both.append(100 * right.double().mean().item())
        return both[0], both[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder of a finished run on a split with sessions")
    parser.add_argument("--data", type=Path, required=True, help="its images")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--method", action="append", help="default: finetune and subspace with the options of the paper"
    )
    given = parser.parse_args()
    device = find_device(given.device)
    _, settings = load_run(given.run)
    images = read_images(given.data, size=settings.image_size)
    split = parse_split(settings.split, None).make(images)
    sizes = [len(split.base_classes), *np.cumsum([len(classes) for classes in split.sessions])]
    print(f"{settings.split}, recipe {settings.recipe.name}, {device}; accuracy on all, base and novel classes")
    for spec in given.method or ["finetune", "subspace"]:
        for slip in (False, True):
            network, _ = load_run(given.run)  # anew: the slip moves it
            network.to(device).reseed(SEED)
            parts = Sessions(network, settings.recipe, images, split, device).run(create_method(spec), slip)
            print(f"{spec}, {'with the step in training mode' if slip else 'network left as it is'}")
            for session, (base, novel) in enumerate(parts):
                count = sizes[session] if session else 0
                joint = base if not session else (sizes[0] * base + count * novel) / (sizes[0] + count)
                print(f"  session {session}: {joint:6.2f}  base {base:6.2f}  novel {novel:6.2f}", flush=True)


if __name__ == "__main__":
    main()
