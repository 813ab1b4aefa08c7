"""A base session over a real local Ray cluster of two workers: the catalogue that one process makes."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_photographs import PREPROCESSING, network, photographs, write_folders
from subspan import IncrementalClassifier
from subspan.catalogue import sharded
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.catalogue.photographs import open_class_photographs
from subspan.images.imageset import DataError
from subspan.pretrained.backbone import TorchBackbone

NETWORK = "module:made_photographs.with_preprocessing"


@pytest.mark.slow
def test_two_workers_make_the_catalogue_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Shards smaller than a class, one class of one photograph; the same check set, rows and answers."""
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'subspan[ray]'")
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setattr(sharded, "SHARD", 32)
    folder = write_folders(tmp_path / "photographs", {"red": 40, "green": 25, "blue": 31, "grey": 1})
    options = CatalogueOptions(backbone=NETWORK)
    ray.init(num_cpus=2, log_to_driver=False)
    try:
        with open_class_photographs(folder) as by_class:
            alone, expected = Catalogue.create(tmp_path / "a.subspan", by_class, options)
            made, report = Catalogue.create(tmp_path / "b.subspan", by_class, options, ray=True)
    finally:
        ray.shutdown()
    for name in ("classes", "examples", "method"):
        assert getattr(report, name) == getattr(expected, name)
    one, two = alone._snapshot, made._snapshot
    assert report.judged == len(one.check)  # no fold models here: features of few are kept
    assert report.accuracy == replace(one, measured=None).unseen.right
    assert two.check.names == one.check.names
    np.testing.assert_allclose(two.check.features, one.check.features, rtol=1e-5)
    np.testing.assert_allclose(two.classifier.rows_, one.classifier.rows_, rtol=1e-5)
    np.testing.assert_allclose(two.scores(one.check.features), one.scores(one.check.features), rtol=1e-4)


def test_a_shard_skips_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sharded, "_network", lambda *_: TorchBackbone("made", network(), PREPROCESSING))
    shard = ([*photographs("red", 3), b"no picture"], ["red"] * 4, [True, False, False, False])
    taught, features, names, skipped = sharded.see(sharded.Look("made", "", IncrementalClassifier(), True), shard)
    assert taught is not None
    assert (taught.examples_seen_.tolist(), features.shape, names, len(skipped)) == (
        [3],
        (1, taught.n_features_in_),
        ["red"],
        1,
    )
    with pytest.raises(DataError, match="number 4"):
        sharded.see(sharded.Look("made", "", IncrementalClassifier(), False), shard)
