"""The contract: what everything that learns sessions is given, what it keeps, and what it answers.

Arrays are what a learner works with, NumPy arrays or tensors, as its `Learner.arrays` says; nothing here imports
either. All arrays of a state may carry leading batch dimensions (draws, episodes), written ``(*batch, ...)``; what a
batch shares has none.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeVar

Array = Any  # a NumPy array or a tensor
Made = TypeVar("Made")


@dataclass(frozen=True)
class _Remembering:
    """A record with room for what is derived from it."""

    derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, key: Any, make: Callable[[], Made]) -> Made:
        """What ``make`` derives from this record, made when first asked for; not stored and not passed on."""
        if key not in self.derived:
            self.derived.setdefault(key, make())
        return self.derived[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "derived": {}}


@dataclass(frozen=True)
class Base(_Remembering):
    """What a learner may know of session 0. What it asks for in `Learner.needs` is there; the rest may be None."""

    rows: Array = None  # (C0, d): as learned; None where the learner starts from examples
    means: Array = None  # (C0, d): class means of training features
    embeddings: Array = None  # (C0, e): of class names or descriptions
    origin: Array = None  # (d,): the centre, where classes have been removed since
    covariance: Array = None  # (d, d): of training features within their classes
    examples: Array = None  # (n, d): training features; while `Learner.start` runs, and never kept
    labels: Array = None  # (n,): place of the class of each

    @property
    def class_count(self) -> int:
        return len(self.means if self.rows is None else self.rows)

    @property
    def center(self) -> Array:
        """Mean of the base training features (d,), classes counted alike."""
        if self.origin is not None:
            return self.origin
        return None if self.means is None else self.means.mean(0)

    def mapped(self, change: Callable[[Array], Array]) -> "Base":
        """The same with every array changed."""
        return Base(**_changed(self, [f.name for f in fields(self) if f.init], change))


@dataclass(frozen=True)
class Memory:
    """Stored examples of earlier classes."""

    features: Array  # (*batch, m, d)
    labels: Array  # (*batch, m): place of the class

    def mapped(self, change: Callable[[Array], Array]) -> "Memory":
        return Memory(change(self.features), change(self.labels))


@dataclass(frozen=True)
class Session:
    """What arrives in one incremental session t > 0.

    Its classes are new ones, whose places follow those that are known, or known ones that get more examples: then
    ``share`` says how much of each class the new examples are.
    """

    support: Array  # (*batch, n, d)
    labels: Array  # (*batch, n): place of the class
    classes: tuple[int, ...]  # places of the classes that it is about
    means: Array  # (*batch, K, d): mean feature of each of them, over all its examples
    base_memory: Memory | None = None
    novel_memory: Memory | None = None
    embeddings: Array = None  # (K, e): of these classes, where the learner needs them
    seeds: tuple[int, ...] = (0,)  # one per problem of the batch
    share: Array | None = None  # (K,)

    @property
    def new(self) -> bool:
        """Whether its classes are new."""
        return self.share is None

    @property
    def memories(self) -> list[Memory]:
        return [memory for memory in (self.base_memory, self.novel_memory) if memory is not None]

    def mapped(self, change: Callable[[Array], Array], *, batched: bool = False) -> "Session":
        """The same with every array changed, those of the memories too; or only those with a batch dimension."""
        names = ("support", "labels", "means", *(() if batched else ("embeddings", "share")))
        memories = _changed(self, ("base_memory", "novel_memory"), lambda memory: memory.mapped(change))
        return replace(self, **_changed(self, names, change), **memories)


def _changed(record: object, names: Iterable[str], change: Callable[[Any], Any]) -> dict[str, Any]:
    """These fields of a record, changed where they are not None."""
    values = {name: getattr(record, name) for name in names}
    return {name: None if value is None else change(value) for name, value in values.items()}


@dataclass(frozen=True)
class State(_Remembering):
    """What a learner knows after a session: named arrays, and nothing else. A session makes a new one."""

    base: Base
    arrays: Mapping[str, Array]  # each (*batch, ...)
    steps: Array = 0  # (*batch,): that the session took; 0 without training
    loss: Array | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def get(self, name: str) -> Array | None:
        return self.arrays.get(name)

    @property
    def rows(self) -> Array:
        """One row for each class (*batch, C, w), base classes first."""
        return self.arrays["rows"]

    @property
    def base_count(self) -> int:
        return self.base.class_count

    def after(self, *, steps: Array = 0, loss: Array | None = None, **arrays: Array) -> "State":
        """The state after a session: these arrays take the place of those of their names."""
        return State(self.base, {**self.arrays, **arrays}, steps, loss)

    def mapped(self, change: Callable[[Array], Array]) -> "State":
        """The state with every array changed; what is one array under two names stays one."""
        changed = {id(array): change(array) for array in self.arrays.values()}
        return replace(self, arrays={name: changed[id(array)] for name, array in self.arrays.items()})


class Learner(ABC):
    """Something that learns sessions: a frozen dataclass, whose fields are its options.

    `start`, `learn` and `scores` are all of it. `forget` and `merge` are for those whose mathematics allows them.
    """

    needs: Any = frozenset()  # of session 0: "embeddings", "means", "covariance"; it may be a property
    kind: ClassVar[str] = "method"  # what it is listed under; published ones: "system", "network-system"
    name: ClassVar[str]
    summary: ClassVar[str]
    arrays: ClassVar[Literal["numpy", "torch"]] = (
        "torch"  # what it works with; what is scored may be tensors, for a graph to be exported
    )
    from_examples: ClassVar[bool] = False  # starts from the base examples, where there are any, and not from rows
    from_sums: ClassVar[bool] = False  # keeps sums over examples and no learned rows: a class removed leaves nothing
    moving_targets: ClassVar[bool] = False  # targets follow their rows
    uses_memory: ClassVar[bool] = True  # stored examples change what it learns
    uses_bias: ClassVar[bool] = True  # a bias, where the head has one, is the last weight of each row
    moves_old_rows: ClassVar[bool] = False  # and so needs their references
    depends_on_scale: ClassVar[bool] = False  # on the features' length: the estimator gives it the paper's
    learns_more: ClassVar[bool] = True  # of known classes, from more examples
    scores_apart: ClassVar[bool] = False  # a class's scores come from its own row, which later sessions leave alone
    transductive: ClassVar[bool] = False  # what it answers depends on the other queries asked: tables say so
    renamed_options: ClassVar[Mapping[str, str]] = {}  # old names that are still understood, with the present ones
    calibrated: ClassVar[bool] = False  # its scores are logarithms of probabilities that can be relied on
    only_batches: ClassVar[bool] = False  # its arrays must have a batch dimension; the engine sees to it
    batch_on_cpu: ClassVar[int] = 64  # problems that it solves best at once: what stays in the caches of a core

    @abstractmethod
    def start(self, base: Base) -> State:
        """What it knows after session 0."""

    @abstractmethod
    def learn(self, state: State, session: Session) -> State:
        """Learn one session: its classes, and what becomes of the others."""

    @abstractmethod
    def scores(self, state: State, queries: Array) -> Array:
        """Scores (*batch, q, C) of queries (q, d) or (*batch, q, d); softmax over them gives probabilities."""

    @property
    def evidence(self) -> "Learner":
        """What scores how much each class has in a query's familiarity, from the same states; the sum is over classes.

        The familiarity is the logarithm of the sum of the exponentials of these scores.
        """
        return self

    def learn_together(self, sessions: Sequence[tuple[State, Session]]) -> list[State]:
        """Learn several sessions that have nothing to do with one another, at once where that is faster."""
        return [self.learn(*session) for session in sessions]

    def forget(self, state: State, base: Base, places: Sequence[int]) -> State:
        """Without the classes at these places; ``base`` is what is left of session 0."""
        raise ValueError(f"method '{self.name}' cannot forget classes")

    def combine(self, state: State, base: Base, place: int, other: int) -> State:
        """With the class at ``other`` made part of that at ``place``; ``base`` is what is left of session 0."""
        raise ValueError(f"method '{self.name}' cannot make one class of two")

    def unlearn(self, state: State, places: Array, examples: Array) -> State:
        """Without examples (n, d) that were taught as the classes at these places (n,); of each, others are left."""
        raise ValueError(f"method '{self.name}' cannot unlearn examples")

    def merge(self, state: State, other: State) -> State:
        """What two states of the same classes, taught different examples of them, know together."""
        raise ValueError(f"method '{self.name}' cannot merge what two models know")

    def among(self, state: State, base: Base, places: Array) -> State:
        """A state after session 0 with its classes at these places among those of ``base``, to be merged there."""
        raise ValueError(f"method '{self.name}' cannot learn a base session in parts")

    def targets(self, base: Base, rows: Array, embeddings: Array) -> Array | None:
        """What novel rows (K, d) are pulled towards (K, d), or None."""
        return None
