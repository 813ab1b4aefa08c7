"""Maps before a cut: with the tail they are the features, and positions stand for the items of the feature file."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from subspan.experiments.episodes import digest_of_items
from subspan.images.splits.sessions import FolderSessions
from subspan.train.collect import Contents
from subspan.train.extract import Extractor
from subspan.train.maps import split_maps
from subspan.train.pack import feature_set
from subspan.train.parts.network import build_network
from subspan.train.run import RunSettings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "learners" / "published"))
from made_up_images import BASE, CPU, RECIPE, made_up_images

IMAGES = made_up_images()
SPLIT = FolderSessions(base_fraction=8 / 12, ways=2).make(IMAGES)
SETTINGS = RunSettings(RECIPE, BASE, 0, SPLIT.name, SPLIT.digest())
CONTENTS = Contents(copies=2)


@pytest.mark.parametrize("where", ["stage", "unit"])
def test_positions_lead_to_the_features_of_the_feature_file(where: str) -> None:
    network = build_network(RECIPE, BASE, 0).eval()
    extractor = Extractor(network, RECIPE, IMAGES.images, device=CPU)
    packed = feature_set(extractor, IMAGES, SPLIT, CONTENTS, network.head)
    maps = split_maps(network, SETTINGS, IMAGES, SPLIT, CONTENTS, where=where, device=CPU)  # type: ignore[arg-type]
    for name in ("base_test", "novel_test", "novel_support"):
        positions = torch.tensor(getattr(maps.items, name))[..., 0]
        found = maps.features(positions.flatten()).unflatten(0, positions.shape)
        np.testing.assert_allclose(found, getattr(packed, name), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(getattr(maps.items, f"{name}_labels"), getattr(packed, f"{name}_labels"))
    means = torch.stack([maps.training_features[maps.labels == c].mean(0) for c in range(BASE)])
    np.testing.assert_allclose(means, packed.base_mean, rtol=1e-4, atol=1e-5)
    assert digest_of_items(maps.items) == digest_of_items(packed)


def test_other_parameters_leave_the_tail_alone() -> None:
    network = build_network(RECIPE, BASE, 0).eval()
    maps = split_maps(network, SETTINGS, IMAGES, SPLIT, CONTENTS, where="unit", device=CPU)
    before = maps.training_features.clone()
    moved = {name: p + 0.1 for name, p in maps.parameters().items()}
    assert not torch.allclose(maps.features(maps.training, moved), before)
    torch.testing.assert_close(maps.features(maps.training), before)
    assert not any(p.requires_grad for p in maps.tail.parameters())
