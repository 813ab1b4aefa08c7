"""CIFAR-100 and CUB-200 as they are given out, made small, and the published splits that come with the package."""

import json
import tarfile

import numpy as np
import pytest

from subspan.images.imageset import DataError, ImageSet
from subspan.images.lists import read_json
from subspan.images.read import read_images
from subspan.images.splits.listed import PUBLISHED
from subspan.images.splits.parse import parse_split

BIRDS = "001.Black_footed_Albatross", "002.Laysan_Albatross"


@pytest.fixture
def cub(tmp_path, encode):
    """The folder CUB_200_2011 with two classes of three images, one image in a list of none, and what else is there."""
    folder = tmp_path / "archive" / "CUB_200_2011"
    lists = {"images": [], "image_class_labels": [], "train_test_split": []}
    for number in range(6):
        bird = BIRDS[number // 3]
        place = folder / "images" / bird / f"{bird[4:]}_{number:04d}_79{number}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encode(colour=(40 * number, 0, 0), kind="JPEG"))
        lists["images"].append(f"{number + 1} {bird}/{place.name}")
        lists["image_class_labels"].append(f"{number + 1} {number // 3 + 1}")
        lists["train_test_split"].append(f"{number + 1} {int(number % 3 > 0)}")
    (folder / "images" / BIRDS[0] / "unlisted.jpg").write_bytes(encode(kind="JPEG"))
    lists["classes"] = [f"{i} {bird}" for i, bird in enumerate(BIRDS, 1)]
    for name, lines in lists.items():
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (folder / "attributes").mkdir()
    (folder / "attributes" / "certainties.txt").write_text("1 not visible\n")
    return folder


def check_birds(images: ImageSet) -> None:
    assert images.class_names == BIRDS
    assert len(images) == 6, "the image that no list names is left out"
    assert images.files[0] == "001.Black_footed_Albatross/Black_footed_Albatross_0000_790.jpg"
    assert images.parts == ("test", "train", "train") * 2
    np.testing.assert_allclose(images.images[:, 40, 40, 0], 40 * np.arange(6), atol=6)


@pytest.mark.parametrize("place", [".", ".."])
def test_cub_as_it_is_unpacked(cub, place):
    check_birds(read_images(cub / place))


def test_cub_as_it_is_downloaded(cub, tmp_path):
    archive = tmp_path / "CUB_200_2011.tgz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(cub, "CUB_200_2011")
    images = read_images(archive)
    check_birds(images)
    assert images.source == archive
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(DataError, match=r"CUB_200_2011[.]tgz is not a whole tar archive"):
        read_images(archive)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("image_class_labels.txt", "7 1", r"image 1 \(001.* has no class"),
        ("classes.txt", "2 x", r"image 1 \(001.* has no class"),
        ("images.txt", "1", "must be a number and a word, got '1'"),
    ],
)
def test_lists_of_cub_that_do_not_fit_are_named(cub, name, line, message):
    (cub / name).write_text(f"{line}\n")
    with pytest.raises(DataError, match=message):
        read_images(cub)


@pytest.mark.parametrize(
    ("name", "base", "ways", "sessions", "images", "tests"),
    [("mini-imagenet", 60, 5, 8, 500, 100), ("cifar100", 60, 5, 8, 500, 100), ("cub200", 100, 10, 10, 30, None)],
)
def test_the_published_splits_come_with_the_package(name, base, ways, sessions, images, tests):
    """Blank images of the names that each list has, in an order of their own."""
    record = read_json(PUBLISHED / f"{name}.json.gz")
    listed = list(zip(record["class_order"], record["test"], strict=True))
    for session in record["sessions"]:
        listed += zip(session["classes"], session["train"], strict=True)
    files = [(key, name) for key, names in listed for name in names]
    keys = tuple(sorted(record["class_order"]))
    files = [files[i] for i in np.random.default_rng(0).permutation(len(files))]
    labels = np.array([keys.index(key) for key, _ in files])
    blank = np.zeros((len(files), 1, 1, 3), np.uint8)
    split = parse_split("fixed").make(ImageSet(blank, labels, keys, None, tuple("/".join(file) for file in files)))
    assert len(split.base_classes) == base
    assert [len(session) for session in split.sessions] == [ways] * sessions
    assert (len(split.base_train), split.listed_support) == (base * images, 5)
    assert [keys[c] for c in split.base_classes + split.novel_classes] == record["class_order"]
    first = split.novel_support_pool[0]
    assert [files[i][1] for i in first] == record["sessions"][1]["train"][0]
    if tests is not None:
        assert {len(rows) for rows in split.novel_test} == {tests}


def test_a_list_of_ones_own_is_a_split_by_its_path(cub, tmp_path):
    images = read_images(cub)
    names = [file.split("/")[1] for file in images.files]
    path = tmp_path / "mine.json"
    sessions = [{"classes": [bird], "train": [[names[i]]]} for bird, i in zip(BIRDS, (1, 4), strict=True)]
    path.write_text(json.dumps({"class_order": BIRDS, "sessions": sessions, "test": [[names[0]], [names[3]]]}))
    split = parse_split(str(path)).make(images)
    assert (split.base_train.tolist(), split.base_test.tolist()) == ([1], [0])
    assert split.novel_support_pool[0].tolist() == [4, 5]
