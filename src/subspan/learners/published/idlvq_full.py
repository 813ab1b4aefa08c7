"""IDLVQ-C in its full form: reference vectors and the last stage of the network learn together, session by session."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.contract import Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.vectors import euclidean_scores, unit
from subspan.learners.published.idlvq import quantisation_loss, spread_within
from subspan.learners.registry import register
from subspan.learners.training.network_system import NetworkSystem, Prepared, in_state, tail_in
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.session_training import Parameters, descend
from subspan.train.maps import SplitMaps
from subspan.values import check_options, option

GAMMAS = tuple(float(gamma) for gamma in torch.logspace(-1, 3, 17))  # among which the first gamma is looked for


@dataclass(frozen=True, eq=False)
class QuantisedBase(Prepared):
    """References are rows; the state has log_gamma, the positions of exemplars (C0,) and the tail's parameters."""

    unit_length: Tensor  # (): of distances: root of the mean squared distance of a base feature to its class's mean


@register
@dataclass(frozen=True)
class Idlvq(NetworkSystem):
    """Incremental deep learning vector quantisation with calibration (IDLVQ-C), with the network: a reconstruction.

    The reference vector m_i nearest to f(x) answers; p(i | x) is a softmax of -gamma |f(x) - m_i|^2. Network and
    references minimise the first two terms on base images, all three on new images and one exemplar x_e per old class
    [M]:

        -log p(y | x) + base_intra |f(x) - m_y|^2 + forgetting mean_e |f(x_e) - f_old(x_e)|^2

    Old references then follow the exemplars' drift, by nearness.

    Reference: Chen, Lee, Incremental Few-Shot Learning via Vector Quantization in Deep Embedded Space, ICLR 2021.
    Setting: multi-session, one stored image per class. No code was released: equations are recalled.

    Departures [ours]: only our network's last stage moves. Distances are in units of their mean within base classes.
    Hyper-parameters are chosen on split 0. Features have length one: those of unseen classes are short, and their
    references would take base images.
    """

    kind = "network-system"
    renamed_options = {"forget": "forgetting"}  # noqa: RUF012 (a class attribute)
    name = "idlvq-full"
    summary = "reference vectors that learn together with the last stage; a reconstruction"
    reference = "Chen and Lee (IDLVQ-C), ICLR 2021"
    marks = "M: a reconstruction; last stage of our base session, length one, all hyper-parameters: ours"
    protocol = "multi-session"
    where = "stage"
    uses_memory = True
    training = Training(steps=1000, batch=128, rates=(1e-3, 1e-4), rate_cuts=(0.7,), optimiser="sgd", nesterov=False)
    base_intra: float = option(0.01, "weight of the distance to the own reference, on base classes")
    intra: float = option(0.01, "weight of the distance to the own reference, in sessions")
    forgetting: float = option(10.0, "weight of the drift of exemplars")
    sigma: float = option(0.5, "how far exemplars count in the calibration of a reference")
    epochs: int = option(100, "steps of a session, each over all its images")
    rate: float = option(1e-4, "learning rate of a session (Adam)")

    def __post_init__(self) -> None:
        check_options(self, not_negative=("base_intra", "intra", "forgetting", "epochs", "rate"), positive=("sigma",))

    def notes(self) -> Sequence[str]:
        return ("It keeps one image of every class that it has learned.",)

    def prepare(self, maps: SplitMaps, run: TrainingRun) -> QuantisedBase:
        features, labels = unit(maps.training_features), maps.labels
        means = class_means(features, labels, tuple(range(maps.class_count)))
        unit_length = spread_within(features, means, labels).sqrt()
        log_gamma = _best_log_gamma(means / unit_length, features / unit_length, labels, self.base_intra)
        start = {"references": means / unit_length, "log_gamma": log_gamma, **in_state(maps.parameters())}

        def loss(live: Parameters, generator: torch.Generator) -> Tensor:
            chosen = torch.randint(len(labels), (run.settings.batch,), generator=generator).to(labels.device)
            found = unit(maps.through(maps.at(maps.training[chosen]), tail_in(live))) / unit_length
            return quantisation_loss(live, found[None], labels[chosen][None], self.base_intra)[0]

        learned = run.minimise(start, loss, "base references")
        references = learned.pop("references") * unit_length
        after = unit(maps.features(maps.training, tail_in(learned)))
        distances = torch.stack([(after - references[c]).square().sum(1) for c in range(maps.class_count)])
        own = labels == torch.arange(maps.class_count, device=labels.device)[:, None]
        exemplars = maps.training[distances.masked_fill(~own, torch.inf).argmin(1)]
        return QuantisedBase(maps, run, references, {**learned, "exemplars": exemplars}, unit_length)

    def learn(self, state: State, session: Session) -> State:
        return self.learn_apart(state, session, self.epochs)

    def scores(self, state: State, queries: Tensor) -> Tensor:
        unit_length, features = self.prepared.unit_length, unit(self.features_of(state, queries))
        gamma = state["log_gamma"].exp()[:, None, None]
        return gamma * euclidean_scores(state.rows / unit_length, features / unit_length)

    def learn_one(self, state: Parameters, session: Session, problem: int) -> dict[str, Tensor]:
        maps, unit_length, ways = self.prepared.maps, self.prepared.unit_length, session.classes
        old, positions, labels = state["rows"], session.support[problem, :, 0], session.labels[problem]
        shown = maps.at(torch.cat([positions, state["exemplars"].to(positions)]))
        every = torch.cat([labels, torch.arange(len(old), device=labels.device)])
        with torch.no_grad():
            before = unit(maps.through(shown, tail_in(state))) / unit_length
        support, stored = before[: len(positions)], before[len(positions) :]
        value = torch.zeros(())

        def loss(live: Parameters, step: int) -> Tensor:
            nonlocal value
            features = unit(maps.through(shown, tail_in(live))) / unit_length
            references = torch.cat([old / unit_length, live["references"]])
            missed = quantisation_loss({**live, "references": references}, features[None], every[None], self.intra)[0]
            value = missed + self.forgetting * (features[len(positions) :] - stored).square().sum(1).mean()
            return value

        start = {"references": class_means(support, labels, ways), "log_gamma": state["log_gamma"]}
        start |= in_state(tail_in(state))
        learned = descend(start, loss, [self.rate] * self.epochs, rule="adam")
        with torch.no_grad():
            after = unit(maps.through(shown, tail_in(learned))) / unit_length
        kept = calibrated(old / unit_length, stored, after[len(positions) :], self.sigma)
        own = labels == torch.tensor(ways, device=labels.device)[:, None]
        distances = torch.cdist(learned["references"], after[: len(positions)])
        nearest = positions[distances.masked_fill(~own, torch.inf).argmin(1)].to(state["exemplars"])
        return {
            "rows": torch.cat([kept, learned["references"]]) * unit_length,
            "exemplars": torch.cat([state["exemplars"], nearest]),
            "log_gamma": learned["log_gamma"],
            "loss": value.detach(),
            **in_state(tail_in(learned)),
        }


def calibrated(references: Tensor, before: Tensor, after: Tensor, sigma: float) -> Tensor:
    """References (C, d) after exemplars moved from ``before`` (m, d) to ``after`` (m, d): near ones count most.

    >>> references, before = torch.tensor([[0.0], [100.0]]), torch.tensor([[1.0], [99.0]])
    >>> calibrated(references, before, before + torch.tensor([[0.5], [-0.25]]), sigma=1.0)
    tensor([[ 0.5000],
            [99.7500]])
    """
    weights = torch.softmax(-torch.cdist(references, before).square() / (2 * sigma**2), dim=1)
    return references + weights @ (after - before)


def _best_log_gamma(references: Tensor, features: Tensor, labels: Tensor, intra: float) -> Tensor:
    """The logarithm () of that of some gammas with the least loss on features (n, d)."""
    losses = []
    for gamma in GAMMAS:
        parameters = {"references": references, "log_gamma": features.new_tensor(math.log(gamma))}
        losses.append(float(quantisation_loss(parameters, features[None], labels[None], intra)[0]))
    return features.new_tensor(math.log(GAMMAS[losses.index(min(losses))]))
