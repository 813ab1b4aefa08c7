"""What a sweep tries."""

import math

import pytest

from subspan.experiments.config import Setting
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.search import Range, check_names, parse_values, trials_of


def test_a_grid_is_every_combination_of_what_is_open():
    values = {"gamma": ("0.1", "1"), "tau": ("1", "2", "3"), "weight_decay": ("0.1",)}
    semantic = Setting("semantic", given={"weight_decay": 5e-4})
    assert trials_of(semantic, values) == [{"gamma": g, "tau": t} for g in ("0.1", "1") for t in ("1", "2", "3")]
    assert trials_of(Setting("subspace"), values) == [{"gamma": g, "weight_decay": "0.1"} for g in ("0.1", "1")]
    assert trials_of(Setting("imprint"), values) == [{}], "a method with nothing to try is tried as it is"


def test_random_trials_are_drawn_by_seed_and_never_twice():
    values = {"gamma": Range(1e-3, 1.0), "tau": ("1", "2")}
    drawn = trials_of(Setting("semantic", shots=5), values, 200)
    assert drawn == trials_of(Setting("semantic", shots=5), values, 200)
    assert drawn != trials_of(Setting("semantic", shots=5), values, 200, seed=1)
    assert len({tuple(one.items()) for one in drawn}) == 200
    logs = [math.log10(one["gamma"]) for one in drawn]
    assert -3 <= min(logs) < -2.8
    assert -0.2 < max(logs) <= 0
    assert -1.7 < sum(logs) / 200 < -1.3, "even by the logarithm: the mean is -1.5"
    assert len(trials_of(Setting("semantic"), {"tau": ("1", "2")}, 50)) == 2


def test_bad_searches_are_refused_in_one_sentence():
    with pytest.raises(ProtocolError, match="what to try reads option=value,value"):
        parse_values("gamma")
    with pytest.raises(
        ProtocolError, match=r"a range runs from a positive number to a larger one; got '0\.\.1' for gamma"
    ):
        parse_values("gamma=0..1")
    with pytest.raises(ProtocolError, match=r"a range reads low\.\.high with two numbers; got 'a\.\.b'"):
        parse_values("gamma=a..b")
    with pytest.raises(ProtocolError, match="a grid needs single values; gamma has a range: add --random N"):
        trials_of(Setting("subspace"), {"gamma": Range(0.1, 1)})
    with pytest.raises(ProtocolError, match="none of the methods subspace, imprint has an option 'tau'"):
        check_names([Setting("subspace"), Setting("imprint")], {"tau": ("1",)})
    with pytest.raises(ProtocolError, match="option 'gamma' is fixed in all settings"):
        check_names([Setting("subspace", given={"gamma": 1.0})], {"gamma": ("1",)})
