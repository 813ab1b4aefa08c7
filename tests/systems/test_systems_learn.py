"""Every system learns: on made-up features it beats chance, and what makes it more than a simpler rule pays."""

import pytest
from made_up_world import CHANCE, last_session

from subspan import list_systems

# system: (its ablation, what the system is better at)
ABLATIONS = {
    "ncm": ("ncm:base=rows", "all"),  # means for all classes, not for novel ones only
    "teen": ("teen:alpha=0", "novel"),  # novel classes resemble base classes here, so being drawn to them helps
    "alice": ("alice:images=500", "novel"),  # base means as noisy as novel ones leave these more room
}


def test_every_system_has_an_ablation():
    assert set(ABLATIONS) == set(list_systems())


@pytest.mark.parametrize("system", ABLATIONS)
def test_a_system_beats_chance_and_its_ablation(system):
    ablation, better_at = ABLATIONS[system]
    found, without = last_session(system), last_session(ablation)
    assert found["all"] > 5 * CHANCE
    assert found["novel"] > 2 * CHANCE
    assert found[better_at] > without[better_at] + 2
