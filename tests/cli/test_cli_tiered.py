"""tieredImageNet from its own files to the table: images as Ren et al. gave them out, of a few classes only."""

import dataclasses
import io
import json
import pickle
from importlib import resources

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open

from subspan.engine.sgd import sgd
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureSet
from subspan.learners.parts import regularizer
from subspan.paper import single_session
from subspan.train.run import load_run

# Classes of each role and images of each class: a split holds 100 of a class out, so the smallest that works.
ROLES = {("train", "a"): (6, 103), ("train", "b"): (3, 4), ("val", None): (2, 101), ("test", None): (5, 106)}


def tiered_wnids(count: int) -> list[str]:
    """WordNet ids of real tieredImageNet classes, which the packaged embeddings know."""
    resource = resources.files("subspan.features.bundle") / "class-embeddings.safetensors"
    with resources.as_file(resource) as path, safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["subspan"])["wnids"][100 : 100 + count]


def png(colour: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An 84-pixel image as OpenCV's encoder gave it: bytes in an array (m, 1)."""
    blocks = np.clip(colour + rng.integers(-30, 30, size=(7, 7, 3)), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(blocks).resize((84, 84), Image.Resampling.NEAREST).save(file, "PNG")
    return np.frombuffer(file.getvalue(), dtype=np.uint8)[:, None].copy()


@pytest.fixture
def tiered(tmp_path):
    """A folder with {train,val,test}_images_png.pkl, their labels and classes.json; parts a and b are interleaved."""
    folder = tmp_path / "tiered-imagenet"
    folder.mkdir()
    rng = np.random.default_rng(0)
    wnids = iter(tiered_wnids(sum(count for count, _ in ROLES.values())))
    rows, by_part = [], {"train": [], "val": [], "test": []}
    for (part, half), (count, images) in ROLES.items():
        for _ in range(count):
            wnid = next(wnids)
            words = f"word of {wnid}, other word"
            rows.append({"wnid": wnid, "name": words[:17], "words": words, "split": part, "train_part": half})
            by_part[part].append((words, images))
    rows.sort(key=lambda row: (row["split"], row["wnid"][-2:]))
    for part, classes in by_part.items():
        labels = np.repeat(np.arange(len(classes)), [images for _, images in classes]).astype(np.int32)
        colours = rng.integers(0, 255, size=(len(classes), 3))
        record = {
            "label_specific": labels,
            "label_general": np.zeros_like(labels),
            "label_specific_str": [words for words, _ in classes],
            "label_general_str": ["thing"],
        }
        (folder / f"{part}_images_png.pkl").write_bytes(pickle.dumps([png(colours[label], rng) for label in labels]))
        (folder / f"{part}_labels.pkl").write_bytes(pickle.dumps(record))
    (folder / "classes.json").write_text(json.dumps(rows))
    return folder


def test_from_images_to_the_table(subspan, tiered, tmp_path, monkeypatch):
    def succeed(*arguments):
        status, output, errors = subspan(*arguments)
        assert status == 0, errors
        return output

    run, features = tmp_path / "run", tmp_path / "features"
    small = ("--width", 0.04, "--epochs", 1, "--cuts", "", "--crop-size", 32, "--padding", 4, "--batch-size", 8)
    data = ("--data", tiered, "--image-size", 32, "--device", "cpu")
    succeed("train", "--split", "tiered", "--recipe", "paper-tiered", "--out", run, *data, *small)
    packed = features / "paper-tiered.safetensors"
    succeed("pack", "--run", run, "--support-images", 6, "--out", packed, "--on-disk", "float32", *data)

    found = FeatureSet.load(packed)
    rows = json.loads((tiered / "classes.json").read_text())
    network, _ = load_run(run)
    assert network.head.weight.shape[0] == 6 + 3, "trained on parts a and b"
    np.testing.assert_array_equal(found.base_weight, network.head.weight[:6].detach().numpy())
    assert list(found.base_wnids or ()) == [row["wnid"] for row in rows if row["train_part"] == "a"]
    assert list(found.novel_wnids or ()) == [row["wnid"] for row in rows if row["split"] == "test"]
    assert found.base_test.shape[0] == 6 * 100

    halves = [dataclasses.replace(h, classes=(6, 5)) for h in single_session.HALVES]
    monkeypatch.setattr(single_session, "HALVES", halves)
    monkeypatch.setattr(single_session, "PROTOCOL", SingleSession(count=4))
    monkeypatch.setattr(regularizer, "sgd", lambda p, o: sgd(p, dataclasses.replace(o, max_steps=5)))
    output = succeed("reproduce", "single-session", "--features", features, "--count", 4, "--workers", 1)
    assert "Single session, tieredImageNet" in output
    assert "73.51±0.33" in output, "the published half stands beside ours"
    lines = [line for line in output.splitlines() if " ours  " in line]
    assert len(lines) == 3 * 7, "seven methods, two numbers of shots, then what each cost"
    assert "Settings, tieredImageNet" in output
