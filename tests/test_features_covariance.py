"""The covariance of base training features: against numpy, on disk, and under a cosine head."""

from pathlib import Path

import numpy as np
import pytest

from subspan.features import FeatureFileError, FeatureSet, Precision
from subspan.train.collect import within_class_covariance

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
