"""RanPAC: ridge regression on random non-linear features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.engine.contract import Base, Session, State
from subspan.learners.parts.base_samples import base_samples, noise, root_of
from subspan.learners.parts.gaussian import GaussianSystem
from subspan.learners.parts.random_features import (
    ProjectedDraws,
    held_out_ridge,
    moments,
    random_features,
    ridge_rows,
    solved_rows,
)
from subspan.learners.parts.vectors import cosine_scores, softmax, unit
from subspan.learners.registry import register
from subspan.values import check_options, option

RIDGE = 0.01  # lambda of ours without examples, chosen on split 0
TAU = 16.0  # factor on the cosines whose softmax says how similar base means are
RELATIVE = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # lambdas to choose from, in units of the mean diagonal of G
# The lambdas of the released codes.
RIDGES = {
    "released": [10.0**n for n in range(-8, 9)],
    "calibrated": [10.0**n for n in range(1, 9)],
}
DRAWS = 800  # of a novel class, as released

Labels = NDArray[np.intp]


@register
@dataclass(frozen=True)
class Ranpac(GaussianSystem):
    """Random projections and second moments.

    Ridge regression on h = relu(x R), R a fixed Gaussian, with G = sum h h^T and Q = sum h y^T [C]:

        score = h^T (G + lambda I)^-1 Q

    Reference: McDonnell, Gong, Parvaneh, Abbasnejad, van den Hengel, RanPAC: Random Projections and Pre-trained Models
    for Continual Learning, NeurIPS 2023; ``form=calibrated``: Goswami, Twardowski, van de Weijer, CVPR workshops 2024.
    Setting: class-incremental with frozen transformers.

    ``form=released`` sums over all examples and chooses lambda in every session, on a fifth of its examples;
    ``calibrated`` once, draws 800 examples of a novel class from N(m_k, beta (sum_b a_kb S_b + S_k)) with borrowed
    means, and scores by cosines. Both are their codes' predictions. Departures [ours]: classes count alike, all
    examples are drawn, with one base covariance, lambda is chosen on held-out base examples (without: 0.01); M is
    smaller.
    """

    name = "ranpac"
    summary = "ridge regression on random non-linear features; no training"
    reference = "McDonnell et al., NeurIPS 2023; draws of Goswami et al., CVPR workshops 2024"
    marks = "C: form=released, form=calibrated; classes counted alike, all examples drawn, smaller M: ours"
    form: Literal["ours", "released", "calibrated"] = option("ours", "as chosen here, or as a released code is")
    tukey: float = option(1.0, "power that features, negative ones set to 0, are raised to; 1 leaves them alone")
    samples: int = option(100, "examples drawn for every class")
    width: int = option(2000, "random features M; published: 10000")
    ridge: float | None = option(None, "lambda of ours, in units of G's mean diagonal; else by base examples, or 0.01")
    alpha: float = option(0.0, "share of similar base means in a novel one")
    beta: float = option(0.5, "factor on the sum of base and own covariance of a novel class")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, at_least={1: ("width",)}, positive=("ridge",), not_negative=("beta",), shares=("alpha",))

    @property
    def own_covariances(self) -> bool:
        return self.form == "calibrated"

    def start(self, base: Base) -> State:
        state = super().start(base)
        if self.form == "ours" and (self.ridge is not None or base.examples is None):
            return state
        features, labels = self.training_examples(base)
        seen = random_features(features, self.projection(features))
        if self.form == "ours":
            return state.after(ridge=np.asarray(self.chosen_ridge(seen, labels), seen.dtype))
        sums = np.eye(int(labels.max()) + 1, dtype=seen.dtype)[labels].T @ seen
        ridge = held_out_ridge(seen, labels, RIDGES[self.form])
        return state.after(gram=seen.T @ seen, sums=sums, ridge=np.asarray(ridge, seen.dtype))

    def training_examples(self, base: Base) -> tuple[FloatArray, Labels]:
        """Transformed features (n, d) of the base classes in random order, with labels (n,); or draws for them."""
        if base.examples is None:
            means, covariance = self.base_statistics(base)
            drawn = base_samples(means, covariance, self.samples, self.seed)
            features, labels = drawn.reshape(-1, drawn.shape[-1]), np.repeat(np.arange(len(drawn)), self.samples)
        else:
            features, labels = self.transform(base.examples), base.labels
        order = self.order(len(labels))
        return features[order], labels[order]

    def order(self, count: int) -> Labels:
        """A random order of so many examples: the last fifth is held out."""
        return np.random.default_rng(self.seed).permutation(count)

    def projection(self, like: FloatArray) -> FloatArray:
        """R (d, M) for features (..., d)."""
        return noise((like.shape[-1], self.width), self.seed, like)

    def chosen_ridge(self, seen: FloatArray, labels: Labels) -> float:
        """Which lambda tells held-out examples h (n, M) of base classes best, classes counted alike."""
        held = np.zeros(len(labels), bool)
        for c in range(int(labels.max()) + 1):
            places = np.flatnonzero(labels == c)
            held[places[: len(places) // 5]] = True
        if not held.any():
            return RELATIVE[-1]
        parts = [seen[~held & (labels == c)] for c in range(int(labels.max()) + 1)]
        gram = np.sum([part.T @ part / len(part) for part in parts], axis=0)
        sums, asked, truth = np.stack([part.mean(0) for part in parts]), seen[held], labels[held]
        weights = (1 / np.bincount(truth, minlength=len(parts)).clip(1))[truth]
        targets = np.eye(len(parts))[truth]
        errors = [
            (weights[:, None] * (asked @ ridge_rows(gram, sums, ridge).T - targets) ** 2).sum() for ridge in RELATIVE
        ]
        return RELATIVE[int(np.argmin(errors))]

    # Sessions

    def learn(self, state: State, session: Session) -> State:
        after = super().learn(state, session)
        if self.form == "ours":
            return after
        batch, (count, width) = state.rows.shape[:-2], (after.rows.shape[-2], state["gram"].shape[-1])
        gram, sums = state["gram"].copy(), np.zeros((*batch, count, width), state["gram"].dtype)
        sums[..., : state.rows.shape[-2], :] = state["sums"]
        ridges, projection = state["ridge"].copy(), self.projection(session.support)
        for at in np.ndindex(*batch):
            features, labels = self.session_examples(after, session, at)
            seen = random_features(features, projection)
            gram[at] += seen.T @ seen
            sums[at] += np.eye(count, dtype=seen.dtype)[labels].T @ seen
            if self.form == "released":
                order = self.order(len(labels))
                ridges[at] = held_out_ridge(seen[order], labels[order], RIDGES["released"])
        return after.after(gram=gram, sums=sums, ridge=ridges)

    def session_examples(self, after: State, session: Session, at: tuple[int, ...]) -> tuple[FloatArray, Labels]:
        """What the released codes learn a session from, in one problem: its support, or draws (n, d), labels (n,)."""
        if self.form == "released":
            return self.transform(session.support[at]), session.labels[at]
        means, factors = (part[at] for part in self.unpack(after))
        count, places = after.base_count, np.array(session.classes)
        # The products are of features as they are: mostly one base class lends all.
        similar = softmax(TAU * means[places] @ means[:count].T)
        centers = (1 - self.alpha) * means[places] + self.alpha * similar @ means[:count]
        shared, drawn = self.shared_covariance(after), []
        for place, share, center in zip(places, similar, centers, strict=True):
            lent = (share[:, None, None] ** 0.5 * factors[:count]).reshape(-1, means.shape[1])
            parts = np.concatenate([lent[lent.any(1)], factors[place]])
            drawn.append(self.draw(center, self.beta * (shared + parts.T @ parts), int(place)))
        return np.concatenate(drawn), np.repeat(places, DRAWS)

    def draw(self, mean: FloatArray, covariance: FloatArray, place: int) -> FloatArray:
        """800 examples (800, d) of the class at this place."""
        return mean + noise((DRAWS, len(mean)), self.seed + 1 + place, mean) @ root_of(covariance).T

    def scores(self, state: State, queries: FloatArray) -> FloatArray:
        seen = random_features(self.transform(queries), self.projection(queries))
        batch = state.rows.shape[:-2]
        seen = np.broadcast_to(seen, (*batch, *seen.shape[-2:]))
        scores = np.empty((*seen.shape[:-1], state.rows.shape[-2]), seen.dtype)
        if self.form == "ours":
            for at, rows in self.balanced_rows(state):
                scores[at] = seen[at] @ rows.T
            return scores
        for at in np.ndindex(*batch):
            gram, sums = (state[name][at].astype(np.float64) for name in ("gram", "sums"))  # lambda may be tiny
            rows = solved_rows(gram, sums, float(state["ridge"][at])).astype(seen.dtype)
            scores[at] = cosine_scores(rows, seen[at]) if self.form == "calibrated" else seen[at] @ rows.T
        return scores

    def forget(self, state: State, base: Base, places: Sequence[int]) -> State:
        if self.form != "ours":
            raise ValueError(f"method 'ranpac:form={self.form}' cannot forget classes: its sums are of all classes")
        return super().forget(state, base, places)

    # Ours: moments of draws

    def balanced_rows(self, state: State):
        """For every problem its place in the batch and the regression's rows (C, M)."""
        count = state.base_count
        means, factors = self.unpack(state)
        novel_draws = self.draws(state, range(count, means.shape[-2]), self.beta)
        known = None  # base means with their G and Q: mostly all problems'
        for at in np.ndindex(*means.shape[:-2]):
            if known is None or not np.array_equal(known[0], state.rows[at][:count]):
                known = self.base_moments(state, at)
            centers = means[at][count:]
            if self.alpha:
                similar = softmax(TAU * unit(centers) @ unit(means[at][:count]).T)
                centers = (1 - self.alpha) * centers + self.alpha * similar @ means[at][:count]
            gram, sums = moments(novel_draws.random_features(centers, factors[at][count:]))
            ridge = float(state["ridge"][at]) if state.get("ridge") is not None else self.ridge or RIDGE
            yield at, ridge_rows(gram + known[1], np.concatenate([known[2], sums]), ridge)

    def base_moments(self, state: State, at: tuple[int, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The base classes' rows with their G and Q."""
        count = state.base_count
        means, factors = (part[at][:count] for part in self.unpack(state))
        made = state.base.derived.get(self)
        if made is None or not np.array_equal(made[0], state.rows[at][:count]):
            found = moments(self.draws(state, range(count)).random_features(means, factors))
            made = state.base.derived[self] = (state.rows[at][:count], *found)
        return made

    def draws(self, state: State, classes: range, beta: float = 1.0) -> ProjectedDraws:
        """Draws for some classes by their places; ``beta`` is a factor on their covariances."""
        covariance = self.shared_covariance(state)
        d, own = len(covariance), state.rows.shape[-1] // len(covariance) - 1
        projection = self.projection(covariance)
        root = state.base.once(("projected root", self), lambda: root_of(covariance).T @ projection)
        drawn = np.empty((len(classes), self.samples, d + own), covariance.dtype)
        for one, place in zip(drawn, classes, strict=True):
            one[:] = noise((self.samples, d + own), self.seed + 1 + place, covariance)
        drawn *= beta**0.5
        return ProjectedDraws(projection, drawn[..., :d] @ root, drawn[..., d:])
