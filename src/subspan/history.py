"""A model between sessions: its parameters and states, what these answer, and how they are stored."""

import copy
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import append_one
from subspan.engine import sessions
from subspan.engine.contract import Learner
from subspan.files import store
from subspan.learners.parts.vectors import log_sum
from subspan.learners.registry import AUTO, create_method, is_known, method_options, spec_of, split_spec
from subspan.state import ModelState, SessionRecord, StoredState, check_meta, records_of
from subspan.values import Features, check_options, finite, like, plain_copy, plain_label, queries_of, show

PARAMETERS = ("method", "gamma", "beta", "memory", "bias", "base_decay", "dtype", "seed")


def in_turn(session: Callable[..., Any]) -> Callable[..., Any]:
    """A session waits for one that another thread is teaching the same model; predictions wait for none."""

    @wraps(session)
    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        with vars(self).setdefault("_turn", threading.RLock()):
            return session(self, *args, **kwargs)

    return waiting


def augmented(features: Any, with_bias: bool) -> Any:
    """Features with the constant that biases are the weights of, where there are biases."""
    return append_one(features) if with_bias else features


class History:
    """The parameters of a model and its states, each made by one session."""

    classes_: NDArray[Any]
    n_features_in_: int
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

    @in_turn
    def undo(self) -> Self:
        """Take the last session back."""
        self._check_taught()
        if len(self._history) == 1:
            raise ValueError("there is no session to undo; only the base session is left")
        self._adopt(self._history[:-1])
        return self

    # Answers

    def class_scores(self, X: Features) -> Any:
        """Scores (n, C), one column per class also where there are two."""
        return like(X, self._scores(X)[0])

    def familiarity(self, X: Features) -> Any:
        """How much each example looks like any class that is known (n,): the less, the more it is a stranger."""
        return like(X, log_sum(self._scores(X, evidence=True)[0]))

    def _scores(self, X: Features, evidence: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
        """Scores (n, C), and the labels (C,) of their columns: another thread may teach meanwhile."""
        model = copy.copy(self)
        state, method = model._now()
        features = plain_copy(model._queries(X))
        features = features if state.scale is None else features / state.scale
        method = method.evidence if evidence else method
        with np.errstate(over="ignore", invalid="ignore"):
            scores = sessions.scores(method, state.learned, augmented(features, state.with_bias))
        if scores.size and not np.isfinite(scores.max(axis=1)).all():
            raise ValueError(
                f"method '{spec_of(method)}' has no finite score for features of up to {np.abs(features).max():.2g}; "
                "divide all of them by one number, those it learns from too"
            )
        return scores, model.classes_

    def _queries(self, X: Features) -> NDArray[Any]:
        """Features (n, d) to score, checked."""
        features = finite(queries_of(X, self.n_features_in_), "X")
        return features if features.dtype in (np.float32, np.float64) else features.astype(np.float64)

    def exported(self, dtype: Any, *, evidence: bool = False) -> Callable[[Any], Any]:
        """The scores (n, C) as a function of tensors (n, d) of a type, nothing checked: for a graph.

        With ``evidence`` those whose sum of exponentials makes the familiarity.
        """
        state, method = self._now()
        score = sessions.exported(method.evidence if evidence else method, state.learned, dtype)
        scale = 1.0 if state.scale is None else state.scale
        return lambda features: score(augmented(features / scale, state.with_bias))

    # What the states tell; the estimator's docstring explains it

    @property
    def rows_(self) -> NDArray[Any]:
        """What the method keeps of every class, biases not counted: weights (C, d), or as many numbers as it likes.

        Of a method that keeps no rows, the class means.
        """
        state = self._last()
        rows = state.learned.get("rows")
        if rows is None:
            return state.means_of(np.arange(len(state.classes)))
        rows = rows[:, :-1] if state.with_bias else rows
        return rows if state.scale is None else rows / state.scale

    @property
    def coef_(self) -> NDArray[Any]:
        rows = self.rows_
        if rows.shape[1] != self.n_features_in_:
            raise AttributeError(f"method '{self.method_}' has no row of one weight for each feature")
        return rows

    @property
    def intercept_(self) -> NDArray[Any]:
        state = self._last()
        return state.learned.rows[:, -1] if state.with_bias else np.zeros(len(state.classes), self.dtype)

    @property
    def method_(self) -> str:
        return spec_of(self._now()[1])

    @property
    def is_base_(self) -> NDArray[np.bool_]:
        state = self._last()
        return np.arange(len(state.classes)) < state.base_count

    @property
    def examples_seen_(self) -> NDArray[np.int64]:
        return self._last().counts

    @property
    def sessions_(self) -> tuple[SessionRecord, ...]:
        self._check_taught()
        return tuple(entry.record for entry in self._history)

    # Saving

    def save(self, path: str | Path) -> Path:
        """Write the model, all its sessions included, to the directory ``path``; atomic and without pickle."""
        self._check_taught()
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
            check_meta(version.meta)
            parameters = dict(version.meta["parameters"])
            if isinstance(parameters["beta"], list):
                parameters["beta"] = tuple(parameters["beta"])
            model = cls(**parameters)
            model._check_parameters()
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
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise store.StoreError(f"'{path}' is a Subspan store but holds no classifier: {reason}") from error
        return model

    # Inside

    def _check_taught(self) -> None:
        if not hasattr(self, "_history"):
            raise ValueError("this model has learned nothing yet; fit it first, or load one")

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

    def _method(self, auto: Callable[[], str]) -> Learner:
        """The method with gamma and beta, parameters checked; "auto" stands for what ``auto`` finds."""
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
            spec = auto()
            if not options.keys() <= method_options(name := split_spec(spec)[0]).keys():
                raise ValueError(
                    f"gamma and beta are options of methods that train; 'auto' is '{name}' here, which does not: name "
                    "one, as in method='subspace'"
                )
        return create_method(spec, **options)

    @staticmethod
    def _automatic(given: Collection[str], width: int) -> str:
        from subspan.learners.automatic import automatic_method  # here: who only answers knows the method

        return automatic_method(given, width)

    def _parameters(self) -> dict[str, Any]:
        """The parameters as plain values."""
        parameters = {name: plain_label(getattr(self, name)) for name in PARAMETERS}
        if isinstance(self.method, Learner):
            parameters["method"] = spec_of(self.method)
        return parameters

    def _last(self) -> ModelState:
        self._check_taught()
        return self._resolve(self._history[-1])

    def _now(self) -> tuple[ModelState, Learner]:
        state = self._last()
        made_with = self._history[0].record.method
        method = self._method(lambda: made_with or self._automatic(state.given, state.width))
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

    def _index(self, state: ModelState, label: Any) -> int:
        if label not in state.classes:
            raise ValueError(f"class {show(label)} is not known")
        return state.classes.index(label)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_turn"}  # a copy waits for nobody
