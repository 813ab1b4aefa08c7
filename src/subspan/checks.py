"""The common suite of checks: what every method must keep to when the estimator uses it.

    from subspan.checks import check_method
    check_method("mine:gamma=2")

runs all of it on a method of yours, once it is registered; a broken rule raises AssertionError with the rule. Each
``check_*`` function is one rule and can be run by itself (``list_checks()``), for instance as one test each. What the
estimator keeps to whatever the method does is tested with it.
"""

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from subspan.classifier import IncrementalClassifier
from subspan.engine.contract import Learner
from subspan.learners.registry import spec_of

Check = Callable[[str], None]

WIDTH = 24
BASE = tuple(f"base {i:02}" for i in range(12))  # fewer than the width, more than a tiny span
FIRST, SECOND = ("novel b", "novel a"), ("another",)


def check_method(method: str | Learner) -> None:
    """Run every check on a method, given by name, as ``name:option=value,...``, or itself."""
    spec = method if isinstance(method, str) else spec_of(method)
    for check in list_checks():
        try:
            check(spec)
        except Exception as error:
            error.add_note(f"{check.__name__} of method '{spec}'")
            raise


def list_checks() -> list[Check]:
    """All checks of this module."""
    return [value for name, value in globals().items() if name.startswith("check_") and value is not check_method]


def check_old_classes_keep_their_rows(spec: str) -> None:
    """Sessions append classes: labels and order of the old ones stay, and most clear examples keep their label."""
    model = _fitted(spec)
    queries = _examples(BASE, 3, seed=9)[0]
    before = model.predict(queries)
    for names in (FIRST, SECOND):
        known = model.classes_
        _add(model, names)
        np.testing.assert_array_equal(model.classes_[: len(known)], known, "a session moved old classes")
        _require(model.class_scores(queries).shape[1] == len(model.classes_), "there must be one score for each class")
    kept = (model.predict(queries) == before).mean()
    _require(kept >= 0.5, f"old classes must keep most of their clear examples; {kept:.0%} kept theirs")


def check_scores_that_stand_apart(spec: str) -> None:
    """Where a method says that classes are scored apart, later sessions leave the scores of earlier classes alone."""
    model = _learned(spec)
    if model._now()[1].scores_apart:
        queries = _examples(BASE + FIRST + SECOND, 1, seed=7)[0]
        before = model.class_scores(queries)
        _add(model, SECOND)
        after = model.class_scores(queries)[:, : before.shape[1]]
        _require(np.allclose(before, after), "scores_apart: a session changed the scores of earlier classes")


def check_scores_of_one_query(spec: str) -> None:
    """What is asked beside a query leaves its scores alone, unless the method says that it is transductive."""
    model = _learned(spec)
    queries = _examples(BASE + FIRST, 1, seed=7)[0]
    together, alone = model.class_scores(queries), [model.class_scores(query[None]) for query in queries]
    same = np.allclose(together, np.concatenate(alone), rtol=1e-4, atol=1e-3 * np.ptp(together))
    _require(
        same or model._now()[1].transductive,
        "a query's scores must not depend on the other queries: declare transductive = True where that is meant",
    )


def check_same_seed_same_result(spec: str) -> None:
    """Two models of one seed are equal bit for bit, with memory too."""
    first, second = (_learned(spec, memory=1, seed=5) for _ in range(2))
    _same_model(first, second)


def check_save_and_load(spec: str) -> None:
    """A loaded model is the saved one bit for bit, learns on as it would have, and can undo."""
    model = _fitted(spec, memory=1)
    _add(model, FIRST)
    with tempfile.TemporaryDirectory() as folder:
        loaded = IncrementalClassifier.load(model.save(Path(folder) / "model.subspan"))
        _same_model(model, loaded)
        _add(model, SECOND)
        _add(loaded, SECOND)
        _same_model(model, loaded, records=False)
        model.undo().undo()
        loaded.undo().undo()
        _same_model(model, loaded)


def check_one_example(spec: str) -> None:
    """One class from one example is a session."""
    model = _fitted(spec)
    _add(model, SECOND, shots=1)
    _require(model.classes_.tolist() == [*BASE, *SECOND], "one example must be enough for a class")
    _finite(model)


def check_finite(spec: str) -> None:
    """No NaN or infinity, whatever the support: zeros, one example twice, very long ones; probabilities sum to 1."""
    X = np.zeros((6, WIDTH))
    X[2:4, 0] = 1.0
    X[4:, 1] = 30.0
    y = ["zeros", "zeros", "twice", "twice", "long", "long"]
    for bias in (True, False):
        model = _fitted(spec, bias=bias)
        model.add_classes(X, y, embeddings=_vectors(model, sorted(set(y))))
        _finite(model)


def check_undo(spec: str) -> None:
    """`undo` restores the model of before exactly, and the session learned again is the same."""
    model, untouched = _fitted(spec, memory=1), _fitted(spec, memory=1)
    _add(model, FIRST)
    _add(model, SECOND)
    model.undo()
    _add(untouched, FIRST)
    _same_model(model, untouched)
    _add(model, SECOND)
    _add(untouched, SECOND)
    _same_model(model, untouched)


def check_global_random_state(spec: str) -> None:
    """Nothing reads or sets the global random state of torch, NumPy or Python."""
    results = []
    for seed in (1, 2):
        with _global_seed(seed):
            before = _global_state()
            model = _learned(spec, memory=1)
            model.predict_proba(_examples(BASE, 1, seed=3)[0])
            for name, state in _global_state().items():
                _require(state == before[name], f"the global random state of {name} was touched")
        results.append(model)
    _same_model(*results)


def check_add_examples(spec: str) -> None:
    """More examples of known classes, novel or base, leave the classes and most clear examples of the others."""
    model = _learned(spec)
    queries = _examples(BASE[2:], 3, seed=9)[0]
    if not model._now()[1].learns_more:
        try:
            model.add_examples(*_examples((FIRST[0],), 3, seed=8))
        except ValueError:
            _same_model(model, _learned(spec))
            return
        raise AssertionError("a method that learns new classes only must refuse more examples of known ones")
    for known in (FIRST[0], BASE[0]):
        classes, before = model.classes_, model.predict(queries)
        model.add_examples(*_examples((known,), 3, seed=8))
        np.testing.assert_array_equal(model.classes_, classes)
        kept = (model.predict(queries) == before).mean()
        _require(kept >= 0.5, f"add_examples must leave the other classes; {kept:.0%} of their examples kept theirs")
        _require(model.sessions_[-1].kind == "add_examples", "add_examples must be recorded")
        _finite(model)
    model.undo().undo()
    _same_model(model, _learned(spec))


def check_remove_class(spec: str) -> None:
    """Without a class, the others keep their order and further classes can come.

    Scores stay, or, of a learner that keeps sums, are those of a model that was never taught the class.
    """
    queries = _examples(BASE + FIRST, 2, seed=3)[0]
    for gone in (FIRST[0], BASE[1]):
        model = _learned(spec, memory=1)
        keep = model.classes_ != gone
        expected, classes = model.decision_function(queries)[:, keep], model.classes_
        tolerance = 1e-12  # one column less may be summed in another order
        if model._now()[1].from_sums:
            never, tolerance = _fitted(spec, memory=1), 1e-9
            support, labels = _examples(FIRST, 4, seed=1)
            never.add_classes(support[labels != gone], labels[labels != gone])
            expected = never.decision_function(queries)
        model.remove_class(gone)
        np.testing.assert_array_equal(model.classes_, classes[keep])
        if gone in FIRST or not model._now()[1].from_sums:  # of a base class its part of the covariance stays
            np.testing.assert_allclose(model.decision_function(queries), expected, rtol=tolerance, atol=tolerance)
        _add(model, ("late",))
        _require(model.classes_[-1] == "late", "a class can be added after another was removed")
        _finite(model)


# The data: one clear direction per class, some noise, and an embedding near that of two other classes.


def _examples(names: tuple[str, ...], count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    rng = np.random.default_rng([seed, count])
    X = np.concatenate([_direction(name) * 3 + 0.3 * rng.normal(size=(count, WIDTH)) for name in names])
    return X, np.repeat(names, count)


def _direction(name: str) -> NDArray[np.float64]:
    """A unit vector (WIDTH,) that depends on nothing but the name."""
    vector = np.random.default_rng(list(name.encode())).normal(size=WIDTH)
    return vector / np.linalg.norm(vector)


def _vectors(model: IncrementalClassifier, names: Any) -> dict[Any, NDArray[np.float64]] | None:
    """Embeddings (5,) of these classes, where the method needs them."""
    if "embeddings" not in model._method(lambda: "subspace").needs:
        return None
    return {name: _direction(str(name))[:5] * 4 for name in names}


# The models


def _fitted(spec: str, *, numbered: bool = False, **parameters: Any) -> IncrementalClassifier:
    """A model that has learned the base classes; ``numbered`` calls them 0 to 11."""
    return _teach_base(IncrementalClassifier(method=spec, **parameters), numbered)


def _teach_base(model: IncrementalClassifier, numbered: bool = False) -> IncrementalClassifier:
    X, y = _examples(BASE, 8, seed=0)
    labels = np.repeat(np.arange(len(BASE)), 8) if numbered else y
    return model.fit(X, labels, embeddings=_vectors(model, np.unique(labels).tolist()))


def _learned(spec: str, **parameters: Any) -> IncrementalClassifier:
    """A model that has learned the base classes and one session."""
    model = _fitted(spec, **parameters)
    _add(model, FIRST)
    return model


def _add(model: IncrementalClassifier, names: tuple[str, ...], shots: int = 4) -> None:
    model.add_classes(*_examples(names, shots, seed=1), embeddings=_vectors(model, names))


# What is required


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise AssertionError(rule)


def _same_model(first: IncrementalClassifier, second: IncrementalClassifier, *, records: bool = True) -> None:
    """Two models are equal bit for bit in what they hold and say; dates and seconds aside."""
    np.testing.assert_array_equal(first.classes_, second.classes_)
    one, two = (model._now()[0].learned.arrays for model in (first, second))
    _require(one.keys() == two.keys(), f"states must hold the same arrays; found {set(one)} and {set(two)}")
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], f"array '{name}'")
    queries = _examples(BASE + FIRST + SECOND, 1, seed=7)[0]
    np.testing.assert_array_equal(first.predict_proba(queries), second.predict_proba(queries))
    np.testing.assert_array_equal(first.predict(queries), second.predict(queries))
    if records:
        one, two = ([(r.kind, r.classes, r.examples, r.steps) for r in m.sessions_] for m in (first, second))
        _require(one == two, f"sessions must agree; found {one} and {two}")


def _finite(model: IncrementalClassifier) -> None:
    queries = np.concatenate([np.zeros((1, WIDTH)), _examples(BASE + FIRST, 1, seed=7)[0]])
    probabilities = model.predict_proba(queries)
    for name, array in model._now()[0].learned.arrays.items():
        _require(bool(np.isfinite(np.asarray(array)).all()), f"array '{name}' must be finite")
    _require(bool(np.isfinite(probabilities).all()), "probabilities must be finite")
    np.testing.assert_allclose(probabilities.sum(1), 1.0, atol=1e-6)


def _global_state() -> dict[str, Any]:
    kind, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state().tolist(),
        "NumPy": (kind, np.asarray(keys).tolist(), *rest),
        "Python": random.getstate(),
    }


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """The global random states at this seed; afterwards as they were."""
    kept = torch.get_rng_state(), np.random.get_state(), random.getstate()
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(kept[0])
        np.random.set_state(kept[1])
        random.setstate(kept[2])
