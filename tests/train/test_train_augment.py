"""Augmentation against naive implementations with Pillow and NumPy, image by image."""

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch._dynamo.utils import counters

from subspan.train.parts.augment import Augment, gather_padded, gather_resized, jitter, scale_down
from subspan.train.recipe import PAPER, Recipe

GENERATOR = np.random.default_rng(0)
STORE = GENERATOR.integers(0, 256, (6, 20, 20, 3), dtype=np.uint8)
PLAIN = dataclasses.replace(PAPER, crop_size=20, padding=3, jitter=0.0, flip=False, mean=(0.0,) * 3, std=(1.0,) * 3)

PLAIN_WHOLE = dataclasses.replace(PLAIN, padding=0)


def augmented(recipe: Recipe, step: int = 0, count: int = 6, seed: int = 0) -> tuple[torch.Tensor, ...]:
    rows = torch.arange(count) % len(STORE)
    return Augment(recipe, seed)(torch.from_numpy(STORE), rows, torch.tensor(step), torch.arange(count))


def test_padded_crops_equal_pillows() -> None:
    top, left = [-3, 0, 3, -1], [2, 0, -3, 3]
    got = gather_padded(torch.from_numpy(STORE), torch.tensor([3, 0, 5, 1]), torch.tensor(top), torch.tensor(left), 20)
    for i, row in enumerate([3, 0, 5, 1]):
        padded = ImageOps.expand(Image.fromarray(STORE[row]), border=3)
        expected = padded.crop((left[i] + 3, top[i] + 3, left[i] + 23, top[i] + 23))
        np.testing.assert_allclose(got[i].numpy() * 255, np.asarray(expected), atol=1e-3)


def test_resized_crops_equal_interpolation_of_the_cut_window() -> None:
    windows = [(0, 0, 20, 20), (3, 5, 8, 11), (10, 2, 10, 7)]  # top, left, height, width
    columns = [torch.tensor(values, dtype=torch.float32) for values in zip(*windows, strict=True)]
    got = gather_resized(torch.from_numpy(STORE), torch.tensor([1, 2, 4]), *columns, 16)
    for i, (row, (top, left, height, width)) in enumerate(zip([1, 2, 4], windows, strict=True)):
        window = torch.from_numpy(STORE[row, top : top + height, left : left + width]).permute(2, 0, 1)[None].float()
        expected = torch.nn.functional.interpolate(window, (16, 16), mode="bilinear", align_corners=False)
        torch.testing.assert_close(got[i].permute(2, 0, 1) * 255, expected[0], rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_jitter_equals_pillows_within_its_rounding(order: tuple[int, int, int]) -> None:
    factors = [0.7, 1.3, 0.6]
    pixels = torch.from_numpy(STORE).float() / 255
    luma = Augment(PLAIN, 0).luma
    got = jitter(pixels, torch.tensor([order] * 6), torch.tensor([factors] * 6), luma)
    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for i in range(6):
        image = Image.fromarray(STORE[i])
        for kind in order:
            image = enhancers[kind](image).enhance(factors[kind])
        assert np.abs(got[i].numpy() * 255 - np.asarray(image)).max() < 3.5  # Pillow rounds after each of three


def test_scaling_down_equals_pillows_within_its_rounding() -> None:
    got = scale_down(torch.from_numpy(STORE).float().permute(0, 3, 1, 2), 14)
    assert got.is_contiguous(memory_format=torch.channels_last)
    for i in range(6):
        expected = Image.fromarray(STORE[i]).resize((14, 14), Image.Resampling.BILINEAR)
        assert np.abs(got[i].permute(1, 2, 0).numpy() - np.asarray(expected)).max() < 1.5  # it rounds after each axis


def test_smaller_images_are_the_same_images() -> None:
    recipe = dataclasses.replace(PLAIN, flip=True, jitter=0.4)
    rows = torch.arange(6)
    small, *_ = Augment(recipe, 0)(torch.from_numpy(STORE), rows, torch.tensor(0), rows, 14)
    torch.testing.assert_close(small, scale_down(augmented(recipe)[0], 14))


def test_crops_and_flips_are_windows_of_the_padded_image() -> None:
    images, *_ = augmented(dataclasses.replace(PLAIN, flip=True), count=60)
    found = set()
    for i, image in enumerate(images.permute(0, 2, 3, 1).numpy()):
        padded = np.pad(STORE[i % 6], ((3, 3), (3, 3), (0, 0)))
        for top in range(7):
            for left in range(7):
                window = padded[top : top + 20, left : left + 20]
                for mirrored in (False, True):
                    if np.allclose(image * 255, window[:, ::-1] if mirrored else window, atol=1e-3):
                        found.add((i, top, left, mirrored))
    assert {i for i, *_ in found} == set(range(60))
    assert {top for _, top, _, _ in found} == {left for _, _, left, _ in found} == set(range(7))
    assert 15 < sum(mirrored for *_, mirrored in found) < 45


def test_normalisation() -> None:
    recipe = dataclasses.replace(PLAIN, padding=0, mean=PAPER.mean, std=PAPER.std)
    images, *_ = augmented(recipe)
    expected = (STORE / 255 - np.array(PAPER.mean)) / np.array(PAPER.std)
    np.testing.assert_allclose(images.permute(0, 2, 3, 1).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_a_batch_depends_on_seed_step_and_place_only() -> None:
    recipe = dataclasses.replace(PAPER, crop_size=20, resized_share=0.5)
    first = augmented(recipe, step=3)[0]
    assert torch.equal(first, augmented(recipe, step=3)[0])
    assert not torch.equal(first, augmented(recipe, step=4)[0])
    assert not torch.equal(first, augmented(recipe, step=3, seed=1)[0])
    # A process that holds the second half of the batch draws the same numbers.
    half = torch.arange(3, 6)
    part = Augment(recipe, 0)(torch.from_numpy(STORE), half, torch.tensor(3), half)[0]
    torch.testing.assert_close(part, first[3:])


def test_cutmix_takes_a_box_from_another_image_for_its_share_of_images() -> None:
    recipe = dataclasses.replace(PLAIN_WHOLE, cutmix=0.6)
    plain, untouched, differing, kept = augmented(PLAIN_WHOLE)[0], [], 0, []
    for step in range(100):
        images, partner, shares = augmented(recipe, step=step)
        assert shares.shape == (6,)
        assert any(torch.equal(partner, torch.roll(torch.arange(6), -shift)) for shift in range(1, 6))
        for i, share in enumerate(shares.tolist()):
            box = (images[i] != plain[i]).any(0)  # (h, w)
            assert box.sum() == box.any(1).sum() * box.any(0).sum()  # a rectangle
            assert share == pytest.approx(1 - box.float().mean().item(), abs=1e-6)
            assert torch.equal(images[i][:, box], plain[partner[i]][:, box])
            untouched.append(share == 1.0)
            kept += [share] if share < 1 else []
        differing += len(set(shares.tolist())) > 2
    assert 0.3 < np.mean(untouched) < 0.55  # 40 % and some boxes of no area
    assert 0.55 < np.mean(kept) < 0.85  # uniform area, partly outside
    assert differing > 75
    # A process that holds the second half of the batch draws the same boxes.
    half, whole = torch.arange(3, 6), augmented(recipe, step=7)[2]
    part = Augment(recipe, 0)(torch.from_numpy(STORE), half, torch.tensor(7), half)[2]
    torch.testing.assert_close(part, whole[3:])


def test_members_that_differ_in_shares_are_served_by_one_compiled_code() -> None:
    recipe, rows = dataclasses.replace(PLAIN, jitter=0.4, resized_share=0.25, cutmix=0.6), torch.arange(6)
    torch.compiler.reset()
    counters.clear()
    for changes in ({}, {"resized_share": 0.5}, {"jitter": 0.2, "cutmix": 0.7}):
        augment = Augment(dataclasses.replace(recipe, **changes), 0)
        given = torch.from_numpy(STORE), rows, torch.tensor(3), rows
        compiled = torch.compile(augment, dynamic=False, backend="eager")(*given)
        assert all(torch.equal(one, other) for one, other in zip(compiled, augment(*given), strict=True))
    assert counters["stats"]["unique_graphs"] == 1
