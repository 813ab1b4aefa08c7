"""Sums over the examples of classes, which do not depend on their order or on the parts they came in.

Counts, means and the scatter within classes. Each later class's own part of the scatter is known apart, so that the
class can be taken out again; that of the base classes is one. The scatter of few examples is kept as rows R with the
scatter R^T R, that of many as the matrix. Rows are rotated, so that they keep the scatter and no example.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from subspan.arrays import Array, FloatArray
from subspan.engine.contract import Session, State
from subspan.learners.parts.blocks import with_room

SUMS = ("rows", "counts", "freedom", "own", "own_place", "factor", "scatter")  # their names in a state
FEW = 4  # rows are kept while they are fewer than the dimensions by this factor
SMALL = 64  # in fewer dimensions the matrix is no burden


@dataclass
class ClassSums:
    """Sums as they are added to. `of` and `arrays` lead from and to the arrays of a state.

    rows : means (C, d). counts : examples (C,). first : so many are base classes. freedom : examples less one for each
    class. own : rows (k, d) of the scatter of later classes, own_place (k,) the class of each. factor : rows (m, d) of
    the scatter of the base classes; where that is None, scatter (d, d) is that of all classes.
    """

    rows: FloatArray
    counts: FloatArray
    first: int
    freedom: float
    own: FloatArray
    own_place: Array
    factor: FloatArray
    scatter: FloatArray | None = None
    fresh: list[tuple[int, FloatArray]] = field(default_factory=list)  # of own, not yet among them

    @classmethod
    def of_examples(cls, features: FloatArray, labels: Array) -> Self:
        """Those of a base session: features (n, d), labels (n,)."""
        counts = np.bincount(labels).astype(np.float64)
        order = np.argsort(labels, kind="stable")
        rows = np.add.reduceat(features[order], np.r_[0, np.cumsum(counts[:-1], dtype=np.int64)]) / counts[:, None]
        off = features - rows[labels]
        none = np.empty((0, features.shape[1]))
        made = cls(rows, counts, len(counts), float(counts.sum() - len(counts)), none, np.empty(0, np.int64), none)
        if fits_in_rows(*off.shape):
            made.factor = rotated(off)
        else:
            made.scatter = off.T @ off
        return made

    @classmethod
    def of(cls, state: State, more_classes: int = 0) -> Self:
        """Those of a state, with room for more classes."""
        rows = with_room(state["rows"], more_classes) if more_classes else state["rows"].copy()
        rows[len(state["rows"]) :] = 0
        counts = np.concat([state["counts"], np.zeros(more_classes)])
        scatter_of_all = state.get("scatter")
        factor = state["own"][:0] if scatter_of_all is not None else state["factor"]
        own = state["own"], state["own_place"]
        return cls(rows, counts, state.base_count, float(state["freedom"]), *own, factor, scatter_of_all)

    def among(self, places: Array, count: int) -> Self:
        """The same with the base classes at these places among so many; the others have no example yet."""
        rows, counts = np.zeros((count, self.rows.shape[1])), np.zeros(count)
        rows[places], counts[places] = self.rows, self.counts
        return replace(self, rows=rows, counts=counts, first=count)

    def arrays(self) -> dict[str, Any]:
        """The arrays of a state, by name."""
        self._settle()
        kept = {"rows": self.rows, "counts": self.counts, "freedom": np.array(self.freedom)}
        kept |= {"own": self.own, "own_place": self.own_place}
        return kept | ({"factor": self.factor} if self.scatter is None else {"scatter": self.scatter})

    def join(self, place: int, count: float, mean: FloatArray, rows: FloatArray) -> None:
        """Add so many examples of one class, with this mean (d,) and these rows (k, d) of their scatter."""
        if not count:
            return
        had = self.counts[place]
        rows = np.concat([rows, step(had, self.rows[place], count, mean)])
        if place < self.first:
            self.add_of_base(rows)
        else:
            self._add_own(place, rows)
        self.freedom += count - (had == 0)
        self.counts[place] = had + count
        self.rows[place] += count / (had + count) * (mean - self.rows[place])

    def _join_base(self, other: Self) -> None:
        """Take up counts and means of another's base classes, and the scatter that joining them adds."""
        places = np.flatnonzero(other.counts[: self.first])
        had, more = self.counts[places], other.counts[places]
        off = other.rows[places] - self.rows[places]
        self.rows[places] += (more / (had + more))[:, None] * off
        self.counts[places] += more
        if (both := had > 0).any():
            self.add_of_base(np.sqrt(had * more / (had + more))[both, None] * off[both])

    def add_of_base(self, rows: FloatArray) -> None:
        """Add rows (k, d) to the scatter of the base classes."""
        if self.scatter is not None:
            self.scatter = self.scatter + rows.T @ rows
        elif len(rows):
            self.factor = rotated(np.concat([self.factor, rows]))
            self._check_room()

    def _add_own(self, place: int, rows: FloatArray) -> None:
        """Add rows (k, d) to the scatter of a later class."""
        if self.scatter is not None:
            self.scatter = self.scatter + rows.T @ rows
        mine = self.own_place == place
        if mine.any():
            rows = np.concat([self.own[mine], rows])
            self.own, self.own_place = self.own[~mine], self.own_place[~mine]
        self.fresh.append((place, rotated(rows)))
        self._check_room()

    def _settle(self) -> None:
        """Put what is fresh among the own rows. A class is joined once before this."""
        if self.fresh:
            self.own = np.concat([self.own, *(rows for _, rows in self.fresh)])
            self.own_place = np.concat([self.own_place, *(np.full(len(rows), place) for place, rows in self.fresh)])
            self.fresh = []

    def _check_room(self) -> None:
        """Rows that have become too many become a matrix."""
        own = len(self.own) + sum(len(rows) for _, rows in self.fresh)
        if self.scatter is None and not fits_in_rows(len(self.factor) + own, self.rows.shape[1]):
            self.scatter = self._as_matrix()

    def _as_matrix(self) -> FloatArray:
        """The scatter (d, d) of all classes."""
        self._settle()
        return self.factor.T @ self.factor + self.own.T @ self.own if self.scatter is None else self.scatter

    def less(self, places: Array, examples: FloatArray) -> Self:
        """Without examples (n, d) of the classes at these places (n,), each of which others are left of."""
        gone = []
        for place in np.unique(places):
            mine = examples[places == place]
            left = self.counts[place] - len(mine)
            mean = self.rows[place] + len(mine) / left * (self.rows[place] - mine.mean(0))
            gone.append(np.concat([contrasts(mine), step(float(left), mean, len(mine), mine.mean(0))]))
            self.rows[place], self.counts[place] = mean, left
            if place >= self.first:
                own = self.own_place == place
                rows = _less(self.own[own], gone[-1])
                self.own = np.concat([self.own[~own], rows])
                self.own_place = np.concat([self.own_place[~own], np.full(len(rows), place)])
                if self.scatter is None:
                    gone.pop()
        self.freedom -= len(examples)
        rows = np.concat([self.own[:0], *gone])
        if self.scatter is not None:
            self.scatter = self.scatter - rows.T @ rows
        elif len(rows):
            self.factor = _less(self.factor, rows)
        return self

    def merged(self, other: Self) -> Self:
        """With the sums of other examples of the same classes."""
        both = int(((self.counts > 0) & (other.counts > 0)).sum())
        freedom = self.freedom + other.freedom + both
        self._join_base(other)
        for place in map(int, self.first + np.flatnonzero(other.counts[self.first :])):
            self.join(place, float(other.counts[place]), other.rows[place], other.own[other.own_place == place])
        if other.scatter is None:
            self.add_of_base(other.factor)
        else:  # less what its later classes have in it, which has been counted
            self.scatter = self._as_matrix() + other.scatter - other.own.T @ other.own
        self.freedom = freedom
        return self

    def combined(self, place: int, other: int) -> Self:
        """With the class ``other`` made part of the one at ``place``, which is of the base classes if either is."""
        freedom, theirs = self.freedom + 1, self.own_place == other
        rows = self.own[theirs]
        self.own, self.own_place = self.own[~theirs], self.own_place[~theirs]
        if self.scatter is not None:  # joining puts them back
            self.scatter = self.scatter - rows.T @ rows
        self.join(place, self.counts[other], self.rows[other], rows)
        self._settle()
        combined = self.without(np.array([other]))
        combined.freedom = freedom
        return combined

    def without(self, places: Array) -> Self:
        """Without these classes. A later one leaves nothing; a base class leaves its part of the scatter."""
        kept, later = np.setdiff1d(np.arange(len(self.rows)), places), [p for p in places if p >= self.first]
        stays = np.isin(self.own_place, kept)
        gone = self.own[~stays]
        if self.scatter is not None:
            self.scatter = self.scatter - gone.T @ gone
        self.freedom -= float((self.counts[later] - 1).sum())
        self.own, self.own_place = self.own[stays], np.searchsorted(kept, self.own_place[stays])
        self.rows, self.counts = self.rows[kept], self.counts[kept]
        return self


def with_means(state: State, session: Session) -> dict[str, Any]:
    """Rows (*batch, C, d) and counts (*batch, C) after a session, where class statistics are all that is kept."""
    rows, counts, places = state["rows"], state["counts"], list(session.classes)
    own = np.asarray(session.labels)[..., None, :] == np.array(places)[:, None]  # (*batch, K, n)
    new = own.sum(-1).astype(np.float64)
    means = own.astype(np.float64) @ np.asarray(session.support, np.float64) / new[..., None]
    if session.new:
        return {"rows": np.concat([rows, means], -2), "counts": np.concat([counts, new], -1)}
    rows, counts = rows.copy(), counts.copy()
    had = np.where(counts[..., places] > 0, counts[..., places], new)  # of unknown number: as many as come
    counts[..., places] = had + new
    rows[..., places, :] += (new / (had + new))[..., None] * (means - rows[..., places, :])
    return {"rows": rows, "counts": counts}


def contrasts(examples: Array) -> FloatArray:
    """Rows (n - 1, d) with the scatter of one class's examples (n, d): each less the mean of those before it.

    >>> contrasts(np.array([[1.0, 0.0], [3.0, 0.0]])).round(4)
    array([[1.4142, 0.    ]])
    """
    before = np.arange(1, len(examples))[:, None]
    return np.sqrt(before / (before + 1)) * (examples[1:] - np.cumsum(examples, 0)[:-1] / before)


def rotated(rows: FloatArray) -> FloatArray:
    """At most d rows (k, d) with the same scatter, which do not tell what they were made of."""
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) else rows


def _less(rows: FloatArray, gone: FloatArray) -> FloatArray:
    """Rows whose scatter is that of these rows (k, d) less that of others (m, d) which lie in their space."""
    basis, inside = np.linalg.qr(rows.T)
    along = basis.T @ gone.T
    values, vectors = np.linalg.eigh(inside @ inside.T - along @ along.T)
    left = values > 1e-12 * max(values.max(initial=0.0), (along * along).sum())
    return np.sqrt(values[left])[:, None] * (basis @ vectors[:, left]).T


def step(count: float, mean: FloatArray, more: float, mean_of_more: FloatArray) -> FloatArray:
    """The row (1, d) that joining two parts of a class adds to their scatters; none (0, d) where one is empty."""
    if not count or not more:
        return np.empty((0, len(mean)))
    return np.sqrt(count * more / (count + more)) * (mean_of_more - mean)[None]


def fits_in_rows(count: int, width: int) -> bool:
    """Whether so many rows are kept as rows."""
    return width >= SMALL and count * FEW < width
