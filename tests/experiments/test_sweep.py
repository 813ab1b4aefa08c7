"""What a sweep tries; how it runs and goes on is tested with its command."""

import math

import pytest

from subspan.experiments.config import Setting
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.sweep import Range, check_names, parse_values, trials_of


def tried(*arguments, **more):
    return [dict(trial.chosen) for trial in trials_of(*arguments, **more)]


def test_a_grid_is_every_combination_of_what_is_open():
    values = {"gamma": ("0.1", "1"), "tau": ("1", "2", "3"), "weight_decay": ("0.1",)}
    semantic = Setting("semantic", given={"weight_decay": 5e-4})
    assert tried(semantic, values) == [{"gamma": g, "tau": t} for g in (0.1, 1.0) for t in (1.0, 2.0, 3.0)]
    assert tried(Setting("subspace"), values) == [{"gamma": g, "weight_decay": 0.1} for g in (0.1, 1.0)]
    assert trials_of(Setting("imprint"), values) == [Setting("imprint")], "with nothing to try it is tried as it is"


def test_random_trials_are_drawn_by_seed_and_never_twice():
    values = {"gamma": Range(1e-3, 1.0), "tau": ("1", "2")}
    drawn = tried(Setting("semantic", shots=5), values, 200)
    assert drawn == tried(Setting("semantic", shots=5), values, 200)
    assert drawn != tried(Setting("semantic", shots=5), values, 200, seed=1)
    assert len({tuple(one.items()) for one in drawn}) == 200
    logs = [math.log10(one["gamma"]) for one in drawn]
    assert -3 <= min(logs) < -2.8
    assert -0.2 < max(logs) <= 0
    assert -1.7 < sum(logs) / 200 < -1.3, "even by the logarithm: the mean is -1.5"
    assert len(trials_of(Setting("semantic"), {"tau": ("1", "2")}, 50)) == 2


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        (lambda: parse_values("gamma"), "what to try reads option=value,value"),
        (lambda: parse_values("gamma=0..1"), r"runs from a positive number to a larger one; got '0\.\.1' for gamma"),
        (lambda: parse_values("gamma=a..b"), r"a range reads low\.\.high with two numbers; got 'a\.\.b'"),
        (
            lambda: trials_of(Setting("subspace"), {"gamma": Range(0.1, 1)}),
            "a grid needs single values; gamma has a range: add --random N",
        ),
        (
            lambda: check_names([Setting("subspace"), Setting("imprint")], {"tau": ("1",)}),
            "none of the methods subspace, imprint has an option 'tau'",
        ),
        (
            lambda: check_names([Setting("subspace", given={"gamma": 1.0})], {"gamma": ("1",)}),
            "option 'gamma' is fixed in all settings",
        ),
    ],
)
def test_bad_searches_are_refused_in_one_sentence(search, sentence):
    with pytest.raises(ProtocolError, match=sentence):
        search()


@pytest.mark.filterwarnings("ignore:option 'start' of method")
def test_an_option_under_its_old_name_is_given_under_its_present_one():
    setting = Setting.of("finetune:start=zeros,gamma=0.5", shots=5)
    assert (setting.given, setting.shots) == ({"new_rows": "zeros", "gamma": 0.5}, 5)
    assert setting.create() == Setting.of("finetune:new_rows=zeros,gamma=0.5").create()
