"""The small network that lies in the repository, and the features packed from it: equal to what the file can hold."""

import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from safetensors import safe_open

from subspan.features.feature_set import FeatureSet
from subspan.images.decode import decode_image
from subspan.images.imageset import ImageSet
from subspan.images.lists import read_json
from subspan.images.splits.listed import FixedSessions
from subspan.train.collect import Contents, choose
from subspan.train.extract import Extractor
from subspan.train.run import load_run

KEPT = Path(__file__).parents[2] / "benchmarks" / "network"
LISTS = KEPT / "sessions.json.gz"
SEEN = 15  # images of each of four classes


@pytest.fixture(scope="module")
def features() -> FeatureSet:
    return FeatureSet.load(KEPT / "features.npz")


def test_it_is_small_and_its_head_is_the_files(features):
    network, settings = load_run(KEPT)
    assert sum(file.stat().st_size for file in KEPT.iterdir()) < 6e6
    with safe_open(KEPT / "weights.safetensors", framework="pt") as file:
        kinds = {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118 (no mapping)
    assert kinds <= {torch.float16, torch.int64}
    rows = network.head.weight.detach().numpy()
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(features.for_linear_scores().base_weight, rows, rtol=2.0**-10, atol=2.0**-11)
    assert features.head_scale == pytest.approx(float(network.head.scale), rel=1e-6)
    assert (features.base_count, features.novel_count, settings.image_size) == (20, 20, 84)
    linear = features.for_linear_scores()
    right = (linear.base_test @ linear.base_weight.T).argmax(1) == features.base_test_labels
    assert features.meta["session0_test"] == pytest.approx(100 * right.mean(), abs=0.2), "int8 moves few answers"


def test_its_features_are_those_of_the_images_to_half_a_step_of_int8(features, shared_data):
    network, settings = load_run(KEPT)
    places: dict[str, zipfile.ZipFile] = {}
    classes = sorted(read_json(LISTS)["class_order"])
    for number in range(4):
        archive = zipfile.ZipFile(shared_data / "mini-imagenet" / f"images-{number}.zip")
        places |= {name: archive for name in archive.namelist() if name.partition("/")[0] in classes}
    files = sorted(name for name in places if PurePosixPath(name).suffix == ".jpg")
    labels = np.array([classes.index(file.partition("/")[0]) for file in files])
    names = tuple(classes)
    blank = ImageSet(np.zeros((len(files), 1, 1, 3), np.uint8), labels, names, names, tuple(files))
    split = FixedSessions(lists=LISTS).make(blank)
    settings.check_trained_on(split)  # by the digest of names
    chosen = choose(blank, split, Contents())
    for stored, every in ((features.base_test, chosen.base_test), (features.novel_test, chosen.novel_test)):
        first = np.cumsum([0, *map(len, every)])
        at = np.concatenate([first[c] + np.arange(SEEN) for c in (0, len(every) - 1)])
        rows = np.concatenate(every)[at]
        pixels = np.stack([decode_image(places[files[row]].read(files[row]), files[row], 84) for row in rows])
        seen = Extractor(network, settings.recipe, pixels, device=torch.device("cpu")).plain(np.arange(len(rows)))
        step = np.abs(seen).max(1, keepdims=True) / 127
        assert (np.abs(stored[at] - seen) <= 0.5 * step + 1e-4 * step).all()
