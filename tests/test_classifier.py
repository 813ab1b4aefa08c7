"""The estimator against plain arithmetic, the naive loop and scikit-learn; bad input; saving under fire."""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from subspan import IncrementalClassifier
from subspan.files import store
from subspan.files.store import StoreError
from subspan.learners.registry import create_method

sys.path.insert(0, str(Path(__file__).parent / "engine"))
from naive import NaiveSession, naive_sgd

WIDTH = 12
BASE = ("ash", "birch", "elm", "fir", "oak")


def photographs(names, count, seed=0, width=WIDTH):
    """Features (n, d) and labels (n,): one direction per class, some noise."""
    rng = np.random.default_rng([seed, *map(ord, "".join(map(str, names)))])
    X = []
    for name in names:
        center = np.random.default_rng(list(map(ord, str(name)))).normal(size=width)
        X.append(center + 0.5 * rng.normal(size=(count, width)))
    return np.concatenate(X), np.repeat(names, count)


def inner(X, base):
    """Features (n, d) in the unit that gives base features (n0, d) the root mean square length 11.5."""
    return X * 11.5 / np.sqrt((base**2).sum(1).mean())


def vectors(names, width=4):
    return {name: np.random.default_rng(list(map(ord, str(name)))).normal(size=width) for name in names}


def fitted(names=BASE, **parameters) -> IncrementalClassifier:
    defaults: dict[str, Any] = dict(method="finetune:max_steps=50", dtype="float64")
    return IncrementalClassifier(**(defaults | parameters)).fit(*photographs(names, 10))


def snapshot(model: IncrementalClassifier) -> dict:
    """All that a user can see of a model."""
    seen = {name: getattr(model, name) for name in ("classes_", "coef_", "intercept_")}
    return {name: (array.dtype, array.tolist()) for name, array in seen.items()} | {
        "sessions_": model.sessions_,
        "n_features_in_": model.n_features_in_,
        "scores": model.predict_proba(photographs(BASE, 2, seed=5)[0]).tolist(),
    }


# The base session


def softmax_regression(X, indices, decay):
    """Rows and biases that minimise the mean cross-entropy + decay/2 ||rows||^2, by a general minimiser."""
    classes, d = indices.max() + 1, X.shape[1]

    def value_and_gradient(flat):
        parameters = torch.tensor(flat.reshape(classes, d + 1), requires_grad=True)
        logits = torch.tensor(X) @ parameters[:, :d].T + parameters[:, d]
        value = torch.nn.functional.cross_entropy(logits, torch.tensor(indices))
        value = value + decay / 2 * (parameters[:, :d] ** 2).sum()
        value.backward()
        return value.item(), parameters.grad.numpy().ravel()

    found = scipy.optimize.minimize(
        value_and_gradient, np.zeros(classes * (d + 1)), jac=True, method="BFGS", options={"gtol": 1e-8}
    ).x.reshape(classes, d + 1)
    return found[:, :d], found[:, d] - found[:, d].mean()  # a shift of all biases changes nothing


@pytest.mark.parametrize("names", [BASE[:2], BASE[:3]], ids=["two-classes", "three-classes"])
def test_fit_is_softmax_regression(names):
    X, y = photographs(names, 12, width=4)
    X = inner(X, X)
    model = IncrementalClassifier(method="finetune", base_decay=0.2, dtype="float64").fit(X, y)
    rows, bias = softmax_regression(X, np.unique(y, return_inverse=True)[1], 0.2)
    np.testing.assert_allclose(model.coef_, rows, atol=1e-3)
    np.testing.assert_allclose(model.intercept_ - model.intercept_.mean(), bias, atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
def test_fit_is_scikit_learns_logistic_regression(bias):
    X, y = photographs(BASE, 10)
    queries = photographs(BASE, 5, seed=1)[0]
    model = IncrementalClassifier(method="subspace", bias=bias, base_decay=0.01, dtype="float64").fit(X, y)
    theirs = LogisticRegression(C=1 / (0.01 * len(X)), fit_intercept=bias, max_iter=1000).fit(inner(X, X), y)
    queries_inside = inner(queries, X)
    np.testing.assert_allclose(model.predict_proba(queries), theirs.predict_proba(queries_inside), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(queries), theirs.predict(queries_inside))
    assert bias == bool(model.intercept_.any())


def test_from_weights_predicts_by_the_head_it_was_given():
    rng = np.random.default_rng(0)
    W, b, X = rng.normal(size=(4, 6)), rng.normal(size=4), rng.normal(size=(9, 6))
    names = ["d", "b", "a", "c"]  # not sorted: rows keep the order of the head
    model = IncrementalClassifier.from_weights(W, names, bias=b, dtype="float64")
    scores = X @ W.T + b
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.array(names)[scores.argmax(1)])
    exponential = np.exp(scores)
    np.testing.assert_allclose(model.predict_proba(X), exponential / exponential.sum(1, keepdims=True), rtol=1e-12)
    plain = IncrementalClassifier.from_weights(torch.tensor(W), names, dtype="float64")
    np.testing.assert_allclose(plain.decision_function(X), X @ W.T, rtol=1e-12)
    np.testing.assert_array_equal(plain.intercept_, np.zeros(4))


def test_a_model_does_not_hang_on_its_callers_arrays():
    W, means = np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)
    model = IncrementalClassifier.from_weights(W, "abcd", means=means, method="prototype")
    before = model.predict_proba(np.eye(4))
    W[:], means[:] = 7, 7
    np.testing.assert_array_equal(model.predict_proba(np.eye(4)), before)


def test_two_classes_have_one_decision():
    model = fitted(BASE[:2])
    X = photographs(BASE[:2], 4, seed=1)[0]
    lead = X @ (model.coef_[1] - model.coef_[0]) + model.intercept_[1] - model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), lead, rtol=1e-9)


ARRAYS = {
    "reversed": lambda a: a[::-1].copy()[::-1],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "memoryview": memoryview,
    "half precision": lambda a: a.astype(np.float16),
    "long double": lambda a: a.astype(np.longdouble),
    "whole numbers": lambda a: a.astype(np.int16),
    "bfloat16": lambda a: torch.tensor(a, dtype=torch.bfloat16),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.filterwarnings("error")
def test_features_are_taken_however_they_lie_in_memory(kind):
    """Whole numbers that every kind holds: fit, from_weights, a session and predictions are those of a plain array."""
    way: Any = ARRAYS[kind]
    X, y = photographs(BASE, 6)
    X, support = np.round(4 * X), np.round(4 * X_NEW)
    expected = IncrementalClassifier(method="finetune", memory=1).fit(X, y).add_classes(support, Y_NEW)
    model = IncrementalClassifier(method="finetune", memory=1).fit(way(X), y).add_classes(way(support), Y_NEW)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    scores = [np.asarray(m.class_scores(queries)) for m, queries in ((model, way(X)), (expected, X))]
    np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-5)
    for queries in (X[:1], X):
        np.testing.assert_array_equal(model.predict(way(queries)), expected.predict(queries))


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.filterwarnings("error")
def test_a_head_is_taken_however_it_lies_in_memory(kind):
    way: Any = ARRAYS[kind]
    rng = np.random.default_rng(0)
    (weights, means), covariance = rng.integers(-9, 9, (2, 5, WIDTH)) + 0.0, np.eye(WIDTH)
    made = [
        IncrementalClassifier.from_weights(
            f(weights), BASE, bias=f(weights[:, 0]), means=f(means), covariance=f(covariance), method="calibrated"
        ).add_classes(X_NEW, Y_NEW)
        for f in (way, np.asarray)
    ]
    np.testing.assert_array_equal(*(model.predict_proba(X_NEW) for model in made))


# Incremental sessions


@dataclass
class NaiveModel:
    """The model as the naive loop has it: rows with their bias last, references, memory."""

    rows: torch.Tensor
    base_count: int
    references: torch.Tensor  # of novel rows
    memory: list[tuple[torch.Tensor, torch.Tensor]]  # per session

    def learn(self, X, classes, method, keep, target=None):
        """One session on features (n, d) with a constant 1; class numbers (n,) counted over all classes."""
        base, new = self.rows[: self.base_count], int(classes.max()) + 1 - len(self.rows)
        left, singular, _ = torch.linalg.svd(self.base_reference.T, full_matrices=False)
        basis = left[:, singular > 0.01 * singular[0]]
        support, labels = [X], [classes]
        if self.memory:
            support.append(self.memory[0][0])
            labels.append(self.memory[0][1])
        later = self.memory[1:]
        session = NaiveSession(
            support=torch.cat(support),
            support_labels=torch.cat(labels),
            memory=torch.cat([m for m, _ in later]) if later else None,
            memory_labels=torch.cat([c for _, c in later]) if later else None,
            base_start=base,
            base_reference=self.base_reference,
            novel_start=self.rows[self.base_count :] if len(self.references) else None,
            novel_reference=self.references if len(self.references) else None,
            new_start=torch.zeros(new, self.rows.shape[1], dtype=torch.float64),
            regularizer={"finetune": "none", "subspace": "subspace", "semantic": "target"}[method.name],
            projector=basis @ basis.T,
            target=target,
            gamma=method.gamma,
            beta_base=method.beta_base,
            beta_novel=method.beta_novel,
            old_penalty=method.old_penalty,
            weight_decay=method.weight_decay,
        )
        self.rows, steps = naive_sgd(session, lr=method.learning_rate, max_steps=method.max_steps)
        self.references = torch.cat([self.references, self.rows[-new:]])
        if keep:
            self.memory.append((X, classes))
        return steps

    def __post_init__(self):
        self.base_reference = self.rows


SESSIONS = (("aspen", "larch"), ("yew",), ("alder", "lime", "pine"))


@pytest.mark.parametrize("old_penalty", ["squared", "norm"])
@pytest.mark.parametrize("memory", [0, 1])
@pytest.mark.parametrize("name", ["finetune", "subspace", "semantic"])
@pytest.mark.filterwarnings("ignore::subspan.learners.subspace.DegenerateSpanWarning")
def test_sessions_are_the_naive_loop(name, memory, old_penalty):
    """Base session and three more: start unlike reference from session 2 on, novel memory likewise."""
    spec = f"{name}:new_rows=zeros,old_penalty={old_penalty},learning_rate=0.05,max_steps=60"
    method = create_method(spec)
    embeddings = vectors(BASE + sum(SESSIONS, ()))
    model = IncrementalClassifier(method=spec, memory=memory, dtype="float64")
    base, y = photographs(BASE, 3)
    # All examples of a class are copies of one image, so that memory keeps every one.
    model.fit(base, y, embeddings=embeddings, groups=y)

    def with_one(X):
        return torch.cat([torch.tensor(inner(X, base)), torch.ones(len(X), 1, dtype=torch.float64)], dim=1)

    def rows_inside():
        return np.column_stack([model.coef_ / inner(1, base), model.intercept_])

    rows = torch.tensor(rows_inside())
    kept = [(with_one(base), torch.arange(len(BASE)).repeat_interleave(3))] if memory else []
    naive = NaiveModel(rows, len(BASE), rows[:0], kept)
    for session, names in enumerate(SESSIONS, 1):
        X, y = photographs(names, 4)
        model.add_classes(X, y, embeddings={n: embeddings[n] for n in names}, groups=y)
        classes = torch.arange(len(naive.rows), len(naive.rows) + len(names)).repeat_interleave(4)
        similarity = torch.tensor([[embeddings[b] @ embeddings[n] for b in BASE] for n in names]) / 3.0
        target = torch.softmax(similarity, dim=1) @ naive.base_reference
        steps = naive.learn(with_one(X), classes, method, memory > 0, target)
        ours = rows_inside()
        assert model.sessions_[session].steps == steps
        assert np.linalg.norm(ours - naive.rows.numpy()) < 1e-9 * np.linalg.norm(ours)
    assert model.classes_.tolist() == [*BASE, *sum(SESSIONS, ())]


def test_an_old_row_is_held_where_its_own_session_left_it():
    model = fitted(memory=1)
    ends = []
    for names in SESSIONS:
        model.add_classes(*photographs(names, 3))
        ends.append(np.column_stack([model.coef_, model.intercept_])[-len(names) :])
    state = model._now()[0]
    kept = state.learned["references"][state.base_count :]
    references = np.column_stack([kept[:, :-1] / state.scale, kept[:, -1]])
    np.testing.assert_array_equal(references, np.concatenate(ends))
    moved = np.column_stack([model.coef_, model.intercept_])[len(BASE) : len(BASE) + 2]
    assert not np.array_equal(moved, ends[0]), "later sessions must have moved the row, or this shows nothing"


def test_memory_keeps_whole_images():
    X, y = photographs(BASE, 6)
    images = np.tile([10, 10, 10, 20, 20, 20], len(BASE)) + 100 * np.repeat(np.arange(len(BASE)), 6)
    model = IncrementalClassifier(method="imprint", memory=1, dtype="float64", bias=False).fit(X, y, groups=images)
    state = model._now()[0]
    kept = [int(np.flatnonzero((row == X).all(1))[0]) for row in state.memory_features]
    for c in range(len(BASE)):
        of_class = [i for i, label in zip(kept, state.memory_labels, strict=True) if label == c]
        assert len(of_class) == 3
        assert len(set(images[of_class])) == 1
        assert {y[i] for i in of_class} == {BASE[c]}


def test_memory_lessens_forgetting():
    X, y = photographs(BASE, 10)
    accuracies = []
    for memory in (0, 5):
        model = IncrementalClassifier(method="finetune:learning_rate=0.05", beta=0.0, memory=memory).fit(X, y)
        model.add_classes(*photographs(("yew", "lime"), 5))
        accuracies.append(model.score(X, y))
    assert accuracies[1] > accuracies[0] + 0.1


def test_gamma_and_beta_outrank_the_methods_own():
    model = IncrementalClassifier(method=create_method("subspace", gamma=3.0), gamma=0.123456789, beta=(0.5, 0.25))
    method: Any = model._method(auto="subspace")
    assert (method.gamma, method.beta_base, method.beta_novel) == (0.123456789, 0.5, 0.25)
    exact = create_method("subspace", gamma=0.123456789)
    assert IncrementalClassifier(method=exact)._method(auto="subspace") == create_method("subspace:gamma=0.123456789")


def test_more_examples_of_a_prototype_are_the_mean_of_all():
    X, y = photographs(("yew",), 6)
    one, two = (IncrementalClassifier(method="imprint", dtype="float64").fit(*photographs(BASE, 4)) for _ in range(2))
    one.add_classes(X, y)
    two.add_classes(X[:2], y[:2]).add_examples(X[2:5], y[2:5]).add_examples(X[5:], y[5:])
    np.testing.assert_allclose(two.coef_[-1], one.coef_[-1], rtol=1e-12)
    np.testing.assert_allclose(one.coef_[-1], X.mean(0) / np.linalg.norm(X.mean(0)), rtol=1e-12)


def test_more_examples_of_a_base_class_turn_its_row():
    X, y = photographs(("oak",), 5, seed=3)
    model = IncrementalClassifier(method="imprint", dtype="float64").fit(*photographs(BASE, 15))
    before = model.coef_.copy()
    model.add_examples(X, y)
    mean = X.mean(0) / np.linalg.norm(X.mean(0))
    turned = 0.75 * before[4] + 0.25 * mean  # 5 of the 20 examples seen are new
    np.testing.assert_allclose(model.coef_[4], turned / np.linalg.norm(turned), rtol=1e-12)
    np.testing.assert_array_equal(model.coef_[:4], before[:4])


# Labels


LABELS = {
    "strings": (["b", "a", "c"], ["d"]),
    "unicode": (["Bär", "犬", "a b\n"], ["ƒ"]),
    "numpy-strings": (list(np.array(["b", "a", "c"])), list(np.array(["d"]))),
    "objects": (np.array(["b", "a", "c"], dtype=object), np.array(["d"], dtype=object)),
    "integers": ([7, -1, 3], [100]),
    "numpy-integers": (np.array([7, -1, 3]), np.array([100])),
    "floats": ([1.0, 25.0, -3.0], [0.1]),  # scikit-learn takes whole ones only for classes
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back_as_they_were(kind, tmp_path):
    base, new = LABELS[kind]
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 6)) * 5
    X = np.repeat(centers[:3], 5, axis=0) + rng.normal(size=(15, 6))
    model = IncrementalClassifier(method="imprint").fit(X, np.repeat(base, 5))
    model.add_classes(centers[3:] + rng.normal(size=(2, 6)), np.repeat(new, 2))
    loaded = IncrementalClassifier.load(model.save(tmp_path / "m.subspan"))
    for one in (model, loaded):
        assert one.classes_.tolist() == [*sorted(np.asarray(base).tolist()), *np.asarray(new).tolist()]
        assert one.classes_.dtype.kind == np.asarray(list(base)).dtype.kind
        assert one.predict(centers).tolist() == [*np.asarray(base).tolist(), *np.asarray(new).tolist()]


def test_truth_values_are_labels(tmp_path):
    X, y = photographs(BASE[:2], 8)
    model = IncrementalClassifier(method="imprint").fit(X, y == "ash")
    loaded = IncrementalClassifier.load(model.save(tmp_path / "m.subspan"))
    assert loaded.classes_.dtype == bool
    np.testing.assert_array_equal(loaded.predict(X), y == "ash")


def test_labels_of_a_models_own_arrays_can_be_used(tmp_path):
    """``classes_`` holds NumPy numbers; renaming and removing by them must not hinder saving."""
    X, y = photographs(range(4), 5)
    model = IncrementalClassifier(method="imprint", memory=np.int64(1)).fit(X, y)
    model.rename_class(model.classes_[0], np.int64(17)).remove_class(model.classes_[1])
    loaded = IncrementalClassifier.load(model.save(tmp_path / "m.subspan"))
    assert loaded.classes_.tolist() == [17, 2, 3]
    assert [r.classes for r in loaded.sessions_[1:]] == [(0, 17), (1,)]


# Bad input: one sentence that names rule and value, and the model unchanged

X_NEW, Y_NEW = photographs(("yew",), 3)


def spoilt(value):
    X = X_NEW.copy()
    X[1, 2] = value
    return X


BAD_SESSIONS = {
    "a base class": (X_NEW, ["oak"] * 3, "class 'oak' was already learned in session 0; add_classes takes new"),
    "a novel class": (X_NEW, ["larch"] * 3, "class 'larch' was already learned in session 1; add_classes takes new"),
    "one class of two": (X_NEW, ["yew", "oak", "yew"], "class 'oak' was already learned in session 0"),
    "wrong width": (X_NEW[:, :7], Y_NEW, "features must be (n, 12), as in the base session; got (3, 7)"),
    "one example, flat": (X_NEW[0], Y_NEW[:1], "features must be (n, 12), as in the base session; got (12,)"),
    "NaN": (spoilt(np.nan), Y_NEW, "X must be finite; it holds NaN or infinity"),
    "infinity": (spoilt(np.inf), Y_NEW, "X must be finite; it holds NaN or infinity"),
    "words for numbers": (spoilt(0).astype(str), Y_NEW, "X must be numbers; got dtype <U"),
    "empty session": (X_NEW[:0], Y_NEW[:0], "a session needs at least one example; got none"),
    "empty lists": ([], [], "a session needs at least one example; got none"),
    "y too short": (X_NEW, Y_NEW[:2], "y must hold one label for each of 3 examples; got shape (2,)"),
    "y in two dimensions": (X_NEW, Y_NEW[:, None], "y must hold one label for each of 3 examples; got shape (3, 1)"),
    "numbers as labels": (X_NEW, [1, 1, 1], "labels must be of one kind; the model's are like 'ash', got 1"),
}


@pytest.mark.parametrize("case", BAD_SESSIONS)
def test_a_bad_session_changes_nothing(case):
    X, y, message = BAD_SESSIONS[case]
    model = fitted().add_classes(*photographs(("larch",), 3))
    before = snapshot(model)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.add_classes(X, y)
    assert snapshot(model) == before


def test_bad_groups_change_nothing():
    model = fitted(memory=1)
    before = snapshot(model)
    with pytest.raises(ValueError, match="groups must hold one entry for each of 3 examples; got 2"):
        model.add_classes(X_NEW, Y_NEW, groups=[0, 1])
    assert snapshot(model) == before


BAD_EMBEDDINGS = {
    "missing": (None, "method 'semantic' needs embeddings of the classes; pass embeddings={label: vector}"),
    "of another class": ({"oak": np.ones(4)}, "embeddings lack class 'yew'"),
    "of another width": ({"yew": np.ones(5)}, "embeddings must have the base classes' width 4; got 5"),
    "too many": (np.ones((2, 4)), "embeddings must be (1, e), one for each class; got shape (2, 4)"),
    "NaN": ({"yew": np.full(4, np.nan)}, "embeddings must be finite; it holds NaN or infinity"),
}


@pytest.mark.parametrize("case", BAD_EMBEDDINGS)
def test_bad_embeddings_change_nothing(case):
    embeddings, message = BAD_EMBEDDINGS[case]
    model = IncrementalClassifier(method="semantic").fit(*photographs(BASE, 5), embeddings=vectors(BASE))
    before = snapshot(model)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.add_classes(X_NEW, Y_NEW, embeddings=embeddings)
    assert snapshot(model) == before


def test_embeddings_are_for_all_classes_or_none():
    model = fitted()
    before = snapshot(model)
    with pytest.raises(ValueError, match="the base classes have no embeddings"):
        model.add_classes(X_NEW, Y_NEW, embeddings=vectors(("yew",)))
    assert snapshot(model) == before
    model = IncrementalClassifier(method="finetune").fit(*photographs(BASE, 5), embeddings=vectors(BASE))
    with pytest.raises(ValueError, match="pass embeddings of the new ones too"):
        model.add_classes(X_NEW, Y_NEW)


PARAMETERS = {
    "gamma": (dict(gamma=-0.5), "gamma must not be negative; got -0.5"),
    "NaN gamma": (dict(gamma=np.nan), "gamma must not be negative; got nan"),
    "beta": (dict(beta=-1), "beta_base must not be negative; got -1"),
    "novel beta": (dict(beta=(0.2, -3)), "beta_novel must not be negative; got -3"),
    "memory": (dict(memory=-1), "memory must be a whole number, 0 or more; got -1"),
    "memory of half an image": (dict(memory=0.5), "memory must be a whole number, 0 or more; got 0.5"),
    "dtype": (dict(dtype="float16"), "dtype must be float32 or float64; got 'float16'"),
    "seed": (dict(seed=-1), "seed must be a whole number, 0 or more; got -1"),
    "no method": (dict(method="magic"), "there is no method 'magic'; the methods are"),
    "no such option": (dict(method="finetune:tau=3"), "method 'finetune' has no option 'tau'; its options are"),
    "options of auto": (dict(method="auto:scale=3"), "method 'auto' takes no options; name the method they belong to"),
    "no name": (dict(method=None), "method must be 'auto', a name or a method; got None"),
    "an option it has not": (dict(method="imprint", gamma=1.0), "method 'imprint' has no option 'gamma'"),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_a_bad_parameter_is_named_and_changes_nothing(case):
    parameters, message = PARAMETERS[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        fitted(**parameters)
    model = fitted()
    good, before = model.get_params(), snapshot(model)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.set_params(**parameters).add_classes(X_NEW, Y_NEW)
    assert snapshot(model.set_params(**good)) == before


def test_base_decay_must_be_positive():
    with pytest.raises(ValueError, match="base_decay must be positive; got 0"):
        fitted(base_decay=0)


BAD_FITS = {
    "one class": (np.ones((3, 4)), ["a"] * 3, "a base session needs at least two classes; y holds 1 class, 'a'"),
    "NaN": (np.full((4, 4), np.nan), ["a", "b"] * 2, "NaN"),
    "another length": (np.ones((4, 4)), ["a", "b"], "inconsistent numbers of samples"),
    "empty": (np.ones((0, 4)), [], "0 sample"),
    "measurements": (np.ones((3, 4)), [0.5, 1.5, 2.25], "continuous"),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_a_bad_base_session_changes_nothing(case):
    X, y, message = BAD_FITS[case]
    model = fitted()
    before = snapshot(model)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert snapshot(model) == before


def test_methods_say_what_of_the_base_session_they_lack():
    X, y = photographs(BASE, 3)
    with pytest.raises(ValueError, match="method 'semantic' needs embeddings of the classes"):
        IncrementalClassifier(method="semantic").fit(X, y)
    with pytest.raises(ValueError, match="method 'prototype' needs means of the base classes; pass means"):
        IncrementalClassifier.from_weights(np.eye(3), "abc", method="prototype")
    with pytest.raises(ValueError, match="method 'finetune:without_mean=true' needs means of the base classes"):
        IncrementalClassifier.from_weights(np.eye(3), "abc", method="finetune:without_mean=true")


BAD_WEIGHTS = {
    "one class": (dict(weights=np.eye(1), class_names="a"), "a base session needs at least two classes; got 1"),
    "NaN": (dict(weights=np.eye(2) * np.nan, class_names="ab"), "weights must be finite; it holds NaN or infinity"),
    "names": (dict(weights=np.eye(2), class_names="abc"), "(classes, d) for 3 class names; got shape (2, 2)"),
    "twice": (dict(weights=np.eye(3), class_names="aba"), "class names must differ; 'a' repeats"),
    "mixed": (dict(weights=np.eye(2), class_names=["a", 1]), "labels must be of one kind"),
    "bias": (dict(weights=np.eye(2), class_names="ab", bias=[1.0]), "bias must have one number for each of 2 classes"),
    "means": (dict(weights=np.eye(2), class_names="ab", means=np.eye(3)), "shape (2, 2); got (3, 3)"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights(case):
    arguments, message = BAD_WEIGHTS[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        IncrementalClassifier.from_weights(**arguments)


BAD_CALLS = {
    "undo": (lambda m: m.undo(), "there is no session to undo; only the base session is left"),
    "add_examples": (lambda m: m.add_examples(X_NEW, Y_NEW), "class 'yew' is not known; add_examples takes known"),
    "rename unknown": (lambda m: m.rename_class("yew", "ivy"), "class 'yew' is not known"),
    "rename to known": (lambda m: m.rename_class("oak", "ash"), "class 'ash' exists already; two classes cannot"),
    "rename to number": (lambda m: m.rename_class("oak", 3), "labels must be of one kind; the model's are like 'ash'"),
    "remove unknown": (lambda m: m.remove_class("yew"), "class 'yew' is not known"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_bad_call_changes_nothing(case):
    call, message = BAD_CALLS[case]
    model = fitted()
    before = snapshot(model)
    with pytest.raises(ValueError, match=message):
        call(model)
    assert snapshot(model) == before


def test_two_base_classes_must_stay():
    model = fitted(BASE[:2])
    with pytest.raises(ValueError, match="class 'ash' cannot be removed: a model needs at least 2 of the base session"):
        model.remove_class("ash")


def test_a_session_that_diverges_is_refused():
    model = fitted(method="finetune:learning_rate=1e30,max_steps=400")
    before = snapshot(model)
    with pytest.raises(ValueError, match=r"method 'finetune:.*' diverged on this session; lower its learning_rate"):
        model.add_classes(X_NEW * 1e30, Y_NEW)
    assert snapshot(model) == before


def test_a_name_can_come_again_after_it_was_removed():
    model = fitted().add_classes(X_NEW, Y_NEW).remove_class("yew").add_classes(X_NEW, Y_NEW)
    with pytest.raises(ValueError, match="class 'yew' was already learned in session 3"):
        model.add_classes(X_NEW, Y_NEW)


def test_an_unfitted_model_says_so():
    model = IncrementalClassifier()
    for call in (lambda: model.predict(X_NEW), lambda: model.add_classes(X_NEW, Y_NEW), lambda: model.sessions_):
        with pytest.raises(AttributeError, match="not fitted"):
            call()
    assert not hasattr(clone(fitted()), "sessions_")


# Saving


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A model of three sessions on disk."""
    model = fitted(method="finetune:max_steps=10,gamma=0", beta=(0.3, 0.2), memory=1)
    for names in SESSIONS[:2]:
        model.add_classes(*photographs(names, 3))
    return model.save(tmp_path / "trees.subspan")


def test_undo_after_load_reads_the_store(saved):
    model, other = IncrementalClassifier.load(saved), IncrementalClassifier.load(saved)
    assert model.get_params() == other.get_params()
    assert model.beta == (0.3, 0.2)
    fresh = fitted(method="finetune:max_steps=10,gamma=0", beta=(0.3, 0.2), memory=1)
    fresh.add_classes(*photographs(SESSIONS[0], 3))
    model.undo()
    np.testing.assert_array_equal(model.coef_, fresh.coef_)
    model.save(saved)
    assert IncrementalClassifier.load(saved).classes_.tolist() == [*BASE, *SESSIONS[0]]
    shutil.rmtree(saved)
    before = snapshot(other)
    with pytest.raises(StoreError, match=r"trees\.subspan"):
        other.undo()
    assert snapshot(other) == before, "what cannot be undone leaves the model as it is"


def test_a_load_reads_nothing_but_the_last_session(saved):
    """Records of earlier sessions are known, though their arrays are damaged."""
    current = json.loads((saved / "store.json").read_text())["current"]
    for folder in (saved / "versions").iterdir():
        if folder.name != current:
            (folder / "arrays.safetensors").write_bytes(b"")
    model = IncrementalClassifier.load(saved)
    assert [record.classes for record in model.sessions_] == [BASE, *SESSIONS[:2]]
    with pytest.raises(StoreError, match="no readable safetensors file"):
        model.undo()


def test_a_loaded_model_can_be_saved_elsewhere(saved, tmp_path):
    model = IncrementalClassifier.load(saved).add_classes(*photographs(SESSIONS[2], 3))
    elsewhere = model.save(tmp_path / "copy.subspan")
    shutil.rmtree(saved)
    copy = IncrementalClassifier.load(elsewhere)
    assert snapshot(copy) == snapshot(model)
    assert copy.undo().undo().undo().classes_.tolist() == list(BASE)


def test_no_pickle_is_written(saved):
    kinds = {file.suffix for file in saved.rglob("*") if file.is_file()}
    assert kinds <= {".json", ".safetensors", ""}
    assert [file.name for file in saved.rglob("*") if file.is_file() and file.suffix == ""] == ["lock"]


def truncate(saved: Path) -> None:
    for file in saved.rglob("arrays.safetensors"):
        file.write_bytes(file.read_bytes()[:-100])


def foreign_store(saved: Path) -> None:
    shutil.rmtree(saved)
    version = store.make_version({"rows": np.eye(3)}, {"note": "another tool's"})
    store.write(saved, [version], version.id)


DAMAGE = {
    "truncated arrays": (truncate, "no readable safetensors file"),
    "truncated pointer": (lambda path: (path / "store.json").write_text("{"), "is not JSON"),
    "foreign pointer": (lambda path: (path / "store.json").write_text('{"format": "x"}'), "is foreign"),
    "no pointer": (lambda path: (path / "store.json").unlink(), "is not a Subspan store, or was never finished"),
    "no versions": (lambda path: shutil.rmtree(path / "versions"), "is missing"),
    "nothing": (shutil.rmtree, "there is nothing there"),
    "a store of something else": (foreign_store, "is a Subspan store but holds no classifier: 'parameters' is missing"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named_at_load(case, saved):
    damage, message = DAMAGE[case]
    damage(saved)
    with pytest.raises(StoreError, match=message) as caught:
        IncrementalClassifier.load(saved)
    assert "trees.subspan" in str(caught.value)


def test_a_file_is_no_model(tmp_path):
    file = tmp_path / "model.subspan"
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(StoreError, match="it is a file; a store is a directory"):
        IncrementalClassifier.load(file)


# One process imports once, then forks a saver again and again and kills it. A saver adds class after class, saves each
# time, and reports what `save` has returned for. It dies some time within the next save after up to three of them.
KILLER = """
import os, random, signal, sys, time
import numpy as np, torch
from subspan import IncrementalClassifier

torch.set_num_threads(1)
path, kills = sys.argv[1], int(sys.argv[2])

def example(i):
    return np.random.default_rng(i).normal(size=16)

def save_on_and_on(report):
    model = IncrementalClassifier.load(path)
    while True:
        i = len(model.classes_)
        model.add_classes(example(i)[None], [f"class {i}"]).save(path)
        os.write(report, b"%d\\n" % (i + 1))

IncrementalClassifier.from_weights(np.eye(2, 16), ["class 0", "class 1"], method="imprint", dtype="float64").save(path)
chance, told, pace = random.Random(0), 2, 0.02
for _ in range(kills):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        save_on_and_on(write)
    os.close(write)
    with os.fdopen(read) as lines:
        for _ in range(chance.randint(0, 3)):
            began = time.perf_counter()
            told = int(lines.readline())
            pace = time.perf_counter() - began
        time.sleep(chance.uniform(0, pace))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the saver must have died of the kill"
        told = max([told, *map(int, lines.read().split())])
    model = IncrementalClassifier.load(path)
    found = len(model.classes_)
    assert told <= found <= told + 1, f"saved {told} classes, found {found}"
    assert model.classes_.tolist() == [f"class {i}" for i in range(found)]
    for i in range(2, found):
        np.testing.assert_allclose(model.coef_[i], example(i) / np.linalg.norm(example(i)))
    if found > 2:
        assert len(model.undo().classes_) == found - 1
    told = found
print(told)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither fork nor SIGKILL")
def test_killed_while_saving_leaves_the_old_or_the_new_model(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(KILLER), str(tmp_path / "m.subspan"), "50"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50, "savers must have got somewhere between the kills"


def test_a_hundred_thousand_classes_are_saved_and_loaded(tmp_path):
    weights = np.random.default_rng(0).standard_normal((100_000, 640), dtype=np.float32)
    model = IncrementalClassifier.from_weights(weights, range(100_000))
    loaded = IncrementalClassifier.load(model.save(tmp_path / "large.subspan"))
    assert np.array_equal(loaded.coef_, weights)
    assert loaded.predict(weights[99_990:]).tolist() == list(range(99_990, 100_000))
    shutil.rmtree(tmp_path / "large.subspan")  # 256 MB
