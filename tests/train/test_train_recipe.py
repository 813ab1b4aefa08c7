"""Recipes: the paper's numbers, overrides, and errors that name the value."""

import dataclasses
import json
import math

import pytest

from subspan.train.parts.network import build_network
from subspan.train.recipe import PAPER, RECIPES, Recipe, find_recipe, member_recipe, overridden


def test_paper_is_what_the_paper_says() -> None:
    paper = find_recipe("paper")
    assert (paper.learning_rate, paper.momentum, paper.weight_decay) == (0.05, 0.9, 5e-4)
    assert (paper.batch_size, paper.epochs, paper.cuts, paper.cut_factor) == (64, 100, (60, 80), 0.1)
    assert (paper.crop_size, paper.padding, paper.jitter, paper.flip) == (84, 8, 0.4, True)
    assert (paper.backbone, paper.dropblock, paper.head) == ("resnet18-tian", "paper", "linear")
    tiered = find_recipe("paper-tiered")
    assert (tiered.epochs, tiered.cuts) == (60, (30, 45))
    assert dataclasses.replace(tiered, name="paper", epochs=100, cuts=(60, 80)) == paper


def test_strong_has_small_images_first_and_pools_by_turns() -> None:
    strong = find_recipe("strong")
    assert (strong.crop_size, strong.stored_size, strong.early_size) == (96, 104, 64)
    assert [strong.size_at(epoch) for epoch in (0, 43, 44, 65)] == [64, 64, 96, 96]
    members = [member_recipe(strong, i) for i in range(5)]
    assert [member.pool for member in members] == ["blurred", "max", "max", "blurred", "blurred"]
    assert {(member.cutmix, member.optimiser) for member in members} == {(0.9, "muon")}


def test_what_is_asked_for_replaces_what_depends_on_it() -> None:
    strong = find_recipe("strong")
    assert overridden(strong) == strong
    assert overridden(strong, pool="max", varied=("cutmix=0.5/1",)).varied == ("cutmix=0.5/1",)
    both = overridden(dataclasses.replace(strong, varied=("cutmix=0.6/0.9", "pool=blurred/max")), cutmix=0.8)
    members = [member_recipe(both, i) for i in range(2)]
    assert [(member.cutmix, member.pool) for member in members] == [(0.8, "blurred"), (0.8, "max")]
    assert overridden(strong, crop_size=84, image_size=96).stored_size == 96
    with pytest.raises(ValueError, match="varied needs several members, got members=1"):
        overridden(strong, members=1, varied=("cutmix=0.5/1",))


@pytest.mark.parametrize("name", RECIPES)
def test_records_are_read_whatever_fields_another_version_had(name: str) -> None:
    record = json.loads(json.dumps(RECIPES[name].to_dict()))
    assert Recipe.from_dict(record | {"stem": "standard", "label_smoothing": 0.1}) == RECIPES[name]
    younger = ("members", "kept_features", "early_size", "optimiser", "kernel_rate", "pool", "varied")
    first = {name: value for name, value in PAPER.to_dict().items() if name not in younger}
    assert Recipe.from_dict(first) == PAPER


def test_members_take_their_values_in_turn() -> None:
    varied = "head_scale=16/10", "resized_share=0/0/0.5", "se=true/false", "pool=max/blurred"
    recipe = dataclasses.replace(PAPER, head="cosine", members=4, varied=varied, width=0.05)
    each = [member_recipe(recipe, i) for i in range(4)]
    assert [one.head_scale for one in each] == [16, 10, 16, 10]
    assert [one.resized_share for one in each] == [0, 0, 0.5, 0]
    assert [(one.se, one.pool) for one in each] == [(True, "max"), (False, "blurred")] * 2
    assert all((one.members, one.varied) == (1, ()) for one in each)
    network = build_network(recipe, 7, seed=0)
    assert float(network.head.scale) == 13  # the mean, as the joined head has it
    gates = [name.split(".")[2] for name, _ in network.named_parameters() if name.endswith("layer1.0.se.fc.0.weight")]
    assert gates == ["0", "2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"learning_rate": math.nan}, "learning_rate must be finite; it holds NaN or infinity"),
        ({"learning_rate": math.inf}, "learning_rate must be finite; it holds NaN or infinity"),
        ({"width": 0.0}, "width must be positive; got 0.0"),
        ({"kernel_rate": 0.0}, "kernel_rate must be positive; got 0.0"),
        ({"head_scale": 0.0}, "head_scale must be positive; got 0.0"),
        ({"cut_factor": -0.1}, "cut_factor must be positive; got -0.1"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative; got -1.0"),
        ({"momentum": 2.0}, r"momentum must lie in \[0, 1\); got 2.0"),
        ({"mean": (0.0, 0.0, math.nan)}, "mean must be finite; it holds NaN or infinity"),
        ({"mean": (1.0, 2.0)}, r"mean and std must be three numbers, std positive; got \(1.0, 2.0\), "),
        ({"std": (1.0,)}, r"mean and std must be three numbers, .*, \(1.0,\)$"),
        ({"std": (0.0, 0.0, 0.0)}, r"std positive; got .*, \(0.0, 0.0, 0.0\)$"),
        ({"image_size": 80}, "images of 80 pixels are smaller than the crops of 84"),
        ({"cutmix": 1.5}, r"cutmix must lie in \[0, 1\]; got 1.5"),
        ({"early_size": 96}, r"early_size must be 0 or in \[16, crop_size 84\]; got 96"),
        ({"crop_size": 15}, "crop_size must be at least 16 for resnet18-tian; got 15"),
        ({"crop_size": 0, "backbone": "resnet18-he"}, "crop_size must be at least 1; got 0"),
        ({"early_size": -1}, "early_size must be at least 0; got -1"),
        ({"drop_rate": 1.0}, r"drop_rate must lie in \[0, 1\); got 1.0"),
        ({"members": 0}, "members must be at least 1; got 0"),
        ({"kept_features": -1}, "kept_features must be at least 0; got -1"),
        ({"members": 3, "head": "euclidean"}, "3 members are joined by linear or cosine heads, got a euclidean one"),
        ({"varied": ("jitter=0/0.4",)}, "varied needs several members, got members=1"),
        (
            {"varied": ("epochs=3/4",), "members": 2},
            r"members may differ in backbone, width, .*; got varied 'epochs=3/4'",
        ),
        ({"varied": ("jitter=much",), "members": 2}, "varied jitter must be a number; got 'much'"),
        ({"varied": ("jitter",), "members": 2}, "varied jitter must be a number; got ''"),
        ({"varied": ("se=1/0",), "members": 2}, "varied se must be true or false; got '1'"),
        ({"varied": ("jitter=0/2",), "members": 2}, r"jitter must lie in \[0, 1\]; got 2.0"),
        ({"pool": "blurred", "backbone": "resnet18-he"}, "pool 'blurred' is one of Tian's networks; resnet18-he has"),
        ({"cuts": (80, 60)}, r"cuts must ascend, got \(80, 60\)"),
    ],
)
def test_errors_name_rule_and_value(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PAPER, **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown recipe 'weak'; known are paper, paper-tiered, strong"):
        find_recipe("weak")
