"""Attention Attractor Networks: novel rows are solved for, drawn to targets learned by attention over base rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from subspan.arrays import append_one
from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.heads import attend
from subspan.learners.parts.rows import with_learned, with_places
from subspan.learners.parts.vectors import unit
from subspan.learners.registry import register
from subspan.learners.training.attracted_rows import attracted_rows
from subspan.learners.training.episodes import EpisodeShape, FakeEpisodes, dropped, meta_train
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.trained_system import TrainedSystem
from subspan.values import check_options, option

HIDDEN = 50
TRAINING_TOLERANCE = 1e-5  # of the inner minimum, relative: far below the noise of an episode


@register
@dataclass(frozen=True)
class Attractor(TrainedSystem):
    """Attention attractors, logistic variant: the nearest relative of subspace regularisation.

    Novel rows theta are solved for, drawn to targets that support means c_k find by attention over base rows w_j [C]:

        mean CE + (1e-5 / 2) ||theta||^2 + (1/K) sum_kd gamma_d (theta_kd - u_kd)^2
        u_k = u_0 + sum_j softmax_j(tau cos(c_k, w_j)) U_j,   U_j = A_2 tanh(A_1 w_j + b_1) + b_2

    Episodes in which base classes play novel train the rest. Ablations [M]: ``pull=static``, one target u_0;
    ``pull=none``, the target 0.

    Reference: Ren, Liao, Fetaya, Zemel, Incremental Few-Shot Learning with Attention Attractor Networks, NeurIPS 2019.
    Setting: single session, linear head; a part per number of shots.

    Departures [ours]: gradients by conjugate gradients, which the released recurrent back-propagation approaches; -inf
    hides classes that play novel; no bias where the head has none. Further sessions, which the authors do not define,
    freeze earlier novel rows; attention stays on base rows.
    """

    name = "attractor"
    summary = (
        "novel rows solved for, drawn to meta-trained attractors: attention over base rows, strength per dimension"
    )
    reference = "Ren et al., NeurIPS 2019"
    marks = "C; ablations M; masks of -inf, implicit gradients by conjugate gradients, sessions beyond the first: ours"
    uses_bias = True
    only_batches = True
    training = Training(steps=8000, batch=1, rates=(1e-3, 1e-4), rate_cuts=(0.5,))
    shots: int = option(5, "support examples of a class in the episodes that the attractors are trained on")
    pull: Literal["attention", "static", "none"] = option("attention", "where novel rows are drawn to")
    damping: float = option(0.1, "epsilon in (H + epsilon I) of the implicit gradient, in training; 0: the exact one")
    dropout: float = option(0.1, "dropout on the support means, in training")

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("shots",)}, below_one=("dropout",), not_negative=("damping",))

    def train_part(self, features: TrainingFeatures, run: TrainingRun) -> dict[str, Tensor]:
        features = features.to(run.device, torch.float64)  # the inner problem is solved to convergence
        base, generator = features.base.rows, run.generator("start")
        known = base if features.bias is None else torch.cat([base, features.bias[:, None]], dim=1)
        width = known.shape[1]

        def small(*shape: int) -> Tensor:
            return 0.01 * torch.randn(shape, generator=generator, dtype=torch.float64).to(base)

        strength = 0.1 if self.shots == 1 else 0.01
        parameters = {"log_strength": base.new_full((width,), strength).log()}
        if self.pull != "none":
            parameters["common"] = small(width)
        if self.pull == "attention":
            parameters |= {"hidden_map": small(HIDDEN, base.shape[1]), "hidden_bias": base.new_zeros(HIDDEN)}
            parameters |= {"outcome_map": small(width, HIDDEN), "outcome_bias": base.new_zeros(width)}
            parameters["sharpness"] = base.new_tensor(2.0)

        def loss(part: Mapping[str, Tensor], episodes: FakeEpisodes) -> Tensor:
            support, queries = episodes.support, episodes.queries
            means = dropped(support.mean(2), self.dropout, episodes.generator)
            targets = self.attractors(part, base, means, width, episodes.seen[:, None])
            if features.bias is not None:
                support, queries = append_one(support), append_one(queries)
            visible = known.expand(len(support), -1, -1)[episodes.seen].view(len(support), -1, width)
            labels = torch.arange(support.shape[1], device=base.device).repeat_interleave(support.shape[2])
            novel, _ = attracted_rows(
                support.flatten(1, 2),
                labels.expand(len(support), -1),
                visible,
                targets,
                part["log_strength"].exp(),
                damping=self.damping,
                tolerance=TRAINING_TOLERANCE,
            )
            return episodes.cross_entropy(torch.cat([queries @ known.mT, queries @ novel.mT], dim=-1))

        shape = EpisodeShape(shots=self.shots, novel_queries=5, base_queries=25)
        return meta_train(parameters, loss, features, shape, run)

    def attractors(
        self, part: Mapping[str, Tensor], base_rows: Tensor, means: Tensor, width: int, seen: Tensor | None = None
    ) -> Tensor:
        """The targets u (*batch, K, width) of classes with support means (*batch, K, d); seen (*batch, 1, C0)."""
        if self.pull == "none":
            return means.new_zeros(*means.shape[:-1], width)
        common = part["common"].expand(*means.shape[:-1], width)
        if self.pull == "static":
            return common
        hidden = torch.tanh(base_rows @ part["hidden_map"].mT + part["hidden_bias"])
        values = hidden @ part["outcome_map"].mT + part["outcome_bias"]
        return common + attend(unit(means), unit(base_rows), values, part["sharpness"], seen)

    def base_rows(self, base: Base) -> Tensor:
        self.part(base)
        return base.rows

    def learn(self, state: State, session: Session) -> State:
        trained = self.part(state.base)
        exact = state.base.rows.double()
        part, system = trained.to(exact), self.as_trained(trained)
        rows, support, labels = with_places(state.rows, session), session.support, session.labels
        learning = set(session.classes)
        old = [c for c in range(rows.shape[-2]) if c not in learning]
        place = torch.empty(rows.shape[-2], dtype=torch.int64, device=rows.device)
        place[list(session.classes)] = torch.arange(len(learning), device=rows.device)
        means = class_means(support.double(), labels, session.classes)[..., : trained.width]
        targets = system.attractors(part, exact[:, : trained.width], means, rows.shape[-1])
        learned, steps = attracted_rows(
            support.double(), place[labels], rows[:, old].double(), targets, part["log_strength"].exp()
        )
        return state.after(rows=with_learned(state, session, learned.to(rows)), steps=steps)
