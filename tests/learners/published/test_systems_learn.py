"""Every system learns: on made-up features it beats chance, and what makes it more than a simpler rule pays."""

import pytest
from made_up_world import CHANCE, last_session

from subspan.learners.registry import list_systems

# system: (how it is run here, its ablation, what the system is better at)
ABLATIONS = {
    "ncm": ("ncm", "imprint", "all"),  # means for all classes, not for novel ones only
    "teen": ("teen", "teen:alpha=0", "novel"),  # novel classes resemble base classes here: being drawn to them helps
    "alice": ("alice", "alice:images=500", "novel"),  # base means as noisy as novel ones leave these more room
    # fewer dimensions than those of images need less shrinkage; without any covariance left, it is nearest class mean
    "fecam": ("fecam:shrink=10,shrink_rest=10", "fecam:shrink=10000,shrink_rest=10000", "all"),
    # a handful of examples have no covariance to speak of, so borrowing pays
    "calibrated-fecam": ("calibrated-fecam:shrink=10,shrink_rest=10", "fecam:shrink=10,shrink_rest=10", "novel"),
    # with a large ridge, next to nothing but the means of random features is left
    "ranpac": ("ranpac:width=300", "ranpac:width=300,ridge=100", "all"),
    "slda": ("slda", "slda:shrinkage=1", "all"),  # with the identity for a covariance it is nearest class mean
    "attractor": ("attractor", "attractor:pull=none", "all"),  # rows held by a learned decay alone win over base rows
    "lwof": ("lwof:shots=2", "lwof:shots=2,attention=false", "novel"),
    "cec": ("cec:dropout=0.1,shots=2", "ncm", "all"),  # without attention it is the decoupled cosine
    "etf": ("etf", "etf:rate=0", "novel"),  # without session training no novel feature comes near its corner
    "idlvq": ("idlvq", "idlvq:base_intra=1000", "all"),  # held to their class means, references learn nothing
    # without distillation the mapping forgets old classes for new ones
    "semantic-distill": ("semantic-distill:rate=0.001", "semantic-distill:rate=0.001,keep=0", "all"),
}

# Where classes come in families, a base class of the family tells what a few examples of a novel one leave open.
# Attractors stand beside base rows as a linear head has learned them.
WORLDS = {"lwof": {"families": 6}, "attractor": {"logistic": True, "worlds": 2}} | {
    name: {"worlds": 2} for name in ("cec", "etf", "idlvq", "semantic-distill")
}


def test_every_system_has_an_ablation():
    assert set(ABLATIONS) == set(list_systems())


@pytest.mark.parametrize("system", ABLATIONS)
def test_a_system_beats_chance_and_its_ablation(system):
    spec, ablation, better_at = ABLATIONS[system]
    found, without = (last_session(one, **WORLDS.get(system, {})) for one in (spec, ablation))
    assert found["all"] > 5 * CHANCE
    assert found["novel"] > 2 * CHANCE
    assert found[better_at] > without[better_at] + 2
