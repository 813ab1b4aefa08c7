"""What a method answers is checked in every run: each rule broken once, under both protocols."""

from dataclasses import dataclass, replace

import pytest
import torch
from small_features import make_features

from subspan.experiments.inputs import ProtocolError
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.report.results_table import results_table
from subspan.experiments.single_session import SingleSession
from subspan.learners.parts.rows import RowLearner, with_learned
from subspan.learners.registry import create_method, list_methods, method_options, register, spec_of


@dataclass(frozen=True)
class Means(RowLearner):
    """Rows of novel classes are class means; a subclass spoils the scores."""

    name = "means"
    summary = "for a test"

    def learn(self, state, session):
        return state.after(rows=with_learned(state, session, session.means))

    def scores(self, state, queries):
        return self.spoil(super().scores(state, queries))

    def spoil(self, scores):
        return scores


class GivesNotANumber(Means):
    def spoil(self, scores):
        scores[..., 1, :] = torch.nan
        return scores


class GivesOneNotANumber(Means):
    def spoil(self, scores):
        scores[..., 1, 0] = torch.nan
        return scores


class HidesEveryClass(Means):
    def spoil(self, scores):
        return scores - torch.inf


class LacksAClass(Means):
    def spoil(self, scores):
        return scores[..., :-1]


class HasOneTooMany(Means):
    def spoil(self, scores):
        return torch.cat([scores, scores[..., :1]], -1)


class LacksAQuery(Means):
    def spoil(self, scores):
        return scores[..., 1:, :]


class LooksAtOthers(Means):
    def spoil(self, scores):
        return scores - scores.mean(-2, keepdim=True)


class SharesOut(Means):
    """Sinkhorn's first step: each class gets as many queries as any other."""

    def spoil(self, scores):
        return scores.softmax(-2).log()


class Declared(SharesOut):
    transductive = True


class Masks(Means):
    """A class that is ruled out has the score minus infinity; that is no fault."""

    def spoil(self, scores):
        scores[..., 3] = -torch.inf
        return scores


BROKEN = {
    GivesNotANumber: "a highest score that is a finite number",
    GivesOneNotANumber: "a highest score that is a finite number",
    HidesEveryClass: "a highest score that is a finite number",
    LacksAClass: r"scores \(problems, queries, classes\) of shape",
    HasOneTooMany: r"scores \(problems, queries, classes\) of shape",
    LacksAQuery: r"scores \(problems, queries, classes\) of shape",
    LooksAtOthers: "depend on the other queries",
    SharesOut: "depend on the other queries",
}
SESSIONS = MultiSession(ways=3, shots=2, draws=2)
EPISODES = SingleSession(ways=3, shots=2, base_queries=9, novel_queries=9, count=4)


@pytest.mark.parametrize("method", BROKEN, ids=lambda method: method.__name__)
def test_a_broken_rule_ends_a_run_of_either_protocol_in_a_sentence(method):
    with pytest.raises(ProtocolError, match=f"method 'means' must give.*{BROKEN[method]}"):
        SESSIONS.run(make_features(), method(), memory=False)
    with pytest.raises(ProtocolError, match=f"method 'means' must give.*{BROKEN[method]}"):
        EPISODES.run(make_features(), method())


@pytest.mark.parametrize("method", [Means, Masks, Declared], ids=lambda method: method.__name__)
def test_what_keeps_to_the_rules_runs(method):
    assert SESSIONS.run(make_features(), method(), memory=False).accuracy.shape == (2, 4)
    assert len(EPISODES.run(make_features(), method()).joint) == 4


def test_a_transductive_method_is_marked_in_the_table():
    results = [SESSIONS.run(make_features(), method(), memory=False) for method in (Means, Declared)]
    table = results_table(results)
    assert [row.headings[0].endswith("(transductive)") for row in table.rows] == [False, True]
    assert [note for note in table.notes if "transductive: it answers a query by the others" in note]
    (note,) = EPISODES.run(make_features(), Declared()).notes
    assert note.startswith("transductive")


def test_our_own_methods_do_not_depend_on_other_queries():
    """Also on features far from the origin, where rounding is worst."""
    near = make_features()
    moved = ("base_mean", "base_test", "novel_test", "novel_support")
    far = replace(near, **{name: getattr(near, name) + 100.0 for name in moved})
    for name in list_methods():
        if not create_method(name).needs - {"means"}:
            quick = f"{name}:max_steps=20" if "max_steps" in method_options(name) else name
            SESSIONS.run(far, create_method(quick), memory=False)


@dataclass(frozen=True)
class Optional(Means):
    name = "optional"
    neighbours: int | None = None
    cuts: tuple[int, ...] = (60, 80)
    shares: tuple[float, ...] | None = None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", (None, (60, 80), None)),
        (":neighbours=3", (3, (60, 80), None)),
        (":cuts=10,20,30,neighbours=2", (2, (10, 20, 30), None)),
        (":cuts=,shares=0.5,1", (None, (), (0.5, 1.0))),
        (":neighbours=none,shares=none", (None, (60, 80), None)),
    ],
)
def test_options_of_several_values_or_none_are_set_as_text(text, values, forgotten_methods):
    register(Optional)
    made = create_method(f"optional{text}")
    assert (made.neighbours, made.cuts, made.shares) == values
    assert create_method(spec_of(made)) == made


def test_help_names_what_such_options_take(forgotten_methods):
    register(Optional)
    assert [kind for kind, _, _ in method_options("optional").values()] == [
        "a whole number|none",
        "values, with commas between them",
        "values, with commas between them|none",
    ]


@pytest.mark.parametrize("text", ["neighbours=a", "neighbours=1,2", "7", "cuts=a"])
def test_what_does_not_fit_such_options_is_refused(text, forgotten_methods):
    register(Optional)
    with pytest.raises(ValueError, match="option"):
        create_method(f"optional:{text}")
