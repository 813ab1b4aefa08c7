"""Features: against a plain forward pass, their cache, and what goes into a feature file."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from colour_classes import colour_images, tiny_recipe
from numpy.typing import NDArray

from subspan.backbones.network import Network
from subspan.experiments.named_features import named
from subspan.features.feature_set import FeatureSet
from subspan.images.imageset import ImageSet
from subspan.images.splits.folder_sessions import FolderSessions
from subspan.images.splits.split import Split
from subspan.train.collect import Contents, balanced_rows, collect, collect_base
from subspan.train.extract import Extractor, Viewing
from subspan.train.pack import feature_set
from subspan.train.network import build_network
from subspan.train.recipe import MEAN, STD, Recipe
from subspan.train.run import RunSettings

CPU = torch.device("cpu")
ROWS = np.array([5, 80, 3, 150])


class Counting(Network):
    """A network that counts how many images it has seen."""

    seen = 0

    def features(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images)
        return super().features(images)


def counting_network(recipe: Recipe, seed: int = 0) -> Counting:
    network = build_network(recipe, 4, seed)
    return Counting(network.backbone, network.head)


def extractor(images: NDArray[np.uint8], network: Network, cache: Path | None = None, **view: object) -> Extractor:
    return Extractor(network, tiny_recipe(), images, device=CPU, cache=cache, viewing=Viewing(**view))  # type: ignore[arg-type]


def test_plain_features_are_a_forward_pass_in_evaluation_mode() -> None:
    images, _ = colour_images()
    recipe, network = tiny_recipe(), counting_network(tiny_recipe()).train()
    got = extractor(images, network).plain(ROWS)
    inputs = (images[ROWS] / 255 - np.array(recipe.mean)) / np.array(recipe.std)
    with torch.no_grad():
        expected = network.backbone.eval()(torch.from_numpy(inputs).float().permute(0, 3, 1, 2))
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_turned_features_are_those_of_turned_images() -> None:
    images, _ = colour_images()
    network = counting_network(tiny_recipe())
    for quarters in (1, 2, 3):
        turned = np.rot90(images, quarters, axes=(1, 2)).copy()
        np.testing.assert_allclose(
            extractor(images, network).turned(ROWS, quarters),
            extractor(turned, network).plain(ROWS),
            rtol=1e-4,
            atol=1e-5,
        )


def test_training_mode_and_statistics_come_back_untouched() -> None:
    images, _ = colour_images()
    network = counting_network(tiny_recipe()).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    extractor(images, network).plain(ROWS)
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_copies_are_fixed_by_seed_and_row() -> None:
    images, _ = colour_images()
    network = counting_network(tiny_recipe())
    copies = extractor(images, network).copies(ROWS, 3, seed=1)
    assert copies.shape == (4, 3, network.head.weight.shape[1])
    np.testing.assert_allclose(
        copies[2:3], extractor(images, network).copies(ROWS[2:3], 3, seed=1), rtol=1e-4, atol=1e-6
    )
    assert not np.allclose(copies, extractor(images, network).copies(ROWS, 3, seed=2))
    assert not np.allclose(copies[:, 0], copies[:, 1])


def test_copies_are_as_large_as_the_images_where_crops_are_smaller() -> None:
    images, _ = colour_images()
    recipe = tiny_recipe(crop_size=images.shape[1] - 8, padding=2)
    shown = Extractor(build_network(recipe, 4, 0), recipe, images, device=CPU).shown_copies(ROWS, 6, seed=1)
    assert shown.shape[-2:] == images.shape[1:3]
    black = (shown == -(torch.tensor(MEAN) / torch.tensor(STD))[:, None, None]).all(2)  # (rows, copies, h, w)
    assert 0 < int(black.all(3).sum(2).max()) <= 2  # moved by the padding at most
    assert 0 < int(black.all(2).sum(2).max()) <= 2


def test_shown_copies_are_what_the_network_sees_of_copies() -> None:
    images, _ = colour_images()
    network = counting_network(tiny_recipe()).eval()
    shown = extractor(images, network).shown_copies(ROWS, 3, seed=1)
    with torch.no_grad():
        expected = network.features(shown.flatten(0, 1)).unflatten(0, (4, 3))
    np.testing.assert_allclose(
        extractor(images, network).copies(ROWS, 3, seed=1), expected.numpy(), rtol=1e-4, atol=1e-5
    )


def test_flip_average_is_the_mean_over_the_mirrored_image() -> None:
    images, _ = colour_images()
    network = counting_network(tiny_recipe())
    mirrored = np.ascontiguousarray(images[:, :, ::-1])
    expected = (extractor(images, network).plain(ROWS) + extractor(mirrored, network).plain(ROWS)) / 2
    np.testing.assert_allclose(
        extractor(images, network, flip_average=True).plain(ROWS), expected, rtol=1e-4, atol=1e-6
    )


def zoomed(images: np.ndarray, share: float, down: float = 0.5, right: float = 0.5) -> np.ndarray:
    """(n, h, w, 3) by a plain loop: each pixel from the four around the place that it comes from."""
    side = images.shape[1]
    inner = round(share * side)
    first = [int(far * (side - inner)) for far in (down, right)]
    out = np.zeros(images.shape)
    for row in range(side):
        for column in range(side):
            y, x = (np.clip((i + 0.5) * inner / side - 0.5, 0, inner - 1) for i in (row, column))
            top, left = int(y), int(x)
            for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
                weight = (1 - abs(y - top - dy)) * (1 - abs(x - left - dx))
                place = min(top + dy, inner - 1) + first[0], min(left + dx, inner - 1) + first[1]
                out[:, row, column] += weight * images[:, place[0], place[1]]
    return out


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("zoom", "corner", "kinds"),
    [
        (0.7, 0.0, [[(0.7, 0.5, 0.5)]]),
        (0.0, 0.8, [[(0.8, down, right) for down in (0, 1) for right in (0, 1)]]),
        (0.7, 0.8, [[(0.7, 0.5, 0.5)], [(0.8, down, right) for down in (0, 1) for right in (0, 1)]]),
    ],
    ids=["middle", "corners", "both"],
)
def test_averages_are_over_the_whole_image_and_its_enlarged_parts(
    flip: bool, zoom: float, corner: float, kinds: list[list[tuple[float, float, float]]]
) -> None:
    images, _ = colour_images()
    network = counting_network(tiny_recipe()).eval()

    def features(shown: np.ndarray) -> np.ndarray:
        views = [shown, shown[:, :, ::-1]] if flip else [shown]
        with torch.no_grad():
            each = [torch.from_numpy((view / 255 - MEAN) / STD).float().permute(0, 3, 1, 2) for view in views]
            return np.mean([network.features(view).numpy() for view in each], axis=0)

    of_kinds = [np.mean([features(zoomed(images[ROWS], *part)) for part in kind], axis=0) for kind in kinds]
    expected = np.mean([features(images[ROWS]), *of_kinds], axis=0)
    found = extractor(images, network, zoom_average=zoom, corner_average=corner, flip_average=flip).plain(ROWS)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    assert not np.allclose(found, extractor(images, network, flip_average=flip).plain(ROWS), rtol=1e-3)


@pytest.mark.parametrize("name", ["zoom_average", "corner_average"])
@pytest.mark.parametrize("share", [1.0, -0.1])
def test_a_zoom_that_shows_nothing_new_is_refused(name: str, share: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} must lie in \[0, 1\); got"):
        Viewing(**{name: share})  # pyright: ignore[reportArgumentType]


def test_a_changed_input_never_meets_a_stale_cache(tmp_path: Path) -> None:
    images, _ = colour_images()
    network = counting_network(tiny_recipe())

    def seen(work: Extractor, kind: str = "plain", seed: int = 0) -> int:
        network.seen = 0
        if kind == "plain":
            work.plain(ROWS)
        else:
            work.copies(ROWS, 2, seed)
        return network.seen

    assert seen(extractor(images, network, tmp_path)) == 4
    assert seen(extractor(images, network, tmp_path)) == 0  # all known
    changed = images.copy()
    changed[ROWS[0], 0, 0, 0] ^= 1
    assert seen(extractor(changed, network, tmp_path)) == 4  # one pixel
    assert seen(extractor(images, network, tmp_path, flip_average=True)) == 8
    assert seen(extractor(images, network, tmp_path, zoom_average=0.8)) == 8
    assert seen(extractor(images, network, tmp_path, zoom_average=0.7, flip_average=True)) == 16
    assert seen(extractor(images, network, tmp_path, corner_average=0.7)) == 20
    assert seen(extractor(images, network, tmp_path), "copies", 0) == 8
    assert seen(extractor(images, network, tmp_path), "copies", 0) == 0
    assert seen(extractor(images, network, tmp_path), "copies", 1) == 8
    with torch.no_grad():
        next(network.backbone.parameters())[0, 0, 0, 0] += 1e-3
    assert seen(extractor(images, network, tmp_path)) == 4  # one weight
    other = Extractor(network, tiny_recipe(mean=(0.5, 0.5, 0.5)), images, device=CPU, cache=tmp_path)
    assert seen(other) == 4  # the normalisation


def test_cached_features_equal_computed_ones(tmp_path: Path) -> None:
    images, _ = colour_images()
    network = counting_network(tiny_recipe())
    first = extractor(images, network, tmp_path).plain(ROWS)
    np.testing.assert_array_equal(first, extractor(images, network, tmp_path).plain(ROWS))


def folder_set() -> tuple[ImageSet, Split]:
    """Eight classes of 24 images, five of them base."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(8), 24)
    pixels = generator.integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
    files = tuple(f"c{label}/{i:03d}.png" for i, label in enumerate(labels))
    images = ImageSet(pixels, labels, tuple(f"class {c}" for c in range(8)), None, files)
    return images, FolderSessions(seed=3).make(images)


@pytest.mark.parametrize("head", ["linear", "cosine", "euclidean"])
def test_a_feature_file_scores_as_the_head_does(head: str) -> None:
    images, split = folder_set()
    recipe, contents = tiny_recipe(head=head), Contents(support_images=5, copies=1)
    network = build_network(recipe, len(split.base_classes), 0)
    work = Extractor(network, recipe, images.images, device=CPU)
    settings = RunSettings(recipe, len(split.base_classes), 0)
    made = feature_set(collect(work, images, split, contents), network, images, split, settings, contents)
    linear = made.for_linear_scores()
    scores = linear.base_test @ linear.base_weight.T + (0 if linear.base_bias is None else linear.base_bias)
    with torch.no_grad():
        expected = network.head(torch.from_numpy(made.base_test)).softmax(1)
    np.testing.assert_allclose(torch.from_numpy(scores).softmax(1), expected, rtol=1e-4)


def test_contents_of_a_feature_file(tmp_path: Path) -> None:
    images, split = folder_set()
    classes = len(split.base_classes)
    network = counting_network(tiny_recipe())
    contents = Contents(support_images=6, copies=2, novel_test=3, base_test=12)
    work = Extractor(network, tiny_recipe(), images.images, device=CPU)
    collected = collect(work, images, split, contents)
    first = split.base_train[images.labels[split.base_train] == split.base_classes[0]]
    np.testing.assert_allclose(collected.base_mean[0], work.plain(first).mean(0), rtol=1e-4, atol=1e-6)
    assert [len(part) for part in collected.novel_test] == [3] * len(split.novel_classes)
    # Memory is one training image of its class.
    assert np.isclose(work.plain(first), collected.base_memory[0], atol=1e-6).all(1).sum() == 1

    network = build_network(tiny_recipe(), classes, 0)
    work = Extractor(network, tiny_recipe(), images.images, device=CPU)
    settings = RunSettings(tiny_recipe(), classes, 0, split.name, split.digest())
    made = feature_set(collect(work, images, split, contents), network, images, split, settings, contents)
    made.save(tmp_path / "f.safetensors", "float32")
    read = FeatureSet.load(tmp_path / "f.safetensors")
    assert read.novel_support.shape == (6 * len(split.novel_classes), 2, network.head.weight.shape[1])
    assert read.base_names == tuple(images.class_names[c] for c in split.base_classes)
    assert read.meta["split_digest"] == split.digest()
    scores = read.base_test @ read.base_weight.T
    accuracy = 100 * (scores.argmax(1) == read.base_test_labels).mean()
    assert accuracy == pytest.approx(read.meta["session0_test"])


def test_a_split_without_base_test_images_is_packed_with_its_validation_images() -> None:
    images, split = folder_set()
    chosen_on = dataclasses.replace(split, base_test=split.base_test[:0])
    recipe, contents = tiny_recipe(), Contents(support_images=5, copies=1, base_test=0)
    network = build_network(recipe, len(split.base_classes), 0)
    work = Extractor(network, recipe, images.images, device=CPU)
    settings = RunSettings(recipe, len(split.base_classes), 0)
    made = feature_set(collect(work, images, chosen_on, contents), network, images, chosen_on, settings, contents)
    by_class = [split.base_validation[images.labels[split.base_validation] == c] for c in split.base_classes]
    np.testing.assert_allclose(made.base_test, work.plain(np.concatenate(by_class)), rtol=1e-4, atol=1e-6)
    assert "session0_test" not in made.meta
    right = (made.base_test @ made.base_weight.T).argmax(1) == made.base_test_labels
    assert made.meta["session0_validation"] == pytest.approx(100 * right.mean())


@pytest.mark.parametrize("part", ["training", "validation"])
def test_features_of_base_images_by_class(part: str) -> None:
    images, split = folder_set()
    work = Extractor(counting_network(tiny_recipe()), tiny_recipe(), images.images, device=CPU)
    rows = {"training": split.base_train, "validation": split.base_validation}[part]
    plain, turned = collect_base(work, images, split, rows, turned=True)
    assert turned is not None
    assert sum(map(len, plain)) == len(rows) > 0
    for number, label in enumerate(split.base_classes):
        own = [row for row in rows if images.labels[row] == label]
        np.testing.assert_allclose(plain[number], work.plain(np.array(own)), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(turned[number][:, 1], work.turned(np.array(own), 2), rtol=1e-4, atol=1e-6)


def test_known_ids_get_names_and_unknown_ids_stay(tmp_path: Path) -> None:
    known = ("n01532829", "n01558993", "n01704323", "n01749939", "n01770081", "n01843383", "n01910747", "n02074367")
    plain, _ = folder_set()
    recipe, contents = tiny_recipe(), Contents(support_images=5, copies=1)
    for wnids in (known, ("n99999999", *known[1:])):
        images = ImageSet(plain.images, plain.labels, wnids, wnids, plain.files)
        split = FolderSessions(seed=3).make(images)
        network = build_network(recipe, len(split.base_classes), 0)
        work = Extractor(network, recipe, images.images, device=CPU)
        settings = RunSettings(recipe, len(split.base_classes), 0)
        made = feature_set(collect(work, images, split, contents), network, images, split, settings, contents)
        assert made.base_names is made.novel_names is None
        names = named(made).class_names
        assert ("house finch" in names) is (wnids == known)
        assert ("n99999999" in names) is (wnids != known)


@pytest.mark.parametrize("count", [5, 7, 12, 0, 10_000])
def test_base_test_images_are_balanced_as_far_as_it_goes(count: int) -> None:
    images, split = folder_set()
    rows = balanced_rows(images, split, count, seed=0)
    sizes = [len(part) for part in rows]
    everything = len(split.base_test)
    assert sum(sizes) == (everything if count in (0, 10_000) else count)
    assert max(sizes) - min(sizes) <= 1
    for c, part in zip(split.base_classes, rows, strict=True):
        assert set(part) <= set(split.base_test)
        assert (images.labels[part] == c).all()


def test_too_few_support_images_are_refused_by_name() -> None:
    images, split = folder_set()
    work = Extractor(counting_network(tiny_recipe()), tiny_recipe(), images.images, device=CPU)
    with pytest.raises(ValueError, match="100 support images a class were asked for, class 'class"):
        collect(work, images, split, Contents(support_images=100))
    with pytest.raises(ValueError, match="has no development classes"):
        collect(work, images, split, Contents(novel="development"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"support_images": 0}, "support_images must be at least 1; got 0"),
        ({"copies": 0}, "copies must be at least 1; got 0"),
        ({"novel_test": -3}, "novel_test must be at least 0; got -3"),
        ({"base_test": -5}, "base_test must be at least 0; got -5"),
    ],
)
def test_contents_that_cannot_be_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Contents(**wrong)  # type: ignore[arg-type]
