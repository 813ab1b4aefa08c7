"""Nearest class mean and decoupled cosine: all classes by the means of their frozen features, no training."""

from dataclasses import dataclass
from typing import Literal

from subspan.arrays import Array
from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.rows import with_learned
from subspan.learners.parts.system import System
from subspan.learners.parts.vectors import cosine_scores, euclidean_scores, unit
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class NearestClassMean(System):
    """Nearest class mean; by cosine it is the "decoupled cosine" on which CEC, FACT and TEEN build.

    With p_c the mean of the raw features of class c, base classes included, the score is cos(x, p_c) [C]. Variants:
    features at length one before the mean (``before``) and the mean itself (``after``); ``distance=euclidean``,
    -|x - p_c|^2, where ``before`` brings queries to length one too. With learned base rows it is `imprint`, with
    centred features `prototype`.

    Reference: Mensink, Verbeek, Perronnin, Csurka, Distance-Based Image Classification, TPAMI 2013; here the helpers of
    CEC (Zhang et al., CVPR 2021), FACT and TEEN. Setting: multi-session, backbone trained with a cosine head of scale
    16.

    Predictions are those of the released helpers on the same features. Departures [ours]: any backbone, whatever its
    head. Support means run over augmented copies. A feature file keeps means of raw base features only, so with
    ``before`` a base prototype is the normalised raw mean.
    """

    arrays = "numpy"
    needs = frozenset({"means"})
    name = "ncm"
    summary = "nearest class mean, by cosine (decoupled cosine) or Euclidean distance; no training"
    reference = "Mensink et al. 2013; CEC's decoupled cosine (Zhang et al. 2021)"
    marks = "C; base means under before=true ours"
    distance: Literal["cosine", "euclidean"] = option("cosine", "what is nearest: by cosine or Euclidean distance")
    before: bool = option(False, "bring features to length one before they are averaged")
    after: bool = option(False, "bring the averages to length one")
    scale: float = option(16.0, "factor on the scores before the softmax of predict_proba")

    def base_rows(self, base: Base) -> Array:
        return self._averaged(self._represent(base.means))

    def learn(self, state: State, session: Session) -> State:
        means = class_means(self._represent(session.support), session.labels, session.classes)
        return state.after(rows=with_learned(state, session, self._averaged(means)))

    def scores(self, state: State, queries: Array) -> Array:
        score = cosine_scores if self.distance == "cosine" else euclidean_scores
        return self.scale * score(state.rows, self._represent(queries))

    def _represent(self, features: Array) -> Array:
        return unit(features) if self.before else features

    def _averaged(self, means: Array) -> Array:
        return unit(means) if self.after else means
