"""CEC's attention, one query and one token after the other."""

import numpy as np
import pytest
import torch
from made_up_world import D, make_world
from quick_parts import quick_run

from subspan.learners.published.cec import Cec, adapted_cosines, dropped_cosines, merged
from subspan.learners.training.features import TrainingFeatures

WIDTH = 6


def numbers(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LAYER = {
    name: numbers(WIDTH, WIDTH, seed=i) for i, name in enumerate(("query_map", "key_map", "value_map", "outcome_map"))
}
LAYER |= {name: numbers(WIDTH, seed=9 + i) for i, name in enumerate(("outcome_bias", "norm_gain", "norm_bias"))}


def by_hand(rows: np.ndarray, query: np.ndarray) -> list[float]:
    """Scores of one query: the set of all prototypes and the query through the published layer."""
    layer = {name: tensor.numpy() for name, tensor in LAYER.items()}
    tokens = [*rows, query]
    adapted = []
    for token in tokens:
        weights = np.array([(layer["query_map"] @ token) @ (layer["key_map"] @ other) for other in tokens])
        weights = np.exp(weights / np.sqrt(WIDTH))
        looked = sum(w * (layer["value_map"] @ other) for w, other in zip(weights / weights.sum(), tokens, strict=True))
        total = token + layer["outcome_map"] @ looked + layer["outcome_bias"]
        normal = (total - total.mean()) / np.sqrt(total.var() + 1e-5)
        adapted.append(layer["norm_gain"] * normal + layer["norm_bias"])
    *prototypes, asked = adapted
    return [p @ asked / np.linalg.norm(p) / np.linalg.norm(asked) for p in prototypes]


@pytest.mark.parametrize("way", ["adapted", "dropped"])
def test_the_layer_is_the_published_one(way):
    rows, queries = numbers(2, 4, WIDTH, seed=20), numbers(2, 3, WIDTH, seed=21)
    if way == "adapted":
        found = adapted_cosines(merged(LAYER), rows, queries)
    else:
        found = dropped_cosines(merged(LAYER), rows, queries, lambda values: values)
    for e in range(2):
        for q in range(3):
            np.testing.assert_allclose(found[e, q], by_hand(rows[e].numpy(), queries[e, q].numpy()), rtol=1e-8)


def test_pretended_sessions_turn_their_classes_where_turned_images_are_known():
    """Examples say what they are: class, number, quarters of a turn."""
    features = torch.stack(torch.meshgrid(torch.arange(9.0), torch.arange(5.0), torch.zeros(1), indexing="ij"), -1)
    turned = torch.stack(
        torch.meshgrid(torch.arange(9.0), torch.arange(5.0), torch.arange(1.0, 4.0), indexing="ij"), -1
    )
    base = TrainingFeatures.drawn(make_world(), 2, 0).base
    counts = torch.full((9,), 5)
    plain = TrainingFeatures(features[:, :, 0], counts, base, "real")
    system = Cec(ways=4, shots=1, queries=2)
    made = system.pretended(plain, 6, torch.Generator().manual_seed(0))
    assert made.shape == (6, 8, 3, 3)
    for episode in made:
        assert len(set(episode[:, 0, 0].tolist())) == 8, "eight classes without turned images"
    with_turned = TrainingFeatures(features[:, :, 0], counts, base, "real", turned=turned)
    made = system.pretended(with_turned, 6, torch.Generator().manual_seed(0))
    quarters = set()
    for episode in made:
        first, second = episode[:4], episode[4:]
        assert torch.equal(first[..., :2], second[..., :2]), "the same images"
        assert (first[..., 2] == 0).all()
        for examples in second:
            (turn,) = set(examples[:, 2].tolist())  # one turn for a class
            quarters.add(turn)
    assert quarters == {1.0, 2.0, 3.0}


def test_too_few_classes_are_told():
    system = Cec(ways=11)
    features = TrainingFeatures.drawn(make_world(), 20, 0)
    with pytest.raises(ValueError, match=r"11 \+ 11 classes needs 22 base classes; there are 20; set ways"):
        system.train_part(features, quick_run(system))
    assert features.width == D
