"""LwoF: a meta-trained generator makes the rows of novel classes from their support and the base rows."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.heads import attend
from subspan.learners.parts.rows import with_learned
from subspan.learners.parts.vectors import cosine_scores, unit
from subspan.learners.registry import register
from subspan.learners.training.episodes import EpisodeShape, FakeEpisodes, dropped, meta_train
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.trained_system import TrainedSystem
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class Lwof(TrainedSystem):
    """Dynamic few-shot learning without forgetting: the attention-based weight generator.

    A generator makes a novel row from support features z^ and, by attention with learned keys k_b, from base rows w^_b
    [C]:

        w_avg = mean_i z^_i,   w_att = mean_i sum_b softmax_b(gamma cos(phi_q z^_i, k_b)) w^_b
        w_k   = phi_avg * w_avg + phi_att * w_att,   score = s cos(x, w)

    All is trained on episodes in which base classes play novel, hidden from attention [C].

    Reference: Gidaris, Komodakis, Dynamic Few-Shot Visual Learning without Forgetting, CVPR 2018. Setting: single
    session, backbone trained with a cosine head of learned scale; one generator per number of shots.

    Departures [ours]: features are frozen, so dropout acts on them, at a rate chosen on split 0. Base rows start from
    any head. The cosines' scalar bias, which changes no probability, is left out. In further, undefined sessions
    attention is over base classes alone.
    """

    name = "lwof"
    summary = "a generator, meta-trained on the base classes, makes novel rows by attention over base rows"
    reference = "Gidaris and Komodakis, CVPR 2018"
    marks = "C; dropout on frozen features, sessions beyond the first: ours"
    training = Training(
        steps=60_000,
        batch=8,
        rates=(0.1, 0.006, 0.0012, 0.00024),
        rate_cuts=(1 / 3, 2 / 3, 5 / 6),
        optimiser="sgd",
        weight_decay=5e-4,
    )
    shots: int = option(5, "support examples of a class in the episodes that the generator is trained on")
    attention: bool = option(True, "attend to base rows; False: the average of the support alone")
    dropout: float = option(0.0, "share of a feature's numbers set to zero in training")

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("shots",)}, below_one=("dropout",))

    def train_part(self, features: TrainingFeatures, run: TrainingRun) -> dict[str, Tensor]:
        rows, generator, width = features.base.rows, run.generator("start"), features.width

        def noise(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator).to(rows)

        parameters = {
            "base_rows": unit(rows),
            "average": torch.ones_like(rows[0]),
            "scale": rows.new_tensor(10.0),
        }
        if self.attention:
            parameters |= {
                "keys": noise(len(rows), width) * (2 / width) ** 0.5,
                "query_map": torch.eye(width).to(rows) + 0.001 * noise(width, width),
                "query_bias": torch.zeros_like(rows[0]),
                "sharpness": rows.new_tensor(10.0),
                "attended": torch.ones_like(rows[0]),
            }

        def loss(part: Mapping[str, Tensor], episodes: FakeEpisodes) -> Tensor:
            support = dropped(episodes.support, self.dropout, episodes.generator)
            made = self.generated(part, support.flatten(1, 2), episodes.seen[:, None]).unflatten(1, support.shape[1:3])
            base = part["base_rows"].expand(len(support), -1, -1)
            queries = dropped(episodes.queries, self.dropout, episodes.generator)
            return episodes.cross_entropy(
                part["scale"] * cosine_scores(torch.cat([base, made.mean(2)], dim=1), queries)
            )

        return meta_train(parameters, loss, features, EpisodeShape(shots=self.shots), run)

    def generated(self, part: Mapping[str, Tensor], support: Tensor, seen: Tensor | None = None) -> Tensor:
        """What each support feature (*batch, n, d) says of its class's row (*batch, n, d); seen (*batch, 1, C0)."""
        support = unit(support)
        made = part["average"] * support
        if not self.attention:
            return made
        queries = unit(support @ part["query_map"].mT + part["query_bias"])
        keys, values = unit(part["keys"]), unit(part["base_rows"])
        return made + part["attended"] * attend(queries, keys, values, part["sharpness"], seen)

    def base_rows(self, base: Base) -> Tensor:
        return unit(self.part(base).to(base.rows)["base_rows"])

    def learn(self, state: State, session: Session) -> State:
        part = self.part(state.base)
        made = self.as_trained(part).generated(part.to(state.base.rows), session.support)
        learned = unit(class_means(made, session.labels, session.classes))
        return state.after(rows=with_learned(state, session, learned))

    def scores(self, state: State, queries: Tensor) -> Tensor:
        return self.part(state.base).to(state.base.rows)["scale"] * cosine_scores(state.rows, queries)
