"""TOPIC: the last unit of the network learns every session, held where it was by the nodes of a neural gas."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from subspan.backbones.heads import CosineHead, LinearHead
from subspan.engine.contract import Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.vectors import unit
from subspan.learners.registry import register
from subspan.learners.training.network_system import NetworkSystem, Prepared, in_state, tail_in
from subspan.learners.training.neural_gas import GasSettings, NeuralGas, describe, spread_start
from subspan.learners.training.run import TrainingRun
from subspan.learners.training.session_training import Parameters
from subspan.train.maps import SplitMaps
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class Topic(NetworkSystem):
    """Topology-preserving knowledge incrementer: a reconstruction.

    A neural gas of 400 nodes learns the base features and holds the network's last unit, which every session trains
    with new rows; old rows stay [C]. With f_j a node's image and m its centre it minimises

        CE + anchor mean_j s_j (f_j - f_old,j)^2 + attract mean |f - m_y|^2 + repel sum max(0, xi - |m_new - m_i|)

    Reference: Tao, Hong, Chang, Dong, Wei, Gong, Few-Shot Class-Incremental Learning, CVPR 2020. Setting:
    multi-session. Loop and scripts were released; gas and losses are recalled [M]. It stores their images; tables call
    it memory-free.

    Departures [ours]: our base session; a step sees all support copies and nodes; the anchor's mean is over nodes and
    dimensions; unit features are scaled, to keep base logits; no epoch is chosen by test accuracy. The network's rate
    is a tenth of the published 0.1, which throws small weights about.
    """

    kind = "network-system"
    name = "topic"
    summary = "fine-tunes the last unit, held by a neural gas over base features; a reconstruction"
    reference = "Tao et al. (TOPIC), CVPR 2020"
    marks = "C: scripts' settings; M: neural gas and losses, a reconstruction; batches, scales, network's rate: ours"
    protocol = "multi-session"
    where = "unit"
    nodes: int = option(400, "nodes of the neural gas, each with one base image")
    gas_rate: float = option(0.02, "how far the nearest node moves towards a feature (eta)")
    gas_reach: float = option(1.0, "ranks over which that falls to 1/e (alpha)")
    gas_age: int = option(200, "age at which an edge is dropped (T)")
    gas_passes: int = option(2, "passes over the base features")
    anchor: float = option(350.0, "weight of the anchor loss: how firmly old nodes stay")
    attract: float = option(0.3, "weight of the distance of support features to their node")
    repel: float = option(1e-5, "weight of the hinge between new nodes and neighbours of other labels")
    margin: float = option(0.5, "distance to which those are pushed (xi)")
    epochs: int = option(100, "epochs of a session")
    rate: float = option(0.1, "learning rate of new rows and nodes (SGD); a tenth for the last tenth of the epochs")
    network_rate: float = option(0.01, "learning rate of the network, which falls likewise")
    weight_decay: float = option(5e-4, "weight decay of a session")

    def __post_init__(self) -> None:
        check_options(
            self,
            at_least={1: ("nodes", "gas_passes")},
            not_negative=(
                *("anchor", "attract", "repel", "margin", "gas_age"),
                *("epochs", "rate", "network_rate", "weight_decay"),
            ),
        )

    def prepare(self, maps: SplitMaps, run: TrainingRun) -> Prepared:
        raw = maps.training_features
        rows = _rows_for_unit_features(maps, raw)
        features, generator = unit(raw), run.generator("neural gas")
        gas = NeuralGas.at(spread_start(features, maps.labels, self.nodes, generator))
        order = torch.cat([torch.randperm(len(features), generator=generator) for _ in range(self.gas_passes)])
        done = 0
        for part in order.to(features.device).split(1000):
            gas, done = gas.fed(features[part], self._gas), done + len(part)
            if run.tell is not None:
                missed = float(torch.cdist(features[part], gas.centres).min(1).values.mean())
                run.tell("neural gas", done, len(order), missed)
        facts = describe(gas.centres, features, maps.labels)
        state = {
            "centres": gas.centres,
            "ages": gas.ages,
            "variance": facts.variance,
            "labels": facts.labels,
            "images": maps.training[facts.nearest],
            **in_state(maps.parameters()),
        }
        return Prepared(maps, run, rows, state)

    def notes(self) -> Sequence[str]:
        return (f"It keeps {self.nodes} images of the base classes, and one of every novel class, as anchors.",)

    def learn(self, state: State, session: Session) -> State:
        return self.learn_apart(state, session, self.epochs)

    def scores(self, state: State, queries: Tensor) -> Tensor:
        return unit(self.features_of(state, queries)) @ state.rows.mT

    def learn_one(self, state: Parameters, session: Session, problem: int) -> dict[str, Tensor]:
        maps, old = self.prepared.maps, state["centres"]
        positions, labels = session.support[problem, :, 0], session.labels[problem]
        novel = torch.tensor(session.classes, device=labels.device)
        # A node at the mean of each new class, with the edges that its support makes.
        features = unit(maps.features(positions, tail_in(state)))
        gas = NeuralGas(old, state["ages"]).joined(class_means(features, labels, session.classes))
        gas = gas.fed(features, self._gas, moving=False)
        node_labels = torch.cat([state["labels"], novel])
        # New nodes shun their neighbours with other labels, (K, N + K).
        apart = gas.neighbours()[len(old) :] & (node_labels[len(old) :, None] != node_labels)
        seed, own_node = session.seeds[problem], labels - session.classes[0]
        learned = self._descend(state, positions, own_node, gas.centres[len(old) :], apart, seed)

        # Each new node keeps the nearest image of its support.
        features, centres = unit(maps.features(positions, tail_in(learned))), learned["centres"]
        own = labels == novel[:, None]
        squares = (features - centres[:, None]).square()  # (K, n, d)
        variance = (squares * own[..., None]).sum(1) / own.sum(1, keepdim=True)
        images = positions[squares.sum(-1).masked_fill(~own, torch.inf).argmin(1)].to(state["images"])
        return {
            "rows": torch.cat([state["rows"], learned["rows"]]),
            "centres": torch.cat([old, centres]),
            "ages": gas.ages,
            "variance": torch.cat([state["variance"], variance]),
            "labels": node_labels,
            "images": torch.cat([state["images"], images]),
            "loss": learned["loss"],
            **in_state(tail_in(learned)),
        }

    def _descend(
        self, state: Parameters, positions: Tensor, own_node: Tensor, centres: Tensor, apart: Tensor, seed: int
    ) -> dict[str, Tensor]:
        """Rows and nodes of the new classes, the tail and the last loss () after the epochs of one session.

        The support is at positions (n,), its nodes are own_node (n,) of centres (K, d).
        """
        maps, old_rows, old = self.prepared.maps, state["rows"], state["centres"]
        support, anchors = maps.at(positions), maps.at(state["images"])
        stood = unit(maps.features(state["images"], tail_in(state)))
        stiffness = torch.where(state["variance"] > 0.5, 0.9, 1.0)  # the scripts' factors
        generator = torch.Generator().manual_seed(seed)
        drawn = 0.001 * torch.randn(len(centres), old_rows.shape[1], generator=generator)
        start = {"rows": drawn.to(old_rows), "centres": centres, **in_state(tail_in(state))}
        leaves = {name: t.detach().clone().requires_grad_() for name, t in start.items()}
        groups = [
            {"params": list(tail_in(leaves).values()), "lr": self.network_rate},
            {"params": [leaves["rows"]]},
            {"params": [leaves["centres"]], "weight_decay": 0.0},
        ]
        optimiser = torch.optim.SGD(groups, lr=self.rate, momentum=0.9, nesterov=True, weight_decay=self.weight_decay)
        slower = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda epoch: 0.1 if epoch >= 0.9 * self.epochs else 1.0)
        value = old_rows.new_zeros(())
        for _ in range(self.epochs):
            optimiser.zero_grad()
            with torch.enable_grad():
                features = unit(maps.through(torch.cat([support, anchors]), tail_in(leaves)))
                new, held = features[: len(support)], features[len(support) :]
                value = cross_entropy(session_logits(new, old_rows, leaves["rows"]), len(old_rows) + own_node)
                value = value + self.anchor * (stiffness * (held - stood).square()).mean()
                value = value + self.attract * (new - leaves["centres"][own_node]).square().sum(1).mean()
                value = value + self.repel * overlap(leaves["centres"], old, apart, self.margin)
                value.backward()
            optimiser.step()
            slower.step()
        return {name: leaf.detach() for name, leaf in leaves.items()} | {"loss": value.detach()}

    @property
    def _gas(self) -> GasSettings:
        return GasSettings(self.gas_rate, self.gas_reach, self.gas_age)


def session_logits(features: Tensor, old_rows: Tensor, new_rows: Tensor) -> Tensor:
    """Logits (n, C) of unit features (n, d); those of old rows are constants: no gradient reaches the network by them.

    Trained weights are small, and statistics stay as they are: with a gradient by old rows, whose length is that of a
    trained head, the first step at the scripts' rate throws all features into one direction, from which none returns.
    """
    return torch.cat([features.detach() @ old_rows.mT, features @ new_rows.mT], dim=1)


def overlap(new: Tensor, old: Tensor, apart: Tensor, margin: float) -> Tensor:
    """How much nodes that shall shun each other lack of the margin, in all: of new (K, d) to old and new (N + K, d).

    >>> new, old, shun = torch.tensor([[0.0]]), torch.tensor([[0.3], [0.4], [9.0]]), torch.tensor([[1, 0, 1, 0]])
    >>> overlap(new, old, shun, 0.5)  # 0.5 - 0.3; the second is no neighbour, the third far enough
    tensor(0.2000)
    """
    distances = torch.cdist(new, torch.cat([old, new]))
    return ((margin - distances).clamp(min=0) * apart).sum()


def _rows_for_unit_features(maps: SplitMaps, features: Tensor) -> Tensor:
    """Rows (C0, d) whose inner products with unit features are the trained logits, or nearly: features (N, d)."""
    head, count = maps.head, maps.class_count
    if isinstance(head, CosineHead):
        return (float(head.scale) * unit(head.weight[:count])).detach()
    if not isinstance(head, LinearHead):
        raise ValueError(
            "topic compares directions of features with rows: it needs a base session with a cosine or a linear head"
        )
    return (features.norm(dim=1).mean() * head.weight[:count]).detach()
