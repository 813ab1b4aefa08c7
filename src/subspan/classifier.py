"""The estimator: fit base classes, then add classes, predict, undo, save and load.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> centers = {"ash": 0, "elm": 1, "oak": 2}
>>> def photographs(name, count):
...     return np.eye(8)[centers[name]] * 4 + rng.normal(size=(count, 8))
>>> X = np.concatenate([photographs("ash", 40), photographs("elm", 40)])
>>> y = ["ash"] * 40 + ["elm"] * 40
>>> model = IncrementalClassifier(method="finetune").fit(X, y)
>>> model.add_classes(photographs("oak", 5), ["oak"] * 5).classes_.tolist()
['ash', 'elm', 'oak']
>>> model.predict(photographs("oak", 2)).tolist()
['oak', 'oak']
>>> model.undo().classes_.tolist()
['ash', 'elm']
"""

import copy
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from subspan.engine import sessions
from subspan.engine.contract import Base, Learner, Memory, Session, State
from subspan.engine.objective import append_one
from subspan.engine.statistics import class_means, within_classes
from subspan.files import store
from subspan.learners.automatic import AUTO, automatic_method
from subspan.learners.registry import create_method, is_known, method_options, spec_of, split_spec
from subspan.parts import check_declared, check_joins, joined
from subspan.state import FEATURE_LENGTH, ModelState, SessionRecord, StoredState, make_record, records_of
from subspan.values import check_kind, check_options, finite, length, like, plain_label, show, tensor_of, to_numpy

Labels = Sequence[Any] | NDArray[Any] | Tensor
Embeddings = Mapping[Any, ArrayLike] | ArrayLike


def _in_turn(session: Callable[..., Any]) -> Callable[..., Any]:
    """A session waits for one that another thread is teaching the same model; predictions wait for none."""

    @wraps(session)
    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        with vars(self).setdefault("_turn", threading.RLock()):
            return session(self, *args, **kwargs)

    return waiting


class IncrementalClassifier(ClassifierMixin, BaseEstimator):
    """A linear or cosine classifier that learns new classes from a handful of examples.

    Threads may share one: sessions wait for one another, and predictions answer from the last that is done. The unit of
    the features changes no answer: what trains sees them at one length, which the base session sets.

    Parameters
    ----------
    method : name of a method (``list_methods()``), with options as on the command line (``"semantic:tau=2"``), or a
        method itself. ``"auto"`` is decided with the base session, for good: ``"calibrated"`` where it has class means
        and a covariance, as after `fit`; ``"prototype"`` where it has means only; else, and where there are fewer
        than 16 features, ``"subspace"``.
    gamma : strength of the pull on new rows; None takes the method's own.
    beta : strength that holds old rows, one number or (base, novel); None takes the method's own.
    memory : examples kept of every class and replayed in later sessions by methods that train; 0 keeps none.
    bias : whether `fit` learns a bias per class.
    base_decay : weight decay of the base session's logistic regression, on features of root mean square length 11.5.
    dtype : arithmetic of the sessions, ``"float32"`` or ``"float64"``.
    seed : of the start of new rows and of the choice of memory.

    Attributes
    ----------
    classes_ : labels in the order of their rows. A class keeps its place; sessions append theirs in sorted order.
    coef_ : rows (C, d), as the method has them; ``rows_`` where it keeps more or less of a class.
    intercept_ : biases (C,), zeros where there are none.
    method_ : the method in use, with its options: what ``"auto"`` stands for.
    sessions_ : one record per session: kind, classes, examples, steps, seconds, date, method.
    n_features_in_ : width of the features.
    is_base_ : which classes are of the base session (C,). examples_seen_ : examples learned from, by class (C,).

    References
    ----------
    Akyürek, Akyürek, Wijaya, Andreas. Subspace Regularizers for Few-Shot Class Incremental Learning. ICLR 2022.
    """

    classes_: NDArray[Any]
    _history: list[ModelState | StoredState]  # never changed: a session makes another list

    def __init__(
        self,
        *,
        method: str | Learner = AUTO,
        gamma: float | None = None,
        beta: float | tuple[float, float] | None = None,
        memory: int = 0,
        bias: bool = True,
        base_decay: float = 5e-4,
        dtype: Literal["float32", "float64"] = "float32",
        seed: int = 0,
    ) -> None:
        self.method = method
        self.gamma = gamma
        self.beta = beta
        self.memory = memory
        self.bias = bias
        self.base_decay = base_decay
        self.dtype = dtype
        self.seed = seed

    # Session 0

    @_in_turn
    def fit(self, X: ArrayLike | Tensor, y: Labels, embeddings: Embeddings | None = None, groups: Any = None) -> Self:
        """Learn the base classes by multinomial logistic regression.

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
        known = self.__sklearn_is_fitted__()
        method = self._now()[1] if known else self._method(automatic_method({"means", "covariance"}, 1))
        try:
            check_joins(method, self.memory)
        except ValueError as error:
            raise AttributeError(str(error)) from None
        return self._partial_fit

    @_in_turn
    def _partial_fit(self, X: ArrayLike | Tensor, y: Labels, classes: Sequence[Any] | None = None) -> Self:
        part = copy.copy(self)
        part._fit(X, y, None, None, parts=True)
        if classes is not None:
            check_declared(part.classes_, classes)
        return self._join(part)

    @_in_turn
    def merge(self, other: Self) -> Self:
        """Take up what another model learned from other examples in its base session, as if both had been one."""
        return self._join(other)

    def _join(self, part: Self) -> Self:
        if not self.__sklearn_is_fitted__():
            self.__dict__ = {**vars(part), "_turn": vars(self)["_turn"]}
            return self
        (state, method), (more, own) = self._now(), part._now()
        if spec_of(method) != spec_of(own):
            raise ValueError(f"parts of one model have one method; got '{spec_of(method)}' and '{spec_of(own)}'")
        check_joins(method, self.memory)
        self._adopt([*self._history[:-1], joined(method, state, more)])
        return self

    def _fit(
        self, X: ArrayLike | Tensor, y: Labels, embeddings: Embeddings | None, groups: Any, parts: bool = False
    ) -> None:
        began = time.perf_counter()
        features, labels = map(
            np.asarray, validate_data(self, to_numpy(X), to_numpy(y), dtype=[np.float64, np.float32])
        )
        width = features.shape[1]
        method = self._method(automatic_method({"means", "covariance"}, width))
        check_classification_targets(labels)
        classes, indices = np.unique(labels, return_inverse=True)
        if len(classes) < 2 and not parts:
            raise ValueError(f"a base session needs at least two classes; y holds 1 class, {show(classes[0])}")
        if method.from_sums:
            self._fit_from_sums(method, features, indices, classes, embeddings, groups, began)
            return
        scale: float | None = length(features) / FEATURE_LENGTH or 1.0
        in_unit = np.empty_like(features, self.dtype)  # rounded once, so that a scale changes as few bits as it can
        np.divide(features, scale, out=in_unit, dtype=np.float64, casting="same_kind")
        weights, bias = self._regression(in_unit, indices)
        if method.depends_on_scale:
            features = in_unit
        else:
            weights, scale = weights / scale, None
        with_bias = self.bias and method.uses_bias
        rows = self._tensor(weights if not with_bias else np.column_stack([weights, bias]))
        support, targets = self._augment(self._tensor(features), with_bias), torch.as_tensor(indices)
        means = class_means(support, targets, tuple(range(len(classes))))
        covariance = within_classes(support, means, targets)[:width, :width] if "covariance" in method.needs else None
        kept, kept_labels = self._choose_memory(support, targets, groups, session=0)
        examples = {"examples": support, "labels": targets} if method.from_examples else {}
        counts, base = torch.as_tensor(np.bincount(indices)), Base(rows, means, covariance=covariance, **examples)
        known = {"counts": counts, "memory_features": kept, "memory_labels": kept_labels, "scale": scale}
        self._start(method, tuple(classes.tolist()), base, embeddings, began, with_bias=with_bias, **known)

    def _fit_from_sums(
        self,
        method: Learner,
        features: NDArray[Any],
        indices: NDArray[Any],
        classes: NDArray[Any],
        embeddings: Embeddings | None,
        groups: Any,
        began: float,
    ) -> None:
        """The base session of a learner that keeps sums over examples; no rows are learned before."""
        support, targets = self._tensor(features), torch.as_tensor(indices)
        means = class_means(support, targets, tuple(range(len(classes))))
        kept, kept_labels = self._choose_memory(support, targets, groups, session=0)
        base, counts = Base(means, means, examples=support, labels=targets), torch.as_tensor(np.bincount(indices))
        known = {"counts": counts, "memory_features": kept, "memory_labels": kept_labels}
        self._start(method, tuple(classes.tolist()), base, embeddings, began, with_bias=False, **known)

    def _regression(self, features: NDArray[Any], indices: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows (C0, d) and biases (C0,) of the base classes, by logistic regression."""
        # Of two classes scikit-learn learns one row w; the two rows are -w/2 and w/2, of half its squared norm.
        two = indices.max() == 1
        inverse_decay = (2 if two else 1) / (self.base_decay * len(features))
        regression = LogisticRegression(C=inverse_decay, fit_intercept=self.bias, max_iter=1000).fit(features, indices)
        weights, bias = np.asarray(regression.coef_), np.asarray(regression.intercept_)
        if two:
            return np.concatenate([-weights, weights]) / 2, np.array([-1, 1]) * bias / 2
        return weights, bias

    @classmethod
    def from_weights(
        cls,
        weights: ArrayLike | Tensor,
        class_names: Sequence[Any],
        bias: ArrayLike | Tensor | None = None,
        *,
        means: ArrayLike | Tensor | None = None,
        covariance: ArrayLike | Tensor | None = None,
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
        rows = model._tensor(finite(to_numpy(weights), "weights"))
        names = tuple(plain_label(name) for name in class_names)
        if rows.ndim != 2 or len(rows) != len(names):
            raise ValueError(
                f"weights must be (classes, d) for {len(names)} class names; got shape {tuple(rows.shape)}"
            )
        count, width = rows.shape
        given = [name for name, part in {"means": means, "covariance": covariance}.items() if part is not None]
        method = model._method(automatic_method(given, width))
        if count < 2:
            raise ValueError(f"a base session needs at least two classes; got {count}")
        for name in names:
            check_kind(name, names[0])
        if len(set(names)) < count:
            raise ValueError("class names must differ; " + show(Counter(names).most_common(1)[0][0]) + " repeats")
        column = model._of_shape(bias, "bias", (count,), f"one number for each of {count} classes")
        with_bias = column is not None and method.uses_bias
        base_means = model._of_shape(means, "means", (count, width), f"the weights' shape {(count, width)}")
        if base_means is not None:
            base_means = model._augment(base_means, with_bias)
        spread = model._of_shape(covariance, "covariance", (width, width), f"the shape {(width, width)}")
        if column is not None and with_bias:
            rows = torch.cat([rows, column[:, None]], dim=1)
        base, unknown = Base(rows, base_means, covariance=spread), torch.zeros(count, dtype=torch.int64)
        known = {"counts": unknown, "memory_features": rows[:0], "memory_labels": unknown[:0]}
        model._start(method, names, base, embeddings, began, with_bias=with_bias, **known)
        return model

    # Later sessions

    @_in_turn
    def add_classes(
        self, X: ArrayLike | Tensor, y: Labels, embeddings: Embeddings | None = None, groups: Any = None
    ) -> Self:
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
        learned = self._learn(state, method, replace(session, embeddings=vectors))
        kept, kept_labels = self._choose_memory(session.support, session.labels, groups, session=len(self._history))
        known = state.embeddings
        self._push(
            replace(
                state,
                classes=state.classes + names,
                learned=learned,
                novel_means=torch.cat([state.novel_means, session.means]),
                counts=torch.cat([state.counts, torch.bincount(session.labels - len(state.classes))]),
                memory_features=torch.cat([state.memory_features, kept]),
                memory_labels=torch.cat([state.memory_labels, kept_labels]),
                embeddings=None if known is None or vectors is None else torch.cat([known, vectors]),
                record=make_record("add_classes", names, len(session.labels), int(learned.steps), began, method),
            )
        )
        return self

    @_in_turn
    def add_examples(self, X: ArrayLike | Tensor, y: Labels) -> Self:
        """Learn more about classes that the model knows: their rows move, the others are held as in any session.

        A class of an incremental session is learned on from where its row stands; a base class stays among the base
        rows, held by R_old, and only its examples move it.
        """
        began = time.perf_counter()
        state, method, names, session = self._begin(X, y, new=False)
        if not method.learns_more:
            raise ValueError(f"method '{spec_of(method)}' learns new classes only; it takes no more of known ones")
        chosen = torch.tensor(session.classes)
        added = torch.bincount(session.labels, minlength=len(state.classes))
        counts = state.counts + added
        share = added[chosen].double() / torch.where(state.counts[chosen] > 0, counts[chosen], 2 * added[chosen])
        means = state.means_of(chosen)
        moved = means + share[:, None].to(means) * (session.means - means)
        means = torch.where(means.isnan(), session.means, moved)
        vectors = None if state.embeddings is None else state.embeddings[chosen]
        learned = self._learn(state, method, replace(session, means=means, embeddings=vectors, share=share.to(means)))
        novel, novel_means = chosen >= state.base_count, state.novel_means.clone()
        novel_means[chosen[novel] - state.base_count] = means[novel]
        record = make_record("add_examples", names, len(session.labels), int(learned.steps), began, method)
        self._push(replace(state, learned=learned, novel_means=novel_means, counts=counts, record=record))
        return self

    @_in_turn
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

    @_in_turn
    def remove_class(self, label: Any) -> Self:
        """Forget a class; the others keep their order."""
        began = time.perf_counter()
        state, method = self._now()
        index = self._index(state, label)
        is_base = index < state.base_count
        if is_base and state.base_count <= 2:
            raise ValueError(f"class {show(label)} cannot be removed: a model needs at least two base classes")
        keep = torch.arange(len(state.classes)) != index
        of_base, of_novel = keep[: state.base_count], keep[state.base_count :]
        parts = ("rows", "means", "embeddings")
        base = replace(
            state.base,
            **{name: None if (part := getattr(state.base, name)) is None else part[of_base] for name in parts},
        )
        remembered = state.memory_labels != index
        labels = state.memory_labels[remembered]
        self._push(
            replace(
                state,
                classes=(*state.classes[:index], *state.classes[index + 1 :]),
                learned=sessions.forget(method, state.learned, base, [index]),
                novel_means=state.novel_means[of_novel],
                counts=state.counts[keep],
                memory_features=state.memory_features[remembered],
                memory_labels=labels - (labels > index).to(labels),
                embeddings=None if state.embeddings is None else state.embeddings[keep],
                record=make_record("remove_class", (label,), 0, 0, began),
            )
        )
        return self

    @_in_turn
    def undo(self) -> Self:
        """Take the last session back."""
        check_is_fitted(self)
        if len(self._history) == 1:
            raise ValueError("there is no session to undo; only the base session is left")
        self._adopt(self._history[:-1])
        return self

    # Predictions

    def decision_function(self, X: ArrayLike | Tensor) -> Any:
        """Scores (n, C); for two classes, as scikit-learn has it, the second's lead (n,)."""
        scores, _ = self._scores(X)
        return like(X, (scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores).numpy())

    def class_scores(self, X: ArrayLike | Tensor) -> Any:
        """Scores (n, C), one column per class also where there are two."""
        return like(X, self._scores(X)[0].numpy())

    def predict_proba(self, X: ArrayLike | Tensor) -> Any:
        """Probabilities (n, C), columns in the order of ``classes_``."""
        return like(X, torch.softmax(self._scores(X)[0], dim=1).numpy())

    def predict(self, X: ArrayLike | Tensor) -> Any:
        """Labels (n,): a tensor for tensors where labels are numbers, else an array."""
        scores, classes = self._scores(X)
        labels = classes[scores.argmax(1).numpy()]
        return (
            torch.as_tensor(labels, device=X.device)
            if isinstance(X, Tensor) and labels.dtype.kind in "biuf"
            else labels
        )

    # Saving

    def save(self, path: str | Path) -> Path:
        """Write the model, all its sessions included, to the directory ``path``; atomic and without pickle."""
        check_is_fitted(self)
        model = copy.copy(self)  # as it is now: another thread may teach it meanwhile
        versions: list[store.Version | str] = []
        for session, entry in enumerate(model._history):
            if isinstance(entry, StoredState) and entry.id is None:
                continue  # pruned, as are all before it
            if isinstance(entry, StoredState) and Path(entry.path).resolve() == Path(path).resolve():
                versions.append(str(entry.id))
            else:
                versions.append(model._resolve(entry).to_version(model.sessions_[: session + 1], model._parameters()))
        last = versions[-1]
        store.write(path, versions, last if isinstance(last, str) else last.id)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Self:
        """Read a model that `save` wrote; earlier sessions stay on disk until `undo` needs them.

        A method from outside of Subspan is imported only if you have imported it already, or ``trust`` the model.
        """
        pointer = store.read(path)
        chain = pointer.chain[: pointer.chain.index(pointer.current) + 1]
        return cls.from_version(store.load_version(path, pointer.current), path, chain, trust=trust)

    def to_version(
        self, arrays: Mapping[str, NDArray[Any]] | None = None, meta: Mapping[str, Any] | None = None
    ) -> store.Version:
        """The present state as a version of a store.

        Arrays and meta of the caller's own travel with it, for :func:`subspan.state.extras_of` to give back.
        """
        model = copy.copy(self)  # as it is now: another thread may teach it meanwhile
        return model._now()[0].to_version(model.sessions_, model._parameters(), arrays, meta)

    @classmethod
    def from_version(
        cls, version: store.Version, path: str | Path, chain: Sequence[str], *, trust: bool = False
    ) -> Self:
        """The model of a version of the store at ``path``; ``chain`` ends with its id, oldest first."""
        try:
            parameters = dict(version.meta["parameters"])
            if isinstance(parameters["beta"], list):
                parameters["beta"] = tuple(parameters["beta"])
            model = cls(**parameters)
            model.n_features_in_ = int(version.meta["n_features_in"])
            records = records_of(version)
            methods = {str(parameters["method"]), *(record.method for record in records if record.method)} - {AUTO}
            foreign = sorted(spec for spec in methods if not is_known(spec))
            if foreign and not trust:
                raise store.StoreError(
                    f"'{path}' would have method '{foreign[0]}' imported, which runs code; where you trust whoever "
                    "made it, say trust=True (--trust), or import its module first"
                )
            pruned = len(records) - len(chain)  # sessions whose versions the store no longer holds
            ids = [*([None] * pruned), *chain[:-1]]
            place = str(Path(path).resolve())
            earlier = [StoredState(place, id, record) for id, record in zip(ids, records[:-1], strict=True)]
            model._adopt([*earlier, ModelState.from_version(version)])
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise store.StoreError(f"'{path}' is a Subspan store but holds no classifier: {reason}") from error
        return model

    # Inside

    def _check_parameters(self) -> None:
        check_options(self, positive=("base_decay",))
        for name in ("memory", "seed"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 0:
                raise ValueError(f"{name} must be a whole number, 0 or more; got {value!r}")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64; got {self.dtype!r}")
        if not isinstance(self.method, str | Learner):
            raise ValueError(f"method must be 'auto', a name or a method; got {self.method!r}")

    def _method(self, auto: str) -> Learner:
        """The method with gamma and beta, parameters checked; "auto" stands for ``auto``."""
        self._check_parameters()
        spec = spec_of(self.method) if isinstance(self.method, Learner) else self.method
        if spec.startswith(f"{AUTO}:"):
            raise ValueError(f"method 'auto' takes no options; name the method they belong to; got {spec!r}")
        options: dict[str, Any] = {}
        if self.gamma is not None:
            options["gamma"] = self.gamma
        if self.beta is not None:
            base, novel = self.beta if isinstance(self.beta, tuple | list) else (self.beta, self.beta)
            options |= {"beta_base": base, "beta_novel": novel}
        if spec == AUTO:
            spec = auto
            if not options.keys() <= method_options(name := split_spec(spec)[0]).keys():
                raise ValueError(
                    f"gamma and beta are options of methods that train; 'auto' is '{name}' here, which does not: name "
                    "one, as in method='subspace'"
                )
        return create_method(spec, **options)

    def _parameters(self) -> dict[str, Any]:
        """The estimator's parameters as plain values."""
        parameters = {name: plain_label(value) for name, value in self.get_params(deep=False).items()}
        if isinstance(self.method, Learner):
            parameters["method"] = spec_of(self.method)
        return parameters

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
        more = {"novel_means": base.rows[:0], "embeddings": vectors, "record": record}
        without_examples = replace(base, examples=None, labels=None)
        state = ModelState(classes=names, learned=State(without_examples, {}), **more, **known)
        if base.examples is None:
            state.check_needs(method)
        self.n_features_in_ = state.width
        self._adopt([replace(state, learned=_laid_out(sessions.start(method, base)))])

    def _last(self) -> ModelState:
        check_is_fitted(self)
        return self._resolve(self._history[-1])

    def _now(self) -> tuple[ModelState, Learner]:
        state = self._last()
        made_with = self._history[0].record.method
        method = self._method(made_with or automatic_method(state.given, state.width))
        state.check_needs(method)  # the method may be another one than at the base session
        last = next((entry.record.method for entry in reversed(self._history) if entry.record.method), None)
        if last is not None and type(create_method(last)) is not type(method):
            state = state.taken_over(method)
        return state, method

    def _resolve(self, entry: ModelState | StoredState) -> ModelState:
        if isinstance(entry, ModelState):
            return entry
        if entry.id is None:
            raise store.StoreError(f"this session was pruned from '{entry.path}': there is nothing to go back to")
        return ModelState.from_version(store.load_version(entry.path, entry.id))

    def _push(self, state: ModelState) -> None:
        self._adopt([*self._history, state])

    def _adopt(self, history: list[ModelState | StoredState]) -> None:
        """Take a history as the model's, all at once; its last state is what the model says from now on."""
        state = self._resolve(history[-1])
        vars(self).update(_history=[*history[:-1], state], classes_=np.array(state.classes))

    @property
    def rows_(self) -> NDArray[Any]:
        """What the method keeps of every class, biases not counted: weights (C, d), or as many numbers as it likes."""
        state = self._last()
        rows = state.learned.rows[:, :-1] if state.with_bias else state.learned.rows
        return (rows if state.scale is None else rows / state.scale).numpy()

    @property
    def coef_(self) -> NDArray[Any]:
        """Rows (C, d), as the method has them."""
        rows = self.rows_
        if rows.shape[1] != self.n_features_in_:
            raise AttributeError(f"method '{self.method_}' has no row of one weight for each feature")
        return rows

    @property
    def intercept_(self) -> NDArray[Any]:
        """Biases (C,), zeros where there are none."""
        state = self._last()
        biases = state.learned.rows[:, -1] if state.with_bias else torch.zeros(len(state.classes))
        return biases.to(state.base.rows).numpy()

    @property
    def method_(self) -> str:
        """The method in use, with its options."""
        return spec_of(self._now()[1])

    @property
    def is_base_(self) -> NDArray[np.bool_]:
        """Which classes are of the base session (C,)."""
        state, _ = self._now()
        return np.arange(len(state.classes)) < state.base_count

    @property
    def examples_seen_(self) -> NDArray[np.int64]:
        """How many examples every class was learned from (C,); 0 where that is unknown."""
        return self._now()[0].counts.numpy()

    @property
    def sessions_(self) -> tuple[SessionRecord, ...]:
        check_is_fitted(self, "_history")
        return tuple(entry.record for entry in self._history)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in dict(state).items() if name != "_turn"}  # a copy waits for nobody

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_history")

    def _learn(self, state: ModelState, method: Learner, session: Session) -> State:
        """What the learner knows after a session, for which it is given the memory and a seed."""
        of_base = state.memory_labels < state.base_count
        base, novel = (
            Memory(state.memory_features[m], state.memory_labels[m]) if bool(m.any()) else None
            for m in (of_base, ~of_base)
        )
        seeds = (sessions.seed_of(self.seed, len(self._history)),)
        session = replace(session, base_memory=base, novel_memory=novel, seeds=seeds)
        own = state.learned
        if not type(method).__module__.startswith("subspan."):  # what writes into its input hurts no state but its own
            own = own.mapped(torch.clone)
        learned = sessions.learn(method, own, session)
        places, per_class = list(session.classes), getattr(method, "per_class", ())
        new = (array[places] if name in per_class else array for name, array in learned.arrays.items())
        if not all(bool(torch.isfinite(array).all()) for array in new):  # what diverges takes these with it
            raise ValueError(
                f"method '{spec_of(method)}' diverged on this session; lower its learning_rate or use solver=optimum; "
                "the model is unchanged"
            )
        return _laid_out(learned)

    def scorer(self) -> Callable[[Tensor], Tensor]:
        """The scores (n, C) as a function of features (n, d), nothing checked: for exporting the model."""
        state, method = self._now()
        score = sessions.exported(method, state.learned, torch.float32)

        def scores(features: Tensor) -> Tensor:
            scaled = features if state.scale is None else features / state.scale
            return score(self._augment(scaled, state.with_bias))

        return scores

    def _scores(self, X: ArrayLike | Tensor) -> tuple[Tensor, NDArray[Any]]:
        """Scores (n, C), and the labels (C,) of their columns: another thread may teach meanwhile."""
        model = copy.copy(self)
        state, method = model._now()
        checked = validate_data(model, to_numpy(X), reset=False, dtype=[np.float64, np.float32])
        features = tensor_of(checked) if state.scale is None else tensor_of(checked) / state.scale
        own = state.learned  # what works in NumPy has a precision of its own
        if method.arrays == "torch":
            own = sessions.state_in("torch", own, features.dtype)
        return sessions.scores(method, own, self._augment(features, state.with_bias)), model.classes_

    def _begin(
        self, X: ArrayLike | Tensor, y: Labels, *, new: bool
    ) -> tuple[ModelState, Learner, tuple[Any, ...], Session]:
        """What a session begins with, in the unit it learns in; its classes, new ones or known ones, checked."""
        state, method = self._now()
        if method.depends_on_scale:
            state = state.in_a_unit()
        features, labels = np.asarray(to_numpy(X)), np.asarray(to_numpy(y))
        if features.shape[:1] == (0,):
            raise ValueError("a session needs at least one example; got none")
        if features.ndim != 2 or features.shape[1] != self.n_features_in_:
            raise ValueError(
                f"features must be (n, {self.n_features_in_}), as in the base session; got {features.shape}"
            )
        if labels.shape != (len(features),):
            raise ValueError(f"y must hold one label for each of {len(features)} examples; got shape {labels.shape}")
        if labels.dtype.kind == "O":
            labels = np.array(labels.tolist())
        check_kind(labels[0], state.classes[0])
        features = finite(features, "X")
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
        targets = torch.tensor([place[label] for label in labels.tolist()])
        support = self._augment(self._tensor(features), state.with_bias)
        return state, method, names, sessions.session_of(support, targets, sorted(place.values()))

    def _embeddings(
        self, method: Learner, given: Embeddings | None, names: tuple[Any, ...], known: Tensor | None
    ) -> Tensor | None:
        """Vectors (K, e) of these classes, checked against those the model has."""
        if given is None:
            if "embeddings" in method.needs:
                raise ValueError(
                    f"method '{method.name}' needs embeddings of the classes; pass embeddings={{label: vector}}"
                )
            if known is None:
                return None
            raise ValueError("the model has embeddings of its classes; pass embeddings of the new ones too")
        if isinstance(given, Mapping):
            missing = [name for name in names if name not in given]
            if missing:
                raise ValueError(f"embeddings lack class {show(missing[0])}")
            single = [np.asarray(to_numpy(given[name]), np.float64) for name in names]
            widths = sorted({vector.size for vector in single})
            if len(widths) > 1:
                raise ValueError(f"embeddings must have one width; got {' and '.join(map(str, widths))}")
            vectors = np.stack(single)
        else:
            vectors = np.asarray(to_numpy(given), np.float64)
        if vectors.ndim != 2 or len(vectors) != len(names):
            raise ValueError(f"embeddings must be ({len(names)}, e), one for each class; got shape {vectors.shape}")
        if known is not None and vectors.shape[1] != known.shape[1]:
            raise ValueError(f"embeddings must have the base classes' width {known.shape[1]}; got {vectors.shape[1]}")
        return self._tensor(finite(vectors, "embeddings"))

    def _choose_memory(self, features: Tensor, labels: Tensor, groups: Any, session: int) -> tuple[Tensor, Tensor]:
        """``memory`` images of every class, with all their copies, drawn once."""
        images = np.arange(len(labels)) if groups is None else np.unique(to_numpy(groups), return_inverse=True)[1]
        if len(images) != len(labels):
            raise ValueError(f"groups must hold one entry for each of {len(labels)} examples; got {len(images)}")
        if self.memory == 0:
            return features[:0], labels[:0]
        rng = np.random.default_rng([self.seed, session])
        kept = []
        for label in np.unique(labels.numpy()):
            places = np.flatnonzero(labels.numpy() == label)
            owned = np.unique(images[places])
            chosen = rng.permutation(owned)[: self.memory]
            kept.append(places[np.isin(images[places], chosen)])
        index = torch.as_tensor(np.concatenate(kept))
        return features[index], labels[index]

    def _index(self, state: ModelState, label: Any) -> int:
        if label not in state.classes:
            raise ValueError(f"class {show(label)} is not known")
        return state.classes.index(label)

    def _of_shape(
        self, given: ArrayLike | Tensor | None, name: str, shape: tuple[int, ...], rule: str
    ) -> Tensor | None:
        """An array that a user may give, of this shape."""
        if given is None:
            return None
        array = self._tensor(finite(to_numpy(given), name))
        if array.shape != shape:
            raise ValueError(f"{name} must have {rule}; got {tuple(array.shape)}")
        return array

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        # A copy: what the caller does to his array later is none of the model's business.
        return tensor_of(array).to(getattr(torch, self.dtype))

    def _augment(self, features: Tensor, with_bias: bool) -> Tensor:
        return append_one(features) if with_bias else features


def _laid_out(state: State) -> State:
    """The state as it will lie in memory once it was saved and loaded: sums go the same way."""
    return state.mapped(torch.Tensor.contiguous)
