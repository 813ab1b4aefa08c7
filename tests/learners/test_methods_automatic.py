"""Method "auto": what the estimator chooses by itself, when, how it tells, and that real features bear it out."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score

from subspan.classifier import IncrementalClassifier
from subspan.features.feature_set import FeatureSet
from subspan.files import store
from subspan.learners import automatic

SPLIT = Path(__file__).resolve().parents[2] / "benchmarks" / "features" / "paper-random-2.npz"  # never tuned on
RULE = "posterior"
CLASSES, WIDTH = 12, 20
NAMES = [f"base {i:02}" for i in range(CLASSES)]


def examples(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Features (12 * count, 20) of the base classes, one direction each, and labels."""
    noise = np.random.default_rng(seed).normal(size=(CLASSES * count, WIDTH))
    return np.repeat(4 * np.eye(CLASSES, WIDTH), count, axis=0) + noise, np.repeat(NAMES, count)


X, Y = examples(8)
HEAD: dict[str, Any] = {
    "weights": np.eye(CLASSES, WIDTH) + np.random.default_rng(1).normal(0, 0.1, (CLASSES, WIDTH)),
    "class_names": NAMES,
}
BIAS = np.linspace(-1, 1, CLASSES)
MEANS = X.reshape(CLASSES, 8, WIDTH).mean(1)
COVARIANCE = np.cov((X - np.repeat(MEANS, 8, axis=0)).T, bias=True)
NOVEL = 4 * np.eye(WIDTH)[[15] * 5 + [16] * 5] + examples(1)[0][:10], np.repeat(["novel a", "novel b"], 5)


def fit(**parameters: Any) -> IncrementalClassifier:
    return IncrementalClassifier(**parameters).fit(X, Y)


def from_head(**given: Any) -> Any:
    return lambda **parameters: IncrementalClassifier.from_weights(**HEAD, **given, **parameters)


SITUATIONS = {
    "fit": (fit, RULE),
    "means and covariance": (from_head(means=MEANS, covariance=COVARIANCE), RULE),
    "means": (from_head(means=MEANS), "prototype"),
    "means and bias": (from_head(means=MEANS, bias=BIAS), "prototype"),
    "covariance alone": (from_head(covariance=COVARIANCE), "subspace"),
    "rows": (from_head(), "subspace"),
    "rows and bias": (from_head(bias=BIAS), "subspace"),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_default_is_the_best_method_that_the_base_session_suffices_for(situation):
    make, chosen = SITUATIONS[situation]
    model, named = make(), make(method=chosen)
    assert (model.method, model.method_) == ("auto", chosen)
    assert [record.method for record in model.add_classes(*NOVEL).sessions_] == [chosen, chosen]
    np.testing.assert_array_equal(model.predict_proba(X), named.add_classes(*NOVEL).predict_proba(X))


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("spec", ["finetune:max_steps=20", "subspace:max_steps=20", "imprint"])
def test_a_method_that_is_named_wins(situation, spec):
    model = SITUATIONS[situation][0](method=spec).add_classes(*NOVEL)
    assert (model.method, model.method_) == (spec, spec)
    assert [record.method for record in model.sessions_] == [spec, spec]


def test_few_dimensions_are_no_reason_for_another_method_where_the_spread_of_classes_is_known():
    assert IncrementalClassifier().fit(X[:, :3], Y).method_ == RULE
    given: dict[str, Any] = {"weights": HEAD["weights"][:, :15], "class_names": NAMES, "means": MEANS[:, :15]}
    assert IncrementalClassifier.from_weights(**given, covariance=COVARIANCE[:15, :15]).method_ == RULE
    assert IncrementalClassifier.from_weights(**given).method_ == "subspace", "directions alone tell too little"


def test_a_head_alone_goes_on_predicting_as_it_did():
    model = from_head(bias=BIAS)(dtype="float64")
    np.testing.assert_allclose(model.class_scores(X), X @ HEAD["weights"].T + BIAS, rtol=1e-12)


def test_the_choice_stays_through_all_that_happens_to_a_model():
    model = fit(memory=1).add_classes(*NOVEL)
    model.add_examples(*examples(2, seed=3)).rename_class("novel a", "novel c").remove_class("base 03")
    assert model.method_ == RULE
    methods = [record.method for record in model.sessions_]
    assert methods == [RULE, RULE, RULE, None, None], "a new name is not learned by a method"
    assert model.undo().undo().undo().method_ == RULE
    assert model.score(X, Y) > 0.9


def test_a_saved_model_keeps_its_method_though_the_preference_changes(tmp_path, monkeypatch):
    model = fit().add_classes(*NOVEL)
    before = model.predict_proba(X)
    path = model.save(tmp_path / "m.subspan")
    monkeypatch.setattr(automatic, "PREFERRED", ("imprint",))  # as a later version might
    loaded = IncrementalClassifier.load(path)
    assert (loaded.method, loaded.method_) == ("auto", RULE)
    np.testing.assert_array_equal(loaded.predict_proba(X), before)
    assert loaded.undo().method_ == RULE
    copy: Any = clone(loaded)
    assert copy.fit(X, Y).method_ == loaded.fit(X, Y).method_ == "imprint", "another base session is another choice"


def test_a_saved_model_says_its_method_in_plain_json(tmp_path):
    path = fit().save(tmp_path / "m.subspan")
    (file,) = (path / "versions").glob("*/*.json")
    meta = json.loads(file.read_text())["meta"]
    assert (meta["parameters"]["method"], meta["sessions"][0]["method"]) == ("auto", RULE)


def test_a_model_of_before_there_was_a_choice_loads_and_keeps_its_method(tmp_path):
    """Then the default was saved by its name, `subspace`, and sessions had no method."""
    model = fit(method="subspace")
    version = model.to_version()
    sessions = [{name: value for name, value in asdict(model.sessions_[0]).items() if name != "method"}]
    old = store.make_version(version.arrays, {**version.meta, "sessions": sessions})
    store.write(tmp_path / "old.subspan", [old], old.id)
    loaded = IncrementalClassifier.load(tmp_path / "old.subspan")
    assert (loaded.method_, loaded.sessions_[0].method) == ("subspace", None)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.add_classes(*NOVEL).sessions_[1].method == "subspace"
    assert loaded.set_params(method="auto").method_ == "prototype", "by what that base session left: means only"


def test_auto_on_a_model_that_exists_is_the_method_of_its_base_session():
    model = fit(method="imprint")
    assert model.set_params(method="subspace").method_ == "subspace"
    assert model.set_params(method="auto").method_ == "imprint"


def test_gamma_and_beta_go_to_the_choice_where_it_trains():
    model = from_head()(gamma=0.5, beta=(0.3, 0.2))
    assert model.method_ == "subspace:gamma=0.5,beta_base=0.3,beta_novel=0.2"


@pytest.mark.parametrize("parameters", [{"gamma": 1.0}, {"beta": 0.1}], ids=["gamma", "beta"])
def test_gamma_and_beta_are_refused_where_the_choice_does_not_train(parameters):
    message = "gamma and beta are options of methods that train; 'auto' is 'posterior' here"
    with pytest.raises(ValueError, match=message):
        fit(**parameters)
    with pytest.raises(ValueError, match=message):
        fit().set_params(**parameters).add_classes(*NOVEL)


# Real features


@pytest.mark.skipif(not SPLIT.is_file(), reason=f"needs the feature file {SPLIT.name}")
def test_on_real_features_the_default_ends_above_subspace():
    features = FeatureSet.load(SPLIT)
    base = features.base_count
    queries = np.concatenate([features.base_test, features.novel_test])
    gold = np.concatenate([features.base_test_labels, base + features.novel_test_labels])

    def last_session(**given: Any) -> tuple[str, float]:
        """The method, and accuracy in percent over all classes after eight sessions of five classes, five images."""
        model = IncrementalClassifier.from_weights(features.base_weight, range(base), **given)
        for first in range(0, features.novel_count, 5):
            of_class = [np.flatnonzero(features.novel_support_labels == c)[:5] for c in range(first, first + 5)]
            images = np.concatenate(of_class)
            copies = features.novel_support.shape[1]
            labels = np.repeat(base + features.novel_support_labels[images], copies)
            model.add_classes(features.novel_support[images].reshape(-1, features.width), labels)
        return model.method_, 100 * float(balanced_accuracy_score(gold, model.predict(queries)))

    means, covariance = features.base_mean, features.base_covariance
    subspace, plain = last_session()
    prototype, with_means = last_session(means=means)
    rule, with_covariance = last_session(means=means, covariance=covariance)
    assert (subspace, prototype, rule) == ("subspace", "prototype", RULE)
    assert with_means > plain + 2
    assert with_covariance > with_means
    assert with_covariance > plain + 3
