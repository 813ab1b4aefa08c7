"""The ETF neck of NC-FSCIL: features are mapped to the corners of a simplex that is fixed before the first session."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, leaky_relu

from subspan.engine.contract import Base, Session, State
from subspan.learners.parts.heads import simplex
from subspan.learners.parts.vectors import cosine_scores, unit
from subspan.learners.registry import register
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.session_training import (
    Parameters,
    SessionTrainedSystem,
    Span,
    cosine_rates,
    decayed,
    descend,
    drawn_batches,
    initial_layer,
    linear,
    without_repeats,
)
from subspan.values import check_options, option

ENTRANCES = ("first.weight", "shortcut.weight")  # of the layers that features enter
DECAY = 5e-4  # of weights in a session


@register
@dataclass(frozen=True)
class EtfNeck(SessionTrainedSystem):
    """NC-FSCIL's neck and fixed classifier.

    Every class there will ever be has a corner e_c of a simplex. A neck h (two hidden layers beside a linear shortcut)
    maps features there, trained by dot regression on the base classes and in every session, on class means and the
    support [C]:

        loss = 10/2 mean (unit(h(x)) . e_y - 1)^2,   score = unit(h(x)) . e_c

    Reference: Yang, Yuan, Li, Lin, Torr, Tao, Neural Collapse Inspired Feature-Classifier Alignment for Few-Shot Class
    Incremental Learning, ICLR 2023. Setting: multi-session, backbone trained together with the neck (500 epochs).

    Departures [ours]: only the neck is trained on the base classes, on frozen features and for fewer steps. A class's
    examples and augmented copies count as ``shots`` examples; batches are drawn by these counts. The rate lacks its
    last five steps at a thousandth. Classes are kept as means, so memory changes nothing.
    """

    name = "etf"
    summary = "a neck trained towards the corners of a fixed simplex, further in every session"
    reference = "Yang et al. (NC-FSCIL), ICLR 2023"
    marks = "C; neck on frozen features, fewer base steps: ours"
    needs = frozenset({"means"})
    training = Training(
        steps=1000,
        batch=512,
        rates=(0.0625, 0.125, 0.1875, 0.25, 0.0625, 0.015625, 0.00390625, 0.0009765625, 0.000244140625),
        rate_cuts=(0.025, 0.05, 0.075, 0.4, 0.6, 0.7, 0.8, 0.9),
        optimiser="sgd",
        nesterov=False,
        weight_decay=5e-4,
    )
    of_the_part = ("classes", "width", "hidden", "corners")
    classes: int = option(100, "classes there will ever be, base classes included")
    width: int = option(512, "width of the neck's output, at least as many as classes")
    hidden: int = option(0, "width of its hidden layers; 0, as published: twice that of the features")
    corners: int = option(0, "seed of the simplex")
    steps: int = option(100, "steps of the first session")
    more_steps: int = option(10, "steps by which every later session is longer")
    rate: float = option(0.025, "learning rate of a session")
    batch: int = option(64, "examples in a step of a session")
    shots: float = option(5.0, "what a new class counts for against a base class, however many copies its images have")

    def __post_init__(self) -> None:
        if not 2 <= self.classes <= self.width:
            raise ValueError(f"classes must lie between 2 and width ({self.width}); got {self.classes}")
        check_options(self, not_negative=("hidden", "more_steps", "rate"), positive=("steps", "batch", "shots"))

    def train_part(self, features: TrainingFeatures, run: TrainingRun) -> dict[str, Tensor]:
        examples, labels = features.examples()
        targets = self.corners_of(features.class_count, examples)[labels]
        hidden = self.hidden or 2 * features.width
        start = initial_neck(features.width, hidden, self.width, run.generator("neck"))

        def loss(parameters: Parameters, generator: torch.Generator) -> Tensor:
            chosen = torch.randint(len(examples), (run.settings.batch,), generator=generator).to(examples.device)
            return dot_regression(neck(parameters, examples[chosen]), targets[chosen]).mean()

        return run.minimise({name: tensor.to(examples) for name, tensor in start.items()}, loss)

    def base_rows(self, base: Base) -> Tensor:
        system = self.as_trained(self.part(base))
        return system.corners_of(len(base.rows), base.rows)

    def learn(self, state: State, session: Session) -> State:
        base, known = state.base, session.classes[0]
        corners = self.as_trained(self.part(base)).corners_of(known + len(session.classes), state.rows)
        problems, support = len(state.rows), session.support
        kept = state.arrays.get("means", support.new_zeros(problems, 0, support.shape[-1]))
        before = int(state["sessions"][0]) if "sessions" in state.arrays else 0
        features = torch.cat([base.means.expand(problems, -1, -1), kept, support], dim=1)
        labels = torch.cat([torch.arange(known).expand(problems, -1).to(session.labels), session.labels], 1)
        weights = features.new_ones(features.shape[1])
        weights[state.base_count : known] = before + 1
        weights[known:] = self.shots * len(session.classes) / support.shape[1]

        steps = self.steps + before * self.more_steps
        batches = without_repeats(drawn_batches(weights, self.batch, steps, session.seeds), features)
        problem = torch.arange(problems, device=labels.device)[:, None]
        span = Span.of(features)
        coordinates = span.coordinates(features)

        def loss(parameters: Parameters, step: int) -> Tensor:
            positions, shares = batches[step]
            chosen = problem, positions
            return (shares * dot_regression(neck(parameters, coordinates[chosen]), corners[labels[chosen]])).sum(-1)

        rates = cosine_rates(self.rate, steps, warm_up=5, last=0.01)
        start = self.parameters(state)
        inside = {name: span.inside(start[name]) for name in ENTRANCES}
        learned = descend({**start, **inside}, loss, rates, rule="sgd", decay=DECAY)
        outside = decayed(rates, decay=DECAY)
        whole = {name: span.with_inside(start[name], learned[name], outside) for name in ENTRANCES}
        return state.after(
            **{**learned, **whole},
            rows=corners.expand(problems, -1, -1),
            means=torch.cat([kept, session.means], dim=1),
            sessions=torch.full((problems,), before + 1.0, device=labels.device),
            steps=steps,
        )

    def scores(self, state: State, queries: Tensor) -> Tensor:
        return cosine_scores(state.rows, neck(self.parameters(state), queries))

    def corners_of(self, count: int, like: Tensor) -> Tensor:
        """The corners (count, width) of the first classes."""
        if count > self.classes:
            raise ValueError(
                f"system '{self.name}' was made for {self.classes} classes, there are {count}: set classes"
            )
        return simplex(self.classes, self.width, self.corners)[:count].to(like)


def neck(parameters: Parameters, features: Tensor) -> Tensor:
    """Output (*batch, n, w) of features (*batch, n, d)."""
    hidden = features
    for layer in ("first", "second"):
        hidden = linear(hidden, parameters[f"{layer}.weight"], parameters[f"{layer}.bias"])
        normal = layer_norm(hidden, hidden.shape[-1:])
        gain, shift = (parameters[f"{layer}.{name}"][..., None, :] for name in ("gain", "shift"))
        hidden = leaky_relu(normal * gain + shift, 0.1)
    return linear(hidden, parameters["last.weight"]) + linear(features, parameters["shortcut.weight"])


def initial_neck(inputs: int, hidden: int, outputs: int, generator: torch.Generator) -> dict[str, Tensor]:
    """A neck before training."""
    none, ones = torch.zeros(hidden), torch.ones(hidden)
    return {
        "first.weight": initial_layer(inputs, hidden, generator),
        "second.weight": initial_layer(hidden, hidden, generator),
        "last.weight": initial_layer(hidden, outputs, generator),
        "shortcut.weight": initial_layer(inputs, outputs, generator),
        **{f"{layer}.{name}": none for layer in ("first", "second") for name in ("bias", "shift")},
        **{f"{layer}.gain": ones for layer in ("first", "second")},
    }


def dot_regression(outputs: Tensor, targets: Tensor) -> Tensor:
    """Losses (*batch, n) of outputs (*batch, n, w), whose directions are to be those of unit targets (*batch, n, w).

    >>> dot_regression(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]]))  # 5 * (0.6 - 1)^2
    tensor([0.8000])
    """
    return 5 * ((unit(outputs) * targets).sum(-1) - 1).square()
