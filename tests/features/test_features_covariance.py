"""The covariance of base training features: against numpy, on disk, and under a cosine head."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from subspan.features.feature_set import FeatureFileError, FeatureSet, Precision
from subspan.features.labelled import within_class_covariance

RNG = np.random.default_rng(0)
PARTS = [RNG.standard_normal((n, 6)) * np.arange(1, 7) + 3 * c for c, n in enumerate((9, 14, 20))]


def features(covariance: np.ndarray, **more: object) -> FeatureSet:
    arrays = {
        "base_weight": RNG.standard_normal((3, 6)),
        "base_test": RNG.standard_normal((3, 2, 6)),
        "novel_test": RNG.standard_normal((2, 2, 6)),
        "novel_support": RNG.standard_normal((2, 5, 1, 6)),
    }
    return FeatureSet.from_arrays({**arrays, "base_covariance": covariance, **more})


def test_classes_are_pooled_by_their_degrees_of_freedom() -> None:
    expected = sum((len(part) - 1) * np.cov(part.T) for part in PARTS) / (sum(map(len, PARTS)) - len(PARTS))
    np.testing.assert_allclose(within_class_covariance(PARTS), expected, rtol=1e-5)


def test_a_shift_of_a_class_changes_nothing() -> None:
    shifted = [part + 100 * c for c, part in enumerate(PARTS)]
    np.testing.assert_allclose(within_class_covariance(shifted), within_class_covariance(PARTS), rtol=1e-4)


def test_unit_features_for_a_cosine_head() -> None:
    unit = [part / np.linalg.norm(part, axis=1)[:, None] for part in PARTS]
    np.testing.assert_allclose(within_class_covariance(PARTS, unit=True), within_class_covariance(unit), rtol=1e-6)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-7), ("float16", 1e-3), ("int8", 1e-3)])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])  # float16 alone holds 6e-8 to 65504
def test_it_is_kept_on_disk(tmp_path: Path, precision: Precision, tolerance: float, size: float) -> None:
    covariance = size * within_class_covariance(PARTS)
    path = features(covariance).save(tmp_path / "f.safetensors", precision)
    read = FeatureSet.load(path).base_covariance
    assert read is not None
    np.testing.assert_allclose(read, covariance, rtol=tolerance, atol=tolerance * size)


def test_half_of_it_is_written_and_the_whole_is_read(tmp_path: Path) -> None:
    covariance = within_class_covariance(PARTS)
    path = features(covariance).save(tmp_path / "f.safetensors", "int8")
    stored = load_file(path)["base_covariance"]
    assert stored.shape == (6 * 7 // 2,)
    whole = FeatureSet.load(path).base_covariance
    assert whole is not None
    np.testing.assert_array_equal(whole, whole.T)
    # A file of the first format has the matrix itself.
    arrays = {**load_file(path), "base_covariance": whole / load_file(path)["base_covariance.scale"]}
    arrays["base_covariance"] = arrays["base_covariance"].astype(np.float16)
    header = {"format": 1, "head": "linear", "head_scale": 1.0, "meta": {}}
    save_file(arrays, tmp_path / "old.safetensors", {"subspan": json.dumps(header)})
    np.testing.assert_array_equal(FeatureSet.load(tmp_path / "old.safetensors").base_covariance, whole)


def test_a_triangle_of_another_width_is_refused(tmp_path: Path) -> None:
    path = features(np.eye(6)).save(tmp_path / "f.safetensors", "int8")
    for count in (15, 20):  # the triangle of a smaller matrix, and of none
        arrays = {**load_file(path), "base_covariance": np.ones(count, np.float16)}
        save_file(arrays, path, {"subspan": json.dumps({"format": 2, "head": "linear", "head_scale": 1.0})})
        with pytest.raises(FeatureFileError, match=r"'base_covariance' of .* must have shape \(6, 6\)"):
            FeatureSet.load(path)


def test_a_file_without_it_is_read_as_before(tmp_path: Path) -> None:
    made = features(np.eye(6))
    plain = FeatureSet(**{**made.__dict__, "base_covariance": None})
    assert FeatureSet.load(plain.save(tmp_path / "f.safetensors")).base_covariance is None


def test_linear_scores_scale_it_with_the_features() -> None:
    covariance = within_class_covariance(PARTS, unit=True)
    linear = features(covariance, head="cosine", head_scale=4.0).for_linear_scores()
    scaled = [4 * part / np.linalg.norm(part, axis=1)[:, None] for part in PARTS]
    np.testing.assert_allclose(linear.base_covariance, within_class_covariance(scaled), rtol=1e-5)
    made = features(covariance)
    assert made.for_linear_scores().base_covariance is made.base_covariance


@pytest.mark.parametrize("shape", [(5, 5), (3, 6), (6,)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(FeatureFileError, match="'base_covariance' of the feature set"):
        features(np.ones(shape))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (np.triu, "must be symmetric, .* it differs from its transpose by up to 8"),
        (np.negative, "must .* with no eigenvalue below 0; .* its smallest eigenvalue is -"),
        (lambda covariance: covariance - 0.05 * np.trace(covariance) * np.eye(6), "must .* eigenvalue is -"),
    ],
)
def test_what_is_no_covariance_is_refused(
    tmp_path: Path, spoil: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    made = features(within_class_covariance(PARTS))
    spoilt = replace(made, base_covariance=spoil(within_class_covariance(PARTS)))
    with pytest.raises(FeatureFileError, match=rf"'base_covariance' of '.*f\.safetensors' {message}"):
        FeatureSet.load(spoilt.save(tmp_path / "f.safetensors"))


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_one_of_lower_rank_is_taken_in_every_precision(tmp_path: Path, precision: Precision, rank: int) -> None:
    for seed in range(20):
        factor = np.random.default_rng(seed).standard_normal((rank, 6)).astype(np.float32)
        path = features(factor.T @ factor).save(tmp_path / "f.safetensors", precision)
        assert FeatureSet.load(path).base_covariance is not None
