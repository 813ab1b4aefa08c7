"""The released loop of the paper's authors, timed for a few dozen steps: it computes the network anew at every step.

Takes the path of a checkout of feyzaakyurek/subspace-reg and calls its function for incremental sessions on images of
noise: no line of it is here, and nothing of it but time enters. The code released is the multi-session one; one session
of it with 64 base classes, 5 novel ones and 25 + 25 queries stands in for an episode of the single-session setting.
What a step costs is the difference of two lengths, so that start and end of a session do not count.

    python benchmarks/authors_loop.py CHECKOUT                 # a GPU, as their code asks for
    python benchmarks/authors_loop.py CHECKOUT --device cpu    # their calls of .cuda() do nothing
"""

import argparse
import contextlib
import importlib
import io
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch

BASE, WAYS, SHOTS, COPIES, SIZE = 64, 5, 5, 5, 84


def seconds_per_step(checkout: Path, *, model: str, device: str, queries: int, short: int, long: int) -> float:
    """Seconds of one optimiser step of their loop, evaluation of the queries after each step included."""
    with _inside(checkout), _on(device):
        loop = importlib.import_module("eval.language_eval").few_shot_finetune_incremental_test
        create = importlib.import_module("models").model_dict[model]
        times = []
        for steps in (short, short, long):  # the first warms up
            options = _options(steps)
            torch.manual_seed(0)
            network = create(avg_pool=True, drop_rate=0.1, dropblock_size=5, num_classes=BASE, opt=options).to(device)
            arguments = (network, {}, torch.nn.CrossEntropyLoss(), _novel_images(queries), _base_images(), options)
            began = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                loop(*arguments)
            if device != "cpu":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
    return (times[2] - times[1]) / (long - short)


def _options(steps: int) -> Namespace:
    """One session under R_old as released, for a fixed number of steps."""
    switches = ("track_weights", "track_label_inspired_weights", "save_preds_0", "continual", "adam", "linear_bias")
    return Namespace(
        **dict.fromkeys(switches, False),
        set_seed=0,
        memory_replay=0,
        neval_episodes=1,
        n_ways=WAYS,
        label_pull=None,
        pulling=None,
        attraction_override=None,
        target_train_loss=0.0,
        stable_epochs=10,
        convergence_epsilon=0.0,
        freeze_backbone_at=1,
        classifier="linear",
        attention=None,
        lmbd_reg_transform_w=0.2,
        lmbd_reg_novel=None,
        max_novel_epochs=steps,
        min_novel_epochs=0,
        learning_rate=0.002,
        momentum=0.9,
        weight_decay=5e-4,
        no_dropblock=True,
        dataset="miniImageNet",
    )


class _Images:
    """What their loops take for a loader: batches, and a dataset with the names of its classes."""

    def __init__(self, names: list[str], batch: tuple[torch.Tensor, ...]) -> None:
        self.dataset, self.batch = SimpleNamespace(label2human=names), batch

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        return iter([self.batch])


def _novel_images(queries: int) -> _Images:
    generator = torch.Generator().manual_seed(1)
    support = torch.randn(1, WAYS * SHOTS * COPIES, 3, SIZE, SIZE, generator=generator)
    query = torch.randn(1, queries, 3, SIZE, SIZE, generator=generator)
    labels = torch.arange(WAYS)
    of_support, of_query = labels.repeat_interleave(SHOTS * COPIES), labels.repeat_interleave(queries // WAYS)
    return _Images([f"novel {i}" for i in range(WAYS)], (support, of_support[None], query, of_query[None]))


def _base_images() -> _Images:
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(1, 25, 3, SIZE, SIZE, generator=generator)
    return _Images([f"base {i}" for i in range(BASE)], (images, torch.arange(25)[None]))


@contextlib.contextmanager
def _inside(checkout: Path) -> Iterator[None]:
    """Their modules first, and their folder as the current one, as their scripts want it."""
    if not (checkout / "eval" / "language_eval.py").is_file():
        raise SystemExit(f"'{checkout}' is no checkout of feyzaakyurek/subspace-reg")
    before = Path.cwd()
    sys.path.insert(0, str(checkout.resolve()))
    os.chdir(checkout)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(checkout.resolve()))


@contextlib.contextmanager
def _on(device: str) -> Iterator[None]:
    """Their code moves everything to a GPU; without one these calls do nothing."""
    if device != "cpu":
        yield
        return
    with (
        mock.patch.object(torch.Tensor, "cuda", _stay),
        mock.patch.object(torch.nn.Module, "cuda", _stay),
        mock.patch.object(torch.cuda, "is_available", return_value=True),
    ):
        yield


def _stay(self: object, *_: object, **__: object) -> object:
    return self


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="resnet12", choices=["resnet12", "resnet18"])
    parser.add_argument("--queries", type=int, default=25, help="novel queries that they classify after every step")
    parser.add_argument("--short", type=int, default=5)
    parser.add_argument("--long", type=int, default=45)
    arguments = parser.parse_args()
    step = seconds_per_step(**vars(arguments))
    print(f"{arguments.model} on {arguments.device}: {1e3 * step:.1f} ms a step, {1000 * step:.1f} s for 1000 steps")


if __name__ == "__main__":
    main()
