"""The model that catalogues are made of: what it imports, and methods that start from the base examples themselves."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from subspan.engine.contract import Learner, State
from subspan.learners.parts.vectors import euclidean_scores
from subspan.model import Model

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Sums(Learner):
    """Nearest class mean, from sums that add up."""

    name = "sums"
    summary = "nearest mean"
    arrays = "numpy"
    from_examples = True
    uses_memory = False

    def start(self, base):
        counts = np.bincount(base.labels).astype(base.examples.dtype)
        return State(base, {"counts": counts, "sums": base.means * counts[:, None]})

    def learn(self, state, session):
        counts = np.append(state["counts"], np.zeros(len(session.classes) if session.new else 0))
        sums = np.vstack([state["sums"], np.zeros((len(counts) - len(state["sums"]), session.support.shape[1]))])
        np.add.at(counts, session.labels, 1)
        np.add.at(sums, session.labels, session.support)
        return state.after(counts=counts, sums=sums)

    def scores(self, state, queries):
        return euclidean_scores(state["sums"] / state["counts"][:, None], queries)

    def merge(self, state, other):
        return state.after(counts=state["counts"] + other["counts"], sums=state["sums"] + other["sums"])


def examples(seed, classes=3):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), 6)
    return np.eye(5)[y] * 4 + rng.normal(size=(len(y), 5)), y


def test_a_method_that_starts_from_examples_needs_no_rows():
    X, y = examples(0)
    model = Model(method=Sums(), dtype="float64").fit(X, y)
    base = model._now()[0].base
    assert [base.rows, base.examples, base.labels] == [None] * 3, "examples are there for the start only"
    more, labels = examples(1, classes=5)
    model.add_classes(more[labels > 2], labels[labels > 2]).add_examples(more[labels == 0], labels[labels == 0])
    means = [np.concatenate([X[y == c], more[labels == c]] if c == 0 else [X[y == c]]).mean(0) for c in range(3)]
    means += [more[labels == c].mean(0) for c in (3, 4)]
    queries = examples(2)[0]
    expected = -((queries[:, None] - np.array(means)) ** 2).sum(-1)
    np.testing.assert_allclose(model.class_scores(queries), expected, rtol=1e-9)
    assert model.rows_.shape == (5, 5)
    assert model.is_base_.tolist() == [True, True, True, False, False]
    assert model.sessions_[0].examples == len(y)


def test_what_such_a_method_knows_is_stored_and_undone(tmp_path):
    X, y = examples(0)
    model = Model(method=Sums()).fit(X, y)
    before = model.class_scores(X)
    model.add_classes(X[:2] + 9, [7, 7])
    loaded = Model.load(model.save(tmp_path / "sums.subspan"))
    np.testing.assert_array_equal(loaded.class_scores(X), model.class_scores(X))
    np.testing.assert_array_equal(loaded.undo().class_scores(X), before)
    loaded.method = "finetune"
    with pytest.raises(ValueError, match=r"'finetune' cannot go on from what .*Sums' learned"):
        loaded.class_scores(X)


def test_a_model_says_what_is_missing():
    model = Model(method=Sums())
    with pytest.raises(ValueError, match="learned nothing yet"):
        model.class_scores(examples(0)[0])
    X, y = examples(0)
    with pytest.raises(ValueError, match=r"features must be \(n, 5\), as in the base session; got \(18, 4\)"):
        model.fit(X, y).class_scores(X[:, :4])


PAIRS = {"two base classes": (0, 1), "base and later": (1, 3), "later and base": (3, 1), "two later ones": (4, 3)}


@pytest.mark.parametrize("width", [8, 80, 1500])  # a matrix of few units; a matrix; rows
@pytest.mark.parametrize("pair", PAIRS)
def test_two_classes_become_the_one_that_both_photographs_would_have_made(pair, width):
    rng = np.random.default_rng(3)
    centres, y = np.abs(rng.normal(size=(5, width))) * 3, np.repeat(np.arange(5), 6)
    X = centres[y] + np.abs(rng.normal(size=(30, width)))
    label, other = PAIRS[pair]
    one, gone = sorted(PAIRS[pair])

    def taught(labels):
        base = np.isin(y, (0, 1, 2))
        model = Model(method="posterior").fit(X[base], labels[base])
        for later in (3, 4):
            mine = y == later
            known = labels[mine][0] in model.classes_
            (model.add_examples if known else model.add_classes)(X[mine], labels[mine])
        return model

    model = taught(y).merge_classes(label, other)
    expected = taught(np.where(y == gone, one, y))
    assert model.classes_.tolist() == [label if c == one else c for c in range(5) if c != gone]
    assert model.examples_seen_.tolist() == expected.examples_seen_.tolist()
    queries = centres[y] + np.abs(rng.normal(size=X.shape))
    np.testing.assert_allclose(model.class_scores(queries), expected.class_scores(queries), rtol=2e-4, atol=2e-4)
    assert model.sessions_[-1].kind == "merge_classes"
    np.testing.assert_array_equal(model.undo().class_scores(queries), taught(y).class_scores(queries))


@pytest.mark.parametrize("width", [8, 80, 1500])
@pytest.mark.parametrize("label", [0, 3])
def test_what_is_unlearned_leaves_nothing(label, width):
    rng = np.random.default_rng(4)
    centres, y = np.abs(rng.normal(size=(4, width))) * 3, np.repeat(np.arange(4), 6)
    X = centres[y] + np.abs(rng.normal(size=(24, width)))
    out = np.flatnonzero(y == label)[:4]

    def taught(kept):
        X_kept, y_kept = X[kept], y[kept]
        return (
            Model(method="posterior")
            .fit(X_kept[y_kept < 3], y_kept[y_kept < 3])
            .add_classes(X_kept[y_kept == 3], y_kept[y_kept == 3])
        )

    model, expected = taught(np.ones(24, bool)).remove_examples(X[out], label), taught(~np.isin(np.arange(24), out))
    assert model.examples_seen_.tolist() == expected.examples_seen_.tolist()
    np.testing.assert_allclose(model.class_scores(X), expected.class_scores(X), rtol=2e-4, atol=2e-4)
    with pytest.raises(ValueError, match="2 examples: at least one must be left"):
        model.remove_examples(X[:2], label)


def test_methods_without_sums_say_that_they_cannot():
    X, y = examples(0)
    model = Model(method=Sums()).fit(X, y)
    for change in (lambda: model.merge_classes(0, 1), lambda: model.remove_examples(X[:1], 0)):
        with pytest.raises(ValueError, match="'sums' cannot"):
            change()


ANSWERS = """
import sys
import numpy as np
from subspan.catalogue.catalogue import Catalogue
from subspan.model import Model
catalogue = Catalogue.open(sys.argv[1])
queries = np.ones((2, 24), np.float32)
catalogue.predict_features(queries, reject=False), catalogue.classes(), catalogue.sessions()
Model.load(sys.argv[1]).add_classes(queries, ["new", "new"]).save(sys.argv[2])
rng = np.random.default_rng(0)
model = Model.from_weights(rng.normal(size=(4, 20)), list("abcd"), method="imprint")
model.add_classes(rng.normal(size=(3, 20)), ["e"] * 3).class_scores(np.ones((1, 20)))
print(*sorted({"torch", "sklearn", "pandas", "matplotlib"} & set(sys.modules)))
"""


def test_answering_and_learning_in_closed_form_import_neither_torch_nor_scikit_learn(tmp_path):
    store = ROOT / "tests" / "catalogue" / "stores-0.2.0-dev" / "auto.subspan"
    command = [sys.executable, "-c", ANSWERS, str(store), str(tmp_path / "new.subspan")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.stdout.split() == []
