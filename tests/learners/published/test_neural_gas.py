"""The neural gas against moves, edges and facts computed by hand."""

import math

import pytest
import torch

from subspan.learners.training.neural_gas import NONE, GasSettings, NeuralGas, describe, spread_start


def at(*places: float) -> NeuralGas:
    return NeuralGas.at(torch.tensor(places, dtype=torch.float64)[:, None])


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_nodes_move_by_rank() -> None:
    gas = at(0.0, 10.0, 4.0).fed(column(3.0), GasSettings(rate=0.5, reach=2.0))
    by_rank = [0.5 * math.exp(-rank / 2) for rank in range(3)]  # node 2, then node 0, then node 1
    expected = column(0 + by_rank[1] * 3, 10 - by_rank[2] * 7, 4 - by_rank[0] * 1)
    torch.testing.assert_close(gas.centres, expected)


def test_the_two_nearest_are_connected_and_other_edges_of_the_winner_age() -> None:
    still = GasSettings(oldest=2)
    gas = at(0.0, 1.0, 3.0).fed(column(0.9), still, moving=False)  # nodes 1 and 0
    assert gas.ages.tolist() == [[NONE, 0, NONE], [0, NONE, NONE], [NONE, NONE, NONE]]
    gas = gas.fed(column(1.9), still, moving=False)  # nodes 1 and 2; edge 0-1 is a feature older
    assert gas.ages.tolist() == [[NONE, 1, NONE], [1, NONE, 0], [NONE, 0, NONE]]
    gas = gas.fed(column(3.0), still, moving=False)  # nodes 2 and 1 again; edge 0-1 is none of node 2's
    assert gas.ages[0, 1] == 1
    gas = gas.fed(column(1.9, 1.9), still, moving=False)
    assert gas.ages[0, 1] == NONE  # older than 2
    assert gas.neighbours().tolist() == [[False, False, False], [False, False, True], [False, True, False]]
    torch.testing.assert_close(gas.centres, column(0.0, 1.0, 3.0))


def test_joined_nodes_have_no_edges_and_leave_the_others() -> None:
    gas = at(0.0, 1.0).fed(column(0.5), GasSettings(), moving=False).joined(column(7.0))
    assert gas.ages.tolist() == [[NONE, 0, NONE], [0, NONE, NONE], [NONE, NONE, NONE]]
    assert gas.centres.flatten().tolist() == [0.0, 1.0, 7.0]


def test_nodes_find_clusters_and_edges_stay_inside_them() -> None:
    generator = torch.Generator().manual_seed(0)
    corners = torch.tensor([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    labels = torch.arange(3).repeat_interleave(100)
    features = corners[labels] + torch.randn(300, 2, generator=generator)
    start = features.mean(0) + torch.randn(9, 2, generator=generator)  # all in the middle, where there are no features
    gas = NeuralGas.at(start)
    for _ in range(12):
        order = torch.randperm(300, generator=generator)
        gas = gas.fed(features[order], GasSettings(rate=0.1, reach=0.5, oldest=50))
    facts = describe(gas.centres, features, labels)
    assert (torch.cdist(gas.centres, corners).min(1).values < 3).all()
    assert torch.bincount(facts.labels, minlength=3).min() >= 2
    same = facts.labels[:, None] == facts.labels
    edges = gas.neighbours()
    assert edges[same].sum() > 0
    assert edges[~same].sum() == 0
    assert (facts.labels == labels[facts.nearest]).all()


def test_facts_of_a_node_that_wins_nothing() -> None:
    features, labels = column(0.0, 2.0, 10.0, 14.0), torch.tensor([0, 0, 1, 2])
    facts = describe(column(1.0, 12.0, 30.0), features, labels)
    assert facts.labels.tolist() == [0, 1, 2]  # a tie goes to the lower class; the last is its nearest feature's
    assert facts.nearest[2] == 3
    assert facts.variance.flatten().tolist() == [1.0, 4.0, 2.5]  # the last: over all features won by others


def test_a_start_takes_every_class_alike_and_no_feature_twice() -> None:
    labels = torch.tensor([0] * 50 + [1] * 3 + [4] * 10)
    features = torch.arange(63.0)[:, None]
    start = spread_start(features, labels, 12, torch.Generator().manual_seed(0)).flatten().long()
    assert torch.bincount(labels[start], minlength=5).tolist() in ([5, 3, 0, 0, 4], [4, 3, 0, 0, 5])
    assert len(set(start.tolist())) == 12
    with pytest.raises(ValueError, match="64 nodes asked for, but there are only 63"):
        spread_start(features, labels, 64, torch.Generator())
