"""Systems that move the network: they cannot run on features, so their results are made once, with images, and stored.

Everything happens in one go on the machine that has the images: maps before the tail of the network, what the system
trains on the base classes, and the protocol, which is the one that every other system runs under. It hands positions of
maps to the system where others get features; rows are as usual.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from subspan.backbones.cut import Where
from subspan.engine.contract import Base, Session, State
from subspan.learners.parts.system import System
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.session_training import Parameters
from subspan.train.maps import SplitMaps

TAIL = "tail."  # before the names of the tail's parameters in a state


@dataclass(frozen=True, eq=False)
class Prepared:
    """What all sessions of a split share."""

    maps: SplitMaps
    run: TrainingRun
    rows: Tensor  # (C0, d): of session 0
    state: Parameters  # what the first session begins with beside the rows: arrays of one problem


@dataclass(frozen=True)
class NetworkSystem(System):
    """A system that trains a part of the network itself. Without images it has stored results only."""

    protocol: ClassVar[Literal["multi-session", "single-session"]]
    where: ClassVar[Where]  # the network is cut before its last stage, or its last unit
    training: ClassVar[Training | None] = None  # of what it trains on the base classes, if anything
    _prepared: ClassVar[Any] = None

    @abstractmethod
    def prepare(self, maps: SplitMaps, run: TrainingRun) -> Prepared:
        """Where the system is trained on the base classes, this trains it."""

    def on(self, maps: SplitMaps, run: TrainingRun) -> Self:
        """The same system, ready for the sessions of a split."""
        ready = replace(self)
        object.__setattr__(ready, "_prepared", self.prepare(maps, run))  # no option: the system stays what it is
        return ready

    @property
    def prepared(self) -> Any:
        """What `prepare` made, a `Prepared`; one sentence where there are no images."""
        if self._prepared is None:
            raise ValueError(
                f"system '{self.name}' moves the network, so features are not enough; with images its result is made "
                f"and stored by: subspan train --system {self.name} --run RUN --data IMAGES --out FILE.json"
            )
        return self._prepared

    @property
    def episode_shots(self) -> int | None:
        """Support images of a class in the episodes that it is made for; None: as many as there are."""
        return None

    def notes(self) -> Sequence[str]:
        """Sentences that a reader of its result must know."""
        return ()

    def base_rows(self, base: Base) -> Tensor:
        return self.prepared.rows  # those of the base given are of positions

    def start(self, base: Base) -> State:
        return super().start(base).after(**self.prepared.state)

    def learn_apart(self, state: State, session: Session, steps: int) -> State:
        """Learn the problems of a session one after the other, each by `learn_one`, in as many steps."""
        count, tell = len(state.rows), self.prepared.run.tell
        stage = f"session of classes {session.classes[0]} to {session.classes[-1]}"
        learned = []
        for problem in range(count):
            learned.append(self.learn_one(of_problem(state.arrays, problem), session, problem))
            if tell is not None:
                tell(stage, problem + 1, count, float(learned[-1]["loss"]))
        together = {name: torch.stack([own[name] for own in learned]) for name in learned[0]}
        loss = together.pop("loss")
        if not bool(torch.isfinite(loss).all()):
            raise ValueError(f"the loss of a {stage} became {loss.tolist()}; try smaller rates")
        return state.after(**together, steps=steps, loss=loss)

    def learn_one(self, state: Parameters, session: Session, problem: int) -> dict[str, Tensor]:
        """The arrays of one problem, and the last ``loss`` () beside them, after a session."""
        raise NotImplementedError

    def features_of(self, state: State, queries: Tensor) -> Tensor:
        """Features (E, q, d) of queries (q, 1), which are positions, by the tail of each problem."""
        tails = [tail_in(of_problem(state.arrays, problem)) for problem in range(len(state.rows))]
        return torch.stack([self.prepared.maps.features(queries[:, 0], tail) for tail in tails])


def of_problem(arrays: Parameters, problem: int) -> dict[str, Tensor]:
    """The arrays of one problem."""
    return {name: tensor[problem] for name, tensor in arrays.items()}


def tail_in(state: Parameters) -> dict[str, Tensor]:
    """The tail's parameters in the state of one problem."""
    return {name.removeprefix(TAIL): tensor for name, tensor in state.items() if name.startswith(TAIL)}


def in_state(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tail's parameters as entries of a state."""
    return {TAIL + name: tensor.detach() for name, tensor in parameters.items()}
