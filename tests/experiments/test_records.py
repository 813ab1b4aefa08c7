"""Records that stand alone: from their JSON come the same table, frame and differences; kept results are the same."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from small_features import make_features

from subspan.experiments.kept import kept_or_run, key_of, read_result, write_result
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.records import RecordError
from subspan.experiments.report.against import against_table
from subspan.experiments.report.render import to_markdown
from subspan.experiments.report.results_table import results_table
from subspan.experiments.results import MethodResult, read_records, write_records
from subspan.experiments.single_session import SingleSession
from subspan.learners.registry import create_method

METHODS = [create_method(name) for name in ("prototype", "imprint")]


def results(kind):
    features = make_features()
    if kind == "episodes":
        protocol = SingleSession(ways=3, shots=2, base_queries=6, novel_queries=6, count=9)
        return [protocol.run(features, method) for method in METHODS]
    protocol = MultiSession(ways=3, shots=2, draws=3, orders=2)
    runs = [[protocol.run(make_features(seed), method, memory=False) for seed in (0, 1)] for method in METHODS]
    return [MethodResult.joined(parts) for parts in runs]


@pytest.mark.parametrize("kind", ["sessions", "episodes"])
def test_tables_from_the_json_alone_are_those_of_the_run(kind, tmp_path):
    measured = [replace(one, run={"command": "subspan bench"}) for one in results(kind)]
    write_records(tmp_path / "run.json", measured)
    read = read_records(tmp_path / "run.json")
    assert to_markdown(results_table(read)) == to_markdown(results_table(measured))
    assert to_markdown(against_table(read, "imprint")) == to_markdown(against_table(measured, "imprint"))
    assert [one.run for one in read] == [{"command": "subspan bench"}] * 2
    assert [one.to_record() for one in read] == [one.to_record() for one in measured]
    for record, one in zip(json.loads((tmp_path / "run.json").read_text()), measured, strict=True):
        half_width = np.array(record["intervals"]["novel"], dtype=float)
        assert half_width == pytest.approx(one.mean_and_half_width(one.novel)[1], nan_ok=True)


def test_a_frame_has_a_row_for_each_draw_and_session(tmp_path):
    (result, _) = results("sessions")
    frame = result.to_frame()
    assert len(frame) == 2 * 2 * 3 * 4  # files, orders, draws, sessions
    assert not frame.duplicated(["split", "order", "draw", "session"]).any()
    row = frame[(frame.split == 1) & (frame.order == 0) & (frame.draw == 2) & (frame.session == 3)].iloc[0]
    place = np.flatnonzero((result.splits == 1) & (result.orders == 0))[2]
    for name in ("accuracy", "weighted", "forgetting"):
        assert row[name] == getattr(result, name)[place, 3]
    by_split = frame[frame.session == 3].groupby("split")["weighted"].mean()
    np.testing.assert_allclose(by_split, result.samples(result.weighted[:, 3]))
    (episodes, _) = results("episodes")
    assert episodes.to_frame()["joint"].tolist() == episodes.joint.tolist()


def test_a_kept_result_is_the_same_bit_for_bit_and_is_not_run_again(tmp_path):
    protocol, method = MultiSession(ways=3, shots=2, draws=2), create_method("subspace:max_steps=5")
    result = protocol.run(make_features(), method, memory=False, keep_predictions=True)
    write_result(tmp_path / "a.safetensors", result)
    read = read_result(tmp_path / "a.safetensors")
    np.testing.assert_equal(vars(read.predictions[0]), vars(result.predictions[0]))
    np.testing.assert_equal(vars(read.weight_space), vars(result.weight_space))
    for field in fields(result):
        if field.name not in ("predictions", "weight_space", "final_rows"):
            np.testing.assert_equal(getattr(read, field.name), getattr(result, field.name), field.name)
    ran = []

    def run(waiting, on_result):
        ran.append(waiting)
        for place in range(len(waiting)):
            on_result(place, result)

    keys = [key_of(protocol.digest, name) for name in "abc"]
    for wanted in (keys[:2], keys, keys):
        found = kept_or_run(tmp_path / "kept", wanted, run)
        assert [one.to_record() for one in found] == [result.to_record()] * len(wanted)
    assert ran == [[0, 1], [2]]


def test_what_is_no_record_is_named(tmp_path):
    for content in ("{", '{"a": 1}', '[{"method": "x"}]', "[1]"):
        (tmp_path / "x.json").write_text(content)
        with pytest.raises(RecordError, match="is no list of records"):
            read_records(tmp_path / "x.json")
