"""Calibrated second-order statistics: FeCAM whose novel classes borrow mean and covariance from base classes."""

from dataclasses import dataclass

from torch import Tensor

from subspan.engine.contract import Base
from subspan.learners.parts.vectors import drawn_towards, unit
from subspan.learners.published.fecam import Fecam
from subspan.learners.registry import register
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class CalibratedFecam(Fecam):
    """FeCAM with calibrated means and covariances of novel classes.

    A novel class k borrows mean and covariance from the base classes b that it resembles, by TEEN's similarities a_kb
    [C]:

        m_k <- (1 - alpha) m^_k + alpha unit(sum_b a_kb m^_b),   S_k <- beta (sum_b a_kb S_b + S_k)

    with beta = 1, tau = 16, alpha 0.1 on fine-grained data and 0.25 on CIFAR. The rest is FeCAM's.

    Reference: Goswami, Twardowski, van de Weijer, Calibrating Higher-Order Statistics for Few-Shot Class-Incremental
    Learning with Pre-trained Vision Transformers, CVPR workshops 2024. Setting: multi-session, frozen transformers.

    Departures [ours]: base classes share one covariance S, so sum_b a_kb S_b is S. The released code adds 100 I, at the
    scale of its transformers' features; here FeCAM's shrinkage stays. Those of `fecam`.
    """

    name = "calibrated-fecam"
    summary = "FeCAM whose novel classes borrow mean and covariance from base classes; no training"
    reference = "Goswami et al., CVPR workshops 2024"
    marks = "C; one base covariance, FeCAM's shrinkage: ours"
    alpha: float = option(0.25, "share of similar base means in a novel one")
    tau: float = option(16.0, "factor on the cosines whose softmax says how similar base means are")
    beta: float = option(1.0, "factor on the sum of base and own covariance of a novel class")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, shares=("alpha",), positive=("beta",))

    def covariance(self, shared: Tensor, factors: Tensor, is_base: bool) -> Tensor:
        together = shared + factors.mT @ factors
        return together if is_base else self.beta * together

    def novel_mean(self, base: Base, mean: Tensor) -> Tensor:
        return drawn_towards(unit(mean), unit(self.base_statistics(base)[0]), self.alpha, self.tau)
