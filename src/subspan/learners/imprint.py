"""Imprinting (Qi, Brown, Lowe 2018): normalised support means beside the learned, normalised base rows."""

from dataclasses import dataclass

from subspan.learners.parts.cosine import CosineLearner
from subspan.learners.registry import register


@register
@dataclass(frozen=True)
class Imprint(CosineLearner):
    """Imprinted weights in the form of Ren et al.'s re-run: raw features are averaged, then normalised once.

    Predictions are the released code's on the same features.
    """

    name = "imprint"
    summary = "normalised support mean beside the learned base rows; no training"
