"""TEEN: novel prototypes are drawn towards the base prototypes they resemble."""

from dataclasses import dataclass

from subspan.arrays import Array
from subspan.engine.contract import Base
from subspan.learners.parts.cosine import CosineLearner
from subspan.learners.parts.system import System
from subspan.learners.parts.vectors import drawn_towards, unit
from subspan.learners.registry import register
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class Teen(System, CosineLearner):
    """Training-free prototype calibration.

    A novel prototype is drawn, once, in its own session, towards the base prototypes that it resembles. With p^ a class
    mean at length one, base classes b and a novel class k [C]:

        a_b = softmax_b(tau p^_k . p^_b),   d_k = unit(sum_b a_b p^_b),   p_k = (1 - alpha) p^_k + alpha d_k

    Scores are cosines.

    Reference: Wang, Zhou, Zhang, Zhan, Ye, Few-Shot Class-Incremental Learning via Training-Free Prototype Calibration,
    NeurIPS 2023. Setting: multi-session, cosine-trained backbone (scale 32, 1000 epochs).

    Predictions are the released code's. Tables use its alpha of 0.5, which its miniImageNet script leaves as it is; its
    CIFAR script sets 0.1. Departures [ours]: any frozen backbone; TEEN's own base session is not part of this. Support
    means run over the augmented copies of the feature file.
    """

    name = "teen"
    summary = "support means drawn towards similar base means; no training"
    reference = "Wang et al., NeurIPS 2023"
    marks = "C (tau, alpha: the released code's defaults)"
    needs = frozenset({"means"})
    alpha: float = option(0.5, "share of similar base prototypes in a novel one")
    tau: float = option(16.0, "factor on the cosines whose softmax says how similar base prototypes are")

    def __post_init__(self) -> None:
        check_options(self, shares=("alpha",))

    def base_rows(self, base: Base) -> Array:
        return unit(base.means)

    def row_of_mean(self, base: Base, mean: Array) -> Array:
        return drawn_towards(unit(mean), self.base_rows(base), self.alpha, self.tau)
