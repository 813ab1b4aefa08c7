"""Ways of adding classes on the same features and sessions: accuracy, seconds, bytes, and who is best.

>>> from subspan.experiments.compare import compare
>>> from subspan.experiments.compare.sessions import Drawing, draw_streams
>>> rng = np.random.default_rng(0)
>>> y = np.repeat(["ash", "elm", "fir", "oak", "yew"], 12)
>>> X = 4 * np.eye(5, 8)[np.unique(y, return_inverse=True)[1]] + rng.normal(size=(60, 8))
>>> [ridge] = compare(draw_streams(X, y, Drawing(draws=2, ways=1)), ["ridge"])
>>> ridge.novel.shape, ridge.old_examples  # (draws, sessions + 1)
((2, 3), True)
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.experiments import metrics
from subspan.experiments.compare.sessions import Stream
from subspan.experiments.compare.ways import Kind, kind_named, kinds
from subspan.experiments.inputs import ProtocolError

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, how much there is


@dataclass(frozen=True)
class Compared:
    """One way over all draws.

    Accuracies are in percent, means over classes, from session 0, where novel ones are NaN.
    """

    method: str
    meaning: str
    old_examples: bool  # must be kept to learn another session
    accuracy: FloatArray  # (draws, sessions + 1): of all classes seen
    base: FloatArray  # (draws, sessions + 1)
    novel: FloatArray  # (draws, sessions + 1)
    seconds: FloatArray  # (draws, sessions + 1): to learn a session, up to its first answer
    bytes: FloatArray  # (draws,): kept after the last session
    notes: tuple[str, ...] = ()

    @property
    def session_seconds(self) -> FloatArray:
        """Seconds (draws,) to add a session, the middle of a draw's: other work on the machine slows some down."""
        return np.median(self.seconds[:, 1:], axis=1)

    def mean_and_half_width(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and half of the 95 % interval over the draws of ``values (draws, ...)``, both ``(...)``."""
        return np.mean(values, axis=0), metrics.interval_half_width(values)


def compare(
    streams: Sequence[Stream], methods: Sequence[str] | None = None, progress: Progress | None = None
) -> list[Compared]:
    """Run ways of adding classes on the streams of all draws, which need sessions of one number.

    ``methods`` are names of ways (`subspan compare --help`) or methods of ours with options; by default all ways.
    """
    chosen = {name: kind_named(name) for name in methods or kinds()}
    lengths = {len(stream.sessions) for stream in streams}
    if len(lengths) != 1:
        raise ProtocolError(f"draws of one comparison must have sessions of one number; got {sorted(lengths)}")
    done, total = 0, len(chosen) * sum(len(stream.sessions) for stream in streams)

    def advance() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress("sessions", done, total)

    return [_compared(name, kind, streams, advance) for name, kind in chosen.items()]


def _compared(name: str, kind: Kind, streams: Sequence[Stream], advance: Callable[[], None]) -> Compared:
    runs = (_run(name, kind, stream, advance) for stream in streams)
    accuracies, seconds, kept, notes = zip(*runs, strict=True)
    accuracy, base, novel = np.stack(accuracies, axis=1)
    different = tuple(dict.fromkeys(note for of_draw in notes for note in of_draw))
    took, held = np.stack(seconds), np.array(kept, np.float64)
    return Compared(name, kind.meaning, kind.old_examples, accuracy, base, novel, took, held, different)


def _run(
    name: str, kind: Kind, stream: Stream, advance: Callable[[], None]
) -> tuple[FloatArray, FloatArray, int, dict[str, None]]:
    """One way on one stream: accuracies (3, sessions + 1) of all, base and novel, seconds, bytes, notes."""
    way, (queries, gold) = kind.make(), stream.test
    names, truth = np.unique(gold, return_inverse=True)
    accuracies, seconds, seen, base = [], [], np.zeros(len(names), bool), np.zeros(len(names), bool)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number, (X, y) in enumerate(stream.sessions):
            labels = np.searchsorted(names, y)
            began = time.perf_counter()
            way.learn(X, labels)
            way.predict(queries[:1])
            seconds.append(time.perf_counter() - began)
            seen[labels] = True
            base |= seen if number == 0 else False
            asked = seen[truth]
            right = way.predict(queries[asked]) == truth[asked]
            accuracies.append(class_means(right, truth[asked], base))
            advance()
    notes = dict.fromkeys(f"{name}: {str(one.message).splitlines()[0]}" for one in caught if _matters(one.category))
    return np.transpose(accuracies), np.array(seconds), way.bytes_kept(), notes


def _matters(category: type[Warning]) -> bool:
    """Whether readers of a table should know: a kind of its own, such as no convergence, and not general advice."""
    return category is not UserWarning and not issubclass(
        category, DeprecationWarning | FutureWarning | ResourceWarning
    )


def class_means(right: NDArray[np.bool_], truth: NDArray[np.int64], base: NDArray[np.bool_]) -> tuple[float, ...]:
    """Percent of right answers (n,), each class of ``truth (n,)`` counted alike: of all, base and novel classes.

    >>> class_means(np.array([True, False, True]), np.array([0, 0, 1]), np.array([True, False]))
    (75.0, 50.0, 100.0)
    """
    classes = np.unique(truth)
    of_class = 100 * metrics.group_means(right, truth)
    parts = (of_class, of_class[base[classes]], of_class[~base[classes]])
    return tuple(float(part.mean()) if len(part) else np.nan for part in parts)
