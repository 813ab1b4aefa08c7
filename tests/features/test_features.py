"""The feature file: both forms, all formats, three precisions, cosine heads, and a sentence for every fault."""

import json
import re
import signal
import subprocess
import sys
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from subspan.features.feature_set import FORMAT, FeatureFileError, FeatureSet, bundled, quantise
from subspan.files.arrays import SUFFIXES, read_arrays, write_arrays

ROOT = Path(__file__).resolve().parents[2]
C0, C1, D = 3, 4, 6


def arrays(seed=0) -> dict:
    """A whole feature file in rectangular form."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "base_weight": normal(C0, D),
        "base_bias": normal(C0),
        "base_mean": normal(C0, D),
        "base_memory": normal(C0, D),
        "base_test": normal(C0, 2, D),
        "novel_test": normal(C1, 3, D),
        "novel_support": normal(C1, 5, 2, D),
        "base_names": ["ash", "Bär", "犬"],
        "novel_names": ["w", "x", "y", "z"],
        "base_wnids": ["n1", "n2", "n3"],
        "novel_wnids": ["n4", "n5", "n6", "n7"],
        "embedding.glove": normal(C0 + C1, 5),
    }


def flat(given: dict) -> dict:
    """The same file in flat form, written out item by item."""
    result = dict(given)
    for name in ("base_test", "novel_test", "novel_support"):
        pairs = [(c, item) for c, items in enumerate(given[name]) for item in items]
        result[name] = np.stack([item for _, item in pairs])
        result[name + "_labels"] = np.array([c for c, _ in pairs])
    return result


def assert_same(first: FeatureSet, second: FeatureSet) -> None:
    for field in fields(FeatureSet):
        one, two = getattr(first, field.name), getattr(second, field.name)
        if field.name == "embeddings":
            assert one.keys() == two.keys()
            for name in one:
                np.testing.assert_array_equal(one[name], two[name])
        elif isinstance(one, np.ndarray):
            assert one.shape == two.shape
            np.testing.assert_array_equal(one, two, field.name)
        else:
            assert one == two, field.name


def test_items_keep_their_class():
    given = arrays()
    features = FeatureSet.from_arrays(given)
    assert (features.base_count, features.novel_count, features.width) == (C0, C1, D)
    for i, label in enumerate(features.novel_support_labels):
        np.testing.assert_array_equal(features.novel_support[i], given["novel_support"][label, i % 5])
    for i, label in enumerate(features.base_test_labels):
        np.testing.assert_array_equal(features.base_test[i], given["base_test"][label, i % 2])


def test_the_flat_form_is_the_rectangular_one():
    assert_same(FeatureSet.from_arrays(flat(arrays())), FeatureSet.from_arrays(arrays()))


def test_counts_may_differ_by_class(tmp_path):
    given = flat(arrays())
    keep = np.array([0, 1, 2, 5, 10, 11, 15])  # 3, 1, 2 and 1 images
    given["novel_support"] = given["novel_support"][keep]
    given["novel_support_labels"] = given["novel_support_labels"][keep]
    features = FeatureSet.from_arrays(given)
    assert np.bincount(features.novel_support_labels).tolist() == [3, 1, 2, 1]
    assert_same(FeatureSet.load(features.save(tmp_path / "unequal.safetensors")), features)


@pytest.mark.parametrize("form", [dict, flat], ids=["rectangular", "flat"])
def test_npz_and_safetensors_say_the_same(form, tmp_path):
    given = form(arrays())
    features = FeatureSet.from_arrays(given)
    np.savez(tmp_path / "file.npz", **given)
    features.save(tmp_path / "file.safetensors")
    assert_same(FeatureSet.load(tmp_path / "file.npz"), features)
    assert_same(FeatureSet.load(tmp_path / "file.safetensors"), features)


def test_only_what_is_needed_is_needed(tmp_path):
    needed = {k: v for k, v in arrays().items() if k in ("base_weight", "base_test", "novel_test", "novel_support")}
    features = FeatureSet.load(FeatureSet.from_arrays(needed).save(tmp_path / "small.safetensors"))
    assert features.base_mean is None
    assert features.class_names == tuple(f"class {i}" for i in range(C0 + C1))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_header_travels(suffix, tmp_path):
    given = arrays() | {"head": "cosine", "head_scale": 16.0, "meta": {"commit": "abc", "split": [1, 2]}}
    features = FeatureSet.load(FeatureSet.from_arrays(given).save(tmp_path / f"file{suffix}"))
    assert (features.head, features.head_scale, features.meta) == ("cosine", 16.0, {"commit": "abc", "split": [1, 2]})
    assert features.class_names[:3] == ("ash", "Bär", "犬")


# Precision


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_lower_precision_stays_near(precision, tmp_path):
    features = FeatureSet.from_arrays(arrays())
    path = features.save(tmp_path / "file.safetensors", precision)
    assert load_file(path)["base_test"].dtype == precision
    loaded = FeatureSet.load(path)
    for name in ("base_test", "novel_test", "novel_support", "base_memory"):
        original, found = getattr(features, name), getattr(loaded, name)
        largest = np.abs(original).max(-1, keepdims=True)
        bound = largest / 254 if precision == "int8" else np.abs(original) / 2048
        assert found.dtype == np.float32
        assert (np.abs(found - original) <= bound * (1 + 1e-5)).all(), name
        assert np.abs(found - original).max() > 0, "rounding must have happened, or this shows nothing"
    np.testing.assert_array_equal(loaded.base_bias, features.base_bias)


def half_precision_bound(vectors):
    """What float16 with the largest entry of each vector as its unit may be off: 11 digits, and fewer below 2^-14."""
    vectors = np.abs(vectors.astype(np.float64))
    return np.maximum(vectors * 2.0**-11, vectors.max(-1, keepdims=True) * 2.0**-25) * (1 + 1e-5)


@pytest.mark.parametrize("precision", ["float16", "int8"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_and_means_have_half_precision_whatever_their_size(suffix, precision, tmp_path):
    given = arrays()
    for name in ("base_weight", "base_mean"):
        given[name][:, 1] = 0
        given[name][:, 2] *= np.float32(1e-7)
        given[name] *= np.array([[1e-30], [0], [1e30]], np.float32)  # float16 alone holds 6e-8 to 65504
    features = FeatureSet.from_arrays(given)
    loaded = FeatureSet.load(features.save(tmp_path / f"file{suffix}", precision))
    for name in ("base_weight", "base_mean"):
        original, found = getattr(features, name), getattr(loaded, name)
        assert found.dtype == np.float32
        assert (np.abs(found - original.astype(np.float64)) <= half_precision_bound(original)).all(), name
        np.testing.assert_array_equal(found[original == 0], 0)
        assert (found != original).any(), "rounding must have happened, or this shows nothing"


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_rounded_once_is_not_rounded_again(suffix, precision, tmp_path):
    features = bundled()
    once = features.save(tmp_path / f"once{suffix}", precision)
    twice = FeatureSet.load(once).save(tmp_path / f"twice{suffix}", precision)
    assert twice.read_bytes() == once.read_bytes()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_of_older_formats_are_read_as_they_were(suffix, version, tmp_path):
    given = flat(arrays())
    levels = np.random.default_rng(1).integers(-127, 128, given["novel_test"].shape).astype(np.int8)
    scale = np.linspace(0.01, 0.02, len(levels), dtype=np.float32)
    stored = {name: array for name, array in given.items() if isinstance(array, np.ndarray)}
    stored |= {"novel_test": levels, "novel_test.scale": scale, "base_test": given["base_test"].astype(np.float16)}
    path = tmp_path / f"old{suffix}"
    write_arrays(path, stored, "subspan", header(format=version, head="linear", head_scale=1.0, meta={}))
    loaded = FeatureSet.load(path)
    for name in ("base_weight", "base_mean", "base_memory", "base_bias", "novel_support"):
        np.testing.assert_array_equal(getattr(loaded, name), given[name])
    np.testing.assert_array_equal(loaded.base_test, stored["base_test"])
    for item, numbers, unit in zip(loaded.novel_test, levels, scale, strict=True):
        np.testing.assert_array_equal(item, [np.float32(number) * unit for number in numbers])


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_npz_may_be_of_lower_precision_too(precision, tmp_path):
    features = FeatureSet.from_arrays(arrays())
    path = features.save(tmp_path / "file.safetensors", precision)
    lists = {name: np.array(getattr(features, name)) for name in ("base_names", "novel_names")}
    np.savez(tmp_path / "file.npz", **load_file(path), **lists)
    loaded = FeatureSet.load(tmp_path / "file.npz")
    np.testing.assert_array_equal(loaded.novel_support, FeatureSet.load(path).novel_support)
    assert loaded.class_names == features.class_names


vectors = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=3, max_side=6),
    elements=st.floats(-(2.0**90), 2.0**90, width=32, allow_subnormal=False),
)


@given(vectors)
def test_int8_is_within_half_a_scale(array):
    levels, scale = quantise(array)
    assert levels.dtype == np.int8
    assert scale.shape == array.shape[:-1]
    error = np.abs(levels.astype(np.float64) * scale[..., None] - array)
    tiny = np.finfo(np.float32).tiny  # below it a scale has fewer digits
    assert (error <= scale[..., None] / 2 * (1 + 1e-4) + tiny).all()


@given(vectors)
def test_int8_of_int8_is_the_same(array):
    levels, scale = quantise(array)
    again, scale_again = quantise(levels.astype(np.float32) * scale[..., None])
    np.testing.assert_array_equal(again, levels)
    np.testing.assert_array_equal(scale_again, scale)


@given(st.data())
def test_a_file_comes_back(tmp_path_factory, data):
    base, novel, width, copies = (data.draw(st.integers(low, 4)) for low in (2, 1, 1, 1))

    def array(*shape):
        return data.draw(hnp.arrays(np.float32, shape, elements=st.floats(-1000, 1000, width=32)))

    names = st.text(st.characters(codec="utf-8"), max_size=5)
    images = [data.draw(st.integers(1, 3)) for _ in range(novel)]
    features = FeatureSet.from_arrays(
        {
            "base_weight": array(base, width),
            "base_test": array(base, 2, width),
            "novel_test": array(novel, 1, width),
            "novel_support": array(sum(images), copies, width),
            "novel_support_labels": np.repeat(np.arange(novel), images),
            "base_names": data.draw(st.lists(names, min_size=base, max_size=base)),
            "novel_names": data.draw(st.lists(names, min_size=novel, max_size=novel)),
            "head": data.draw(st.sampled_from(["linear", "cosine"])),
            "head_scale": data.draw(st.floats(0.1, 100)),
        }
    )
    path = tmp_path_factory.mktemp("features") / f"file{data.draw(st.sampled_from(SUFFIXES))}"
    assert_same(FeatureSet.load(features.save(path)), features)


def test_the_bundle_is_the_feature_file_of_split_1():
    features = bundled()
    assert_same(features, FeatureSet.load(ROOT / "benchmarks" / "features" / "paper-random-1.safetensors"))
    assert features.meta["split"] == "random:1"
    assert features.base_covariance is not None  # what the method that we recommend needs


def test_int8_is_within_half_a_step_of_real_features(tmp_path):
    original = FeatureSet.load(ROOT / "tests" / "data" / "mini-split1.npz")
    features = FeatureSet.load(original.save(tmp_path / "int8.safetensors", precision="int8"))
    assert features.base_wnids == original.base_wnids
    assert features.novel_wnids == original.novel_wnids
    rows = original.base_weight.astype(np.float32)
    assert (np.abs(features.base_weight - rows) <= half_precision_bound(rows)).all()
    bound = np.abs(original.novel_support.astype(np.float32)).max(-1, keepdims=True) / 254
    assert (np.abs(features.novel_support - original.novel_support) <= bound * 1.001).all()


# Cosine heads


def test_a_cosine_head_scores_linearly():
    given = arrays() | {"head": "cosine", "head_scale": 12.5}
    features = FeatureSet.from_arrays(given).for_linear_scores()
    assert (features.head, features.head_scale) == ("linear", 1.0)
    rows, queries = given["base_weight"].astype(np.float64), given["novel_test"].reshape(-1, D).astype(np.float64)
    cosines = [[row @ q / np.sqrt((row @ row) * (q @ q)) for row in rows] for q in queries]
    np.testing.assert_allclose(features.novel_test @ features.base_weight.T, 12.5 * np.array(cosines), rtol=1e-4)
    for name in ("base_test", "novel_support", "base_mean", "base_memory"):
        np.testing.assert_allclose(np.linalg.norm(getattr(features, name), axis=-1), 12.5, rtol=1e-5)
    assert features.for_linear_scores() is features


def test_a_zero_feature_of_a_cosine_head_is_no_nan():
    given = arrays() | {"head": "cosine"}
    given["base_test"][0, 0] = 0
    assert np.isfinite(FeatureSet.from_arrays(given).for_linear_scores().base_test).all()


# Faults


def change(name, value):
    return lambda given: given.update({name: value})


def spoil(name, value):
    return lambda given: given[name].reshape(-1).__setitem__(0, value)


FAULTS = {
    **{
        f"without {name}": (lambda given, name=name: given.pop(name), f"lacks the array '{name}'; the schema needs")
        for name in ("base_weight", "base_test", "novel_test", "novel_support")
    },
    "NaN": (spoil("novel_test", np.nan), "'novel_test' of the feature set holds NaN or infinity"),
    "infinity": (spoil("base_bias", np.inf), "'base_bias' of the feature set holds NaN or infinity"),
    "words": (change("base_weight", np.array([["a"]])), "'base_weight' of the feature set must hold numbers"),
    "dimensions": (change("base_test", np.ones((2, D))), "has shape (2, 6) and no 'base_test_labels'"),
    "too many dimensions": (change("novel_support", np.ones((1,) * 5)), "(1, 1, 1, 1, 1) and no 'novel_support_lab"),
    "labels": (change("base_test_labels", [0, 1]), "must have shape (N, 6); it has (3, 2, 6)"),
    "width": (change("base_test", np.ones((C0, 2, 9))), "'base_test' of the feature set must have shape (N, 6)"),
    "mean's width": (change("base_mean", np.ones((C0, 9))), "must have shape (3, 6); it has (3, 9)"),
    "mean's length": (
        change("base_mean", np.ones((2, D))),
        "'base_mean' of the feature set must have shape (3, 6); it",
    ),
    "bias": (change("base_bias", np.ones(9)), "'base_bias' of the feature set must have shape (3); it has (9,)"),
    "flat weight": (change("base_weight", np.ones(D)), "must have shape (C0, d); it has (6,)"),
    "one base class": (
        lambda given: given.update({name: given[name][:1] for name in given if name.startswith("base_")}),
        "must have at least two base classes; it has one",
    ),
    "names": (change("base_names", ["a"]), "'base_names' of the feature set must have shape (3); it has (1,)"),
    "wnids": (change("novel_wnids", ["a"]), "'novel_wnids' of the feature set must have shape (4); it has (1,)"),
    "embeddings": (
        change("embedding.x", np.ones((3, 2))),
        "'x' of the feature set must have shape (7, e); it has (3, 2)",
    ),
    "NaN embeddings": (spoil("embedding.glove", np.nan), "the embeddings 'glove' of the feature set holds NaN"),
    "head": (change("head", "square"), "must be linear or cosine with a positive scale; it is 'square'"),
    "head's scale": (change("head_scale", 0), "positive scale; it is 'linear' with 0"),
    "empty test": (change("base_test", np.ones((0, 2, D))), "'base_test' of the feature set is empty"),
    "no support images": (
        change("novel_support", np.ones((C1, 0, 2, D))),
        "'novel_support' of the feature set is empty",
    ),
    "no copies": (change("novel_support", np.ones((C1, 5, 0, D))), "'novel_support' of the feature set is empty"),
    "too many test classes": (change("base_test", np.ones((4, 2, D))), "run from 0 to 3; there are 3 classes"),
}
FLAT_FAULTS = {
    "label beyond the classes": (
        spoil("base_test_labels", C0),
        "'base_test_labels' of the feature set run from 0 to 3; there are 3 classes, counted from 0",
    ),
    "negative label": (spoil("novel_test_labels", -1), "run from -1 to 3; there are 4 classes"),
    "negative support labels": (
        spoil("novel_support_labels", -1),
        "'novel_support_labels' of the feature set run from -1",
    ),
    "labels of another length": (change("novel_test_labels", [0, 1]), "must have shape (12); it has (2,)"),
    "no support": (
        change("novel_support_labels", np.array([0, 2, 3, 3] * 5)),
        "'novel_support' of the feature set has no image of novel class 1",
    ),
}


@pytest.mark.parametrize("case", [*FAULTS, *FLAT_FAULTS])
def test_a_fault_is_named(case):
    fault, message = (FAULTS | FLAT_FAULTS)[case]
    given = arrays() if case in FAULTS else flat(arrays())
    fault(given)
    with pytest.raises(FeatureFileError, match=re.escape(message)):
        FeatureSet.from_arrays(given)


def header(**values):
    return json.dumps(values)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_scale_that_is_missing_or_of_another_shape_is_named(suffix, tmp_path):
    given = arrays()
    given["base_covariance"] = np.eye(D, dtype=np.float32)
    path = FeatureSet.from_arrays(given).save(tmp_path / f"file{suffix}", "int8")
    stored, text = read_arrays(path, "subspan", FeatureFileError)
    scales = [name for name in stored if name.endswith(".scale")]
    assert len(scales) == 7, "three of features, memory, rows, means, covariance"
    for name in scales:
        target = stored[name.removesuffix(".scale")]
        damaged = {other: array for other, array in stored.items() if other != name}
        write_arrays(path, damaged, "subspan", text)
        with pytest.raises(FeatureFileError, match=f"is {target.dtype} and lacks '{name}'"):
            FeatureSet.load(path)
        for shape in (target.shape, (*target.shape[:-1], 2)):  # numpy would make more dimensions of them
            write_arrays(path, stored | {name: np.ones(shape, np.float32)}, "subspan", text)
            with pytest.raises(FeatureFileError, match=f"'{name}' has shape {re.escape(str(shape))}, "):
                FeatureSet.load(path)


def save_zip(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("notes.txt", "hello")


def holding(given, text):
    """Writes a file of arrays with this text as its header, as its name ends."""
    return lambda path: write_arrays(path, given, "subspan", text)


HEADERS = {  # faults that both kinds of file can have: arrays, header, message
    "future": ({"a": np.ones(2)}, header(format=99), f"has format 99; this version of Subspan reads up to {FORMAT}"),
    "header": ({"a": np.ones(2)}, "{", "header of .* is damaged"),
    "number": ({"a": np.ones(2)}, "7", "header of .* is damaged"),
    "infinite": ({"a": np.ones(2)}, header(format=np.inf), "header of .* is damaged: OverflowError"),
    "scale": ({"a": np.ones(2)}, header(format=2, head_scale="16"), "header of .* is damaged: 'head_scale' is '16'"),
    "names": ({"a": np.ones(2)}, header(format=2, base_names="ash"), "header of .* is damaged: 'base_names' is 'ash'"),
    "weights": (
        {"a": np.ones(2)},
        header(backbone="resnet12"),
        "is no feature file: its 'subspan' header has no 'format'",
    ),
    "lacking": ({"base_weight": np.ones((2, 2))}, header(format=1), "lacks the array 'base_test'"),
    "alone": (
        {"base_test.scale": np.ones(2)},
        header(format=2),
        "arrays of .* do not fit each other: KeyError\\('base_test'\\)",
    ),
    "scales": (
        {"base_test.scale": np.ones(2), "base_test": np.ones((3, 2))},
        header(format=2),
        "arrays of .* do not fit each other: ValueError",
    ),
}
FILES = {
    "missing.npz": (lambda path: None, "there is no feature file"),
    "text.npz": (lambda path: path.write_text("hello"), "is no readable npz file"),
    "text.safetensors": (lambda path: path.write_text("hello"), "is no readable safetensors file"),
    "folder.safetensors": (lambda path: path.mkdir(), "there is no feature file"),
    "folder.npz": (lambda path: path.mkdir(), "there is no feature file"),
    "foreign.safetensors": (lambda path: save_file({"a": np.ones(2)}, path), "its header has no 'subspan' entry"),
    "zip.npz": (save_zip, "is no readable npz file: 'notes.txt' in it is no array"),
    "pickled.npz": (
        lambda path: np.savez(path, base_weight=np.array([{"a": 1}], dtype=object)),
        "is no readable npz file: .*allow_pickle=False",
    ),
} | {
    f"{name}{suffix}": (holding(given, text), message)
    for name, (given, text, message) in HEADERS.items()
    for suffix in SUFFIXES
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_named(name, tmp_path):
    make, message = FILES[name]
    make(tmp_path / name)
    with pytest.raises(FeatureFileError, match=message) as caught:
        FeatureSet.load(tmp_path / name)
    assert name in str(caught.value)


SAVE_WITH_LITTLE_ROOM = """
import resource, signal, sys
from subspan.features import FeatureSet
features = FeatureSet.load(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # who writes beyond the limit is killed
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
features.save(sys.argv[1], "float32")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of a file")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_who_is_killed_while_writing_leaves_the_old_file(suffix, tmp_path):
    path = FeatureSet.from_arrays(arrays()).save(tmp_path / f"file{suffix}", "int8")
    whole = path.read_bytes()
    killed = subprocess.run([sys.executable, "-c", SAVE_WITH_LITTLE_ROOM, path], check=False)
    assert killed.returncode == -signal.SIGXFSZ
    assert path.read_bytes() == whole


def test_what_cannot_be_written_is_refused(tmp_path):
    for name in ("file.npy", "file", "file.npz.gz"):
        with pytest.raises(FeatureFileError, match=rf"is written as \.safetensors or \.npz; got '.*{name}'"):
            FeatureSet.from_arrays(arrays()).save(tmp_path / name)
    given = arrays()
    given["base_test"][0, 0, 0] = 1e6
    with pytest.raises(FeatureFileError, match="float16 holds numbers up to 65504; 'base_test' has 1e"):
        FeatureSet.from_arrays(given).save(tmp_path / "file.npz", "float16")
    assert list(tmp_path.iterdir()) == []
