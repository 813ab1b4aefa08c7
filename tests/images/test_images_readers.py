"""Readers: each format on small files made in exactly that format."""

import csv
import io
import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from subspan.images.imageset import DataError
from subspan.images.read import read_images

WNIDS = ("n01532829", "n01558993", "n02114548")


def colour(label: int, number: int) -> tuple[int, int, int]:
    return (20 * label + 10, 5 * number + 3, 200)


def write_image(path: Path, label: int, number: int, size=(84, 84)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour(label, number)).save(path, quality=100, subsampling=0)


def check_colours(images, tolerance=2) -> None:
    """Every image has the colour of its label and of the number at the end of its file name."""
    for pixels, label, file in zip(images.images, images.labels, images.files, strict=True):
        number = int("".join(c for c in Path(file).stem if c.isdigit())[-2:])
        assert np.abs(pixels.astype(int) - colour(label, number)).max() <= tolerance, file


def blocks(labels: int, per_class: int, side=84, first=0) -> np.ndarray:
    """Arrays (labels * per_class, side, side, 3) of the same colours."""
    values = [colour(label, number) for label in range(first, first + labels) for number in range(per_class)]
    return np.broadcast_to(np.array(values, dtype=np.uint8)[:, None, None], (len(values), side, side, 3)).copy()


def test_folder_of_class_folders(tmp_path):
    for label, name in enumerate(("apple", "blue whale")):
        for number in range(3):
            write_image(tmp_path / name / f"img{number:02d}.JPG", label, number, size=(200, 100))
    (tmp_path / "apple" / "notes.txt").write_text("not an image")
    (tmp_path / "apple" / "._img00.jpg").write_bytes(b"what macOS leaves behind")
    images = read_images(tmp_path)
    assert images.class_names == ("apple", "blue whale")
    assert images.wnids is None
    assert images.files[0] == "apple/img00.JPG"
    assert images.images.shape == (6, 84, 84, 3)
    assert images.parts is None
    assert images.source == tmp_path
    check_colours(images)


def test_folder_divided_into_parts(tmp_path):
    for part in ("train", "validation", "test"):
        write_image(tmp_path / part / "cat" / f"{part}00.png", 0, 0)
    write_image(tmp_path / "train" / "dog" / "train01.png", 1, 1)
    images = read_images(tmp_path)
    assert dict(zip(images.files, images.parts or (), strict=True)) == {
        "test/cat/test00.png": "test",
        "train/cat/train00.png": "train",
        "validation/cat/validation00.png": "val",
        "train/dog/train01.png": "train",
    }


@pytest.mark.parametrize("packed", [False, True])
def test_folders_of_one_name_are_one_class_only_as_parts(tmp_path, packed):
    def read(*folders: str):
        root = tmp_path / "-".join(folder.replace("/", "_") for folder in folders)
        for number, folder in enumerate(folders):
            write_image(root / folder / f"{number:02d}.png", 0, number)
        if packed:
            root = Path(shutil.make_archive(str(root), "zip", root))
        return read_images(root)

    assert len(read("train/cat", "test/cat").class_names) == 1
    assert len(read("photos/Train/pets/cat", "photos/val/pets/cat", "photos/val/pets/dog").class_names) == 2
    for first, second in (("birds/other", "fish/other"), ("fish/other", "other"), ("train/a/cat", "val/b/cat")):
        with pytest.raises(DataError, match=f"the folders {first} and {second} of .* would be one class"):
            read(first, second)


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_not_read_is_warned_of(tmp_path, packed, monkeypatch):
    monkeypatch.setattr("subspan.images.classfiles.HEIF", False)  # whatever is installed here
    monkeypatch.setattr("subspan.images.classfiles.IMAGE_SUFFIXES", frozenset({".png"}))
    root = tmp_path / "data"
    write_image(root / "cat" / "00.png", 0, 0)
    for name in ("cat/01.heic", "cat/._00.png", "dog/unnamed", "classes.csv", "splits/a.csv"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"")
    (root / "eel" / "deep").mkdir(parents=True)
    if packed:
        root = Path(shutil.make_archive(str(root), "zip", root))
    with pytest.warns(UserWarning, match="holds what is not read") as said:
        assert len(read_images(root)) == 1
    assert [str(one.message).partition("not read: ")[2] for one in said] == [
        "1 .heic (as cat/01.heic); 1 without a suffix (as dog/unnamed); no image in dog/, eel/; "
        "pip install pillow-heif reads HEIC"
    ]


def test_wnid_folders_take_names_from_the_list_beside_them(tmp_path):
    for label, wnid in enumerate(WNIDS):
        write_image(tmp_path / "data" / wnid / f"{wnid}00.jpg", label, 0)
    rows = [{"wnid": WNIDS[0], "name": "house finch"}, {"wnid": WNIDS[1], "name": "robin"}]
    (tmp_path / "data" / "classes.json").write_text(json.dumps(rows))
    images = read_images(tmp_path / "data")
    assert images.wnids == WNIDS
    assert images.class_names == ("house finch", "robin", WNIDS[2])


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_several_zips_make_one_set_equal_to_the_folder(tmp_path, compression):
    for label, wnid in enumerate(WNIDS):
        for number in range(4):
            write_image(tmp_path / "folder" / wnid / f"{wnid}000000{number:02d}.jpg", label, number)
    (tmp_path / "zips").mkdir()
    for i, wnids in enumerate((WNIDS[:2], WNIDS[2:])):
        with zipfile.ZipFile(tmp_path / "zips" / f"images-{i}.zip", "w", compression) as archive:
            for wnid in reversed(wnids):
                archive.mkdir(wnid)
                for file in sorted((tmp_path / "folder" / wnid).iterdir(), reverse=True):
                    archive.write(file, f"{wnid}/{file.name}")
    from_zips, from_folder = read_images(tmp_path / "zips"), read_images(tmp_path / "folder")
    check_colours(from_zips)
    for name in ("images", "labels"):
        np.testing.assert_array_equal(getattr(from_zips, name), getattr(from_folder, name))
    for name in ("class_names", "wnids", "files", "parts"):
        assert getattr(from_zips, name) == getattr(from_folder, name)
    assert read_images(tmp_path / "zips" / "images-1.zip").wnids == WNIDS[2:]


def test_bad_zips_and_bad_entries_are_named(tmp_path, encode):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("cat/1.png", encode())
        archive.writestr("cat/2.png", encode()[:100])
    with pytest.raises(DataError, match=r"image cat/2\.png is corrupt or truncated"):
        read_images(tmp_path)
    whole = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.zip is not a whole zip file"):
        read_images(tmp_path)
    damaged = bytearray(whole)
    damaged[60] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(damaged)
    with pytest.raises(DataError, match=r"image cat/1\.png of .*a\.zip cannot be read: Bad CRC-32"):
        read_images(tmp_path)


def test_an_image_in_two_zips_is_refused(tmp_path, encode):
    for name in ("a.zip", "b.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("cat/1.png", encode())
    with pytest.raises(DataError, match=r"'cat/1\.png' occurs 2 times"):
        read_images(tmp_path)


@pytest.mark.parametrize("arrangement", ["flat", "class folders", "zip"])
@pytest.mark.parametrize("csv_folder", ["", "splits"])
def test_ravi_csvs_beside_images(tmp_path, arrangement, csv_folder):
    (tmp_path / csv_folder).mkdir(exist_ok=True)
    paths = {}
    for label, (part, wnid) in enumerate(zip(("train", "val", "test"), WNIDS, strict=True)):
        names = [f"{wnid}000000{number:02d}.jpg" for number in range(3)]
        for number, name in enumerate(names):
            folder = Path("images") if arrangement == "flat" else Path(wnid)
            paths[name] = tmp_path / folder / name
            write_image(paths[name], label, number)
        with (tmp_path / csv_folder / f"{part}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("filename", "label"), *((name, wnid) for name in names[:2])])
    if arrangement == "zip":
        with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
            for path in paths.values():
                archive.write(path, path.relative_to(tmp_path))
                path.unlink()
    images = read_images(tmp_path)
    assert images.wnids == WNIDS
    assert images.files[:2] == ("n01532829/n0153282900000000.jpg", "n01532829/n0153282900000001.jpg")
    assert images.parts == ("train", "train", "val", "val", "test", "test")
    check_colours(images)


def test_a_csv_that_lists_a_missing_image_is_named(tmp_path):
    write_image(tmp_path / "images" / "a.jpg", 0, 0)
    for part in ("train", "val", "test"):
        (tmp_path / f"{part}.csv").write_text(
            "filename,label\na.jpg,n01532829\n" if part != "val" else "filename,label\nb.jpg,x\n"
        )
    with pytest.raises(DataError, match=r"val\.csv lists b\.jpg, which is not among the images"):
        read_images(tmp_path)
    (tmp_path / "val.csv").write_text("name,class\nb.jpg,x\n")
    with pytest.raises(DataError, match=r"val\.csv must have the columns filename and label, got name, class"):
        read_images(tmp_path)


def write_csvs(path: Path, **rows: str) -> None:
    for part in ("train", "val", "test"):
        (path / f"{part}.csv").write_text("filename,label\n" + rows.get(part, ""))


@pytest.mark.parametrize("above", ["", "images"])
@pytest.mark.parametrize("listed", ["cat/00.png,cat\ndog/00.png,dog\n", "00.png,cat\n00.png,dog\n"])
def test_equal_file_names_of_two_classes_are_told_apart(tmp_path, above, listed):
    for label, name in enumerate(("cat", "dog")):
        write_image(tmp_path / above / name / "00.png", label, 0)
    write_csvs(tmp_path, train=listed)
    images = read_images(tmp_path)
    assert images.files == ("cat/00.png", "dog/00.png")
    check_colours(images, tolerance=0)


def test_a_listed_path_comes_before_the_folder_of_the_label(tmp_path):
    write_image(tmp_path / "00.png", 0, 0)
    write_image(tmp_path / "cat" / "00.png", 1, 0)
    write_csvs(tmp_path, train="00.png,cat\n")
    check_colours(read_images(tmp_path), tolerance=0)


def test_a_name_that_may_be_two_images_is_refused(tmp_path):
    for label, folder in enumerate(("left", "right")):
        write_image(tmp_path / folder / "00.png", label, 0)
    write_csvs(tmp_path, val="00.png,cat\n")
    with pytest.raises(DataError, match=r"val\.csv lists 00\.png of cat, which may be left/00\.png or right/00\.png"):
        read_images(tmp_path)


def test_other_csvs_beside_class_folders_do_not_matter(tmp_path):
    write_image(tmp_path / "cat" / "a00.png", 0, 0)
    write_image(tmp_path / "dog" / "a00.png", 1, 0)
    for part in ("train", "val", "test"):
        (tmp_path / f"{part}.csv").write_text("path,species\nx,y\n")
        assert read_images(tmp_path).class_names == ("cat", "dog")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("path,species\nx,y\n", r"train\.csv must have the columns filename and label, got path, species"),
        ("", r"train\.csv must have the columns filename and label, got none"),
        ("filename,label\na00.png\n", r"line 2 of .*train\.csv must give a filename and a label"),
        ("filename,label\na00.png,\n", r"line 2 of .*train\.csv must give a filename and a label"),
        ("filename,label\n\n,cat\n", r"line 3 of .*train\.csv must give a filename and a label"),
        ("\xff\xfe", r"train\.csv cannot be read as a table of filename and label: .*can't decode"),
    ],
)
def test_csvs_of_another_kind_beside_a_flat_folder_are_named(tmp_path, content, message):
    write_image(tmp_path / "images" / "a00.png", 0, 0)
    write_csvs(tmp_path)
    (tmp_path / "train.csv").write_bytes(content.encode("latin1"))
    with pytest.raises(DataError, match=message):
        read_images(tmp_path)


@pytest.mark.parametrize("folder", ["", "splits"])
@pytest.mark.parametrize("header", ["filename,label\n", "path,species\n"])
def test_some_of_the_csvs_beside_a_flat_folder_do_not_make_it_a_class(tmp_path, folder, header):
    write_image(tmp_path / "images" / "a00.png", 0, 0)
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "train.csv").write_text(header + "a00.png,cat\n")
    with pytest.raises(DataError, match=r"lacks val\.csv and test\.csv: images in one folder need the lists"):
        read_images(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_columns(tmp_path):
    write_image(tmp_path / "images" / "a00.png", 0, 0)
    write_csvs(tmp_path)
    (tmp_path / "train.csv").write_text("\ufefffilename,label\na00.png,cat\n", encoding="utf-8")
    assert read_images(tmp_path).class_names == ("cat",)


def write_pickle(path: Path, record, protocol=2) -> Path:
    path.write_bytes(pickle.dumps(record, protocol))
    return path


def test_all_pickle(tmp_path):
    record = {"data": blocks(3, 2), "labels": [0, 0, 1, 1, 2, 2], "catname2label": {w: i for i, w in enumerate(WNIDS)}}
    write_pickle(tmp_path / "all.pickle", record)
    write_pickle(tmp_path / "miniImageNet_category_split_val.pickle", {"not": "read beside all.pickle"})
    (tmp_path / "class_labels.txt").write_text("n01532829 House_Finch\nn01558993 robin\n")
    images = read_images(tmp_path)
    assert images.wnids == WNIDS
    assert images.class_names == ("house finch", "robin", "n02114548")
    assert images.files[:3] == ("n01532829/all-00000", "n01532829/all-00001", "n01558993/all-00000")
    check_colours(images, tolerance=0)


@pytest.mark.parametrize("names", ["catname2label", "label2catname list", "label2catname dict"])
def test_category_split_pickles(tmp_path, names):
    first = {"train_phase_train": 0, "train_phase_val": 0, "train_phase_test": 0, "val": 1, "test": 2}
    for part, label in first.items():
        naming = {
            "catname2label": {"catname2label": {WNIDS[label]: label}},
            "label2catname list": {"label2catname": list(WNIDS)},
            "label2catname dict": {"label2catname": dict(enumerate(WNIDS))},
        }[names]
        record = {"data": blocks(1, 2, first=label), "labels": [label] * 2, **naming}
        write_pickle(tmp_path / f"miniImageNet_category_split_{part}.pickle", record)
    images = read_images(tmp_path)
    assert images.wnids == WNIDS
    assert sorted(set(images.parts or ())) == ["test", "train", "val"]
    assert len(images) == 6
    assert images.files[-1] == "n01558993/miniImageNet_category_split_val-00001"
    check_colours(images, tolerance=0)
    extra = read_images(tmp_path / "miniImageNet_category_split_train_phase_test.pickle")
    assert extra.files[0] == "n01532829/miniImageNet_category_split_train_phase_test-00000"
    single = read_images(tmp_path / "miniImageNet_category_split_val.pickle")
    assert single.wnids == WNIDS[1:2]


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_cache_pickles(tmp_path, protocol, as_bytes):
    for label, part in enumerate(("train", "val", "test")):
        key = WNIDS[label].encode() if as_bytes else WNIDS[label]
        record = {"image_data": blocks(1, 3, first=label), "class_dict": {key: [0, 1, 2]}}
        if as_bytes:
            record = {name.encode(): value for name, value in record.items()}
        write_pickle(tmp_path / f"mini-imagenet-cache-{part}.pkl", record, protocol)
    images = read_images(tmp_path)
    assert images.wnids == WNIDS
    assert images.parts is not None
    assert images.parts.count("val") == 3
    check_colours(images, tolerance=0)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"data": blocks(1, 2)}, "holds data; data and labels or image_data and class_dict are needed"),
        ({"data": blocks(1, 2), "labels": [0]}, "2 images and 1 labels"),
        ({"data": blocks(1, 2), "labels": [0, 1], "catname2label": {"a": 0}}, "label 1 and no class name"),
        ({"data": blocks(1, 2) / 255, "labels": [0, 0]}, "whole numbers in 0..255, got 0.01"),
        ({"data": np.zeros((2, 84, 84)), "labels": [0, 0]}, r"\(n, height, width, 3\), got float64 \(2, 84, 84\)"),
        ({"image_data": blocks(1, 2), "class_dict": {"a": [0]}}, "2 images one class, 1 have none"),
        ({"image_data": blocks(1, 2), "class_dict": {"a": [0, 1], "b": [1]}}, "image 1 of b"),
        ({"image_data": blocks(1, 2), "class_dict": {"a": [0, 2]}}, "image 2 of a"),
        ({"image_data": blocks(1, 2), "class_dict": [0, 1]}, "class_dict of .* must be a dictionary, got list"),
        ({"image_data": blocks(1, 2), "class_dict": {"a": None}}, "indices of a in class_dict of .* whole numbers"),
        ({"image_data": blocks(1, 2), "class_dict": {"a": [0, "x"]}}, "indices of a in class_dict of .* whole numbers"),
        ({"image_data": blocks(1, 2), "class_dict": {"a": [0.5, 1]}}, "indices of a in class_dict of .* whole numbers"),
        ({"data": blocks(1, 2), "labels": [[0], [0, 1]]}, "labels of .* must be an array, got lists of different"),
        ({"data": [[1], [2, 3]], "labels": [0, 1]}, "data of .* must be an array, got lists of different lengths"),
        ({"data": blocks(1, 2), "labels": [0, 0], "catname2label": 3}, "catname2label of .* dictionary, got int"),
        ({"data": blocks(1, 2), "labels": [0, 0], "catname2label": {"a": "x"}}, "labels in catname2label of .* whole"),
        ({"data": blocks(1, 2), "labels": [0, 0], "label2catname": 4}, "label2catname of .* list of names, got int"),
        ({"data": blocks(1, 2), "labels": [0, 0], "label2catname": {None: "a"}}, "labels in label2catname of .* whole"),
    ],
)
def test_pickles_that_do_not_fit_are_named(tmp_path, record, message):
    with pytest.raises(DataError, match=message) as caught:
        read_images(write_pickle(tmp_path / "all.pickle", record))
    assert "all.pickle" in str(caught.value)


def test_pickles_without_names_and_of_another_size(tmp_path):
    record = {"data": blocks(12, 1, side=32).astype(np.float32), "labels": np.arange(12)}
    write_pickle(tmp_path / "all.pickle", record)
    images = read_images(tmp_path)
    assert images.class_names[1] == "class 01"
    assert images.images.shape == (12, 84, 84, 3)
    check_colours(images, tolerance=0)
    assert read_images(tmp_path, size=None).size == (32, 32)


WORDS = ("brambling, Fringilla montifringilla", "crane", "crane, derrick")


def write_tiered_labels(path: Path, part: str, per_class: int, ren=True) -> None:
    labels = np.repeat(np.arange(len(WORDS)), per_class).astype(np.int32)
    record = {
        "label_specific": labels,
        "label_general": np.zeros_like(labels),
        "label_specific_str": list(WORDS),
        "label_general_str": ["thing"],
    }
    write_pickle(path / f"{part}_labels.pkl", record if ren else {"labels": labels.tolist()})


def png_column(pixels: np.ndarray) -> np.ndarray:
    """An image as OpenCV's encoder gave it: bytes in an array (m, 1)."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return np.frombuffer(file.getvalue(), dtype=np.uint8)[:, None].copy()


def test_tiered_png_pickles(tmp_path):
    for part in ("train", "test"):
        write_pickle(tmp_path / f"{part}_images_png.pkl", [png_column(image) for image in blocks(3, 2)])
        write_tiered_labels(tmp_path, part, 2)
    images = read_images(tmp_path)
    assert images.class_names == WORDS
    assert images.wnids is None
    assert images.files[:2] == (f"{WORDS[0]}/train-00000", f"{WORDS[0]}/train-00001")
    assert images.parts == ("train",) * 6 + ("test",) * 6
    check_colours(images, tolerance=0)


def test_tiered_words_give_wnids_where_the_list_is_beside(tmp_path):
    write_pickle(tmp_path / "val_images_png.pkl", [png_column(image) for image in blocks(3, 1)])
    write_tiered_labels(tmp_path, "val", 1)
    rows = [{"wnid": f"n0000000{3 - i}", "name": f"name {i}", "words": words} for i, words in enumerate(WORDS)]
    (tmp_path / "classes.json").write_text(json.dumps(rows))
    images = read_images(tmp_path)
    assert images.wnids == ("n00000003", "n00000002", "n00000001")
    assert images.class_names == ("name 0", "name 1", "name 2")
    check_colours(images, tolerance=0)


def test_tiered_npz_of_ren_has_blue_first_and_that_of_rfs_not(tmp_path):
    np.savez(tmp_path / "val_images.npz", images=blocks(3, 2)[..., ::-1])
    write_tiered_labels(tmp_path, "val", 2)
    check_colours(read_images(tmp_path), tolerance=0)
    np.savez(tmp_path / "val_images.npz", images=blocks(3, 2))
    write_tiered_labels(tmp_path, "val", 2, ren=False)
    images = read_images(tmp_path)
    check_colours(images, tolerance=0)
    assert images.class_names == ("val class 000", "val class 001", "val class 002")


def test_tiered_faults_are_named(tmp_path):
    pngs = [png_column(image) for image in blocks(3, 2)]
    write_pickle(tmp_path / "val_images_png.pkl", pngs)
    with pytest.raises(DataError, match=r"needs its labels in val_labels\.pkl"):
        read_images(tmp_path)
    write_tiered_labels(tmp_path, "val", 1)
    with pytest.raises(DataError, match=r"val_images_png\.pkl holds 6 images and 3 labels"):
        read_images(tmp_path)
    write_tiered_labels(tmp_path, "val", 2)
    pngs[4] = pngs[4][:50]
    write_pickle(tmp_path / "val_images_png.pkl", pngs)
    with pytest.raises(DataError, match=r"image number 4 of .*val_images_png\.pkl is corrupt"):
        read_images(tmp_path)
    (tmp_path / "val_images_png.pkl").unlink()
    np.savez(tmp_path / "val_images.npz", images=np.array([None]))
    with pytest.raises(DataError, match=r"val_images\.npz' is no readable npz file"):
        read_images(tmp_path)
    np.savez(tmp_path / "val_images.npz", pictures=blocks(3, 2))
    with pytest.raises(DataError, match=r"val_images\.npz holds pictures; an array named images is needed"):
        read_images(tmp_path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"labels": ["a", "b"]}, r"labels of .* must be whole numbers \(n,\), got <U1"),
        ({"labels": [0, None]}, r"labels of .* must be whole numbers \(n,\), got object"),
        ({"labels": [[0], [1, 2]]}, "labels of .* must be an array, got lists of different lengths"),
        ({"label_specific": [0, 0], "label_specific_str": 5}, "label_specific_str of .* list of names, got int"),
        ({"label_specific": [0, None], "label_specific_str": ["a"]}, "label_specific of .* whole numbers"),
    ],
)
def test_tiered_labels_of_another_kind_are_named(tmp_path, labels, message):
    write_pickle(tmp_path / "val_images_png.pkl", [png_column(image) for image in blocks(1, 2)])
    write_pickle(tmp_path / "val_labels.pkl", labels)
    with pytest.raises(DataError, match=message) as caught:
        read_images(tmp_path)
    assert "val_labels.pkl" in str(caught.value)


@pytest.mark.parametrize("image", [None, [1, 2, 300]])
def test_tiered_images_of_another_kind_are_named(tmp_path, image):
    write_pickle(tmp_path / "val_images_png.pkl", [png_column(blocks(1, 1)[0]), image])
    write_pickle(tmp_path / "val_labels.pkl", {"labels": [0, 0]})
    with pytest.raises(DataError, match=r"image number 1 of .*val_images_png\.pkl must be bytes or whole"):
        read_images(tmp_path)


def write_cifar(path: Path, names=(b"apple", b"bear")) -> None:
    write_pickle(path / "meta", {b"fine_label_names": list(names), b"coarse_label_names": [b"fruit", b"animal"]})
    for part, per_class in (("train", 3), ("test", 2)):
        labels = [label for label in range(len(names)) for _ in range(per_class)]
        record = {
            b"filenames": [f"photo_s_0000{i % per_class:02d}.png".encode() for i in range(len(labels))],
            b"batch_label": b"training batch 1 of 1",
            b"fine_labels": labels,
            b"coarse_labels": labels,
            # One row holds the red plane, then the green, then the blue one, each row by row.
            b"data": blocks(len(names), per_class, side=32).transpose(0, 3, 1, 2).reshape(len(labels), -1),
        }
        write_pickle(path / part, record)


@pytest.mark.parametrize("folder", [".", "cifar-100-python"])
def test_cifar_python_files(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    write_cifar(tmp_path / folder)
    images = read_images(tmp_path, size=None)
    assert images.class_names == ("apple", "bear")
    assert images.size == (32, 32)
    assert images.files[0] == "apple/train-photo_s_000000.png"
    assert images.parts == ("train",) * 6 + ("test",) * 4
    check_colours(images, tolerance=0)
    assert read_images(tmp_path, size=8).images.shape == (10, 8, 8, 3)


@pytest.mark.parametrize(
    ("file", "field", "value", "message"),
    [
        ("test", "fine_labels", [0.5, 1.0], r"must be whole numbers \(n,\), got float64"),
        ("test", "fine_labels", ["0", "1"], r"must be whole numbers \(n,\), got <U1"),
        ("test", "fine_labels", [[0], [0, 1]], "must be an array, got lists of different lengths"),
        ("test", "filenames", None, "must be a list of names, got NoneType"),
        ("test", "filenames", ["a"], "holds 2 images and 1 filenames"),
        ("test", "data", [[1], [2, 3]], "must be an array, got lists of different lengths"),
        ("meta", "fine_label_names", 3, "must be a list of names, got int"),
    ],
)
def test_cifar_fields_of_another_kind_are_named(tmp_path, file, field, value, message):
    write_cifar(tmp_path)
    records = {
        "test": {"data": np.zeros((2, 3 * 32 * 32), np.uint8), "fine_labels": [0, 1], "filenames": ["a", "b"]},
        "meta": {"fine_label_names": ["apple", "bear"]},
    }
    write_pickle(tmp_path / file, {**records[file], field: value})
    with pytest.raises(DataError, match=rf"{file} {message}|{field} of .*{file} {message}"):
        read_images(tmp_path)


def test_cifar_rows_and_columns_are_not_swapped(tmp_path):
    write_cifar(tmp_path)
    row = np.arange(3 * 32 * 32, dtype=np.uint32).astype(np.uint8)
    write_pickle(tmp_path / "test", {b"data": row[None], b"fine_labels": [1]})
    image = read_images(tmp_path, size=None).images[-1]
    assert image[2, 5].tolist() == [(plane * 1024 + 2 * 32 + 5) % 256 for plane in range(3)]


def test_a_place_that_holds_nothing_readable_says_what_is_taken(tmp_path):
    with pytest.raises(DataError, match=r"holds nothing; what can be read: .*CIFAR-100.*tieredImageNet.*zips of class"):
        read_images(tmp_path)
    (tmp_path / "readme.txt").write_text("hello")
    with pytest.raises(DataError, match=r"holds 1 entries \(readme\.txt\)"):
        read_images(tmp_path)
    with pytest.raises(DataError, match="a file of 5 bytes"):
        read_images(tmp_path / "readme.txt")
    with pytest.raises(DataError, match="there is nothing at"):
        read_images(tmp_path / "absent")


def test_images_outside_class_folders_are_named(tmp_path):
    write_image(tmp_path / "cat" / "a00.png", 0, 0)
    write_image(tmp_path / "b00.png", 0, 0)
    with pytest.raises(DataError, match=r"image b00\.png of .* lies in no class folder"):
        read_images(tmp_path)


def test_real_images_read_under_their_listed_names(shared_data, tmp_path):
    wanted = {
        row["wnid"]: row["name"] for row in json.loads((shared_data / "mini-imagenet" / "classes.json").read_text())
    }
    for number in range(4):
        with (
            zipfile.ZipFile(shared_data / "mini-imagenet" / f"images-{number}.zip") as whole,
            zipfile.ZipFile(tmp_path / f"images-{number}.zip", "w") as part,
        ):
            for name in whole.namelist()[::600]:
                part.writestr(name, whole.read(name))
    (tmp_path / "classes.json").write_bytes((shared_data / "mini-imagenet" / "classes.json").read_bytes())
    images = read_images(tmp_path)
    assert dict(zip(images.wnids or (), images.class_names, strict=True)) == wanted
    assert sorted(images.labels) == list(range(100))
    assert images.files[0] == "n01532829/n0153282900000005.jpg"
    assert images.images.std(axis=(1, 2, 3)).min() > 5  # photographs, not blank squares
