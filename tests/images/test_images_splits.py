"""Splits: counts, disjointness and determinism as properties; published lists by hand-made files; what hashes cover."""

import dataclasses
import gzip
import json
import zipfile
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subspan.images.imageset import DataError, ImageSet
from subspan.images.splits.listed import FixedSessions, RaviClasses, TieredClasses
from subspan.images.splits.parse import SPLITS, parse_split
from subspan.images.splits.sessions import FolderSessions, RandomSessions
from subspan.images.splits.split import Split

SMALL = RandomSessions(
    seed=3, base_classes=4, sessions=3, ways=2, train=6, validation=2, test=4, novel_pool=5, novel_test=7
)


def every_index(split: Split) -> list[int]:
    arrays = [split.base_train, split.base_validation, split.base_test, *split.novel_support_pool, *split.novel_test]
    arrays += [*split.development_support_pool, *split.development_test]
    return [int(i) for array in arrays for i in array]


def check_roles(split: Split, images: ImageSet) -> None:
    """No image twice, and every image in a role of its own class."""
    assert len(set(every_index(split))) == len(every_index(split))
    for indices in (split.base_train, split.base_validation, split.base_test):
        assert set(images.labels[indices].tolist()) <= set(split.base_classes)
        assert indices.tolist() == sorted(indices.tolist())
    for classes, pools in (
        (split.novel_classes, split.novel_support_pool),
        (split.novel_classes, split.novel_test),
        (split.development_classes, split.development_support_pool),
        (split.development_classes, split.development_test),
    ):
        for c, indices in zip(classes, pools, strict=True):
            assert set(images.labels[indices].tolist()) <= {c}


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**40),
    pooled=st.booleans(),
    base=st.integers(1, 5),
    sessions=st.integers(0, 3),
    ways=st.integers(1, 2),
    counts=st.tuples(*[st.integers(0, 4)] * 3),
)
def test_random_splits_have_their_counts_and_share_nothing(tiny_set, seed, pooled, base, sessions, ways, counts):
    images = tiny_set(classes=11, per_class=12)
    train, validation, test = counts
    recipe = RandomSessions(seed, pooled, base, sessions, ways, train, validation, test, novel_pool=7, novel_test=5)
    split = recipe.make(images)
    check_roles(split, images)
    assert len(split.base_classes) == base
    assert [len(session) for session in split.sessions] == [ways] * sessions
    for indices, count in zip((split.base_train, split.base_validation, split.base_test), counts, strict=True):
        assert len(indices) == base * count
        if not pooled and count:
            assert set(Counter(images.labels[indices].tolist()).values()) == {count}
    assert all(len(pool) == 7 for pool in split.novel_support_pool)
    assert all(len(test_images) == 5 for test_images in split.novel_test)


@pytest.mark.parametrize("pooled", [False, True])
def test_a_split_does_not_depend_on_the_order_of_the_images(tiny_set, pooled):
    recipe = dataclasses.replace(SMALL, pooled=pooled)
    images, shuffled = tiny_set(), tiny_set(order_seed=5)
    one, other = recipe.make(images), recipe.make(shuffled)
    assert one.digest() == other.digest()
    assert {images.files[i] for i in one.base_train} == {shuffled.files[i] for i in other.base_train}
    for c in range(len(one.novel_classes)):
        names = [images.files[i] for i in one.novel_support_pool[c]]
        assert names == [shuffled.files[i] for i in other.novel_support_pool[c]]


@pytest.mark.parametrize("pooled", [False, True])
def test_a_split_for_choices_trains_and_validates_on_the_same_images_and_meets_no_test_image(tiny_set, pooled):
    images = tiny_set()
    recipe = dataclasses.replace(SMALL, pooled=pooled, novel_pool=9, novel_test=3)
    whole, chosen_on = recipe.make(images), recipe.for_choices().make(images)
    np.testing.assert_array_equal(chosen_on.base_train, whole.base_train)
    np.testing.assert_array_equal(chosen_on.base_validation, whole.base_validation)
    assert len(chosen_on.base_test) == 0
    assert (whole.queried, chosen_on.queried) == ("test", "validation")
    np.testing.assert_array_equal(whole.base_queries, whole.base_test)
    np.testing.assert_array_equal(chosen_on.base_queries, whole.base_validation)
    for before, pool, queries in zip(
        whole.novel_support_pool, chosen_on.novel_support_pool, chosen_on.novel_test, strict=True
    ):
        np.testing.assert_array_equal([*pool, *queries], before)
        assert len(queries) == 3
    assert chosen_on.digest() != whole.digest()


def test_digests_are_the_same_on_every_machine(tiny_set):
    # Written down once: a change here breaks every result file that names a split.
    assert SMALL.make(tiny_set()).digest() == "4c10bb424aa5653ca584b4874a8f3753ec03f7598f1c63f4d49a86fab8910b74"
    assert (
        dataclasses.replace(SMALL, pooled=True).make(tiny_set()).digest()
        == "cd751743807742dfd4bdfd3ca0940c39ea0a5a979315659395618e7dce8fa689"
    )


def test_the_digest_changes_with_every_option_and_every_name(tiny_set):
    images = tiny_set()
    digests = [SMALL.make(images).digest()]
    for name in ("seed", "base_classes", "sessions", "ways", "train", "validation", "test", "novel_pool", "novel_test"):
        changed = dataclasses.replace(SMALL, **{name: getattr(SMALL, name) - 1})
        digests.append(changed.make(images).digest())
    digests.append(dataclasses.replace(SMALL, pooled=True).make(images).digest())
    digests.append(SMALL.make(dataclasses.replace(images, files=("x.jpg", *images.files[1:]))).digest())
    other = tuple(f"n2{key[2:]}" for key in images.class_keys)
    digests.append(SMALL.make(dataclasses.replace(images, wnids=other)).digest())
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    "field", [field.name for field in dataclasses.fields(Split) if field.name not in ("class_keys", "files")]
)
def test_the_digest_covers_every_field(tiny_set, field):
    split = split_by_hand(tiny_set())
    value = getattr(split, field)
    changed = {
        "name": "other",
        "options": {**split.options, "seed": 99},
        "listed_support": 1,
        "sessions": ((split.novel_classes[0],), split.novel_classes[1:]),
    }.get(field)
    if changed is None and isinstance(value, np.ndarray):
        changed = value[1:]
    elif changed is None and field.endswith("classes"):
        changed = value[::-1]
    elif changed is None:
        changed = (value[0][1:], *value[1:])
    assert dataclasses.replace(split, **{field: changed}).digest() != split.digest()


def split_by_hand(images: ImageSet) -> Split:
    """A split in which no field is empty."""
    rows = [images.indices_of(c) for c in range(10)]
    return Split(
        name="by hand",
        options={"seed": 1},
        base_classes=(0, 1),
        sessions=(),
        novel_classes=(2, 3, 4),
        base_train=np.concatenate([rows[0][:4], rows[1][:4]]),
        base_validation=np.concatenate([rows[0][4:6], rows[1][4:6]]),
        base_test=np.concatenate([rows[0][6:9], rows[1][6:9]]),
        novel_support_pool=tuple(rows[c][:5] for c in (2, 3, 4)),
        novel_test=tuple(rows[c][5:] for c in (2, 3, 4)),
        class_keys=images.class_keys,
        files=images.files,
        extra_classes=(5, 6),
        extra_train=np.concatenate([rows[5], rows[6]]),
        development_classes=(7, 8),
        development_support_pool=tuple(rows[c][:5] for c in (7, 8)),
        development_test=tuple(rows[c][5:] for c in (7, 8)),
    )


def test_a_split_refuses_shared_images_and_classes_with_two_roles(tiny_set):
    split = split_by_hand(tiny_set())
    with pytest.raises(DataError, match="an image may serve one purpose only"):
        dataclasses.replace(split, base_test=split.base_train[:1])
    with pytest.raises(DataError, match="a class may have one role only"):
        dataclasses.replace(split, base_classes=(0, 2))
    with pytest.raises(DataError, match="novel_test must have one array per class: 3 classes, 2 arrays"):
        dataclasses.replace(split, novel_test=split.novel_test[:2])
    with pytest.raises(DataError, match=r"the sessions' in order, got \(2, 3, 4\) and \(3, 2, 4\)"):
        dataclasses.replace(split, sessions=((3, 2), (4,)))
    with pytest.raises(DataError, match="session 2 has none"):
        dataclasses.replace(split, sessions=((2, 3, 4), ()))


def test_training_classes_and_images_include_the_extra_ones(tiny_set):
    images = tiny_set()
    split = split_by_hand(images)
    assert repr(split).startswith("Split('by hand', 2 base and 3 novel classes in 0 sessions, digest ")
    assert split.training_classes == (0, 1, 5, 6)
    assert set(images.labels[split.training_images].tolist()) == {0, 1, 5, 6}
    assert len(split.training_images) == 8 + 24
    split.check_made_from(images)
    with pytest.raises(DataError, match="made from another image set"):
        split.check_made_from(tiny_set(order_seed=1))


def test_seeds_give_different_classes_and_different_images(tiny_set):
    images = tiny_set()
    splits = [dataclasses.replace(SMALL, seed=seed).make(images) for seed in range(11)]
    assert len({split.base_classes for split in splits}) == 11
    whole = [RandomSessions(s, False, 10, 0, 1, 6, 3, 3).make(images).base_train.tobytes() for s in range(11)]
    assert len(set(whole)) == 11


def test_pooled_counts_vary_by_class_and_cover_the_pool(tiny_set):
    images = tiny_set(classes=10, per_class=60)
    recipe = RandomSessions(1, True, 5, 1, 5, train=50, validation=5, test=5, novel_pool=50, novel_test=10)
    split = recipe.make(images)
    assert len(set(Counter(images.labels[split.base_test].tolist()).values())) > 1
    assert len(split.base_train) + len(split.base_validation) + len(split.base_test) == 5 * 60


def test_nothing_touches_global_random_state(tiny_set):
    np.random.seed(7)
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    SMALL.make(tiny_set())
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base_classes": 5}, "5 base classes and 3 sessions of 2 need 11 classes, these images have 10"),
        ({"train": 7}, r"class 'n100000\d\d' has 12 images, the split needs 7 \+ 2 \+ 4"),
        ({"novel_test": 8}, r"has 12 images, the split needs 5 \+ 8"),
        ({"train": 7, "pooled": True}, r"the pool of base images has 48 images, the split needs 28 \+ 8 \+ 16"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
        ({"test": -1}, r"0 or more, got \(6, 2, -1\)"),
        ({"base_classes": 0}, "at least 1 base class"),
    ],
)
def test_random_splits_refuse_what_does_not_fit(tiny_set, change, message):
    with pytest.raises(DataError, match=message):
        dataclasses.replace(SMALL, **change).make(tiny_set())


def write_fixed_list(path, images, base=4, ways=2, shots=2, test=4):
    """The lists of the fixed protocol, made by hand: the last images of a class test, the first train or support."""
    keys = images.class_keys
    names = {key: sorted(f.split("/")[1] for f in images.files if f.startswith(key)) for key in keys}
    groups = [keys[:base], *(keys[i : i + ways] for i in range(base, len(keys), ways))]
    record = {
        "protocol": "made by hand",
        "class_order": list(keys),
        "sessions": [
            {
                "session": s,
                "classes": list(group),
                "train": [names[k][:-test] if s == 0 else names[k][:shots][::-1] for k in group],
            }
            for s, group in enumerate(groups)
        ],
        "test": [names[key][-test:] for key in keys],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(record).encode()))
    return record


def test_the_fixed_split_is_what_the_lists_say(tiny_set, tmp_path):
    images = tiny_set(order_seed=2, source=tmp_path)
    record = write_fixed_list(tmp_path / "splits" / "fscil-session-images.json.gz", images)
    split = parse_split("fixed").make(images)
    check_roles(split, images)
    assert split.base_classes == (0, 1, 2, 3)
    assert split.sessions == ((4, 5), (6, 7), (8, 9))
    assert split.listed_support == 2

    def names(indices):
        return [images.files[i].split("/")[1] for i in indices]

    assert sorted(names(split.base_train)) == sorted(n for c in record["sessions"][0]["train"] for n in c)
    assert sorted(names(split.base_test)) == sorted(n for c in record["test"][:4] for n in c)
    assert len(split.base_validation) == 0
    for session, classes in zip(record["sessions"][1:], split.sessions, strict=True):
        for c, listed in zip(classes, session["train"], strict=True):
            pool = names(split.novel_support_pool[split.novel_classes.index(c)])
            assert pool[:2] == listed  # in the order of the list
            assert pool[2:] == sorted(pool[2:])
            test = names(split.novel_test[split.novel_classes.index(c)])
            assert sorted(test) == sorted(record["test"][c])
            assert len(pool) + len(test) == 12


def test_validation_of_the_fixed_split_comes_from_training_images(tiny_set, tmp_path):
    images = tiny_set()
    path = tmp_path / "lists.json.gz"
    write_fixed_list(path, images)
    plain, held = FixedSessions(lists=path).make(images), FixedSessions(lists=path, validation=3).make(images)
    assert len(held.base_validation) == 4 * 3
    assert sorted([*held.base_train, *held.base_validation]) == plain.base_train.tolist()
    assert held.base_test.tolist() == plain.base_test.tolist()
    assert held.digest() != plain.digest()
    assert FixedSessions(lists=str(path)).make(tiny_set(source=tmp_path)).digest() == plain.digest()


def test_the_fixed_split_names_what_is_missing(tiny_set, tmp_path):
    images = tiny_set(source=tmp_path)
    with pytest.raises(DataError, match=r"split 'fixed' needs fscil-session-images\.json\.gz .* beside the images"):
        parse_split("fixed").make(images)
    with pytest.raises(DataError, match="there is no file"):
        parse_split("fixed", lists=tmp_path / "absent").make(images)
    path = tmp_path / "fscil-session-images.json.gz"
    write_fixed_list(path, images)
    fewer = {name: getattr(images, name)[1:] for name in ("images", "labels", "files")}
    with pytest.raises(DataError, match=r"lists n10000000\d{5}\.jpg of class 'n10000000', which is not among"):
        parse_split("fixed").make(dataclasses.replace(images, **fewer))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be read as JSON"):
        parse_split("fixed").make(images)
    path.write_bytes(gzip.compress(b'{"class_order": []}'))
    with pytest.raises(DataError, match="must hold class_order, sessions and test"):
        parse_split("fixed").make(images)


RAVI_COUNTS = {"held_out": 3, "novel_test": 4}


def test_ravi_by_json_csvs_and_parts_is_one_split(tiny_set, tmp_path):
    images = tiny_set()
    keys = {"train": images.class_keys[4:], "val": images.class_keys[:1], "test": images.class_keys[1:4]}
    (tmp_path / "ravi.json").write_text(json.dumps(keys))
    for part, classes in keys.items():
        rows = [f"{i}.jpg,{key}" for key in classes for i in range(2)]
        (tmp_path / f"{part}.csv").write_text("\n".join(["filename,label", *rows]))
    part_of = {key: part for part, classes in keys.items() for key in classes}
    parts = tuple(part_of[file.split("/")[0]] for file in images.files)
    splits = [
        RaviClasses(lists=tmp_path / "ravi.json", **RAVI_COUNTS).make(images),
        RaviClasses(lists=tmp_path, **RAVI_COUNTS).make(images),
        RaviClasses(**RAVI_COUNTS).make(tiny_set(source=tmp_path / "images.zip")),
        RaviClasses(**RAVI_COUNTS).make(dataclasses.replace(images, parts=parts)),
    ]
    assert len({split.digest() for split in splits}) == 1
    split = splits[0]
    check_roles(split, images)
    assert split.base_classes == tuple(range(4, 10))
    assert split.development_classes == (0,)
    assert split.novel_classes == (1, 2, 3)
    assert split.sessions == ()
    assert Counter(images.labels[split.base_train].tolist()) == dict.fromkeys(range(4, 10), 9)
    assert Counter(images.labels[split.base_test].tolist()) == dict.fromkeys(range(4, 10), 3)
    assert [len(pool) for pool in split.novel_support_pool] == [8, 8, 8]
    assert RaviClasses(seed=1, lists=tmp_path, **RAVI_COUNTS).make(images).digest() != split.digest()


def test_ravi_names_what_is_missing(tiny_set, tmp_path):
    with pytest.raises(DataError, match=r"split 'ravi' needs ravi\.json or train\.csv"):
        RaviClasses().make(tiny_set())
    (tmp_path / "ravi.json").write_text(json.dumps({"train": ["n1"]}))
    with pytest.raises(DataError, match="lists of wnids under train, val and test"):
        RaviClasses(lists=tmp_path / "ravi.json").make(tiny_set())
    (tmp_path / "ravi.json").write_text(json.dumps({"train": ["n1"], "val": [], "test": []}))
    with pytest.raises(DataError, match="class 'n1' is not in these images, which hold 10 classes"):
        RaviClasses(lists=tmp_path / "ravi.json").make(tiny_set())


def tiered_rows(keys):
    roles = [("train", "b"), ("train", "a"), ("val", None), ("test", None), ("train", "a"), ("test", None)]
    return [
        {"wnid": key, "name": f"name {i}", "words": f"name {i}, other", "split": part, "train_part": half}
        for i, (key, (part, half)) in enumerate(zip(keys, roles, strict=True))
    ]


def test_tiered_base_extra_development_and_novel_classes(tiny_set, tmp_path):
    images = tiny_set(classes=6, source=tmp_path)
    (tmp_path / "classes.json").write_text(json.dumps(tiered_rows(images.class_keys)))
    recipe = TieredClasses(held_out=2, novel_test=3)
    split = recipe.make(images)
    check_roles(split, images)
    assert (split.base_classes, split.extra_classes) == ((1, 4), (0,))
    assert (split.development_classes, split.novel_classes) == ((2,), (3, 5))
    assert split.extra_train is not None
    assert split.extra_train.tolist() == images.indices_of(0).tolist()
    assert len(split.base_train) == 2 * 10
    assert split.training_classes == (1, 4, 0)

    by_words = dataclasses.replace(images, wnids=None, class_names=tuple(f"name {i}, other" for i in range(6)))
    assert recipe.make(by_words).base_classes == (1, 4)
    by_name = dataclasses.replace(images, wnids=None, class_names=tuple(f"name {i}" for i in range(6)))
    assert recipe.make(by_name).novel_classes == (3, 5)
    strange = dataclasses.replace(images, wnids=None, class_names=tuple(f"train class {i}" for i in range(6)))
    with pytest.raises(DataError, match=r"class n10000000 \(name 0, other\) is not among these 6 classes"):
        recipe.make(strange)
    (tmp_path / "classes.json").write_text(json.dumps([{"wnid": "n10000000", "name": "x"}]))
    with pytest.raises(DataError, match="must list classes with wnid, words, split and train_part"):
        recipe.make(images)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 100),
    classes=st.integers(4, 12),
    per_class=st.integers(8, 20),
    base=st.floats(0.5, 1.0),
    validation=st.floats(0.0, 0.15),
    test=st.floats(0.0, 0.2),
    ways=st.integers(1, 5),
)
def test_folder_splits_use_every_image_once(tiny_set, seed, classes, per_class, base, validation, test, ways):
    images = tiny_set(classes=classes, per_class=per_class)
    split = FolderSessions(seed, base, ways, validation, test).make(images)
    check_roles(split, images)
    assert len(every_index(split)) == len(images)
    assert sorted(split.base_classes + split.novel_classes) == list(range(classes))
    assert all(len(session) == ways for session in split.sessions[:-1])
    if test:
        assert set(Counter(images.labels[split.base_test].tolist())) == set(split.base_classes)
        assert all(len(held) >= 1 for held in split.novel_test)


def test_folder_splits_keep_the_folders_own_test_images_out_of_training(tiny_set):
    images = tiny_set(parts=tuple("test" if i % 4 == 0 else "val" if i % 4 == 1 else "train" for i in range(120)))
    split = FolderSessions().make(images)
    parts = np.array(images.parts)
    assert set(parts[split.base_train]) == {"train"}
    assert set(parts[split.base_validation]) == {"val"}
    assert set(parts[split.base_test]) == {"test"}
    for pool, test in zip(split.novel_support_pool, split.novel_test, strict=True):
        assert set(parts[pool]) == {"train"}
        assert set(parts[test]) == {"test"}


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (FolderSessions(base_fraction=0.1), "at least 2 base classes, 0.1 of 10 classes is 1"),
        (FolderSessions(base_fraction=1.5), r"must lie in \(0, 1\], got 1.5"),
        (
            FolderSessions(least_train=10),
            "has 12 images, a folder split needs at least 10 beside 1 for validation and 2",
        ),
        (FolderSessions(least_pool=11), "a folder split needs at least 11 beside 0 for validation and 2 for test"),
        (FolderSessions(test_fraction=0.95), "sum to less than 1, got 0.1 and 0.95"),
        (FolderSessions(ways=0), "at least 1 way, got 0"),
    ],
)
def test_folder_splits_check_their_sizes(tiny_set, recipe, message):
    with pytest.raises(DataError, match=message):
        recipe.make(tiny_set())


def test_splits_by_name():
    assert parse_split("random:1") == RandomSessions(seed=1)
    assert parse_split(" random:1:pooled ") == RandomSessions(seed=1, pooled=True)
    assert parse_split("random:0:validation") == RandomSessions(test=0, novel_pool=400)
    assert parse_split("random:2:pooled:validation") == RandomSessions(seed=2, pooled=True).for_choices()
    assert parse_split("fixed", lists="x.json") == FixedSessions(lists="x.json")
    assert parse_split("ravi") == RaviClasses()
    assert parse_split("ravi:2") == RaviClasses(seed=2)
    assert parse_split("tiered", lists="c.json") == TieredClasses(lists="c.json")
    assert parse_split("folder:4") == FolderSessions(seed=4)
    for text in (
        "random:1",
        "random:7:pooled",
        "random:0:validation",
        "random:2:pooled:validation",
        "fixed",
        "ravi",
        "ravi:3",
        "tiered",
        "folder:0",
    ):
        assert parse_split(text).name == text


@pytest.mark.parametrize(
    "text", ["", "random", "random:", "random:x", "random:1:balanced", "fixed:1", "folder:1:2", "x"]
)
def test_names_that_do_not_exist_list_those_that_do(text):
    with pytest.raises(DataError) as caught:
        parse_split(text)
    assert repr(text) in str(caught.value)
    assert "seed" in str(caught.value) or all(name in str(caught.value) for name in SPLITS)


@pytest.fixture(scope="module")
def real_names(shared_data):
    """The real miniImageNet with its names and blank 1x1 images: splits go by names only."""
    folder = shared_data / "mini-imagenet"
    files = []
    for number in range(4):
        with zipfile.ZipFile(folder / f"images-{number}.zip") as archive:
            files += archive.namelist()
    wnids = tuple(sorted({file.split("/")[0] for file in files}))
    labels = np.array([wnids.index(file.split("/")[0]) for file in files], dtype=np.int64)
    return ImageSet(np.zeros((len(files), 1, 1, 3), np.uint8), labels, wnids, wnids, tuple(files), source=folder)


def test_the_real_fixed_split(real_names, shared_data):
    split = parse_split("fixed").make(real_names)
    with gzip.open(shared_data / "mini-imagenet" / "splits" / "fscil-session-images.json.gz") as file:
        record = json.load(file)
    assert [len(session) for session in split.sessions] == [5] * 8
    names = [file.split("/")[1] for file in real_names.files]
    listed = {name for files in record["sessions"][0]["train"] for name in files}
    assert {names[i] for i in split.base_train} == listed
    assert len(split.base_train) == 30_000
    assert len(split.base_test) == 6_000
    for session, classes in zip(record["sessions"][1:], split.sessions, strict=True):
        for c, expected in zip(classes, session["train"], strict=True):
            position = split.novel_classes.index(c)
            assert [names[i] for i in split.novel_support_pool[position][:5]] == expected
            assert {names[i] for i in split.novel_test[position]} == set(record["test"][c])
            assert len(split.novel_support_pool[position]) == 500


def test_the_real_random_and_ravi_splits(real_names):
    split = parse_split("random:1").make(real_names)
    check_roles(split, real_names)
    assert len(split.base_classes) == 60
    assert set(Counter(real_names.labels[split.base_train].tolist()).values()) == {500}
    assert set(Counter(real_names.labels[split.base_test].tolist()).values()) == {50}
    assert len(every_index(split)) == 60_000
    ravi = parse_split("ravi").make(real_names)
    check_roles(ravi, real_names)
    assert (len(ravi.base_classes), len(ravi.development_classes), len(ravi.novel_classes)) == (64, 16, 20)
    assert (len(ravi.base_train), len(ravi.base_test)) == (32_000, 6_400)


def test_the_real_tiered_classes(shared_data):
    path = shared_data / "tiered-imagenet" / "classes.json"
    wnids = tuple(sorted(row["wnid"] for row in json.loads(path.read_text())))
    labels = np.repeat(np.arange(len(wnids)), 3).astype(np.int64)
    files = tuple(f"{wnids[label]}/{i}.png" for i, label in enumerate(labels))
    images = ImageSet(np.zeros((len(files), 1, 1, 3), np.uint8), labels, wnids, wnids, files)
    split = TieredClasses(held_out=1, novel_test=1, lists=path).make(images)
    counts = [len(c) for c in (split.base_classes, split.extra_classes, split.development_classes, split.novel_classes)]
    assert counts == [200, 151, 97, 160]
