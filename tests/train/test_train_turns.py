"""Turns as a second loss: against torch's own losses, against turned images, and that the head for turns learns."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from colour_classes import CLASSES, colour_images, colour_job, tiny_recipe
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from subspan.backbones import Mixing, Network
from subspan.backbones.checkpoint import read_tensors
from subspan.train.augment import Augment
from subspan.train.evaluate import normalised
from subspan.train.extract import Extractor
from subspan.train.recipe import Recipe, build_learner, build_network
from subspan.train.run import export_shards, load_run
from subspan.train.seeds import derive_seed
from subspan.train.source import ResidentImages
from subspan.train.step import TrainStep, epoch_order
from subspan.train.trainer import Runtime, train
from subspan.train.turns import TurnNetwork

CPU = torch.device("cpu")
SEED, RATE, DECAY = 5, 0.03125, 5e-4
QUICK = Runtime(device="cpu", tensorboard=False, progress=False, checkpoint_every=1, validate_every=0)
TURNING = {"rotation_share": 0.6, "turn_loss": 0.7}


def one_batch(**changes: object) -> Recipe:
    """A recipe without noise inside the network, whose epoch is one batch."""
    plain = {"epochs": 1, "cuts": (), "norm": "group", "drop_rate": 0.0, "learning_rate": RATE}
    return tiny_recipe(**{**plain, **TURNING, **changes})


def first_step(recipe: Recipe) -> TrainStep:
    images, labels = colour_images()
    rows = np.arange(0, len(images), len(images) // recipe.batch_size)
    source = ResidentImages(torch.from_numpy(images))
    network = build_learner(recipe, CLASSES, SEED)
    return TrainStep(recipe, network, source, rows, labels[rows], CLASSES, seed=SEED, device=CPU)


def shown_in(step: TrainStep) -> tuple[Tensor, Tensor, Tensor, Tensor, list[Mixing]]:
    """What the first batch of a step shows: images, labels, partners, share, and how maps are mixed."""
    images, labels = colour_images()
    count = step.recipe.batch_size
    rows = np.arange(0, len(images), len(images) // count)[epoch_order(count, SEED, 0)]
    augment, start = Augment(step.recipe, CLASSES, derive_seed(SEED, "augment")), torch.tensor(0)
    taken, truth = torch.from_numpy(rows), torch.from_numpy(labels[rows])
    shown, truth, partners, share = augment(torch.from_numpy(images), taken, truth, start, torch.arange(count))
    if step.recipe.feature_mix == 0:
        return shown, truth, partners, share, []
    partners, share, mixing = augment.mix_features(truth, partners, share, start)
    return shown, truth, partners, share, [mixing]


@pytest.mark.parametrize(
    "changes", [{}, {"cutmix": 1.0, "label_smoothing": 0.1, "head": "cosine"}, {"feature_mix": 1.0}]
)
def test_one_step_equals_autograd_on_the_sum_of_both_losses(changes: dict[str, object]) -> None:
    step = first_step(one_batch(**changes))
    images, labels, partners, share, mixing = shown_in(step)
    assert (share < 1) == bool(changes)
    network = copy.deepcopy(step.network)
    assert isinstance(network, TurnNetwork)
    assert network.head.weight.shape[0] == CLASSES  # one row per class: turned images keep theirs

    def soft(first: Tensor, second: Tensor, count: int) -> Tensor:
        return share * nn.functional.one_hot(first, count) + (1 - share) * nn.functional.one_hot(second, count)

    features = network.backbone(images, *mixing)
    turns = nn.functional.linear(features, network.turn_head.weight, network.turn_head.bias)
    by_class = nn.functional.cross_entropy(
        network.head(features),
        soft(labels % CLASSES, partners % CLASSES, CLASSES),
        label_smoothing=step.recipe.label_smoothing,
    )
    by_turn = nn.functional.cross_entropy(turns, soft(labels // CLASSES, partners // CLASSES, 4))
    loss = by_class + 0.7 * by_turn
    loss.backward()
    reference = torch.optim.SGD(network.parameters(), lr=RATE, weight_decay=DECAY)
    reference.step()

    list(step.epoch(0))
    assert step.read_counters()[0] == pytest.approx(loss.item(), rel=1e-5)
    moved = dict(step.network.named_parameters())
    for name, expected in network.named_parameters():
        torch.testing.assert_close(moved[name], expected, rtol=1e-4, atol=1e-6, msg=name)


def test_images_classified_by_class_count_whatever_their_turn() -> None:
    step = first_step(one_batch(rotation_share=1.0))
    images, labels, *_ = shown_in(step)
    assert set((labels // CLASSES).tolist()) == {1, 2, 3}
    logits = step.network(images)
    assert logits.shape[1] == CLASSES + 4
    expected = (logits[:, :CLASSES].argmax(1) == labels % CLASSES).sum().item()
    list(step.epoch(0))
    assert step.read_counters()[1] == expected > 0


def test_a_box_brings_the_turn_of_its_image() -> None:
    store = np.random.default_rng(0).integers(0, 256, (5, 20, 20, 3), dtype=np.uint8)
    plain = {"crop_size": 20, "padding": 0, "jitter": 0.0, "flip": False, "mean": (0.0,) * 3, "std": (1.0,) * 3}
    augment = Augment(tiny_recipe(**plain, **TURNING, cutmix=1.0), 5, SEED)
    quarters = set()
    for step in range(8):
        here = torch.arange(5)
        images, labels, partners, share = augment(torch.from_numpy(store), here, here, torch.tensor(step), here)
        for image, *both in zip(images.permute(0, 2, 3, 1).numpy(), labels.tolist(), partners.tolist(), strict=True):
            own, other = (
                np.isclose(image * 255, np.rot90(store[label % 5], label // 5), atol=1e-2).all(2) for label in both
            )
            assert (own | other).all()
            assert own.mean() == pytest.approx(share.item(), abs=0.01)
            quarters |= {label // 5 for label in both}
    assert quarters == {0, 1, 2, 3}


def shaded_images() -> np.ndarray:
    """The colour classes, dark towards the bottom: which way is up can be seen."""
    images, _ = colour_images()
    return (images * np.linspace(1.0, 0.3, images.shape[1])[:, None, None]).astype(np.uint8)


def test_the_head_learns_turns_beside_classes(tmp_path: Path) -> None:
    images = shaded_images()
    job = colour_job(tmp_path)
    recipe = tiny_recipe(epochs=8, cuts=(6,), jitter=0.0, rotation_share=0.75, turn_loss=1.0)
    (outcome,) = train(images, [job], recipe, QUICK)
    assert outcome.test >= 90
    network = outcome.network.eval()
    correct = []
    for quarters in range(4):
        turned = np.rot90(images[job.test_rows], quarters, (1, 2)).copy()
        with torch.no_grad():
            logits = network(normalised(torch.from_numpy(turned), recipe.mean, recipe.std))
        correct.append((logits[:, CLASSES:].argmax(1) == quarters).float().mean().item())
    assert np.mean(correct) >= 0.7, correct  # 0.25 by chance


class NothingForTheHost(TorchDispatchMode):
    """Refuses operations that read values of tensors: a CUDA graph cannot hold them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default), func
        return func(*args, **(kwargs or {}))


def test_a_step_asks_nothing_of_the_host() -> None:
    step = first_step(one_batch(cutmix=0.5, feature_mix=0.5, average_decay=0.9))
    with NothingForTheHost():
        list(step.epoch(0))
    with pytest.raises(AssertionError), NothingForTheHost():
        step.read_counters()


def test_trained_weights_and_features_are_without_the_head_for_turns(tmp_path: Path) -> None:
    images, _ = colour_images()
    recipe = tiny_recipe(epochs=2, cuts=(1,), cutmix=0.5, average_decay=0.9, **TURNING)
    (outcome,) = train(images, [colour_job(tmp_path / "run")], recipe, QUICK)
    kept, _ = read_tensors(tmp_path / "run" / "checkpoint.safetensors")
    names = {name for name in kept if "turn_head" in name}
    parts = ("network", "momentum", "average")
    assert names == {f"{part}.turn_head.{name}" for part in parts for name in ("weight", "bias")}
    trained, _ = read_tensors(tmp_path / "run" / "weights.safetensors")
    assert trained.keys() == build_network(recipe, CLASSES, 1).state_dict().keys()

    pixels = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    expected = outcome.network.eval()(pixels)[:, :CLASSES]
    network, settings = load_run(tmp_path / "run")
    torch.testing.assert_close(network(pixels), expected)
    export_shards(tmp_path / "run", tmp_path / "shards", "run")
    torch.testing.assert_close(load_run(tmp_path / "shards")[0](pixels), expected, rtol=0.02, atol=0.02)
    copies = Extractor(network, settings.recipe, images, device=CPU).copies(np.arange(4), 2, seed=0)
    assert copies.shape == (4, 2, network.head.weight.shape[1])


def test_the_head_for_turns_has_a_seed_of_its_own_and_leaves_the_others_as_they_were() -> None:
    plain = build_network(tiny_recipe(), CLASSES, SEED).state_dict()
    learner, again, other = (build_learner(tiny_recipe(**TURNING), CLASSES, seed) for seed in (SEED, SEED, SEED + 1))
    state = learner.state_dict()
    assert all(torch.equal(state[name], value) for name, value in plain.items())
    assert state.keys() - plain.keys() == {"turn_head.weight", "turn_head.bias"}
    assert torch.equal(state["turn_head.weight"], again.state_dict()["turn_head.weight"])
    assert not torch.equal(state["turn_head.weight"], other.state_dict()["turn_head.weight"])
    assert type(build_learner(tiny_recipe(rotation_share=0.6), CLASSES, SEED)) is Network


def test_a_network_without_that_head_is_refused() -> None:
    images, labels = colour_images()
    recipe, source = one_batch(), ResidentImages(torch.from_numpy(images))
    network, rows = build_network(recipe, CLASSES, SEED), np.arange(16)
    with pytest.raises(ValueError, match="needs a network with a head for turns: use build_learner"):
        TrainStep(recipe, network, source, rows, labels[rows], CLASSES, seed=SEED, device=CPU)
