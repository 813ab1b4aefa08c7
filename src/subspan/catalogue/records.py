"""What a catalogue answers: plain frozen records for ``dataclasses.asdict``. Accuracies are in percent."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One class that a photograph may show."""

    name: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The most probable classes of one photograph, best first."""

    candidates: tuple[Candidate, ...]
    rejected: bool = False  # "none of these"
    familiarity: float = math.nan  # how much it looks like any class that is known: the less, the more of a stranger

    @property
    def name(self) -> str | None:
        """The best class; None where the photograph was rejected."""
        return None if self.rejected else self.candidates[0].name


@dataclass(frozen=True)
class Finding:
    """A photograph that should be looked at."""

    kind: str  # "mislabelled", "doubtful", "duplicate" or "unlike"
    photograph: str
    name: str  # the class it is said to show
    other: str | None  # the class it looks like, or in which it is, too
    score: float  # 0 to 1: the higher, the worse
    says: str
    place: int  # among the photographs of its class


@dataclass(frozen=True)
class Review:
    """What of a folder of photographs should be looked at, the worst first."""

    findings: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()  # photographs that could not be read, with the reason


@dataclass(frozen=True)
class WrongAnswer:
    """A photograph of a known class that was taken for another."""

    photograph: str
    name: str
    answer: str
    probability: float  # of the answer


@dataclass(frozen=True)
class CheckChange:
    """Accuracy on the kept examples of the classes that were known before a session."""

    before: float
    after: float
    examples: int

    @property
    def drop(self) -> float:
        """Percentage points lost; negative where accuracy rose."""
        return self.before - self.after


@dataclass(frozen=True)
class Taken:
    """What the new classes of a session take from an old one, on its kept examples."""

    name: str
    lost: int  # examples that were right before and are taken for a new class now
    examples: int
    share: float  # mean probability that its examples now give to the new classes


@dataclass(frozen=True)
class SessionEntry:
    """One line of the log."""

    session: int
    kind: str  # of `subspan.state.SessionRecord`; "damaged" where that cannot be read
    classes: tuple[str, ...]
    examples: int
    date: str  # UTC, ISO 8601
    seconds: float
    version: str | None  # None: pruned
    check: CheckChange | None  # None: no examples of old classes are kept
    takes_from: tuple[Taken, ...] = ()
    warning: str | None = None
    author: str | None = None  # who taught it; None: not said


@dataclass(frozen=True, kw_only=True)
class AddReport(SessionEntry):
    """One session: what was learned, and what it did to the classes that were known before."""

    worst: tuple[Finding, ...] = ()  # three at most of the photographs that should be looked at
    own_accuracy: float  # on the photographs it has just learned from: an upper bound, no measurement
    skipped: tuple[str, ...] = ()  # photographs that could not be read, with the reason


TeachReport = AddReport  # its name in version 0.1, understood until 0.4


@dataclass(frozen=True)
class InitReport:
    """A new catalogue."""

    classes: int
    examples: int  # that the base classes were learned from
    judged: int  # photographs that the accuracy was measured on
    accuracy: float | None  # by models that were not taught them; None where no class has two photographs
    method: str
    version: str
    seconds: float
    worst: tuple[Finding, ...] = ()  # three at most of the photographs that should be looked at
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClassEntry:
    """One class of a catalogue."""

    name: str
    base: bool
    examples: int  # it was learned from; 0 where unknown
    kept: int  # examples in the check set
    description: str | None


@dataclass(frozen=True)
class MapPoint:
    """One row of the head on the plane of the map."""

    name: str
    x: float
    y: float
    base: bool
    newest: bool  # learned in the last session that learned classes
    near: bool  # a base class whose row is among the nearest to a newest one


@dataclass(frozen=True)
class WeightMap:
    """The rows of the head on their two principal components."""

    points: tuple[MapPoint, ...]
    shares: tuple[float, float]  # of the variance, of the two components


@dataclass(frozen=True)
class ClassAccuracy:
    """How the photographs of one class were classified."""

    name: str
    examples: int
    correct: int
    taken_for: tuple[tuple[str, int], ...]  # the wrong answers, most frequent first

    @property
    def accuracy(self) -> float:
        return 100 * self.correct / self.examples


@dataclass(frozen=True)
class TradeOff:
    """What one threshold of rejection does."""

    promised: float  # share of known classes' photographs rejected at most
    threshold: float
    known_rejected: float  # percent of the photographs of known classes in this evaluation
    accuracy_of_accepted: float | None  # percent; None where nothing was accepted
    unknown_rejected: float | None  # percent of the photographs of unknown classes; None where there are none


@dataclass(frozen=True)
class Evaluation:
    """A folder of photographs against the catalogue."""

    accuracy: float | None  # None: no photograph of a known class
    examples: int  # of known classes
    unknown_examples: int  # of class folders that the catalogue does not know
    per_class: tuple[ClassAccuracy, ...]
    curve: tuple[TradeOff, ...]  # empty where the check set is too small to calibrate
    wrong: tuple[WrongAnswer, ...] = ()
    taught: int = 0  # photographs that were taught: on these it looks better than it is
    skipped: tuple[str, ...] = ()
