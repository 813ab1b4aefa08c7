"""Posterior means: a Gaussian model of features, whose classes' means have a prior that the base classes set.

This is what "auto" means. docs/mathematics.md derives it from the paper's regularizers; docs/tried.md says what each
choice is worth. It keeps counts, means and one scatter, so that it does not matter in which order, in which parts or
on which machine examples came.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from subspan.arrays import Array, FloatArray, functions_of, is_tensor
from subspan.engine.contract import Base, Learner, Session, State
from subspan.learners.parts.blocks import MANY, blocks
from subspan.learners.parts.class_means import Prior, posterior, prior_of
from subspan.learners.parts.class_sums import SUMS, ClassSums, contrasts, with_means
from subspan.learners.parts.tempered import temperature_of, tempered
from subspan.learners.parts.vectors import unit
from subspan.learners.parts.within_space import WithinSpace, space_of_matrix, space_of_rows
from subspan.learners.registry import register
from subspan.values import check_options, option

FEW_FEATURES = 64  # fewer are taken as they are
UNIT_FROM = 64  # in fewer dimensions the length after T says too much to be taken off
UNSEEN = 0.8  # share of the log density of a class never seen that is taken off a familiarity
SOFT = 0.28  # temperature of the sum over classes that makes a familiarity, in units of the root of the dimensions
WEAK = 10  # examples that a class's own spread is worth less than the mean spread
ENOUGH = 5_000  # base classes, spread over all, that the prior is taken from
SIGNED = 0.1  # share of negative values in the squares of features from which on they are taken to be signed


@register
@dataclass(frozen=True)
class Posterior(Learner):
    """Log densities of a Gaussian for each class, in coordinates where all classes scatter alike.

    1. A feature is its square root, which makes skewed ones symmetric, at unit length; features that lie on both sides
       of zero need no root, and fewer than 64 stay as they are.
    2. W is the covariance within classes, its eigenvalues corrected; T(x) = W^(-power/2) (x - centre), at unit length.
    3. A class's mean there is drawn to the prior that the base means set, the more the fewer examples it has.
    4. Its density is a normal about that mean, wider by what is not known of it.

    From class statistics of a network instead of examples, step 1 is left out, and W stays that of the base classes.

    A state holds rows (C, d), the means of prepared features, and counts (C,), 0 where unknown; from examples also the
    rest of `ClassSums`.
    """

    name = "posterior"
    summary = "Gaussian classes whose means have a prior set by the base classes; no training"
    arrays = "numpy"
    from_examples = True
    from_sums = True
    per_class = ("rows", "counts")
    uses_memory = False
    uses_bias = False
    calibrated = True
    whole: ClassVar[bool] = False  # whether base means have the span's share, too
    power: float = option(0.8, "of the within-class covariance that is divided out; 1 makes features white")
    span: float = option(0.35, "share of the base means' covariance, as far as it is certain, in a novel mean's prior")

    def __post_init__(self) -> None:
        check_options(self, shares=("power",), below_one=("span",))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"means", "covariance"})

    # What is kept

    def start(self, base: Base) -> State:
        if base.examples is None:
            if base.means is None or base.covariance is None:
                raise ValueError(f"method '{self.name}' needs base examples, or means and a covariance of them")
            means = np.asarray(base.means, np.float64)
            return State(base, {"rows": means, "counts": np.zeros(len(means))})
        squares = _squares_of(base.examples)
        signed = is_signed(squares)
        sums = ClassSums.of_examples(prepared(base.examples, signed), np.asarray(base.labels))
        return State(base, {**sums.arrays(), "signed": np.array(signed), "squares": squares})

    def learn(self, state: State, session: Session) -> State:
        if not _of_examples(state):
            return state.after(**with_means(state, session))
        features, labels = prepared(session.support, bool(state["signed"])), np.asarray(session.labels)
        sums = ClassSums.of(state, len(session.classes) if session.new else 0)
        for place in session.classes:
            examples = features[labels == place]
            sums.join(place, len(examples), examples.mean(0), contrasts(examples))
        return _with_sums(state, sums)

    def combine(self, state: State, base: Base, place: int, other: int) -> State:
        if not _of_examples(state):
            raise ValueError(f"method '{self.name}' makes one class of two only where it was taught from examples")
        return replace(_with_sums(state, ClassSums.of(state).combined(place, other)), base=base)

    def unlearn(self, state: State, places: Array, examples: Array) -> State:
        if not _of_examples(state):
            raise ValueError(f"method '{self.name}' unlearns examples only where it was taught from examples")
        sums = ClassSums.of(state).less(np.asarray(places), prepared(examples, bool(state["signed"])))
        of_base = examples[np.asarray(places) < state.base_count]
        return _with_sums(state, sums).after(squares=state["squares"] - _squares_of(of_base))

    def merge(self, state: State, other: State) -> State:
        if not (_of_examples(state) and _of_examples(other)):
            raise ValueError(f"method '{self.name}' merges models that were taught from examples")
        squares = state["squares"] + other["squares"]
        if not state["signed"] == other["signed"] == is_signed(squares):
            raise ValueError(
                "what is learned in parts has features with negative values in all of them or in none; got both: "
                "teach it at once"
            )
        merged = _with_sums(state, ClassSums.of(state).merged(ClassSums.of(other)))
        return merged.after(squares=squares)

    def among(self, state: State, base: Base, places: Array) -> State:
        return replace(_with_sums(state, ClassSums.of(state).among(places, base.class_count)), base=base)

    def forget(self, state: State, base: Base, places: Sequence[int]) -> State:
        if not _of_examples(state):
            rows, counts = (np.delete(state[name], list(places), axis) for name, axis in (("rows", -2), ("counts", -1)))
            return State(base, {"rows": rows, "counts": counts})
        return replace(_with_sums(state, ClassSums.of(state).without(np.array(places))), base=base)

    # What follows from it

    def scores(self, state: State, queries: Array) -> Array:
        """Logarithms of the classes' probabilities (*batch, q, C)."""
        *space, weights, curvature, offset, temperature = state.once(self, lambda: self._densities(state))
        placed, square = self._placed(state, queries, space, weights.dtype)
        densities = placed @ weights.mT - square[..., None] * curvature[..., None, :] + offset[..., None, :]
        return tempered(densities, temperature)

    def _placed(self, state: State, queries: Array, space: Sequence[Array], dtype: Any) -> tuple[Array, Array]:
        """T of queries (*batch, q, r), in a type if they are NumPy's, and their squared lengths (*batch, q)."""
        centre, basis, stretch, floor = space
        features = queries - centre
        if _of_examples(state):
            signed = state.once((self, "signed"), lambda: bool(state["signed"]))  # a graph holds no tensor's truth
            features = prepared(queries, signed) - centre
        coordinates = features @ basis
        placed = coordinates * stretch
        square = (placed * placed).sum(-1)
        if basis.shape[0] > basis.shape[1]:
            outside = (features * features).sum(-1) - (coordinates * coordinates).sum(-1)
            square = square + floor * outside * (outside > 0)
        if basis.shape[0] >= UNIT_FROM:
            length = square**0.5
            placed = placed / (length + (length == 0))[..., None]
            square = square / (square + (square == 0))
        if not is_tensor(placed):
            placed = placed.astype(dtype, copy=False)
        return placed, square

    @property
    def evidence(self) -> Learner:
        return _Evidence(power=1.0, span=self.span)

    def _densities(self, state: State) -> tuple[FloatArray, ...]:
        """Centre, basis, stretch and floor of the space; weights (C, r), curvature and offset (C,); the temperature.

        A log density -|z - m|^2 / 2v - d/2 log(2 pi v) is z . m/v - |z|^2 / 2v + offset.
        """
        space, prior, means, counts = self._model(state)
        first = state.base_count
        variance, known = np.empty(means.shape[:-1]), min(first, means.shape[-2])
        for part in [*blocks(known), *blocks(means.shape[-2], known)]:  # in the place of the means: they may be many
            share = prior.share if self.whole or part.start >= first else 0.0
            own, uncertain = posterior(means[..., part, :], counts[..., part], prior, share)
            means[..., part, :], variance[..., part] = own, prior.noise + uncertain
        offset = -_squared_lengths(means) / (2 * variance) - space.width / 2 * np.log(2 * np.pi * variance)
        floor = np.array(space.floor**-space.power)
        means /= variance[..., None].astype(means.dtype)
        temperature = np.array(temperature_of(prior.level, prior.noise, space.width))
        return space.centre, space.basis, space.stretch, floor, means, 0.5 / variance, offset, temperature

    def _model(self, state: State) -> tuple[WithinSpace, Prior, FloatArray, FloatArray]:
        """The space, the prior, and class means (*batch, C, r) there, of so many examples (*batch, C)."""
        if not _of_examples(state):
            space, prior = state.base.once(self, lambda: self._of_statistics(state.base))
            counts = np.where(state["counts"] > 0, state["counts"], np.inf)
            means = _shortened(space.means(state["rows"]), counts, space)
            return space, prior.about(means, counts), means, counts
        rows, counts, freedom, first = state["rows"], state["counts"], float(state["freedom"]), state.base_count
        # One base class says nothing of how far classes lie apart; of very many, some say it.
        known = slice(0, first, -(-first // ENOUGH)) if first > 1 else slice(None)
        space = replace(state.once("space", lambda: _space_of(state)), power=self.power)  # one for the evidence, too
        space = space.as_triangle() if len(rows) > MANY else space
        means = _shortened(space.means(rows), counts, space)
        span = self.span if first > 1 else 0.0
        prior = prior_of(means[known], counts[known], space.width, _noise(means, counts, freedom, space), span)
        return space, prior.about(means, counts), means, counts

    def _of_statistics(self, base: Base) -> tuple[WithinSpace, Prior]:
        """The space and the prior, where base classes have a mean and a covariance of unknown many examples."""
        means = np.asarray(base.means, np.float64)
        unit_of = _units(base.covariance, np.inf) if means.shape[1] < FEW_FEATURES else None
        space = space_of_matrix(base.covariance, np.inf, np.asarray(base.center, np.float64), self.power, unit_of)
        unlimited = np.full(len(means), np.inf)
        means = _shortened(space.means(means), unlimited, space)
        return space, prior_of(means, unlimited, space.width, _noise(means, unlimited, np.inf, space), self.span)


class _Evidence(Posterior):
    """Each class's part in how familiar a query is: by how much better it explains it than a class never seen would.

    Most of what that class explains is taken off: all of it would favour whatever lies in the middle. In coordinates
    that are white, with the spread that each class has about its own mean, found by its mean's length: of examples at
    length one it is what the squared length lacks.
    """

    whole = True

    def scores(self, state: State, queries: Array) -> Array:
        *space, weights, curvature, offset, _, directions, less, inside, middle, plain, other = state.once(
            self, lambda: self._densities(state)
        )
        placed, square = self._placed(state, queries, space, weights.dtype)
        densities = placed @ weights.mT - square[..., None] * curvature[..., None, :] + offset[..., None, :]
        off = placed @ directions.mT - inside
        about = square - 2 * (placed @ middle) + (middle * middle).sum()
        unseen = other - (about / plain - (off * off * less).sum(-1)) / 2
        return (densities - UNSEEN * unseen[..., None]) / (SOFT * len(space[0]) ** 0.5)

    def _densities(self, state: State) -> tuple[FloatArray, ...]:
        """As the model's, for classes of unequal spread; then what a class never seen takes."""
        *space, weights, curvature, _, temperature = super()._densities(state)
        found, prior, _, counts = self._model(state)
        means, variance = weights / (2 * curvature)[..., None], 0.5 / curvature
        variance = variance + prior.noise * (_spreads(state, counts, found.width) - 1)
        offset = -_squared_lengths(means) / (2 * variance) - found.width / 2 * np.log(2 * np.pi * variance)
        plain = (1 - prior.share) * prior.level + prior.noise
        more = prior.share * prior.along
        other = -found.width / 2 * np.log(2 * np.pi * plain) - np.log1p(more / plain).sum() / 2
        unseen = prior.directions, more / (plain * (plain + more)), prior.directions @ prior.middle, prior.middle
        scaled = means / variance[..., None], 0.5 / variance, offset
        return *space, *scaled, temperature, *unseen, np.array(plain), np.array(other)


def _space_of(state: State) -> WithinSpace:
    """The space, white, of a state from examples."""
    rows, freedom = state["rows"], float(state["freedom"])
    centre = rows.mean(0)
    if state.get("factor") is not None:
        return space_of_rows(np.concat([state["factor"], state["own"]]), freedom, centre, 1.0, rows)
    unit_of = _units(state["scatter"], freedom) if len(centre) < FEW_FEATURES else None
    return space_of_matrix(state["scatter"], freedom, centre, 1.0, unit_of)


def _spreads(state: State, counts: FloatArray, width: int) -> FloatArray:
    """How widely each class scatters, in units of the mean (C,); drawn to one where examples are few."""
    if not _of_examples(state) or width < FEW_FEATURES:
        return np.ones(np.shape(counts))
    freedom = np.maximum(counts - 1, 0)
    lost = np.maximum(1 - _squared_lengths(state["rows"]), 0) * counts  # the sum of squares about the mean
    common = lost.sum(where=freedom > 0) / max(freedom.sum(), 1)
    if common <= 0:
        return np.ones(np.shape(counts))
    return (np.where(freedom > 0, lost, 0) / common + WEAK) / (freedom + WEAK)


def is_signed(squares: FloatArray) -> bool:
    """Whether features lie on both sides of zero, as projections do and as what a ReLU leaves does not."""
    return bool(squares[0] > SIGNED * squares[1])


def _squares_of(features: Array) -> FloatArray:
    """The sums of squares (2,) of the negative ones among features (n, d), and of all."""
    features = np.asarray(features, np.float64).ravel()
    below = np.minimum(features, 0)
    return np.array([below @ below, features @ features])


def prepared(features: Array, signed: bool) -> Array:
    """Features (..., d) as the model takes them: at length one, their square roots unless signed; few as they are.

    >>> prepared(np.r_[np.array([9.0, 16.0]), np.zeros(98)], signed=False)[:2]
    array([0.6, 0.8])
    """
    features = features if is_tensor(features) else np.asarray(features, np.float64)
    if features.shape[-1] < FEW_FEATURES:
        return features
    if not signed:
        functions = functions_of(features)
        features = functions.sign(features) * functions.abs(features) ** 0.5
    return unit(features)


def _with_sums(state: State, sums: ClassSums) -> State:
    """A state with other sums; what it holds beside them stays."""
    beside = {name: array for name, array in state.arrays.items() if name not in SUMS}
    return State(state.base, beside | sums.arrays())


def _of_examples(state: State) -> bool:
    return state.get("own") is not None


def _squared_lengths(means: FloatArray) -> FloatArray:
    """Squared lengths (..., C) of means (..., C, r)."""
    return np.einsum("...k,...k->...", means, means).astype(np.float64)


def _shortened(means: FloatArray, counts: FloatArray, space: WithinSpace) -> FloatArray:
    """Means (..., C, r) of examples at length one, in their place: over the length that an example has on average.

    Of so many examples (..., C) the mean has a squared length that noise / count has made larger.
    """
    if space.width < UNIT_FROM:
        return means
    lengths = _squared_lengths(means) + space.noise * (1 - 1 / counts)
    means /= np.sqrt(np.where(lengths > 0, lengths, 1))[..., None].astype(means.dtype)
    return means


def _noise(means: FloatArray, counts: FloatArray, freedom: float, space: WithinSpace) -> float | None:
    """Variance of an example about its class's mean along each dimension; None without two examples of any class."""
    if freedom < 1:
        return None
    if space.width < UNIT_FROM:
        return space.noise / space.width
    lost = 1 - _squared_lengths(means)  # what the mean of vectors of length one lacks in length is their spread
    return float(np.sum(counts * lost) / freedom if np.isfinite(freedom) else np.mean(lost)) / space.width


def _units(scatter: Array, freedom: float) -> FloatArray | None:
    """The unit of each feature (d,), its deviation within classes; None without two examples of any class.

    Of few examples deviations differ by chance: their logarithms are drawn together by what chance has in the variance
    of them. A feature that is constant within classes has the unit of the others.
    """
    if freedom < 1:
        return None
    squared = np.diagonal(scatter).astype(np.float64) / (freedom if np.isfinite(freedom) else 1)
    live = squared > 0
    if not live.any():
        return None
    logarithms = np.log(squared[live])
    common = logarithms.mean()
    kept = max(0.0, 1 - 2 / freedom / max(float(logarithms.var()), 1e-300))
    units = np.full(len(squared), np.exp(common / 2))
    units[live] = np.exp((common + kept * (logarithms - common)) / 2)
    return units
