"""Both protocols run every system unchanged, many problems at once as one by one."""

import dataclasses

import numpy as np
import pytest
from made_up_world import make_world
from quick_parts import with_part

from subspan.experiments.multi_session import MultiSession
from subspan.experiments.single_session import SingleSession
from subspan.learners.registry import create_method, list_systems

QUICK = {"ranpac": "ranpac:width=60,samples=20"}


@pytest.mark.parametrize("system", list_systems())
def test_episodes_in_one_batch_or_one_by_one(system: str):
    protocol = SingleSession(ways=3, shots=2, base_queries=12, novel_queries=12, count=6, dtype="float64")
    world = make_world()
    method = with_part(QUICK.get(system, system), world)
    words = world.embeddings["words"]
    together = protocol.run(world, method, embeddings=words, batch=6)
    alone = protocol.run(world, method, embeddings=words, batch=1)
    for half in ("base", "novel", "base_alone", "novel_alone"):
        np.testing.assert_array_equal(getattr(together, half), getattr(alone, half))


@pytest.mark.parametrize("system", [name for name in list_systems() if "means" in create_method(name).needs])
def test_a_file_without_what_a_system_needs_is_refused_in_a_sentence(system):
    world = dataclasses.replace(make_world(), base_mean=None, base_covariance=None)
    with pytest.raises(ValueError, match=f"method '{system}' needs the array 'base_mean'"):
        MultiSession(ways=3, shots=2).run(world, create_method(system), memory=False)
