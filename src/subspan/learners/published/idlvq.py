"""IDLVQ-C in its frozen form: one learned reference vector per class, the nearest one answers."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from subspan.engine.contract import Base, Session, State
from subspan.learners.parts.rows import with_places
from subspan.learners.parts.vectors import euclidean_scores
from subspan.learners.registry import register
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.session_training import Parameters, SessionTrainedSystem, descend, with_memories
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class FrozenIdlvq(SessionTrainedSystem):
    """Incremental deep learning vector quantisation on frozen features: a reconstruction.

    The reference vector m_i nearest to x answers; a new one starts at its support's mean. p(i | x) is a softmax of
    -gamma |x - m_i|^2. References and gamma minimise [M], over base examples, then over new and stored ones,

        -log p(y | x) + intra |x - m_y|^2

    Reference: Chen, Lee, Incremental Few-Shot Learning via Vector Quantization in Deep Embedded Space, ICLR 2021.
    Setting: multi-session, one stored example per old class, network and references learned together. No code was
    released: equations are recalled.

    Departures [ours]: features are frozen and drift nowhere, so old references stay (``old=held``); ``old=trained``
    lets them follow their one stored example. Distances are in units of their mean within base classes. Rates, steps
    and intra are chosen on split 0. Without memory, sessions see new examples only.
    """

    name = "idlvq"
    summary = "nearest learned reference vector, frozen features; a reconstruction"
    reference = "Chen and Lee (IDLVQ-C, frozen form), ICLR 2021"
    marks = "M: a reconstruction; frozen features: ours"
    needs = frozenset({"means"})
    uses_memory = True
    training = Training(steps=500, batch=512, rates=(1e-3, 1e-4), rate_cuts=(0.7,))
    of_the_part = ("base_intra",)
    base_intra: float = option(0.1, "weight of the distance to the own reference, on base classes")
    intra: float = option(0.1, "weight of the distance to the own reference, in sessions")
    old: Literal["held", "trained"] = option("held", "whether a session's examples move the references of old classes")
    steps: int = option(100, "steps of a session")
    rate: float = option(1e-4, "learning rate of a session (Adam)")

    def __post_init__(self) -> None:
        check_options(self, not_negative=("base_intra", "intra", "steps", "rate"))

    def train_part(self, features: TrainingFeatures, run: TrainingRun) -> dict[str, Tensor]:
        examples, labels = features.examples()
        means = torch.stack([examples[labels == c].mean(0) for c in range(features.class_count)])
        spread = spread_within(examples, means, labels)
        # gamma starts at that of a round Gaussian with this spread: 1 / (2 variance), in these units
        start = {"references": means / spread.sqrt(), "log_gamma": torch.log(torch.tensor(features.width / 2))}

        def loss(parameters: Parameters, generator: torch.Generator) -> Tensor:
            chosen = torch.randint(len(examples), (run.settings.batch,), generator=generator).to(examples.device)
            scaled = examples[chosen] / spread.sqrt()
            return quantisation_loss(parameters, scaled[None], labels[chosen][None], self.base_intra)[0]

        found = run.minimise({name: tensor.to(examples) for name, tensor in start.items()}, loss)
        return {"references": found["references"] * spread.sqrt(), "log_gamma": found["log_gamma"], "spread": spread}

    def base_rows(self, base: Base) -> Tensor:
        return self.part(base).to(base.rows)["references"]

    def learn(self, state: State, session: Session) -> State:
        rows = with_places(state.rows, session)
        rows[..., list(session.classes), :] = session.means
        parameters = self.parameters(state)
        unit_length = parameters["spread"][..., None, None].sqrt()
        features, labels = with_memories(session)
        features = features / unit_length

        first = session.classes[0] if self.old == "held" else 0
        held = rows[..., :first, :] / unit_length

        def loss(moving: Parameters, step: int) -> Tensor:
            references = torch.cat([held, moving["references"]], dim=-2)
            return quantisation_loss({**moving, "references": references}, features, labels, self.intra)

        start = {"references": rows[..., first:, :] / unit_length, "log_gamma": parameters["log_gamma"]}
        learned = descend(start, loss, [self.rate] * self.steps, rule="adam")
        rows[..., first:, :] = learned["references"] * unit_length
        return state.after(rows=rows, log_gamma=learned["log_gamma"], steps=self.steps)

    def scores(self, state: State, queries: Tensor) -> Tensor:
        parameters = self.parameters(state)
        gamma = parameters["log_gamma"].exp() / parameters["spread"]
        return gamma[..., None, None] * euclidean_scores(state.rows, queries)


def spread_within(features: Tensor, means: Tensor, labels: Tensor) -> Tensor:
    """Mean squared distance of features (n, d) to the means (C, d) of their classes, labels (n,): the unit of all."""
    spread = (features - means[labels]).square().sum(-1).mean()
    if not spread > 0:
        raise ValueError(
            f"distances are in units of the spread within classes, which is {spread:g} over {len(features)} images of "
            f"{len(means)} classes; learn from classes of two and more different images"
        )
    return spread


def quantisation_loss(parameters: Parameters, features: Tensor, labels: Tensor, intra: float) -> Tensor:
    """Loss (E,) of features (E, n, d) with labels (E, n): -log p of the own class, and the distance to its reference.

    ``parameters`` are references (*E, C, d) and log_gamma (*E).
    """
    distances = -euclidean_scores(parameters["references"], features)
    logits = -parameters["log_gamma"].exp()[..., None, None] * distances
    missed = cross_entropy(logits.mT, labels, reduction="none").mean(-1)
    return missed + intra * distances.gather(-1, labels[..., None])[..., 0].mean(-1)
