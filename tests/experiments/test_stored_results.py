"""Stored results: what is read is what was measured, and damage is told in one sentence."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from small_features import make_features

from subspan.experiments.episodes import digest_of_items
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.experiments.single_session import SingleSession
from subspan.learners.registry import create_method
from subspan.paper.stored_results import StoredResult, stored_results

SESSIONS = MultiSession(ways=3, shots=2, draws=2)
EPISODES = SingleSession(ways=3, shots=2, base_queries=6, novel_queries=6, count=7)


def stored(result: MethodResult | EpisodeResult) -> StoredResult:
    about = {"seed": 0, "seconds": 90.0, "device": "cpu", "base_session": {"recipe": "paper"}}
    return StoredResult("topic", result, "random:1", "ab" * 32, digest_of_items(make_features()), about)


def measured() -> tuple[MethodResult, EpisodeResult]:
    features, method = make_features(), create_method("prototype")
    return SESSIONS.run(features, method, memory=False), EPISODES.run(features, method)


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_read_is_what_was_measured(tmp_path: Path, which: int) -> None:
    result = measured()[which]
    read = StoredResult.load(stored(result).save(tmp_path / "topic.json"))
    left_out = {"orders", "confusion", "weight_space", "final_rows", "predictions", "run"}
    for name in {f.name for f in fields(result)} - left_out:
        before, after = getattr(result, name), getattr(read.result, name)
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(before, after)
            assert before.dtype == after.dtype
        else:
            assert before == after, name
    assert (read.system, read.split, read.minutes) == ("topic", "random:1", 1.5)
    assert read.protocol_name == ("multi-session", "single-session")[which]


def test_minutes_are_those_before_the_sessions_whose_seconds_the_result_has() -> None:
    kept = stored(measured()[0])
    assert replace(kept, about={**kept.about, "seconds_before_sessions": 30.0}).minutes == 0.5


def test_tables_read_a_stored_result_like_any_other(tmp_path: Path) -> None:
    sessions, episodes = measured()
    kept_sessions = StoredResult.load(stored(sessions).save(tmp_path / "a.json")).result
    kept_episodes = StoredResult.load(stored(episodes).save(tmp_path / "b.json")).result
    assert isinstance(kept_sessions, MethodResult)
    assert isinstance(kept_episodes, EpisodeResult)
    np.testing.assert_array_equal(kept_sessions.weighted, sessions.weighted)
    for figure in EpisodeResult.figures:
        np.testing.assert_array_equal(getattr(kept_episodes, figure), getattr(episodes, figure))


def test_of_format_1_is_read_what_it_held(tmp_path: Path) -> None:
    sessions = measured()[0]
    path = stored(sessions).save(tmp_path / "a.json")
    record = json.loads(path.read_text("utf-8")) | {"format": 1}
    for name in ("accuracy", "class_mean", "novel_session_mean"):
        del record["result"][name]
    path.write_text(json.dumps(record), encoding="utf-8")
    read = StoredResult.load(path).result
    assert isinstance(read, MethodResult)
    np.testing.assert_array_equal(read.novel, sessions.novel)
    np.testing.assert_array_equal(read.novel_session_mean, sessions.novel, "its sessions were of one size")
    assert np.isnan([read.accuracy, read.class_mean]).all()


def test_a_folder_gives_the_results_of_one_protocol(tmp_path: Path) -> None:
    sessions, episodes = measured()
    stored(sessions).save(tmp_path / "a.json")
    stored(episodes).save(tmp_path / "b.json")

    def names(protocol: str, system: str = "topic", recipe: str = "paper") -> list[str]:
        return [Path(one.path).name for one in stored_results(tmp_path, protocol, system, recipe)]

    assert (names(SESSIONS.digest), names(EPISODES.digest)) == (["a.json"], ["b.json"])
    assert names("another") == names(SESSIONS.digest, "etf") == names(SESSIONS.digest, recipe="strong") == []


def test_two_thousand_episodes_stay_small(tmp_path: Path) -> None:
    protocol = SingleSession(ways=3, shots=2, base_queries=25, novel_queries=6, count=2000)
    result = protocol.run(make_features(), create_method("prototype"))
    assert stored(result).save(tmp_path / "a.json").stat().st_size < 200_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.pop("result"), "no readable stored result"),
        (lambda record: record.update(format=9), "has format 9"),
        (lambda record: record["result"].pop("novel"), "no readable stored result"),
        (lambda record: record["result"]["base"][0].__setitem__(0, 140.0), "'base' holds 140 %"),
        (lambda record: record["result"]["novel"].pop(), "'novel' has 1 entries, 'base' 2"),
        (lambda record: record.update(protocol="other"), "no readable stored result"),
    ],
)
def test_damage_is_told(tmp_path: Path, change, message: str) -> None:
    path = stored(measured()[0]).save(tmp_path / "a.json")
    record = json.loads(path.read_text("utf-8"))
    change(record)
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ProtocolError, match=message):
        StoredResult.load(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="no readable stored result"):
        StoredResult.load(tmp_path / "none.json")
