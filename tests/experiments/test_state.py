"""Both protocols hand what a method keeps beside its rows to its next session and to its scores."""

from dataclasses import dataclass

import numpy as np
import torch
from small_features import C0, make_features

from subspan import IncrementalClassifier
from subspan.experiments.multi_session import MultiSession, run_together
from subspan.experiments.single_session import SingleSession
from subspan.learners import registry
from subspan.learners.parts.rows import RowLearner, with_places


@dataclass(frozen=True)
class Turning(RowLearner):
    """Its state counts the sessions of every problem and names the class it takes everything for."""

    name = "turning"
    summary = "answers with what its state names"
    only_batches = True

    def start(self, base):
        return super().start(base).after(sessions=torch.tensor(0), answer=torch.tensor(4))

    def learn(self, state, session):
        rows = with_places(state.rows, session)
        return state.after(rows=rows, sessions=state["sessions"] + 1, answer=session.labels[:, 0])

    def scores(self, state, queries):
        scores = queries.new_zeros(*state.rows.shape[:-2], queries.shape[-2], state.rows.shape[-2])
        for problem, (count, answer) in enumerate(zip(state["sessions"], state["answer"], strict=True)):
            scores[problem, :, int(answer) if count in (0, 2) else 5] = 1.0
        return scores


def test_sessions_inherit_the_state_of_the_one_before():
    """Class 4 before any session, class 5 in all but the second, there the first class it learned."""
    protocol = MultiSession(ways=3, shots=2, draws=3)
    result = protocol.run(make_features(), Turning(), memory=False, keep_predictions=True)
    assert result.predictions is not None
    assert [np.unique(predicted).tolist() for predicted in result.predictions[0].by_session] == [
        [4],
        [5],
        [C0 + 3],
        [5],
    ]


def test_files_in_step_keep_their_states_apart():
    protocol = MultiSession(ways=3, shots=2, draws=1)
    files = [(protocol, make_features(seed), None) for seed in (0, 1)]
    results = run_together(files, Turning(), memory=False, keep_predictions=True)
    for result in results:
        assert result.predictions is not None
        assert np.unique(result.predictions[0].by_session[2]).tolist() == [C0 + 3]


def test_an_episode_is_scored_in_its_own_state():
    """Each starts without a state, so its first session answers with class 5, which is a base class."""
    protocol = SingleSession(ways=3, shots=2, base_queries=C0, novel_queries=6, count=4)
    result = protocol.run(make_features(), Turning())
    assert result.novel.tolist() == [0.0] * 4
    assert result.base.max() > 0


def test_an_estimator_keeps_a_state_through_saving_and_undo(forgotten_methods, tmp_path):
    """Class 4 before any session, class 5 after the first, after the second the class that it learned."""
    registry.register(Turning)
    rng, queries = np.random.default_rng(0), np.zeros((3, 4))
    model = IncrementalClassifier(method="turning").fit(rng.normal(size=(24, 4)), np.arange(24) % 6)
    assert model.predict(queries).tolist() == [4] * 3
    model.add_classes(rng.normal(size=(4, 4)), [6, 6, 7, 7])
    assert model.predict(queries).tolist() == [5] * 3
    model.add_classes(rng.normal(size=(2, 4)), [8, 8])
    again = IncrementalClassifier.load(model.save(tmp_path / "model.subspan"))
    assert again.predict(queries).tolist() == [8] * 3
    assert again.undo().predict(queries).tolist() == [5] * 3
