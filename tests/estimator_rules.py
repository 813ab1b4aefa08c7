"""What the estimator keeps to whatever the method does: each rule is run with every method and system."""

from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from subspan import checks


def check_sessions_are_recorded_in_order(spec: str) -> None:
    """`sessions_` says what happened in which order; within a session classes come sorted."""
    model = checks._fitted(spec)
    checks._add(model, checks.FIRST, shots=4)
    checks._add(model, checks.SECOND, shots=3)
    found = [(record.kind, record.classes, record.examples) for record in model.sessions_]
    learned = tuple(sorted(checks.FIRST))
    checks._require(
        found
        == [
            ("base", checks.BASE, 8 * len(checks.BASE)),
            ("add_classes", learned, 8),
            ("add_classes", checks.SECOND, 3),
        ],
        f"sessions must be recorded in order; found {found}",
    )
    np.testing.assert_array_equal(model.classes_, checks.BASE + learned + checks.SECOND)


def check_bad_input(spec: str) -> None:
    """What a session refuses leaves the model as it was."""
    model = checks._learned(spec)
    twin = checks._learned(spec)
    X, y = checks._examples(("bad",), 3, seed=4)
    vectors = checks._vectors(model, ("bad",))
    nan = X.copy()
    nan[1, 2] = np.nan
    bad: list[tuple[Any, Any, Any]] = [
        (X, [checks.BASE[0]] * 3, vectors),
        (X[:, :-1], y, vectors),
        (nan, y, vectors),
        (X * np.inf, y, vectors),
        (X, y[:-1], vectors),
        (X[:0], y[:0], vectors),
        (X, np.arange(3), vectors),
    ]
    if vectors is not None:
        bad += [(X, y, None), (X, y, {"bad": np.ones(99)}), (X, y, {"good": np.ones(5)})]
    for features, labels, embeddings in bad:
        try:
            model.add_classes(features, labels, embeddings=embeddings)
        except ValueError:
            checks._same_model(model, twin)
        else:
            raise AssertionError(f"add_classes must refuse bad input; it took y={list(labels)}")


def check_kinds_of_arrays(spec: str) -> None:
    """Arrays however they lie in memory, lists and tensors say the same; tensors give tensors, all others arrays."""
    X, y = checks._examples(checks.FIRST, 4, seed=2)
    queries = checks._examples(checks.BASE + checks.FIRST, 1, seed=3)[0]
    by_array = checks._fitted(spec)
    vectors = checks._vectors(by_array, checks.FIRST)
    by_array.add_classes(X, y, embeddings=vectors)
    kinds: Any = (
        *(np.ndarray.tolist, torch.tensor, memoryview, np.asfortranarray),
        lambda array: array[::-1, ::-1].copy()[::-1, ::-1],  # with negative strides
        lambda array: array.astype(array.dtype.newbyteorder()),
    )
    for kind in kinds:
        other = checks._fitted(spec)
        other.add_classes(kind(X), y.tolist(), embeddings=vectors)
        checks._same_model(by_array, other)
        np.testing.assert_array_equal(by_array.predict(queries), other.predict(kind(queries)))
    for name in ("predict_proba", "decision_function"):
        function = getattr(by_array, name)
        array, tensor = function(queries), function(torch.tensor(queries))
        checks._require(isinstance(array, np.ndarray), f"{name} of an array must be an array")
        checks._require(isinstance(tensor, torch.Tensor), f"{name} of a tensor must be a tensor")
        np.testing.assert_array_equal(array, tensor.numpy())
    numbers = checks._fitted(spec, numbered=True)
    found = numbers.predict(torch.tensor(queries))
    checks._require(isinstance(found, torch.Tensor), "predict of a tensor must be a tensor where labels are numbers")
    np.testing.assert_array_equal(numbers.predict(queries), found.numpy())


def check_rename_class(spec: str) -> None:
    """Another name for a class changes nothing but the name."""
    model = checks._learned(spec)
    queries = checks._examples(checks.BASE + checks.FIRST, 2, seed=3)[0]
    before, scores = model.predict(queries), model.predict_proba(queries)
    model.rename_class(checks.FIRST[0], "renamed")
    np.testing.assert_array_equal(model.predict(queries), np.where(before == checks.FIRST[0], "renamed", before))
    np.testing.assert_array_equal(model.predict_proba(queries), scores)


def check_parameters(spec: str) -> None:
    """A clone is unfitted with the same parameters and learns the same."""
    model = checks._learned(spec, memory=1, seed=3)
    copy: Any = clone(model)
    checks._require(copy.get_params() == model.get_params(), "a clone must have the same parameters")
    checks._require(not hasattr(copy, "classes_"), "a clone must not be fitted")
    checks._teach_base(copy)
    checks._add(copy, checks.FIRST)
    checks._same_model(model, copy)


def check_memory(spec: str) -> None:
    """Memory 0 keeps nothing, memory k keeps k examples of every class, chosen once."""
    for memory in (0, 1, 3):
        model = checks._fitted(spec, memory=memory)
        checks._add(model, checks.FIRST)
        early = model._now()[0]
        checks._add(model, checks.SECOND)
        late = model._now()[0]
        counts = np.bincount(late.memory_labels, minlength=len(model.classes_))
        checks._require(
            bool((counts == memory).all()), f"memory={memory} must keep as many of each class; kept {counts}"
        )
        kept = late.memory_features[: len(early.memory_features)]
        checks._require(np.array_equal(kept, early.memory_features), "what memory keeps must stay the same")
        checks._finite(model)


RULES = [value for name, value in globals().items() if name.startswith("check_")]
