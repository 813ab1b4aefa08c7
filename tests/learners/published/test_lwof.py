"""LwoF's generator by hand."""

import numpy as np
import torch
from quick_parts import write_part

from subspan.engine.contract import Base
from subspan.engine.sessions import session_of
from subspan.learners.published.lwof import Lwof
from subspan.learners.training.features import TrainingFeatures

D = 4


def test_rows_are_generated_as_published(tmp_path):
    """One support example after the other, in the words of the equations."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(8, 12, D, generator=generator)
    training = TrainingFeatures(features, torch.full((8,), 12), Base(torch.randn(8, D, generator=generator)), "real")
    system = Lwof(shots=2)
    path = write_part(system, training, tmp_path / "part.safetensors")
    system = Lwof(shots=2, trained=str(path))
    part = {name: tensor.double().numpy() for name, tensor in system.part(training.base).tensors.items()}
    base = training.base.mapped(torch.Tensor.double)
    support = torch.randn(3, D, generator=generator, dtype=torch.float64)
    after = system.learn(system.start(base), session_of(support, torch.tensor([8, 9, 8]), (8, 9)))
    found = after.rows

    def unit(v):
        return v / np.linalg.norm(v)

    base_rows = np.stack([unit(row) for row in part["base_rows"]])
    np.testing.assert_allclose(found[:8], base_rows, rtol=1e-9)
    for k, members in enumerate(([0, 2], [1])):
        w_avg, w_att = np.zeros(D), np.zeros(D)
        for i in members:
            z = unit(support[i].numpy())
            query = part["query_map"] @ z + part["query_bias"]
            cosines = np.array([unit(query) @ unit(key) for key in part["keys"]])
            shares = np.exp(part["sharpness"] * cosines)
            w_avg += z / len(members)
            w_att += (shares / shares.sum()) @ base_rows / len(members)
        expected = part["average"] * w_avg + part["attended"] * w_att
        np.testing.assert_allclose(found[8 + k], unit(expected), rtol=1e-6)
    query = torch.randn(1, D, generator=generator, dtype=torch.float64)
    cosines = [unit(query[0].numpy()) @ unit(row.numpy()) for row in found]
    np.testing.assert_allclose(system.scores(after, query)[0], part["scale"] * np.array(cosines), rtol=1e-6)


def test_a_class_that_plays_novel_is_hidden_from_attention():
    """With all of a base class's own row and key changed, what is generated for it stays the same."""
    system = Lwof()
    generator = torch.Generator().manual_seed(0)
    part = {
        "base_rows": torch.randn(5, D, generator=generator),
        "keys": torch.randn(5, D, generator=generator),
        "average": torch.ones(D),
        "attended": torch.ones(D),
        "query_map": torch.eye(D),
        "query_bias": torch.zeros(D),
        "sharpness": torch.tensor(10.0),
    }
    support, seen = torch.randn(1, 3, D, generator=generator), torch.tensor([[[True, True, False, True, True]]])
    found = system.generated(part, support, seen)
    for name in ("base_rows", "keys"):
        part[name] = part[name].clone()
        part[name][2] = support[0, 0]
    assert torch.equal(system.generated(part, support, seen), found)
    assert not torch.equal(system.generated(part, support), found)
