"""Features: against a plain forward pass, their cache, and what goes into a feature file."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from colour_classes import IMAGES, tiny_recipe
from numpy.typing import NDArray

from subspan.backbones.network import Network
from subspan.experiments.named_features import named
from subspan.features.feature_set import FeatureSet
from subspan.images.imageset import ImageSet
from subspan.images.splits.sessions import FolderSessions
from subspan.images.splits.split import Split
from subspan.train.collect import Contents, balanced_rows
from subspan.train.extract import Extractor
from subspan.train.pack import collect_base, feature_set
from subspan.train.parts.network import build_network
from subspan.train.recipe import MEAN, STD
from subspan.train.run import RunSettings

CPU = torch.device("cpu")
ROWS = np.array([5, 80, 3, 150])


class Counting(Network):
    """A network that counts how many images it has seen."""

    seen = 0

    def features(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images)
        return super().features(images)


@pytest.fixture
def network() -> Counting:
    made = build_network(tiny_recipe(), 4, 0)
    return Counting(made.backbone, made.head)


def extractor(network: Network, images: NDArray[np.uint8] = IMAGES, **more: Any) -> Extractor:
    return Extractor(network, tiny_recipe(**more.pop("recipe", {})), images, device=CPU, **more)


def test_plain_features_are_a_forward_pass_in_evaluation_mode(network: Counting) -> None:
    before = {name: value.clone() for name, value in network.train().state_dict().items()}
    got = extractor(network).plain(ROWS)
    inputs = torch.from_numpy((IMAGES[ROWS] / 255 - np.array(MEAN)) / np.array(STD)).float().permute(0, 3, 1, 2)
    with torch.no_grad():
        expected = network.backbone.eval()(inputs)
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_turned_features_are_those_of_turned_images(network: Counting) -> None:
    for quarters in (1, 2, 3):
        expected = extractor(network, np.rot90(IMAGES, quarters, axes=(1, 2)).copy()).plain(ROWS)
        np.testing.assert_allclose(extractor(network).turned(ROWS, quarters), expected, rtol=1e-4, atol=1e-5)


def test_flip_average_is_the_mean_over_the_mirrored_image(network: Counting) -> None:
    mirrored = np.ascontiguousarray(IMAGES[:, :, ::-1])
    expected = (extractor(network).plain(ROWS) + extractor(network, mirrored).plain(ROWS)) / 2
    np.testing.assert_allclose(extractor(network, flip_average=True).plain(ROWS), expected, rtol=1e-4, atol=1e-6)


def test_copies_are_fixed_by_seed_and_row(network: Counting) -> None:
    work = extractor(network)
    copies = work.copies(ROWS, 3, seed=1)
    assert copies.shape == (4, 3, network.head.weight.shape[1])
    np.testing.assert_allclose(copies[2:3], work.copies(ROWS[2:3], 3, seed=1), rtol=1e-4, atol=1e-6)
    assert not np.allclose(copies, work.copies(ROWS, 3, seed=2))
    assert not np.allclose(copies[:, 0], copies[:, 1])
    with torch.no_grad():
        expected = network.features(work.shown_copies(ROWS, 3, seed=1).flatten(0, 1)).unflatten(0, (4, 3))
    np.testing.assert_allclose(copies, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_copies_are_as_large_as_the_images_where_crops_are_smaller(network: Counting) -> None:
    work = extractor(network, recipe={"crop_size": IMAGES.shape[1] - 8, "padding": 2})
    shown = work.shown_copies(ROWS, 6, seed=1)
    assert shown.shape[-2:] == IMAGES.shape[1:3]
    black = (shown == -(torch.tensor(MEAN) / torch.tensor(STD))[:, None, None]).all(2)  # (rows, copies, h, w)
    assert 0 < int(black.all(3).sum(2).max()) <= 2  # moved by the padding at most
    assert 0 < int(black.all(2).sum(2).max()) <= 2


def test_a_changed_input_never_meets_a_stale_cache(network: Counting, tmp_path: Path) -> None:
    def seen(copies_seed: int | None = None, **more: Any) -> int:
        network.seen = 0
        work = extractor(network, cache=tmp_path, **more)
        features = work.plain(ROWS) if copies_seed is None else work.copies(ROWS, 2, copies_seed)
        uncached = extractor(network, **more)
        counted = network.seen
        expected = uncached.plain(ROWS) if copies_seed is None else uncached.copies(ROWS, 2, copies_seed)
        np.testing.assert_array_equal(features, expected)
        return counted

    assert [seen(), seen()] == [4, 0]
    changed = IMAGES.copy()
    changed[ROWS[0], 0, 0, 0] ^= 1
    assert seen(images=changed) == 4  # one pixel
    assert seen(flip_average=True) == 8
    assert [seen(0), seen(0), seen(1)] == [8, 0, 8]
    with torch.no_grad():
        next(network.backbone.parameters())[0, 0, 0, 0] += 1e-3
    assert seen() == 4  # one weight
    assert seen(recipe={"mean": (0.5, 0.5, 0.5)}) == 4  # the normalisation


def folder_set() -> tuple[ImageSet, Split]:
    """Eight classes of 24 images, five of them base."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(8), 24)
    pixels = generator.integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
    files = tuple(f"c{label}/{i:03d}.png" for i, label in enumerate(labels))
    images = ImageSet(pixels, labels, tuple(f"class {c}" for c in range(8)), None, files)
    return images, FolderSessions(seed=3).make(images)


SET, SPLIT = folder_set()


def packed(
    images: ImageSet = SET, split: Split = SPLIT, head: str = "linear", **contents: Any
) -> tuple[FeatureSet, Extractor]:
    """The feature set of an untrained network."""
    recipe = tiny_recipe(head=head)
    work = Extractor(build_network(recipe, 5, 0), recipe, images.images, device=CPU)
    settings = RunSettings(recipe, 5, 0, split.name, split.digest())
    wanted = Contents(**{"support_images": 5, "copies": 1, **contents})
    return feature_set(work, images, split, wanted, work.network.head, settings.told()), work


@pytest.mark.parametrize("head", ["linear", "cosine", "euclidean"])
def test_a_feature_file_scores_as_the_head_does(head: str) -> None:
    made, work = packed(head=head)
    linear = made.for_linear_scores()
    scores = linear.base_test @ linear.base_weight.T + (0 if linear.base_bias is None else linear.base_bias)
    with torch.no_grad():
        expected = work.network.head(torch.from_numpy(made.base_test)).softmax(1)
    np.testing.assert_allclose(torch.from_numpy(scores).softmax(1), expected, rtol=1e-4)
    assert made.meta["session0_test"] == pytest.approx(100 * (scores.argmax(1) == made.base_test_labels).mean())


def test_contents_of_a_feature_file(tmp_path: Path) -> None:
    made, work = packed(support_images=6, copies=2, novel_test=3, base_test=12)
    made.save(tmp_path / "f.safetensors", "float32")
    read, novel = FeatureSet.load(tmp_path / "f.safetensors"), len(SPLIT.novel_classes)
    first = work.plain(SPLIT.base_train[SET.labels[SPLIT.base_train] == SPLIT.base_classes[0]])
    assert read.base_mean is not None
    assert read.base_memory is not None
    np.testing.assert_allclose(read.base_mean[0], first.mean(0), rtol=1e-4, atol=1e-6)
    assert np.isclose(first, read.base_memory[0], atol=1e-6).all(1).sum() == 1  # one training image of its class
    assert len(read.base_test) == 12
    assert read.novel_test_labels.tolist() == np.repeat(range(novel), 3).tolist()
    assert read.novel_support.shape == (6 * novel, 2, work.network.head.weight.shape[1])
    assert read.base_names == tuple(SET.class_names[c] for c in SPLIT.base_classes)
    assert read.meta["split_digest"] == SPLIT.digest()


def test_a_split_without_base_test_images_is_packed_with_its_validation_images() -> None:
    made, work = packed(split=dataclasses.replace(SPLIT, base_test=SPLIT.base_test[:0]), base_test=0)
    by_class = [SPLIT.base_validation[SET.labels[SPLIT.base_validation] == c] for c in SPLIT.base_classes]
    np.testing.assert_allclose(made.base_test, work.plain(np.concatenate(by_class)), rtol=1e-4, atol=1e-6)
    assert "session0_test" not in made.meta
    right = (made.base_test @ made.base_weight.T).argmax(1) == made.base_test_labels
    assert made.meta["session0_validation"] == pytest.approx(100 * right.mean())


def test_features_of_base_images_by_class(network: Counting) -> None:
    work, rows = extractor(network, SET.images), SPLIT.base_train
    plain, turned = collect_base(work, SET, SPLIT, turned=True)
    assert turned is not None
    assert sum(map(len, plain)) == len(rows) > 0
    for number, label in enumerate(SPLIT.base_classes):
        own = np.array([row for row in rows if SET.labels[row] == label])
        np.testing.assert_allclose(plain[number], work.plain(own), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(turned[number][:, 1], work.turned(own, 2), rtol=1e-4, atol=1e-6)


def test_known_ids_get_names_and_unknown_ids_stay() -> None:
    known = ("n01532829", "n01558993", "n01704323", "n01749939", "n01770081", "n01843383", "n01910747", "n02074367")
    for wnids in (known, ("n99999999", *known[1:])):
        images = ImageSet(SET.images, SET.labels, wnids, wnids, SET.files)
        made, _ = packed(images, FolderSessions(seed=3).make(images))
        assert made.base_names is made.novel_names is None
        names = named(made).class_names
        assert ("house finch" in names) is (wnids == known)
        assert ("n99999999" in names) is (wnids != known)


@pytest.mark.parametrize("count", [5, 7, 12, 0, 10_000])
def test_base_test_images_are_balanced_as_far_as_it_goes(count: int) -> None:
    rows = balanced_rows(SET, SPLIT, count, seed=0)
    sizes = [len(part) for part in rows]
    assert sum(sizes) == (len(SPLIT.base_test) if count in (0, 10_000) else count)
    assert max(sizes) - min(sizes) <= 1
    for c, part in zip(SPLIT.base_classes, rows, strict=True):
        assert set(part) <= set(SPLIT.base_test)
        assert (SET.labels[part] == c).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"support_images": 0}, "support_images must be at least 1; got 0"),
        ({"copies": 0}, "copies must be at least 1; got 0"),
        ({"novel_test": -3}, "novel_test must be at least 0; got -3"),
        ({"base_test": -5}, "base_test must be at least 0; got -5"),
        ({"support_images": 100}, "100 support images a class were asked for, class 'class"),
        ({"novel": "development"}, "has no development classes"),
    ],
)
def test_contents_that_cannot_be_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        packed(**wrong)
