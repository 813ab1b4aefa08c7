"""Semantic-aware distillation: features are mapped to the word vectors of their classes, and sessions keep old answers.

No class has weights of its own: a new one brings its word vector.
"""

import warnings
from dataclasses import dataclass

import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, leaky_relu, log_softmax, softmax

from subspan.engine.contract import Base, Session, State
from subspan.learners.parts.rows import with_places
from subspan.learners.parts.vectors import cosine_scores, unit
from subspan.learners.registry import register
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.session_training import (
    Parameters,
    SessionTrainedSystem,
    cosine_rates,
    descend,
    initial_layer,
    linear,
    with_memories,
)
from subspan.learners.training.trained_part import TrainedPartError
from subspan.values import check_options, option

MAPPING = ("hidden.weight", "hidden.bias", "words.weight", "words.bias")  # what a session trains


@register
@dataclass(frozen=True)
class SemanticDistillation(SessionTrainedSystem):
    """Semantic-aware knowledge distillation on frozen features.

    Features g, and embeddings E_s of superclasses of word vectors, are mapped to words; the nearest word vector v_c
    answers:

        e = sum_s softmax_s(A g) E_s(g),   p(c | x) = softmax_c(scale cos(M[g; e], v_c))        [M]

    A session trains the mapping M by cross-entropy plus ``keep`` times the divergence from its old answers [M].

    Reference: Cheraghian, Rahman, Fang, Roy, Petersson, Harandi, Semantic-Aware Knowledge Distillation for Few-Shot
    Class-Incremental Learning, CVPR 2021. Setting: multi-session, with word vectors. No code was released; the
    architecture was read in a figure, equations are recalled.

    Departures [ours]: the network is frozen. Whether examples are stored is not known: without memory, old answers are
    kept on new examples only. E_s are linear and narrower than g, M has one hidden layer, word vectors are centred.
    Keep and rate are chosen on split 0, with memory; other settings are unknown.
    """

    name = "semantic-distill"
    summary = "features mapped to word vectors; sessions train the mapping, old answers distilled"
    reference = "Cheraghian et al., CVPR 2021"
    marks = "M: equations recalled; frozen features, widths, stored examples: ours"
    needs = frozenset({"embeddings"})
    uses_memory = True
    training = Training(steps=1000, batch=256, rates=(1e-3, 1e-4), rate_cuts=(0.7,), weight_decay=1e-4)
    of_the_part = ("superclasses", "width", "hidden", "scale")
    superclasses: int = option(5, "clusters of base word vectors, with an embedding each")
    width: int = option(128, "width of an embedding")
    hidden: int = option(256, "width of the mapping's hidden layer")
    scale: float = option(16.0, "factor on the cosines before the softmax")
    keep: float = option(10.0, "weight of the distillation of old answers")
    temperature: float = option(2.0, "what scores are divided by for it")
    steps: int = option(100, "steps of a session")
    rate: float = option(1e-4, "learning rate of a session (Adam), falling along a cosine")

    def __post_init__(self) -> None:
        check_options(
            self,
            at_least={1: ("superclasses", "width", "hidden")},
            positive=("scale", "temperature"),
            not_negative=("keep", "steps", "rate"),
        )

    def train_part(self, features: TrainingFeatures, run: TrainingRun) -> dict[str, Tensor]:
        examples, labels = features.examples()
        words = word_rows(features.base)
        if self.superclasses > len(words):
            raise ValueError(f"{self.superclasses} superclasses need as many base classes; there are {len(words)}")
        superclass = clusters(words, self.superclasses, run.generator("superclasses"))[labels]
        sizes = features.width, self.superclasses, self.width, self.hidden, words.shape[1]
        start = initial_modules(*sizes, run.generator("modules"))

        def loss(parameters: Parameters, generator: torch.Generator) -> Tensor:
            chosen = torch.randint(len(examples), (run.settings.batch,), generator=generator).to(examples.device)
            attention, mapped = modules(parameters, examples[chosen])
            told = cross_entropy(self.scale * cosine_scores(words, mapped), labels[chosen])
            return told + cross_entropy(attention, superclass[chosen])

        found = run.minimise({name: tensor.to(examples) for name, tensor in start.items()}, loss)
        return {**found, "words": words}

    def base_rows(self, base: Base) -> Tensor:
        words, trained = word_rows(base), self.part(base).to(base.rows)["words"]
        if words.shape != trained.shape or not torch.allclose(words, trained, atol=1e-2):
            raise TrainedPartError(
                f"the part of '{self.name}' was trained with other word vectors of the base classes than these of "
                f"width {words.shape[1]}; name the same --embeddings"
            )
        return words

    def learn(self, state: State, session: Session) -> State:
        rows = with_places(state.rows, session)
        rows[:, list(session.classes)] = word_rows(state.base, session.embeddings)
        system = self.as_trained(self.part(state.base))
        start = self.parameters(state)
        features, labels = with_memories(session)
        old = session.classes[0]
        joined = embedded(start, features)[1]  # only the mapping is trained
        before = system.scale * cosine_scores(rows[:, :old], mapping(start, joined))
        directions = system.scale * unit(rows).mT  # scores are unit(mapped) times these

        def loss(trained: Parameters, step: int) -> Tensor:
            scores = unit(mapping(trained, joined)) @ directions
            told = cross_entropy(scores.mT, labels, reduction="none").mean(-1)
            return told + self.keep * distillation(scores[..., :old], before, self.temperature)

        rates = cosine_rates(self.rate, self.steps)
        learned = descend({name: start[name] for name in MAPPING}, loss, rates, rule="adam")
        return state.after(**learned, rows=rows, steps=self.steps)

    def scores(self, state: State, queries: Tensor) -> Tensor:
        _, mapped = modules(self.parameters(state), queries)
        return self.as_trained(self.part(state.base)).scale * cosine_scores(state.rows, mapped)


def word_rows(base: Base, vectors: Tensor | None = None) -> Tensor:
    """Word vectors (K, e), by default of the base classes, centred by the mean of those and brought to length one."""
    vectors = base.embeddings if vectors is None else vectors
    return unit(vectors - base.embeddings.mean(0))


def embedded(parameters: Parameters, features: Tensor) -> tuple[Tensor, Tensor]:
    """Attention logits (*batch, n, N) over superclasses and [g; e] (*batch, n, d + u) of features g (*batch, n, d)."""
    attention = linear(features, parameters["attention.weight"], parameters["attention.bias"])
    embeddings = features[..., None, :, :] @ parameters["embedding.weight"]  # (*batch, N, n, u)
    embeddings = embeddings + parameters["embedding.bias"][..., None, :]
    mixed = (softmax(attention, dim=-1).mT[..., None] * embeddings).sum(-3)
    return attention, torch.cat([features.expand(*mixed.shape[:-1], -1), mixed], dim=-1)


def mapping(parameters: Parameters, joined: Tensor) -> Tensor:
    """Points (*batch, n, e) in the space of words for [g; e] (*batch, n, d + u)."""
    hidden = leaky_relu(linear(joined, parameters["hidden.weight"], parameters["hidden.bias"]), 0.1)
    return linear(hidden, parameters["words.weight"], parameters["words.bias"])


def modules(parameters: Parameters, features: Tensor) -> tuple[Tensor, Tensor]:
    """Attention logits (*batch, n, N) and points in the space of words (*batch, n, e) of features (*batch, n, d)."""
    attention, joined = embedded(parameters, features)
    return attention, mapping(parameters, joined)


def initial_modules(
    inputs: int, superclasses: int, width: int, hidden: int, words: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """All modules before training."""
    embeddings = [initial_layer(inputs, width, generator) for _ in range(superclasses)]
    return {
        "attention.weight": initial_layer(inputs, superclasses, generator),
        "attention.bias": torch.zeros(superclasses),
        "embedding.weight": torch.stack(embeddings),
        "embedding.bias": torch.zeros(superclasses, width),
        "hidden.weight": initial_layer(inputs + width, hidden, generator),
        "hidden.bias": torch.zeros(hidden),
        "words.weight": initial_layer(hidden, words, generator),
        "words.bias": torch.zeros(words),
    }


def distillation(after: Tensor, before: Tensor, temperature: float) -> Tensor:
    """How far scores (*batch, n, C) have gone from those before (*batch,): mean divergence at a temperature, squared.

    >>> distillation(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), 2.0)
    tensor(0.)
    """
    old, new = log_softmax(before / temperature, dim=-1), log_softmax(after / temperature, dim=-1)
    return temperature**2 * kl_div(new, old, reduction="none", log_target=True).sum(-1).mean(-1)


def clusters(vectors: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """The cluster (n,) of each vector (n, e) by k-means; a cluster that loses its last vector stays where it is."""
    points = vectors.cpu().double().numpy()
    first = points[torch.randperm(len(points), generator=generator)[:count].numpy()]
    with warnings.catch_warnings(action="ignore"):  # of clusters that lose their last vector
        _, members = kmeans2(points, first, iter=50, minit="matrix")
    return torch.from_numpy(members).to(vectors.device, torch.int64)
