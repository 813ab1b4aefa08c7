"""CEC: prototypes and query adapt to each other by one layer of attention, meta-trained on pretended sessions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.rows import with_learned
from subspan.learners.parts.vectors import cosine_scores
from subspan.learners.registry import register
from subspan.learners.training.episodes import check_examples, draw_classes, draw_items, dropped
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.trained_system import TrainedSystem
from subspan.values import check_options, option

NORM_EPSILON = 1e-5
Drop = Callable[[Tensor], Tensor]


@register
@dataclass(frozen=True)
class Cec(TrainedSystem):
    """Continually evolved classifiers: graph attention over all prototypes and the query.

    A session appends class means. A query x and all prototypes, t = (p_1, ..., p_C, x), adapt to each other by one
    layer of self-attention; cosines of the outcome score [C]:

        u_i = LayerNorm(t_i + F sum_j softmax_j(t_i . Q^T K t_j / sqrt(d)) V t_j),   score_c = 16 cos(u_x, u_c)

    Q, K, V, F and the normalisation are trained on pretended sessions, in which turned images of base classes are
    further classes [C].

    Reference: Zhang, Song, Lin, Zheng, Pan, Xu, Few-Shot Incremental Learning with Continually Evolved Classifiers,
    CVPR 2021. Setting: multi-session, backbone trained with a cosine head of scale 16.

    Departures [ours]: the backbone, whose weights move at the same rate in the original, is frozen. Where there are no
    features of turned images, other base classes take their place; the part says which (``turned``).
    """

    name = "cec"
    summary = "class means and the query adapt to each other by meta-trained attention, then cosine"
    reference = "Zhang et al., CVPR 2021"
    marks = "C; backbone frozen, other base classes where there are no turned images: ours"
    needs = frozenset({"means"})
    uses_turned = True
    training = Training(
        steps=5000,
        batch=1,
        rates=(2e-4, 1e-4, 5e-5, 2.5e-5, 1.25e-5),
        rate_cuts=(0.2, 0.4, 0.6, 0.8),
        optimiser="sgd",
        weight_decay=5e-4,
    )
    ways: int = option(15, "classes in each half of a pretended session")
    shots: int = option(1, "examples in a prototype of a pretended session")
    queries: int = option(15, "queries of each class in a pretended session")
    dropout: float = option(0.5, "dropout on attention and on what it gives, in training")
    scale: float = option(16.0, "factor on the cosines")

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("ways", "shots", "queries")}, below_one=("dropout",))

    def train_part(self, features: TrainingFeatures, run: TrainingRun) -> dict[str, Tensor]:
        width, rows, generator = features.width, features.base.rows, run.generator("start")
        count = self.ways if features.turned is not None else 2 * self.ways
        if count > features.class_count:
            raise ValueError(
                f"a pretended session of {self.ways} + {self.ways} classes needs {count} base classes; there are "
                f"{features.class_count}; set ways"
            )
        check_examples(features, self.shots, self.queries)

        def start() -> Tensor:
            return (torch.randn(width, width, generator=generator) / width**0.5).to(rows)

        parameters = {name: start() for name in ("query_map", "key_map", "value_map", "outcome_map")}
        parameters |= {name: torch.zeros_like(rows[0]) for name in ("outcome_bias", "norm_bias")}
        parameters["norm_gain"] = torch.ones_like(rows[0])

        def loss(live: Mapping[str, Tensor], generator: torch.Generator) -> Tensor:
            examples = self.pretended(features, run.settings.batch, generator)  # (E, 2 ways, shots + queries, d)
            support, queries = examples[:, :, : self.shots].mean(2), examples[:, :, self.shots :].flatten(1, 2)
            logits = self.scale * dropped_cosines(
                merged(live), support, queries, lambda values: dropped(values, self.dropout, generator)
            )
            labels = torch.arange(2 * self.ways, device=logits.device).repeat_interleave(self.queries)
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits)))

        return merged(run.minimise(parameters, loss, "meta-training"))

    def pretended(self, features: TrainingFeatures, count: int, generator: torch.Generator) -> Tensor:
        """Examples (count, 2 ways, shots + queries, d) of pretended sessions, the classes that play novel last."""
        turned, wanted = features.turned, self.shots + self.queries
        classes = draw_classes(features, count, generator)[:, : self.ways * (2 if turned is None else 1)]
        items = draw_items(features, classes, wanted, generator)
        place = classes[..., None].to(features.features.device), items.to(features.features.device)
        plain = features.features[place]
        if turned is None:
            return plain
        quarters = torch.randint(3, (*classes.shape, 1), generator=generator).expand_as(items)
        return torch.cat([plain, turned[*place, quarters.to(turned.device)]], dim=1)

    def base_rows(self, base: Base) -> Tensor:
        self.part(base)
        return base.means

    def learn(self, state: State, session: Session) -> State:
        learned = class_means(session.support, session.labels, session.classes)
        return state.after(rows=with_learned(state, session, learned))

    def scores(self, state: State, queries: Tensor) -> Tensor:
        trained = self.part(state.base)
        part, scale = trained.to(state.base.rows), self.as_trained(trained).scale
        return scale * adapted_cosines(part, state.rows, queries.expand(*state.rows.shape[:-2], -1, -1))


def merged(part: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The layer by what of it matters: Q^T K / sqrt(d) (d, d) and F V (d, d), with F's bias and the normalisation."""
    kept = {name: part[name] for name in ("outcome_bias", "norm_gain", "norm_bias")}
    width = len(part["norm_gain"])
    kept["pairs"] = part["query_map"].mT @ part["key_map"] / width**0.5
    kept["values"] = part["outcome_map"] @ part["value_map"]
    return kept


def adapted_cosines(part: Mapping[str, Tensor], rows: Tensor, queries: Tensor) -> Tensor:
    """Cosines (*batch, q, C) of queries (*batch, q, d) and prototypes (*batch, C, d) after one layer of attention.

    A prototype looks at the prototypes, whatever the query, and at the query: what comes of it is a sum
    t = p_i + F's bias + (1 - b) m_i + b v_q with one number b per pair, so its cosine after the normalisation follows
    from inner products, and nothing of size q C d is made.
    """
    by_rows, by_queries = rows @ part["pairs"], queries @ part["pairs"]  # t_i Q^T K
    among = by_rows @ rows.mT
    row_values, query_values = rows @ part["values"].mT, queries @ part["values"].mT
    of_queries = torch.cat([by_queries @ rows.mT, (by_queries * queries).sum(-1, keepdim=True)], dim=-1).softmax(-1)
    moved = of_queries[..., :-1] @ row_values + of_queries[..., -1:] * query_values
    adapted = _normalised(part, queries + moved + part["outcome_bias"])
    # The query's share b in what a prototype looks at, (*batch, q, C).
    share = torch.sigmoid(queries @ by_rows.mT - torch.logsumexp(among, dim=-1)[..., None, :])

    def centred(vectors: Tensor) -> Tensor:
        return vectors - vectors.mean(-1, keepdim=True)

    # t = own + (1 - b) others + b query, each centred, as the normalisation begins
    own = centred(rows + part["outcome_bias"])
    others, query = centred(among.softmax(-1) @ row_values), centred(query_values)
    gain, bias = part["norm_gain"], part["norm_bias"]

    def product(weight: Tensor) -> Tensor:
        """Inner products of t and a vector of the query, weight (*batch, q, d)."""
        by_query = (query * weight).sum(-1, keepdim=True)
        return weight @ own.mT + (1 - share) * (weight @ others.mT) + share * by_query

    def square(weight: Tensor) -> Tensor:
        """Squared length of t in a metric (d,)."""
        fixed = [((a * b) * weight).sum(-1)[..., None, :] for a, b in ((own, own), (own, others), (others, others))]
        crossed = [(query * weight) @ a.mT for a in (own, others)]
        rest, of_query = 1 - share, (query.square() * weight).sum(-1, keepdim=True)
        without = fixed[0] + 2 * rest * fixed[1] + rest**2 * fixed[2]
        return without + 2 * share * (crossed[0] + rest * crossed[1]) + share**2 * of_query

    deviation = (square(torch.ones_like(gain)) / rows.shape[-1] + NORM_EPSILON).sqrt()
    along = product(gain * adapted) / deviation + (adapted @ bias)[..., None]
    constant = (gain * bias).expand(query.shape)
    length = square(gain**2) / deviation**2 + 2 * product(constant) / deviation + bias.square().sum()
    return along / (length.clamp_min(0).sqrt() * adapted.norm(dim=-1, keepdim=True)).clamp_min(1e-12)


def dropped_cosines(part: Mapping[str, Tensor], rows: Tensor, queries: Tensor, drop: Drop) -> Tensor:
    """`adapted_cosines` with dropout on attention and on what F gives, as in training."""
    by_rows, by_queries = rows @ part["pairs"], queries @ part["pairs"]
    row_values, query_values = rows @ part["values"].mT, queries @ part["values"].mT
    # What prototypes look at, (*batch, q, C, C + 1): one another, and the query; and the same for queries.
    among = (by_rows @ rows.mT)[..., None, :, :].expand(*rows.shape[:-2], queries.shape[-2], -1, -1)
    of_rows = drop(torch.cat([among, (queries @ by_rows.mT)[..., None]], dim=-1).softmax(-1))
    itself = (by_queries * queries).sum(-1, keepdim=True)
    of_queries = drop(torch.cat([by_queries @ rows.mT, itself], dim=-1).softmax(-1))
    among_rows = (of_rows[..., :-1].flatten(-3, -2) @ row_values).unflatten(-2, of_rows.shape[-3:-1])
    moved_rows = among_rows + of_rows[..., -1:] * query_values[..., None, :]
    moved_queries = of_queries[..., :-1] @ row_values + of_queries[..., -1:] * query_values
    adapted = _normalised(part, rows[..., None, :, :] + drop(moved_rows + part["outcome_bias"]))  # (*batch, q, C, d)
    asked = _normalised(part, queries + drop(moved_queries + part["outcome_bias"]))
    return cosine_scores(adapted, asked[..., None, :])[..., 0, :]


def _normalised(part: Mapping[str, Tensor], vectors: Tensor) -> Tensor:
    shape = vectors.shape[-1:]
    return torch.nn.functional.layer_norm(vectors, shape, part["norm_gain"], part["norm_bias"], NORM_EPSILON)
