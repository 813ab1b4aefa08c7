"""Posterior means: against a plain form in few lines, exact under any order and partition, and whole in hard cases."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris, load_wine

from subspan import IncrementalClassifier
from subspan.engine import sessions
from subspan.engine.contract import Base, State
from subspan.learners.parts.class_means import posterior, prior_of
from subspan.learners.parts.class_sums import contrasts, rotated
from subspan.learners.parts.within_space import live_count, shrunk, space_of_matrix, space_of_rows
from subspan.learners.posterior import Posterior, prepared

RULE = Posterior()
BASE = 4


def gaussian(classes: int, each: int, width: int, seed: int = 0, distance: float = 4.0):
    """Examples (n, width) of Gaussian classes with one covariance, their labels (n,), and queries with theirs."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, width)) * distance / width**0.5
    labels, asked = np.repeat(np.arange(classes), each), np.repeat(np.arange(classes), 40)
    noise = rng.normal(size=(len(labels) + len(asked), width))
    return centres[labels] + noise[: len(labels)], labels, centres[asked] + noise[len(labels) :], asked


def started(X, y, base: int = BASE) -> State:
    known = y < base
    means = np.stack([X[y == place].mean(0) for place in range(base)])
    return sessions.start(RULE, Base(means, means, examples=X[known], labels=y[known]))


def taught(X, y, base: int = BASE) -> State:
    """A base session, then every other class in a session of its own."""
    state = started(X, y, base)
    for place in range(base, y.max() + 1):
        state = more(state, X[y == place], y[y == place], new=True)
    return state


def more(state: State, X, y, *, new: bool) -> State:
    classes = np.unique(y).tolist()
    return sessions.learn(RULE, state, sessions.session_of(X, y, classes, share=None if new else np.ones(len(classes))))


def answers(state: State, queries) -> np.ndarray:
    return sessions.scores(RULE, state, queries)


def same(a: State, b: State, queries) -> None:
    """That two states answer alike, but for rounding."""
    found, expected = answers(a, queries), answers(b, queries)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


# The parts, against naive forms


def test_posterior_of_a_mean_is_that_of_the_whole_covariance():
    """Fewer base classes than dimensions and more, against the formula with inverses of whole matrices."""
    rng = np.random.default_rng(0)
    for base in (3, 30):
        known, means = rng.normal(size=(base, 8)), rng.normal(size=(5, 8))
        counts = np.array([1.0, 5, 5, 2, np.inf])
        prior = prior_of(known, np.full(base, np.inf), 8, 0.7, 0.35)
        found, uncertain = posterior(means, counts, prior, 0.2)
        spread = np.cov(known.T)
        covariance = 0.8 * np.trace(spread) / 8 * np.eye(8) + 0.2 * spread
        for k, count in enumerate(counts):
            gain = covariance @ np.linalg.inv(covariance + 0.7 / count * np.eye(8))
            np.testing.assert_allclose(found[k], known.mean(0) + gain @ (means[k] - known.mean(0)))
            np.testing.assert_allclose(uncertain[k], np.trace(covariance - gain @ covariance) / 8, atol=1e-12)


def test_a_direction_of_base_means_counts_as_far_as_it_is_more_than_chance_and_noise():
    rng = np.random.default_rng(0)

    def share(known, noise: float) -> float:
        return prior_of(known, np.full(len(known), 1.0), 200, noise, 0.35).share

    anywhere, few = rng.normal(size=(20, 200)), rng.normal(size=(20, 3)) @ rng.normal(size=(3, 200))
    assert share(anywhere, 0.01) < 0.1 < 0.3 < share(few, 0.01) < 0.35
    assert share(few, 1.5) < share(few, 0.5) < share(few, 0.01)


@pytest.mark.parametrize(("width", "count"), [(40, 400), (40, 44), (40, 40), (40, 39), (40, 10), (3, 50)])
def test_corrected_eigenvalues_come_nearer_to_the_truth(width: int, count: int):
    """In Stein's loss they are no worse than those of the sample, with what is null there at the smallest one."""
    rng = np.random.default_rng(1)
    truth = np.geomspace(0.05, 1, width)
    values, vectors = np.linalg.eigh(np.cov((rng.normal(size=(count + 1, width)) * truth**0.5).T))
    live = live_count(values, count)
    corrected, floor = shrunk(values[width - live :], count, width)
    ideal = (vectors**2 * truth[:, None]).sum(0)

    def loss(found):
        return (ideal / found - np.log(ideal / found) - 1).mean()

    assert loss(np.r_[np.full(width - live, floor), corrected]) < loss(np.maximum(values, values[width - live])) + 0.01


def test_rows_of_a_scatter_keep_it():
    examples = np.random.default_rng(2).normal(size=(7, 4))
    about = examples - examples.mean(0)
    for rows in (contrasts(examples), rotated(contrasts(examples))):
        np.testing.assert_allclose(rows.T @ rows, about.T @ about)
    assert contrasts(examples[:1]).shape == (0, 4)


def test_few_rows_and_the_whole_matrix_give_one_space():
    """Distances between class means, and the noise, are the same in both forms."""
    X, y, _, _ = gaussian(3, 4, 50)
    means = np.stack([X[y == k].mean(0) for k in range(3)])
    rows = X - means[y]
    thin = space_of_rows(rows, 9, means.mean(0), 0.85, means)
    whole = space_of_matrix(rows.T @ rows, 9, means.mean(0), 0.85, None)
    assert thin.basis.shape == (50, 11)
    np.testing.assert_allclose(thin.noise, whole.noise)
    found, expected = (space.means(means) @ space.means(means).T for space in (thin, whole))
    np.testing.assert_allclose(found, expected)


# Exactly incremental


@pytest.mark.parametrize("width", [5, 80, 400])  # few features; a matrix; rows of the scatter
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_order_and_partition_change_nothing(width: int, data: st.DataObject):
    """The same examples in another order of classes, cut into other sessions, some given late."""
    X, y, queries, _ = gaussian(7, 6, width, seed=data.draw(st.integers(0, 99)))
    late = np.array(data.draw(st.lists(st.booleans(), min_size=len(y), max_size=len(y))))
    late &= np.arange(len(y)) % 6 > 0  # every class has an example at first
    order = data.draw(st.permutations(range(BASE, 7)))
    state = started(X[~late], y[~late])
    places = {place: BASE + k for k, place in enumerate(order)} | {place: place for place in range(BASE)}
    for place in order:
        first = ~late & (y == place)
        state = more(state, X[first], np.full(first.sum(), places[place]), new=True)
    for part in np.array_split(data.draw(st.permutations(np.flatnonzero(late).tolist())), 3):
        if len(part := np.asarray(part, int)):
            state = more(state, X[part], np.array([places[place] for place in y[part]]), new=False)
    found, expected = answers(state, queries), answers(taught(X, y), queries)
    columns = [places[place] for place in range(7)]
    np.testing.assert_allclose(found[:, columns], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("width", [5, 80, 400])
def test_two_models_taught_apart_merge_into_the_model_taught_together(width: int):
    X, y, queries, _ = gaussian(6, 8, width)
    half = np.arange(len(y)) % 2 == 0
    same(sessions.merge(RULE, taught(X[half], y[half]), taught(X[~half], y[~half])), taught(X, y), queries)


@pytest.mark.parametrize("width", [5, 80, 400])
def test_a_class_taught_later_and_removed_was_never_taught(width: int):
    X, y, queries, _ = gaussian(7, 6, width)
    state = taught(X, y)
    forgot = sessions.forget(RULE, state, state.base, [5])
    kept = y != 5
    same(forgot, taught(X[kept], np.where(y > 5, y - 1, y)[kept]), queries)


def test_of_a_removed_base_class_its_part_of_the_covariance_stays():
    X, y, queries, _ = gaussian(7, 6, 80)
    state = taught(X, y)
    means = state.base.means[1:]
    forgot = sessions.forget(RULE, state, Base(means, means), [0])
    np.testing.assert_array_equal(forgot["scatter"], state["scatter"])
    assert float(forgot["freedom"]) == float(state["freedom"])
    assert np.isfinite(answers(forgot, queries)).all()


def test_the_state_holds_no_example():
    X, y, _, _ = gaussian(6, 5, 400)
    state = taught(X, y)
    assert state.base.examples is None
    kept = np.concat([state["factor"], state["own"], *(state["own"] + state["rows"][k] for k in range(6))])
    for example in prepared(X, signed=True):
        assert np.linalg.vector_norm(kept - example, axis=1).min() > 0.1


# Any features


@pytest.mark.parametrize(
    ("classes", "base", "each", "width"),
    [
        *[(4, 1, 5, 80), (4, 1, 5, 5), (4, 2, 5, 80), (6, 3, 1, 200), (6, 3, 1, 5), (6, 3, 4, 300)],
        *[(4, 2, 10, 1), (4, 2, 10, 2), (10, 6, 20, 63), (10, 6, 20, 64), (20, 10, 25, 8192)],
    ],
)
def test_hard_cases_answer_without_a_warning(classes: int, base: int, each: int, width: int):
    """One base class, two, one photograph each, more dimensions than examples, one and two dimensions."""
    X, y, queries, asked = gaussian(classes, each, width, distance=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = answers(taught(X, y, base), queries)
    assert np.isfinite(found).all()
    assert (found.argmax(1) == asked).mean() > 1.2 / classes


@pytest.mark.parametrize("width", [10, 80])
@pytest.mark.parametrize(
    "change",
    [
        lambda X: np.c_[X, np.ones((len(X), 5))],
        lambda X: np.c_[X, X],
        lambda X: X - 10,
        lambda X: X * 1e-6,
        lambda X: X * 1e6,
        lambda X: X * np.geomspace(1e-6, 1e6, X.shape[1]),
        lambda X: X.astype(np.float16),
        np.ones_like,
        np.zeros_like,
    ],
    ids=["constant", "duplicate", "negative", "small", "large", "one-by-one", "float16", "all-constant", "zero"],
)
def test_odd_features_answer_without_a_warning(width: int, change):
    X, y, queries, _ = gaussian(6, 8, width)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(answers(taught(change(X), y), change(queries))).all()


@pytest.mark.parametrize("width", [2, 20, 80, 300])
def test_gaussian_classes_with_one_covariance_are_told_apart_as_well_as_by_nearest_means(width: int):
    """With a covariance of unequal variances, over ten draws; the margin is what ten draws leave to chance."""
    ours, nearest = [], []
    for seed in range(10):
        X, y, queries, asked = gaussian(8, 20, width, seed)
        X, queries = (part * np.linspace(0.3, 3, width) for part in (X, queries))
        ours.append((answers(taught(X, y, 5), queries).argmax(1) == asked).mean())
        means = np.stack([X[y == k].mean(0) for k in range(8)])
        nearest.append((((queries[:, None] - means) ** 2).sum(-1).argmin(1) == asked).mean())
    assert np.mean(ours) > np.mean(nearest) - 0.01


@pytest.mark.parametrize(("load", "least"), [(load_digits, 0.88), (load_wine, 0.95), (load_iris, 0.95)])
def test_measured_columns_are_learned_as_well_as_photographs(load, least: float):
    """The last third is asked for; base classes are taught whole, new ones by five examples."""
    X, y = load(return_X_y=True)
    mean_of_draws = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y_of_draw = rng.permutation(y.max() + 1)[y]
        base = max(2, (y.max() + 1) * 6 // 10)
        taught_rows, asked = [], []
        for place in range(y.max() + 1):
            mine = rng.permutation(np.flatnonzero(y_of_draw == place))
            cut = 2 * len(mine) // 3
            taught_rows += mine[: cut if place < base else 5].tolist()
            asked += mine[cut:].tolist()
        found = answers(taught(X[taught_rows], y_of_draw[taught_rows], base), X[asked]).argmax(1)
        of_class = [(found[y_of_draw[asked] == k] == k).mean() for k in range(y.max() + 1)]
        mean_of_draws.append(np.mean(of_class))
    assert np.mean(mean_of_draws) > least


def test_the_default_is_this_rule_and_goes_on_after_loading(tmp_path):
    X, y, queries, _ = gaussian(6, 6, 80)
    model = IncrementalClassifier().fit(X[y < 4], y[y < 4]).add_classes(X[y >= 4], y[y >= 4])
    assert model.method_ == "posterior"
    model.save(tmp_path / "m.subspan")
    loaded = IncrementalClassifier.load(tmp_path / "m.subspan")
    np.testing.assert_array_equal(loaded.predict_proba(queries), model.predict_proba(queries))
    np.testing.assert_array_equal(model.predict(queries), answers(taught(X, y, 4), queries).argmax(1))


def test_class_statistics_alone_are_enough():
    """Means and a covariance in place of examples: nearly as accurate where base examples were many."""
    X, y, queries, asked = gaussian(8, 200, 20)
    means = np.stack([X[y == k].mean(0) for k in range(5)])
    known = y < 5
    about = X[known] - means[y[known]]
    model = IncrementalClassifier.from_weights(means, range(5), means=means, covariance=about.T @ about / len(about))
    assert model.method_ == "posterior"
    model.add_classes(X[~known], y[~known])
    found = (model.predict(queries) == asked).mean()
    assert found > (answers(taught(X, y, 5), queries).argmax(1) == asked).mean() - 0.03


def test_a_head_alone_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="needs means"):
        IncrementalClassifier.from_weights(np.eye(3), "abc", method="posterior")
