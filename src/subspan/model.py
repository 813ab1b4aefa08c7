"""The model: a history of states, from base classes on, that learns more of them, answers, goes back and is stored.

It is all that a catalogue needs, in NumPy. `subspan.classifier` has scikit-learn's estimator around it.
"""

import copy
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.engine import sessions
from subspan.engine.contract import Base, Learner, Memory, Session, State
from subspan.history import History, augmented, in_turn
from subspan.learners.registry import spec_of
from subspan.state import ModelState, make_record
from subspan.values import (
    FEATURE_LENGTH,
    Embeddings,
    Features,
    Labels,
    array_of,
    check_kind,
    copy_of,
    embeddings_of,
    examples_of,
    finite,
    length,
    memory_of,
    plain_label,
    queries_of,
    show,
    to_numpy,
)


class Model(History):
    """`subspan.IncrementalClassifier` less what scikit-learn asks of one; its parameters are explained there."""

    # Session 0

    @in_turn
    def fit(self, X: Features, y: Labels, embeddings: Embeddings | None = None, groups: Any = None) -> Self:
        """Learn the base classes: by multinomial logistic regression, unless the method starts from examples.

        Parameters
        ----------
        X : features (n, d). y : labels (n,), strings or numbers.
        embeddings : vectors of the classes, as a mapping from label to vector or an array (C0, e) in sorted order of
            the labels; for methods that use language.
        groups : which image an example is a copy of (n,), so that memory keeps whole images.
        """
        model = copy.copy(self)  # an error leaves the model as it was, and other threads see all of it change at once
        model._fit(X, y, embeddings, groups)
        self.__dict__ = {**vars(model), "_turn": vars(self)["_turn"]}
        return self

    @property
    def partial_fit(self) -> Callable[..., Self]:
        """Learn the base classes from examples that come in parts, as `fit` learns them from all at once.

        For methods whose sums add up, as the default's do; others do not have it. A class has its place, in the order
        of names, from its first example on; parts may bring more classes until the first session adds some.

        Parameters
        ----------
        X : features (n, d). y : labels (n,). classes : labels that may come; others are refused.
        """
        from subspan.parts import check_joins

        known = hasattr(self, "_history")
        method = self._now()[1] if known else self._method(lambda: self._automatic({"means", "covariance"}, 1))
        try:
            check_joins(method, self.memory)
        except ValueError as error:
            raise AttributeError(str(error)) from None
        return self._partial_fit

    @in_turn
    def _partial_fit(self, X: Features, y: Labels, classes: Sequence[Any] | None = None) -> Self:
        part = copy.copy(self)
        part._fit(X, y, None, None, parts=True)
        if classes is not None:
            unknown = np.setdiff1d(part.classes_, np.asarray(classes))
            if len(unknown):
                raise ValueError(f"y holds class {show(unknown[0])}, which is not among the {len(classes)} of classes=")
        return self._join(part)

    @in_turn
    def merge(self, other: Self) -> Self:
        """Take up what another model learned from other examples in its base session, as if both had been one."""
        return self._join(other)

    def _join(self, part: Self) -> Self:
        from subspan.parts import joined

        if not hasattr(self, "_history"):
            self.__dict__ = {**vars(part), "_turn": vars(self)["_turn"]}
            return self
        (state, method), (more, own) = self._now(), part._now()
        if spec_of(method) != spec_of(own):
            raise ValueError(f"parts of one model have one method; got '{spec_of(method)}' and '{spec_of(own)}'")
        self._adopt([*self._history[:-1], joined(method, self.memory, state, more)])
        return self

    def _fit(self, X: Features, y: Labels, embeddings: Embeddings | None, groups: Any, parts: bool = False) -> None:
        from subspan.engine.statistics import class_means, within_classes  # here: who only answers needs none

        began = time.perf_counter()
        features, labels = self._base_examples(X, y)
        width = features.shape[1]
        method = self._method(lambda: self._automatic({"means", "covariance"}, width))
        classes, indices = np.unique(labels, return_inverse=True)
        if len(classes) < self._fewest(method) and not parts:
            raise ValueError(f"a base session needs at least two classes; y holds 1 class, {show(classes[0])}")
        with_bias = self.bias and method.uses_bias and not method.from_examples
        unit, rows = length(features) / FEATURE_LENGTH or 1.0, None
        in_unit = np.empty_like(features, self.dtype)  # rounded once, so that a unit changes as few bits as it can
        np.divide(features, unit, out=in_unit, dtype=np.float64, casting="same_kind")
        scale = unit if method.depends_on_scale else None
        if not method.from_examples:
            from subspan.features.labelled import logistic_rows  # here: who only answers needs none

            weights, bias = logistic_rows(in_unit, indices, self.base_decay, self.bias)
            weights = weights if method.depends_on_scale else weights / unit
            rows = copy_of(np.column_stack([weights, bias]) if with_bias else weights, self.dtype)
        features = in_unit if method.depends_on_scale else features
        support = augmented(copy_of(features, self.dtype), with_bias)
        means = class_means(support, indices, tuple(range(len(classes))))
        covariance = None
        if "covariance" in method.needs and not method.from_sums:
            covariance = within_classes(support, means, indices)[:width, :width]
        kept = memory_of(indices, groups, self.memory, (self.seed, 0))
        base = Base(rows, means, covariance=covariance)
        if method.from_examples:
            base = replace(base, examples=support, labels=indices)
        known = {"memory_features": support[kept], "memory_labels": indices[kept], "counts": np.bincount(indices)}
        self._start(method, tuple(classes.tolist()), base, embeddings, began, with_bias=with_bias, scale=scale, **known)

    def _fewest(self, method: Learner) -> int:
        """Base classes that there must be: one, beside which all else is a stranger, where sums are kept."""
        return 1 if method.from_sums else 2

    def _base_examples(self, X: Features, y: Labels) -> tuple[NDArray[Any], NDArray[Any]]:
        """Features (n, d) and labels (n,) of a base session, checked."""
        return examples_of(X, y, None)

    @classmethod
    def from_weights(
        cls,
        weights: Features,
        class_names: Sequence[Any],
        bias: Features | None = None,
        *,
        means: Features | None = None,
        covariance: Features | None = None,
        embeddings: Embeddings | None = None,
        **parameters: Any,
    ) -> Self:
        """A model around a head that exists already; no base example is needed.

        Parameters
        ----------
        weights : rows (C0, d). class_names : their labels (C0,), kept in this order. bias : (C0,).
        means : class means of training features (C0, d), for methods that centre features.
        covariance : of training features within their classes (d, d), for methods that whiten features.
        parameters : the estimator's parameters.
        """
        began = time.perf_counter()
        model = cls(**parameters)
        rows = copy_of(finite(to_numpy(weights), "weights"), model.dtype)
        names = tuple(plain_label(name) for name in class_names)
        if rows.ndim != 2 or len(rows) != len(names):
            raise ValueError(f"weights must be (classes, d) for {len(names)} class names; got shape {rows.shape}")
        count, width = rows.shape
        given = [name for name, part in {"means": means, "covariance": covariance}.items() if part is not None]
        method = model._method(lambda: cls._automatic(given, width))
        if count < 2:
            raise ValueError(f"a base session needs at least two classes; got {count}")
        for name in names:
            check_kind(name, names[0])
        if len(set(names)) < count:
            raise ValueError("class names must differ; " + show(Counter(names).most_common(1)[0][0]) + " repeats")
        rule = f"the weights' shape {(count, width)}"
        column = array_of(bias, "bias", (count,), f"one number for each of {count} classes", model.dtype)
        base_means = array_of(means, "means", (count, width), rule, model.dtype)
        spread = array_of(covariance, "covariance", (width, width), f"the shape {(width, width)}", model.dtype)
        with_bias = column is not None and method.uses_bias
        if column is not None and with_bias:
            rows = np.column_stack([rows, column])
        base_means = None if base_means is None else augmented(base_means, with_bias)
        base, unknown = Base(rows, base_means, covariance=spread), np.zeros(count, np.int64)
        known = {"counts": unknown, "memory_features": rows[:0], "memory_labels": unknown[:0]}
        model._start(method, names, base, embeddings, began, with_bias=with_bias, **known)
        return model

    # Later sessions

    @in_turn
    def add_classes(self, X: Features, y: Labels, embeddings: Embeddings | None = None, groups: Any = None) -> Self:
        """Learn new classes from a few examples: one incremental session.

        Parameters
        ----------
        X : features (n, d). y : labels (n,) of classes that the model does not know yet.
        embeddings : vectors of the new classes, as for `fit`.
        groups : which image an example is an augmented copy of (n,).
        """
        began = time.perf_counter()
        state, method, names, session = self._begin(X, y, new=True)
        if embeddings is not None and state.embeddings is None:
            raise ValueError("the base classes have no embeddings; pass theirs to fit or from_weights first")
        vectors = self._embeddings(method, embeddings, names, state.embeddings)
        kept = memory_of(session.labels, groups, self.memory, (self.seed, len(self._history)))
        learned = self._learn(state, method, replace(session, embeddings=vectors))
        known = state.embeddings
        self._push(
            replace(
                state,
                classes=state.classes + names,
                learned=learned,
                novel_means=np.concatenate([state.novel_means, session.means]),
                counts=np.concatenate([state.counts, np.bincount(session.labels - len(state.classes))]),
                memory_features=np.concatenate([state.memory_features, session.support[kept]]),
                memory_labels=np.concatenate([state.memory_labels, session.labels[kept]]),
                embeddings=None if known is None or vectors is None else np.concatenate([known, vectors]),
                record=make_record("add_classes", names, len(session.labels), learned.steps, began, method),
            )
        )
        return self

    @in_turn
    def add_examples(self, X: Features, y: Labels) -> Self:
        """Learn more about classes that the model knows: their rows move, the others are held as in any session.

        A class of an incremental session is learned on from where its row stands; a base class stays among the base
        rows, held by R_old, and only its examples move it.
        """
        began = time.perf_counter()
        state, method, names, session = self._begin(X, y, new=False)
        if not method.learns_more:
            raise ValueError(f"method '{spec_of(method)}' learns new classes only; it takes no more of known ones")
        chosen = np.array(session.classes)
        added = np.bincount(session.labels, minlength=len(state.classes))
        counts = state.counts + added
        share = added[chosen] / np.where(state.counts[chosen] > 0, counts[chosen], 2 * added[chosen])
        share = share.astype(session.means.dtype)
        means = state.means_of(chosen)
        moved = means + share[:, None] * (session.means - means)
        means = np.where(np.isnan(means), session.means, moved)
        vectors = None if state.embeddings is None else state.embeddings[chosen]
        learned = self._learn(state, method, replace(session, means=means, embeddings=vectors, share=share))
        novel, novel_means = chosen >= state.base_count, state.novel_means.copy()
        novel_means[chosen[novel] - state.base_count] = means[novel]
        record = make_record("add_examples", names, len(session.labels), learned.steps, began, method)
        self._push(replace(state, learned=learned, novel_means=novel_means, counts=counts, record=record))
        return self

    @in_turn
    def rename_class(self, old: Any, new: Any) -> Self:
        """Give a class another label; its row stays."""
        began = time.perf_counter()
        state, _ = self._now()
        index = self._index(state, old)
        new = plain_label(new)
        if new in state.classes:
            raise ValueError(f"class {show(new)} exists already; two classes cannot share a name")
        check_kind(new, state.classes[0])
        classes = (*state.classes[:index], new, *state.classes[index + 1 :])
        self._push(replace(state, classes=classes, record=make_record("rename_class", (old, new), 0, 0, began)))
        return self

    @in_turn
    def remove_class(self, label: Any) -> Self:
        """Forget a class; the others keep their order."""
        began = time.perf_counter()
        state, method = self._now()
        index = self._index(state, label)
        if index < state.base_count <= (fewest := self._fewest(method)):
            raise ValueError(
                f"class {show(label)} cannot be removed: a model needs at least {fewest} of the base session"
            )
        learned = sessions.forget(method, state.learned, state.base_without(index), [index])
        self._push(state.without(index, _laid_out(learned), make_record("remove_class", (label,), 0, 0, began)))
        return self

    @in_turn
    def merge_classes(self, label: Any, other: Any) -> Self:
        """Make ``other`` part of the class ``label``, as if its examples had been taught so."""
        began = time.perf_counter()
        state, method = self._now()
        place, gone = sorted((self._index(state, label), self._index(state, other)))
        if place == gone:
            raise ValueError(f"two classes become one; got class {show(label)} twice")
        if gone < state.base_count <= (fewest := self._fewest(method)):
            raise ValueError(f"the classes cannot become one: {fewest} of the base session must be left")
        learned = sessions.combine(method, state.learned, state.base_without(gone), place, gone)
        record = make_record("merge_classes", (label, other), 0, 0, began)
        self._push(state.combined(place, gone, plain_label(label)).without(gone, _laid_out(learned), record))
        return self

    @in_turn
    def remove_examples(self, X: Features, label: Any) -> Self:
        """Take examples (n, d) out of the class that they were taught as; others of it must be left."""
        began = time.perf_counter()
        state, method = self._now()
        index = self._index(state, label)
        features = finite(queries_of(X, self.n_features_in_), "X").astype(np.float64)
        features = augmented(features if state.scale is None else features / state.scale, state.with_bias)
        counts, means = state.counts.copy(), state.novel_means.copy()
        counts[index] -= len(features)
        if counts[index] < 1:
            raise ValueError(f"class {show(label)} has {state.counts[index]} examples: at least one must be left")
        learned = _laid_out(sessions.unlearn(method, state.learned, np.full(len(features), index), features))
        if index >= state.base_count:
            mean = means[index - state.base_count]
            mean += (len(features) * mean - features.sum(0)) / counts[index]
        record = make_record("remove_examples", (label,), len(features), 0, began)
        self._push(replace(state, learned=learned, novel_means=means, counts=counts, record=record))
        return self

    def without_examples(self, X: Features, y: Labels) -> Self | None:
        """Another model, as if some examples had not been taught; None where the method cannot take them back.

        Those (n, d) of each class that is among the labels (n,) are fewer than it was taught.
        """
        state, method = self._now()
        if type(method).unlearn is Learner.unlearn or not state.counts.all():
            return None
        features, labels = examples_of(X, y, self.n_features_in_, state.classes[0])
        places = np.array([state.classes.index(label) for label in labels.tolist()])
        learned = sessions.unlearn(method, state.learned, places, augmented(features, state.with_bias))
        other = copy.copy(self)
        other._adopt([*self._history[:-1], replace(state, learned=_laid_out(learned))])
        return other

    # Inside

    def _start(
        self,
        method: Learner,
        names: tuple[Any, ...],
        base: Base,
        embeddings: Embeddings | None,
        began: float,
        **known: Any,
    ) -> None:
        """Take a base session as the model's first state; known: fields of `ModelState`."""
        vectors = self._embeddings(method, embeddings, names, None)
        base = replace(base, embeddings=vectors, origin=base.center)
        record = make_record("base", names, int(known["counts"].sum()), 0, began, method)
        none = (base.means if base.rows is None else base.rows)[:0]
        more = {"novel_means": none, "embeddings": vectors, "record": record}
        state = ModelState(classes=names, learned=State(base, {}), **more, **known)
        if base.examples is None:
            state.check_needs(method)
        self.n_features_in_ = state.width
        self._adopt([replace(state, learned=_laid_out(sessions.start(method, base)))])

    def _begin(self, X: Features, y: Labels, *, new: bool) -> tuple[ModelState, Learner, tuple[Any, ...], Session]:
        """What a session begins with, in the unit it learns in; its classes, new ones or known ones, checked."""
        state, method = self._now()
        if method.depends_on_scale:
            state = state.in_a_unit()
        features, labels = examples_of(X, y, self.n_features_in_, state.classes[0])
        if state.scale is not None:
            features = features.astype(np.float64) / state.scale
        names = tuple(np.unique(labels).tolist())
        for name in names:
            if new and name in state.classes:
                learned = ("base", "add_classes", "rename_class")
                born = max(i for i, s in enumerate(self.sessions_) if s.kind in learned and name in s.classes)
                raise ValueError(
                    f"class {show(name)} was already learned in session {born}; add_classes takes new classes only "
                    "(add_examples takes more of a known one)"
                )
            if not new and name not in state.classes:
                raise ValueError(
                    f"class {show(name)} is not known; add_examples takes known classes only (add_classes)"
                )
        classes = state.classes + names if new else state.classes
        place = {name: classes.index(name) for name in names}
        targets = np.array([place[label] for label in labels.tolist()])
        support = augmented(copy_of(features, self.dtype), state.with_bias)
        return state, method, names, sessions.session_of(support, targets, sorted(place.values()))

    def _learn(self, state: ModelState, method: Learner, session: Session) -> State:
        """What the learner knows after a session, for which it is given the memory and a seed."""
        of_base = state.memory_labels < state.base_count
        base, novel = (
            Memory(state.memory_features[m], state.memory_labels[m]) if m.any() else None for m in (of_base, ~of_base)
        )
        seeds = (sessions.seed_of(self.seed, len(self._history)),)
        session = replace(session, base_memory=base, novel_memory=novel, seeds=seeds)
        own = state.learned
        if not type(method).__module__.startswith("subspan."):  # what writes into its input hurts no state but its own
            own = own.mapped(np.copy)
        learned = sessions.learn(method, own, session)
        places, per_class = list(session.classes), getattr(method, "per_class", ())
        new = (array[places] if name in per_class else array for name, array in learned.arrays.items())
        if not all(np.isfinite(array).all() for array in new):  # what diverges takes these with it
            raise ValueError(
                f"method '{spec_of(method)}' diverged on this session; lower its learning_rate or use solver=optimum; "
                "the model is unchanged"
            )
        return _laid_out(learned)

    def _embeddings(
        self, method: Learner, given: Embeddings | None, names: tuple[Any, ...], known: FloatArray | None
    ) -> FloatArray | None:
        needed_by = method.name if "embeddings" in method.needs else None
        return embeddings_of(given, names, known, needed_by, self.dtype)


def _laid_out(state: State) -> State:
    """The state as it will lie in memory once it was saved and loaded: sums go the same way."""
    return state.mapped(lambda array: np.require(array, requirements="C"))
