"""Ways of adding classes, compared: sessions, accuracies against a plain loop, costs, and who is said to be best."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from subspan.experiments.compare import Compared, compare
from subspan.experiments.compare.sessions import (
    Drawing,
    Stream,
    all_examples,
    draw_streams,
    read_examples,
    write_examples,
)
from subspan.experiments.compare.ways import OURS, array_bytes, kinds
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.report.comparison import comparison_figure, comparison_table, findings, to_json
from subspan.experiments.report.render import to_csv

NAMES = ["alder", "ash", "elm", "fir", "oak", "pine", "yew"]
WIDTH = 20


def examples(count: int = 14, apart: float = 3.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(NAMES, count)
    X = np.abs(apart * rng.normal(size=(len(NAMES), WIDTH))[np.repeat(np.arange(len(NAMES)), count)])
    return (X + rng.normal(size=X.shape)).astype(np.float32), y


DRAWING = Drawing(ways=2, shots=3, draws=2)


def test_sessions_part_classes_and_hold_all_test_examples_out():
    X, y = examples()
    streams = draw_streams(X, y, DRAWING)
    assert len(streams) == 2
    for stream in streams:
        taught = [set(labels.tolist()) for _, labels in stream.sessions]
        assert [len(classes) for classes in taught] == [4, 2, 1]  # 40 % of seven classes are three
        assert set.union(*taught) == set(stream.test[1].tolist()) == set(NAMES)
        for _, labels in stream.sessions[1:]:
            assert set(np.unique(labels, return_counts=True)[1]) == {3}
        everything = np.concatenate([*(part for part, _ in stream.sessions), stream.test[0]])
        assert sorted(map(tuple, everything)) == sorted(map(tuple, X))  # each example is in one place
    assert set(streams[0].sessions[0][1]) != set(streams[1].sessions[0][1])
    again = draw_streams(X, y, DRAWING)
    np.testing.assert_array_equal(again[1].test[0], streams[1].test[0])


def test_named_classes_come_later_in_their_order():
    streams = draw_streams(*examples(), replace(DRAWING, ways=1), ["yew", "ash"])
    for stream in streams:
        assert [np.unique(labels).tolist() for _, labels in stream.sessions[1:]] == [["yew"], ["ash"]]


def test_small_classes_keep_an_example_to_test_with_or_are_left_out():
    X, y = examples(3)
    few = np.ones(len(y), bool)
    few[np.flatnonzero(y == "ash")[1:]] = False
    with pytest.warns(UserWarning, match="single example cannot be taught and tested: ash"):
        [stream] = draw_streams(X[few], y[few], Drawing(draws=1, shots=5))
    assert set(np.unique(stream.test[1], return_counts=True)[1]) == {1}
    assert "ash" not in all_examples(stream)[1]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ({"novel_classes": ["larch"]}, "no class 'larch' to come later"),
        ({"novel_classes": NAMES[:6]}, "at least two classes; 7 classes less 6"),
        ({"X": np.ones((3, 2, 2))}, "must be X"),
    ],
)
def test_sessions_that_cannot_be_drawn(words: dict, rule: str):
    X, y = examples()
    with pytest.raises(ProtocolError, match=rule):
        draw_streams(**{"X": X, "y": y, "drawing": DRAWING, **words})


def naive_centroids(stream: Stream) -> list[tuple[float, float, float]]:
    """Accuracies of the nearest mean of unit vectors, example by example: all, base, novel after each session."""
    means, base, answers = {}, set(), []
    for number, (X, y) in enumerate(stream.sessions):
        for name in sorted(set(y.tolist())):
            of_class = [
                x / np.sqrt((x * x).sum()) for x, label in zip(X.astype(float), y, strict=True) if label == name
            ]
            means[name] = sum(of_class) / len(of_class)
        base = base or set(means)
        right: dict[str, list[bool]] = {name: [] for name in means}
        for query, gold in zip(stream.test[0].astype(float), stream.test[1].tolist(), strict=True):
            if gold in means:
                unit = query / np.sqrt((query * query).sum())
                nearest = min(means, key=lambda name: ((unit - means[name]) ** 2).sum())
                right[gold].append(nearest == gold)
        of = {name: 100 * sum(found) / len(found) for name, found in right.items()}
        parts = [list(of), [name for name in of if name in base], [name for name in of if name not in base]]
        answers.append(tuple(np.mean([of[name] for name in part]) if part else np.nan for part in parts))
        assert number < 3
    return answers


def test_accuracies_are_those_of_a_plain_loop():
    streams = draw_streams(*examples(apart=0.8), DRAWING)
    [one] = compare(streams, ["centroid"])
    expected = np.array([naive_centroids(stream) for stream in streams])  # (draws, sessions + 1, 3)
    found = np.stack([one.accuracy, one.base, one.novel], axis=-1)
    np.testing.assert_allclose(found, expected)
    assert 20 < one.accuracy.min() < 99  # not so easy that any rule would do


def test_all_ways_learn_and_say_what_they_keep():
    X, y = examples(apart=5)
    streams = draw_streams(X, y, DRAWING)
    told = []
    results = {one.method: one for one in compare(streams, progress=lambda *said: told.append(said))}
    assert list(results) == list(kinds())
    assert told[-1] == ("sessions", 3 * 2 * len(results), 3 * 2 * len(results))
    for one in results.values():
        assert one.accuracy[:, -1].mean() > 80, one.method
        assert (one.seconds > 0).all()
    taught = sum(len(part) for part, _ in streams[0].sessions) * WIDTH * 4
    assert all((one.bytes > taught).all() for one in results.values() if one.old_examples)
    assert results["centroid"].bytes.tolist() == [7 * WIDTH * 4] * 2
    assert not results[OURS].old_examples


def test_a_method_of_ours_with_options_is_a_way_too():
    streams = draw_streams(*examples(), replace(DRAWING, draws=1))
    [plain, pulled] = compare(streams, ["teen:alpha=0", "teen"])
    assert plain.method == "teen:alpha=0"
    assert pulled.accuracy.shape == (1, 3)
    with pytest.raises(ValueError, match="there is no method 'forest'"):
        compare(streams, ["forest"])


def test_arrays_count_once_wherever_they_are():
    class Holder:
        def __init__(self) -> None:
            self.one = np.zeros(10)
            self.again = {"view": self.one, "self": self}

    assert array_bytes([Holder(), np.zeros(3, np.float32)]) == 92


def result(name: str, last: list[float], *, old_examples: bool = True) -> Compared:
    accuracy = np.column_stack([np.full(len(last), 90.0), last])
    novel = np.where([False, True], accuracy - 5, np.nan)
    return Compared(
        name, f"{name} itself", old_examples, accuracy, accuracy + 1, novel, accuracy / 100, np.full(len(last), 1e6)
    )


def test_the_winner_is_named_also_where_it_is_not_ours():
    ours = result(OURS, [70.0, 71.0, 70.4, 71.4], old_examples=False)
    ridge, other = result("ridge", [74.0, 75.2, 74.4, 75.6]), result("knn", [50.0, 70.0, 90.0, 60.0])
    said = findings([ours, ridge, other])
    assert said[0].startswith("Best after the last session: ridge, 74.8 ± 1.2 %")
    assert "Not significantly below it: knn (paired t-test over 4 draws" in said[1]  # lower by chance, for all we know
    assert said[2] == "Subspan's default has 70.7 ± 1.0 %: 4.1 points less, significantly."
    assert "the best that needs none is subspan" in said[3]
    near = result(OURS, [74.5, 74.9, 74.0, 75.4], old_examples=False)
    assert findings([near, ridge])[2].endswith("points less, which is not significant.")
    assert findings([result(OURS, [80.0]), result("ridge", [79.0])])[1].startswith("One draw: no interval and no test")
    assert len(findings([result(OURS, [80.0, 81.0], old_examples=False), result("ridge", [70.0, 72.0])])) == 2


def test_table_json_and_figure_hold_the_same_numbers(tmp_path: Path):
    results = [result(OURS, [70.0, 74.0], old_examples=False), result("ridge", [75.0, 73.0])]
    (tmp_path / "table.csv").write_text(to_csv(comparison_table(results)))
    table = pd.read_csv(tmp_path / "table.csv", index_col="way")
    ways = {one["method"]: one for one in to_json(results, {"date": "today"})["ways"]}
    assert table.loc["ridge", "old"] == "yes"
    assert table.loc["subspan", "novel"] == ways["subspan"]["novel"][-1] == 67
    assert table.loc["ridge", "kilobytes"] == 1000
    assert table.loc["ridge", "milliseconds"] == pytest.approx(740)
    assert table.loc["subspan", "accuracy_ci95"] == pytest.approx(2 * 12.7062, abs=1e-3)  # t of one degree of freedom
    assert ways["ridge"]["novel"][0] is None
    assert comparison_figure(results).png.startswith(b"\x89PNG")


def test_files_of_examples_and_of_sessions(tmp_path: Path):
    X, y = examples()
    write_examples(tmp_path / "kept.npz", X, y)
    found = read_examples(tmp_path / "kept.npz")
    assert isinstance(found, tuple)
    np.testing.assert_allclose(found[0], X, rtol=1e-3)
    assert found[1].tolist() == y.tolist()
    [stream] = draw_streams(X, y, replace(DRAWING, draws=1))
    arrays = {}
    for part, (features, labels) in zip(("base", "s01", "s02", "test"), (*stream.sessions, stream.test), strict=True):
        arrays |= {f"{part}_X": features, f"{part}_y": labels}
    np.savez(tmp_path / "sessions.npz", **arrays)
    read = read_examples(tmp_path / "sessions.npz")
    assert isinstance(read, Stream)
    assert [labels.tolist() for _, labels in read.sessions] == [labels.tolist() for _, labels in stream.sessions]
    for change, rule in (
        ({"s02_y": arrays["s01_y"][:3]}, "session s02 teaches class"),
        ({"test_X": arrays["test_X"][:, :5]}, "has 20 columns, test_X has 5"),
        ({"s01_y": arrays["s01_y"][:1]}, r"s01_X must be \(n, d\) with s01_y"),
        ({"test_X": X[y == "ash"], "test_y": y[y == "ash"]}, "must be both taught and tested"),
    ):
        np.savez(tmp_path / "bad.npz", **arrays | change)
        with pytest.raises(ProtocolError, match=rule):
            read_examples(tmp_path / "bad.npz")
    for wrong, rule in (
        ({"base_weight": X}, "compare with: subspan bench"),
        ({"a": X}, "must hold X and y, or base_X"),
    ):
        np.savez(tmp_path / "bad.npz", **wrong)
        with pytest.raises(ProtocolError, match=rule):
            read_examples(tmp_path / "bad.npz")
