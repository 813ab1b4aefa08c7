"""XtarNet: a second, meta-trained last stage beside the frozen one, merged and conditioned for every episode."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, relu

from subspan.backbones.cut import Tail
from subspan.backbones.heads import EuclideanHead, LinearHead
from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.vectors import euclidean_scores, unit
from subspan.learners.registry import register
from subspan.learners.training.episodes import EpisodeShape, FakeEpisodes, Parameters, meta_train
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.network_system import NetworkSystem, Prepared, in_state, tail_in
from subspan.learners.training.run import Training, TrainingRun
from subspan.train.maps import SplitMaps
from subspan.train.parts.network import CHUNK
from subspan.values import check_options, option

# The layers of the small nets: which of them have a shortcut.
MERGE, CONDITION, CORRELATION = (False,) * 4, (True,) * 3, (False, True, True)
SHARE = 0.1  # of what conditioning changes in a base row
LOG_SCALE = "log_scale"


@dataclass(frozen=True, eq=False)
class MetaTrained(Prepared):
    """What all episodes of a split share."""

    parameters: Parameters
    features: Tensor  # (P, 2 D): frozen and meta-trained features at every position


@dataclass(frozen=True, eq=False)
class Conditioned:
    """The classifier of each of E episodes."""

    rows: Tensor  # (E, C0 + K, D): conditioned base rows, then novel ones
    gates: Tensor  # (E, 2 D): how features of the two stages are merged
    basis: Tensor  # (E, D, K): orthonormal; what is taken out of features and rows

    def scores(self, features: Tensor) -> Tensor:
        """Negative squared distances (E, q, C0 + K) of features (E, q, 2 D) outside the span of the basis."""
        return euclidean_scores(self._outside(self.rows), self._outside(merged(features, self.gates)))

    def _outside(self, vectors: Tensor) -> Tensor:
        return vectors - (vectors @ self.basis) @ self.basis.mT


@register
@dataclass(frozen=True)
class XtarNet(NetworkSystem):
    """Extracting task-adaptive representations (XtarNet).

    A meta-trained copy g of the last stage stands beside the frozen features f. Small nets merge both by the episode's
    mean t, condition base rows w_j by its class means, and new rows o_k come from learned e_k [C]:

        r(x) = sigmoid(MLP_f(t)) * f(x) + sigmoid(MLP_g(t)) * g(x)
        w*_j = (1 + 0.1 gamma(c)) * w_j + 0.1 beta(c),   o_k = e_k - sum_j a_kj w*_j

    Logits are negative squared distances, outside the span of o_k / |o_k| - c_k / |c_k|.

    Reference: Yoon, Kim, Seo, Moon, XtarNet: Learning to Extract Task-Adaptive Representation for Incremental Few-Shot
    Learning, ICML 2020. Setting: single session, five novel classes; a model per number of shots.

    Departures [ours]: fake-novel classes' base rows are masked; released, they stand twice. QR replaces the SVD. Linear
    heads' logits get a learned scale. Testing statistics are computed once. Images are not augmented.
    """

    kind = "network-system"
    name = "xtarnet"
    summary = "a meta-trained last stage beside the frozen one; features and rows adapted to every episode"
    reference = "Yoon et al. (XtarNet), ICML 2020"
    marks = "C; masked fake-novel rows, QR, statistics after training, learned scale for linear heads: ours"
    protocol = "single-session"
    where = "stage"
    training = Training(
        steps=12_000,
        batch=1,
        rates=(0.1, 0.01, 0.001),
        rate_cuts=(1 / 3, 2 / 3),
        optimiser="sgd",
        nesterov=False,
        weight_decay=3e-3,
    )
    shots: int = option(5, "support images of a class: in meta-training, and in the episodes of the protocol")
    ways: int = option(5, "novel classes of an episode: the number of learned vectors e")
    queries: int = option(25, "queries of fake-novel classes in an episode, and as many of base classes")

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("shots", "ways", "queries")})
        if self.queries % self.ways:
            raise ValueError(f"queries must be a multiple of the {self.ways} ways; got {self.queries}")

    @property
    def episode_shots(self) -> int | None:
        return self.shots

    def notes(self) -> Sequence[str]:
        learned = LOG_SCALE in self.prepared.parameters
        head = "a linear head, so logits have a learned scale" if learned else "a Euclidean head, as published"
        return (f"The base session has {head}.", "Base rows of fake-novel classes are masked in meta-training.")

    def prepare(self, maps: SplitMaps, run: TrainingRun) -> MetaTrained:
        rows, scaled = _distance_rows(maps)
        every = torch.arange(len(maps.maps), device=maps.device)
        frozen = maps.features(every)
        branch = _learning_copy(maps.tail)
        start = _start(rows, self.ways, run.generator("start")) | in_state(maps.parameters())
        if scaled:
            start[LOG_SCALE] = rows.new_tensor(math.log(0.5))

        def both(live: Parameters, positions: Tensor) -> Tensor:
            """Features (..., 2 D) at positions (..., 1), those of the second stage with gradient."""
            places = positions[..., 0].long()
            own = frozen[places]
            other = torch.func.functional_call(branch, tail_in(live), (maps.at(places.flatten()),))
            return torch.cat([own, other.view_as(own)], dim=-1)

        def loss(live: Parameters, episodes: FakeEpisodes) -> Tensor:
            count, ways, shots, _ = episodes.support.shape
            asked = torch.cat([episodes.support.flatten(1, 2), episodes.queries], dim=1)
            features = both(live, asked)  # one batch, so that its statistics are of the whole episode
            means = features[:, : ways * shots].view(count, ways, shots, -1).mean(2)
            classifier = condition(live, means, rows, episodes.seen)
            return episodes.cross_entropy(_scale(live) * classifier.scores(features[:, ways * shots :]))

        shape = EpisodeShape(self.ways, self.shots, self.queries // self.ways, self.queries)
        learned = meta_train(start, loss, _as_positions(maps, rows), shape, run)
        answering = _answering_copy(maps, tail_in(learned), run.generator("statistics"))
        with torch.no_grad():
            other = torch.cat([answering(maps.at(part)) for part in every.split(CHUNK)])
        return MetaTrained(maps, run, rows, {}, learned, torch.cat([frozen, other], dim=1))

    def learn(self, state: State, session: Session) -> State:
        if len(session.classes) != self.ways:
            raise ValueError(
                f"xtarnet has learned {self.ways} vectors for novel classes, an episode has {len(session.classes)}; "
                f"train it with ways={len(session.classes)}"
            )
        known = self.prepared
        support = known.features[session.support[..., 0].long()]
        means = class_means(support, session.labels, session.classes)
        found = condition(known.parameters, means, known.rows)
        return state.after(rows=found.rows, gates=found.gates, basis=found.basis)

    def scores(self, state: State, queries: Tensor) -> Tensor:
        """Scores after an episode: there is no session 0 in this protocol."""
        features = self.prepared.features[queries[..., 0].long()]
        found = Conditioned(state.rows, state["gates"], state["basis"])
        return _scale(self.prepared.parameters) * found.scores(features)


def merged(features: Tensor, gates: Tensor) -> Tensor:
    """Features (E, q, D) out of those of both stages (E, q, 2 D) by gates (E, 2 D)."""
    frozen, other = (features * gates[:, None]).chunk(2, dim=-1)
    return frozen + other


def condition(parameters: Parameters, means: Tensor, rows: Tensor, seen: Tensor | None = None) -> Conditioned:
    """The classifiers of E episodes from class means (E, K, 2 D) and base rows (B, D); ``seen`` (E, B) masks rows."""
    task = means.mean(1)  # (E, 2 D)
    gates = torch.cat(
        [torch.sigmoid(_net(parameters, f"merge_{name}", task, MERGE, open_end=True)) for name in ("f", "g")], dim=1
    )
    centres = merged(means, gates)  # (E, K, D)
    middle = centres.mean(1)
    grown = 1 + SHARE * _net(parameters, "gamma", middle, CONDITION, open_end=False)
    base = grown[:, None] * rows + SHARE * _net(parameters, "beta", middle, CONDITION, open_end=False)[:, None]
    products = centres @ base.mT  # (E, K, B)
    if seen is not None:
        products = products * seen[:, None]
    shares = _net(parameters, "correlation", products, CORRELATION, open_end=True)
    if seen is not None:
        shares = shares.masked_fill(~seen[:, None], -torch.inf)
    novel = parameters["e"] - torch.softmax(shares, dim=-1) @ base
    with torch.no_grad():
        basis = torch.linalg.qr((unit(novel) - unit(centres)).mT).Q
    return Conditioned(torch.cat([base, novel], dim=1), gates, basis)


def _net(parameters: Parameters, name: str, x: Tensor, shortcuts: Sequence[bool], *, open_end: bool) -> Tensor:
    """Layers with ReLU, each with a shortcut around it or without; with an open end the last one lacks the ReLU."""
    for place, shortcut in enumerate(shortcuts):
        inner = linear(x, parameters[f"{name}.{place}.weight"], parameters[f"{name}.{place}.bias"])
        inner = inner if open_end and place == len(shortcuts) - 1 else relu(inner)
        x = x + inner if shortcut else inner
    return x


def _scale(parameters: Mapping[str, Tensor]) -> Tensor | float:
    return parameters[LOG_SCALE].exp() if LOG_SCALE in parameters else 1.0


def _start(rows: Tensor, ways: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Parameters of all nets and e, drawn on the CPU."""
    classes, width = rows.shape
    shapes: dict[str, tuple[int, int]] = {}
    for name in ("merge_f", "merge_g"):
        shapes |= {f"{name}.{place}": (width if place else 2 * width, width) for place in range(len(MERGE))}
    for name in ("gamma", "beta"):
        shapes |= {f"{name}.{place}": (width, width) for place in range(len(CONDITION))}
    shapes |= {f"correlation.{place}": (classes, classes) for place in range(len(CORRELATION))}
    drawn: dict[str, Tensor] = {}
    for name, (inputs, outputs) in shapes.items():
        bound = 1 / math.sqrt(inputs)
        drawn[f"{name}.weight"] = torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator)
        drawn[f"{name}.bias"] = torch.empty(outputs).uniform_(-bound, bound, generator=generator)
    directions = unit(torch.randn(ways, width, generator=generator))
    drawn["e"] = directions * float(rows.norm(dim=1).mean())
    return {name: tensor.to(rows) for name, tensor in drawn.items()}


def _distance_rows(maps: SplitMaps) -> tuple[Tensor, bool]:
    """Base rows (C0, D) to which distances are measured, and whether these need a scale."""
    head = maps.head
    if not isinstance(head, EuclideanHead | LinearHead):
        raise ValueError(
            "xtarnet measures distances to rows: it needs a base session with a Euclidean head (--head euclidean), or "
            "with a linear one"
        )
    return head.weight[: maps.class_count].detach().float(), not isinstance(head, EuclideanHead)


def _as_positions(maps: SplitMaps, rows: Tensor) -> TrainingFeatures:
    """The base training images with positions (C0, n, 1) in place of features."""
    counts = torch.bincount(maps.labels, minlength=maps.class_count)
    places = [maps.training[maps.labels == c].float() for c in range(maps.class_count)]
    filled = nn.utils.rnn.pad_sequence(places, batch_first=True)[..., None]
    return TrainingFeatures(filled, counts, Base(rows), "real")


def _normalisations(tail: nn.Module) -> list[nn.BatchNorm2d]:
    return [part for part in tail.modules() if isinstance(part, nn.BatchNorm2d)]


def _learning_copy(tail: Tail) -> Tail:
    """A copy that normalises by the statistics of what it is given, and has no dropout."""
    branch = copy.deepcopy(tail).eval()
    for norm in _normalisations(branch):
        norm.track_running_stats = False
        norm.running_mean = norm.running_var = norm.num_batches_tracked = None
    return branch


def _answering_copy(maps: SplitMaps, parameters: Mapping[str, Tensor], generator: torch.Generator) -> Tail:
    """A copy with trained parameters that normalises by the mean statistics over all base training images."""
    branch = copy.deepcopy(maps.tail).eval()
    branch.load_state_dict(dict(parameters), strict=False)
    for norm in _normalisations(branch):
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over batches
        norm.train()
    order = torch.randperm(len(maps.training), generator=generator).to(maps.device)
    with torch.no_grad():
        for part in order.tensor_split(max(1, len(order) // CHUNK)):
            branch(maps.at(maps.training[part]))
    return branch.eval()
