"""The command line: ``subspan bench``, ``methods`` and ``convert`` as a user types them."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pytest
from made_up_features import BASE_COUNT, WIDTH, made_up_arrays
from scipy import stats

from subspan.features.feature_set import FeatureSet
from subspan.files.arrays import SUFFIXES
from subspan.learners.registry import list_methods, method_options

C0, C1, D = BASE_COUNT, 6, WIDTH


def write_features(path, seed=0, *, without=(), classes=C1, **extra):
    """A small split: 11 base classes, novel ones in sessions of 3, word vectors inside."""
    arrays = made_up_arrays(seed, classes, support_images=5) | {
        "base_names": [f"base {i}" for i in range(C0)],
        "novel_names": [f"novel {i}" for i in range(classes)],
        **extra,
    }
    np.savez(path, **{name: array for name, array in arrays.items() if name not in without})
    return path


@pytest.fixture
def split(tmp_path):
    return write_features(tmp_path / "split.npz")


QUICK = ("--ways", 3, "--shots", 2, "--workers", 1)


# Results


def test_json_on_the_bundle(subspan, tmp_path):
    path = tmp_path / "out" / "results.json"
    status, out, _ = subspan("bench", "--method", "prototype", "--draws", 3, "--workers", 1, "--json", path)
    assert status == 0
    assert "prototype" in out
    results = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert [(r["method"], r["memory"]) for r in results] == [("prototype", False), ("prototype", True)]
    for result in results:
        draws = result["per_draw"]
        assert result["steps"] == [0] * 8
        assert result["novel"][0] is None
        assert all(draw[0] is None for draw in draws["novel"])
        assert re.fullmatch("[0-9a-f]{12}", result["protocol"])
        assert result["seconds"] > 0
        for key, length in dict(steps=8, base=9, novel=9, weighted=9, harmonic=9).items():
            assert [len(draw) for draw in draws[key]] == [length] * 3
            for t in range(length):
                values = [draw[t] for draw in draws[key]]
                if None not in values:
                    assert result[key][t] == pytest.approx(np.mean(values))
        for e in range(3):
            for t in range(1, 9):
                base, novel = draws["base"][e][t], draws["novel"][e][t]
                n = 5 * t
                assert draws["weighted"][e][t] == pytest.approx((60 * base + n * novel) / (60 + n))
                assert draws["harmonic"][e][t] == pytest.approx((60 + n) / (60 / base + n / novel))
        assert result["base"][0] == pytest.approx(75.8, abs=1.5), (
            "session 0 of the golden file has 75.8 by linear scores"
        )
        assert 47 < result["weighted"][8] < 51, "PAPER-NOTES 4.5 has 49 for centred prototypes"
    assert len({tuple(d) for d in results[0]["per_draw"]["novel"]}) == 3, "draws must differ"


def test_predictions_tell_the_same_as_the_results(subspan, split, tmp_path):
    status, _, _ = subspan(
        "bench", split, "--method", "imprint", "--method", "prototype", "--draws", 2, *QUICK, "--no-memory",
        "--predictions", tmp_path / "items.csv.gz", "--json", tmp_path / "results.json",
    )  # fmt: skip
    assert status == 0
    with gzip.open(tmp_path / "items.csv.gz", "rt") as file:
        lines = list(csv.DictReader(file))
    right = defaultdict(list)
    for line in lines:
        kind = "base" if int(line["true"]) < C0 else "novel"
        key = line["method"], int(line["draw"]), int(line["session"]), kind
        right[key].append(line["true"] == line["predicted"])
    assert len(lines) == 2 * 2 * 4 * (C0 + (C0 + 3) + (C0 + 6))  # methods, draws, images of the classes seen
    assert {line["memory"] for line in lines} == {"False"}
    items = [(line["item"], line["true"]) for line in lines if line["session"] == "2" and line["draw"] == "0"]
    assert [int(true) for _, true in items[: 4 * (C0 + C1)]] == np.repeat(np.arange(C0 + C1), 4).tolist()
    for result in json.loads((tmp_path / "results.json").read_text()):
        for draw in range(2):
            for session in range(3):
                for kind in ("base", "novel"):
                    expected = result["per_draw"][kind][draw][session]
                    found = right[result["method"], draw, session, kind]
                    assert (expected is None and not found) or expected == pytest.approx(100 * np.mean(found))


def test_every_figure_of_the_json_follows_from_the_predictions(subspan, tmp_path):
    """Sessions of 3, 3 and 1 classes, and unequal numbers of test images: every accuracy is another number."""
    counts = np.arange(C0 + 7) % 5 + np.where(np.arange(C0 + 7) == C0 + 6, 30, 1)  # the last session's class has most
    base, novel = np.repeat(np.arange(C0), counts[:C0]), np.repeat(np.arange(7), counts[C0:])
    whole = made_up_arrays(0, 7, support_images=5)
    rng = np.random.default_rng(1)
    centers = whole["base_mean"], whole["novel_support"].mean((1, 2))
    tests = {
        f"{name}_test": part[labels] + 0.8 * rng.normal(size=(len(labels), D))
        for name, part, labels in (("base", centers[0], base), ("novel", centers[1], novel))
    }
    file = write_features(
        tmp_path / "uneven.npz", classes=7, **tests, base_test_labels=base, novel_test_labels=novel[::-1]
    )
    status, _, _ = subspan(
        "bench", file, "--method", "imprint", "--method", "finetune:max_steps=200", "--draws", 3, *QUICK,
        "--predictions", tmp_path / "items.csv", "--json", tmp_path / "results.json",
    )  # fmt: skip
    assert status == 0
    right = defaultdict(lambda: defaultdict(list))  # by run and class
    with open(tmp_path / "items.csv") as lines:
        for line in csv.DictReader(lines):
            key = line["method"], line["memory"] == "True", int(line["draw"]), int(line["session"])
            right[key][int(line["true"])].append(100.0 * (line["true"] == line["predicted"]))
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results) == 4
    for result in results:
        assert result["class_counts"] == [C0, C0 + 3, C0 + 6, C0 + 7]
        expected = defaultdict(list)
        for draw in range(3):
            found, births = defaultdict(list), []
            for t, seen in enumerate(result["class_counts"]):
                classes = right[result["method"], result["memory"], draw, t]
                assert sorted(classes) == list(range(seen))
                of_base, of_novel = ([hit for c in part for hit in classes[c]] for part in (range(C0), range(C0, seen)))
                sessions = [range(first, min(first + 3, seen)) for first in range(C0, seen, 3)]
                means = [np.mean([hit for c in part for hit in classes[c]]) for part in sessions]
                n, b, m = seen - C0, np.mean(of_base), np.mean(means) if means else None
                found["accuracy"].append(np.mean(of_base + of_novel))
                found["class_mean"].append(np.mean([np.mean(hits) for hits in classes.values()]))
                found["base"].append(b)
                found["novel"].append(np.mean(of_novel) if n else None)
                found["novel_session_mean"].append(m)
                found["weighted"].append((C0 * b + n * m) / seen if n else b)
                found["harmonic"].append((seen / (C0 / b + n / m) if m else 0) if n else b)
                found["plain_harmonic"].append(2 * b * (v := np.mean(of_novel)) / (b + v) if n else b)
                found["average"].append(np.mean(found["weighted"]))
                found["drop"].append(found["weighted"][0] - found["weighted"][-1])
                by_session = [b, *means]
                births.append(by_session[-1])
                lost = [was - now for was, now in zip(births[:-1], by_session[:-1], strict=True)]
                found["forgetting"].append(np.mean(lost) if lost else None)
            for name, values in found.items():
                expected[name].append(values)
                shown = result["per_draw"][name][draw]
                assert [v is None for v in shown] == [v is None for v in values]
                assert [v or 0 for v in shown] == pytest.approx([v or 0 for v in values]), name
        others = {
            "generalized",
            "method",
            "memory",
            "steps",
            "per_draw",
            "class_counts",
            "seconds",
            "protocol",
            "notes",
            "intervals",
            "digest",
            "run",
        }
        assert set(result) == set(expected) | others
        for name, draws in expected.items():
            for t, values in enumerate(zip(*draws, strict=True)):
                assert result[name][t] == (None if None in values else pytest.approx(np.mean(values))), name
        last = {round(result[name][-1], 6) for name in ("accuracy", "class_mean", "weighted")}
        assert len(last) == 3
        assert result["novel"][-1] != pytest.approx(result["novel_session_mean"][-1])


def test_differences_to_a_named_method_are_those_of_the_draws(subspan, split, tmp_path):
    command = ("bench", split, "--method", "prototype", "--draws", 3, *QUICK, "--no-memory")
    status, out, _ = subspan(*command, "--against", "imprint", "--json", tmp_path / "results.json")
    assert status == 0
    lines = [line.split() for line in out.partition("Against imprint")[2].splitlines()]
    (line,) = [line for line in lines if line[:3] == ["prototype", "no", "weighted"] and len(line) == 7]
    prototype, imprint = json.loads((tmp_path / "results.json").read_text())
    mine, theirs = ([draw[-1] for draw in one["per_draw"]["weighted"]] for one in (prototype, imprint))
    test = stats.ttest_rel(mine, theirs)
    assert line[3].startswith(f"{np.mean(np.subtract(mine, theirs)):.2f}±")
    assert line[4:] == [f"{test.pvalue:.4f}", f"{test.statistic / 3**0.5:.2f}", "3"]
    status, _, error = subspan("bench", split, "--method", "imprint", "--against", "imprint", *QUICK)
    assert status == 2
    assert "--against imprint needs a result of this method, and of another" in error


def test_as_many_images_as_shots_are_one_draw_in_one_sentence(subspan, split, tmp_path):
    status, out, err = subspan(
        "bench", split, "--method", "imprint", "--method", "prototype", "--shots", 5, "--ways", 3, "--workers", 1,
        "--report", tmp_path / "report", "--json", tmp_path / "results.json",
    )  # fmt: skip
    assert status == 0
    said = "5 support draws asked for, but no novel class has more than 5 support images, so there is one draw."
    for text in (" ".join(out.split()), " ".join(err.split())):
        assert text.count(said) == 1
    assert "1 support draw;" in out
    assert "±" not in out
    assert "true" not in (tmp_path / "report" / "table.csv").read_text("utf-8"), "a mark"
    assert {len(r["per_draw"]["base"]) for r in json.loads((tmp_path / "results.json").read_text())} == {1}


def test_draws_0_takes_the_first_images(subspan, tmp_path):
    """Other images after the first two change nothing; with random draws they do."""
    one = write_features(tmp_path / "one.npz")
    with np.load(one) as file:
        arrays = dict(file)
    arrays["novel_support"][:, 2:] *= -3
    np.savez(tmp_path / "two.npz", **arrays)
    found = {}
    for draws in (0, 4):
        for name in ("one", "two"):
            path = tmp_path / f"{name}-{draws}.json"
            subspan("bench", tmp_path / f"{name}.npz", "--method", "imprint", *QUICK, "--draws", draws, "--json", path)
            found[draws, name] = [r["per_draw"] for r in json.loads(path.read_text())]
    assert found[0, "one"] == found[0, "two"]
    assert len(found[0, "one"][0]["base"]) == 1
    assert found[4, "one"] != found[4, "two"]


def test_several_files_are_splits(subspan, tmp_path):
    files = [write_features(tmp_path / f"split{seed}.npz", seed) for seed in (0, 1)]
    alone = []
    for file in files:
        subspan(
            "bench", file, "--method", "imprint", *QUICK, "--draws", 2, "--no-memory", "--json", tmp_path / "a.json"
        )
        alone.append(json.loads((tmp_path / "a.json").read_text())[0])
    status, out, _ = subspan(
        "bench", *files, "--method", "imprint", *QUICK, "--draws", 2, "--no-memory",
        "--json", tmp_path / "both.json", "--predictions", tmp_path / "items.csv",
    )  # fmt: skip
    assert status == 0
    assert "split0.npz, split1.npz" in " ".join(out.split())
    (both,) = json.loads((tmp_path / "both.json").read_text())
    assert both["per_draw"]["split"] == [0, 0, 1, 1]
    assert both["per_draw"]["base"] == alone[0]["per_draw"]["base"] + alone[1]["per_draw"]["base"]
    assert both["novel"][2] == pytest.approx((alone[0]["novel"][2] + alone[1]["novel"][2]) / 2)
    with open(tmp_path / "items.csv") as file:
        assert {line["split"] for line in csv.DictReader(file)} == {"0", "1"}


def test_all_methods_that_the_file_allows(subspan, split, tmp_path):
    path = tmp_path / "all.json"
    status, _, _ = subspan("bench", split, *QUICK, "--ways", C1, "--draws", 1, "--json", path)
    assert status == 0
    found = {(r["method"], r["memory"]) for r in json.loads(path.read_text())}
    assert found == {(name, memory) for name in list_methods() for memory in (False, True)}
    bare = write_features(tmp_path / "bare.npz", without=("base_mean", "base_memory", "embedding.words"))
    status, _, err = subspan("bench", bare, *QUICK, "--ways", C1, "--draws", 1, "--no-memory", "--json", path)
    assert status == 0
    assert {r["method"] for r in json.loads(path.read_text())} == {"finetune", "subspace", "imprint"}
    assert "Left out semantic: method 'semantic' needs embeddings" in err
    assert "Left out prototype: method 'prototype' needs the array 'base_mean'" in err


def test_options_reach_the_regularizers_and_no_others(subspan, split, tmp_path):
    path = tmp_path / "options.json"
    status, _, _ = subspan(
        "bench", split, *QUICK, "--draws", 0, "--no-memory", "--json", path, "--old-penalty", "squared",
        "--solver", "optimum", "--new-rows", "zeros", "--dtype", "float64", "--ways", C1,
        "--method", "finetune:old_penalty=norm", "--method", "subspace", "--method", "imprint",
    )  # fmt: skip
    assert status == 0
    specs = [set(re.split("[:,]", r["method"])) for r in json.loads(path.read_text())]
    assert specs[0] == {"finetune", "solver=optimum", "new_rows=zeros"}  # its own old_penalty, the default, stands
    assert specs[1] == {"subspace", "old_penalty=squared", "solver=optimum", "new_rows=zeros"}
    assert specs[2] == {"imprint"}


def test_embeddings_by_name_and_by_file(subspan, tmp_path):
    vectors = np.random.default_rng(5).normal(size=(C0 + C1, 4))
    split = write_features(tmp_path / "split.npz", **{"embedding.other": vectors})
    names = [f"base {i}" for i in range(C0)] + [f"novel {i}" for i in range(C1)]
    np.savez(tmp_path / "vectors.npz", names=names[::-1], vectors=vectors[::-1])
    results = {}
    for wanted in (None, "words", "other", tmp_path / "vectors.npz"):
        flags = () if wanted is None else ("--embeddings", wanted)
        path = tmp_path / "r.json"
        status, _, _ = subspan(
            "bench", split, "--method", "semantic:gamma=50,tau=0.3,max_steps=50", *QUICK, "--no-memory", "--draws", 0,
            *flags, "--json", path,
        )  # fmt: skip
        assert status == 0
        results[wanted] = [r["per_draw"] for r in json.loads(path.read_text())]
    assert results[None] == results["words"] != results["other"]
    assert results["other"] == results[tmp_path / "vectors.npz"]


def test_report_is_one_page_that_needs_nothing_else(subspan, split, tmp_path):
    folder = tmp_path / "report"
    status, out, _ = subspan(
        "bench", split, "--method", "finetune:max_steps=30", "--method", "subspace:max_steps=30",
        "--method", "prototype", *QUICK, "--draws", 2, "--report", folder,
    )  # fmt: skip
    assert status == 0
    (page,) = folder.glob("*.html")
    assert str(page) in out.replace("\n", "")
    text = page.read_text("utf-8")
    for source in re.findall(r"""<(?:img|script|link|source|iframe)\b[^>]*(?:src|href)\s*=\s*["']([^"']+)""", text):
        assert source.startswith("data:"), f"the page loads {source[:80]}"
    for link in re.findall(r"""<a\b[^>]*href\s*=\s*["']([^"'#]+)""", text):
        assert (folder / link).exists(), f"the page links to {link}"
    assert "@import" not in text
    assert not re.findall(r"url\(\s*['\"]?(?!data:|#)", text)
    assert "prototype" in text
    assert "subspan bench" in text, "the command that made it"
    pictures = list(folder.glob("*.png"))
    assert pictures
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_the_command_as_a_process_of_its_own(split, tmp_path):
    """From the shell; nothing but the table on standard output."""
    command = [sys.executable, "-m", "subspan", "bench", str(split), "--method", "imprint", "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    assert "imprint" in done.stdout
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == ["split.npz"], "nothing is written unasked"


# Bad input: one sentence, status 2, no traceback


def one_sentence(result, message):
    status, out, err = result
    assert status == 2
    assert out == ""
    assert "Traceback" not in err
    assert re.search(message, " ".join(err.split())), err
    return err


BAD = {
    "method": (("--method", "magic"), "^Error: there is no method 'magic'; the methods are"),
    "option": (("--method", "subspace:tau=3"), "^Error: method 'subspace' has no option 'tau'; its options are"),
    "value": (
        ("--method", "semantic:tau=hot"),
        "^Error: option 'tau' of method 'semantic' must be a number; got 'hot'",
    ),
    "negative gamma": (("--method", "subspace:gamma=-1"), "^Error: gamma must not be negative; got -1"),
    "penalty": (
        ("--method", "subspace", "--old-penalty", "l1"),
        "'old_penalty' .* must be one of norm, squared; got 'l1'",
    ),
    "solver": (("--method", "subspace", "--solver", "newton"), "must be one of sgd, optimum; got 'newton'"),
    "start": (("--method", "subspace", "--start", "ones"), "must be one of uniform, zeros; got 'ones'"),
    "shots": (("--shots", "99"), "^Error: 99 shots asked for, but class 'novel 0' has only 5 support images"),
    "no shots": (("--shots", "0"), "^Error: shots must be at least 1; got 0"),
    "draws": (("--draws", "-1"), "draws must be at least 0; got -1"),
    "seed": (("--seed", "-1"), "seed must be at least 0; got -1"),
    "a start no method takes": (("--method", "imprint", "--start", "ones"), "one of uniform, zeros; got 'ones'"),
    "a folder for a file": (("--json", "."), "Invalid value for '--json'"),
    "a file for a folder": (("--report", __file__), "Invalid value for '--report'"),
    "embeddings": (("--embeddings", "glove"), "there are no embeddings 'glove'; the feature file has words"),
    "embeddings file": (("--embeddings", "none.npz"), "'none.npz' is no readable npz file"),
    "dtype": (("--dtype", "float16"), "--dtype must be one of float32, float64; got 'float16'"),
    "device": (("--device", "tpu"), "^Error: device must be cpu, or cuda where there is a GPU; got 'tpu'"),
    "flag": (("--sohts", "3"), "No such option"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_flags(case, subspan, split):
    flags, message = BAD[case]
    method = () if "--method" in flags else ("--method", "imprint")
    one_sentence(subspan("bench", split, "--workers", 1, *method, *flags), message)


def test_bad_files(subspan, split, tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    lacking = write_features(tmp_path / "lacking.npz", without=("novel_test",))
    smaller = write_features(tmp_path / "smaller.npz", classes=3)
    nameless = write_features(tmp_path / "nameless.npz", without=("base_names", "novel_names"))
    np.savez(tmp_path / "vectors.npz", names=["a"], vectors=np.ones((1, 2)))
    for arguments, message in (
        (("none.npz",), "^Error: there is no feature file 'none.npz'"),
        ((tmp_path / "text.npz",), "^Error: '.*text.npz' is no readable npz file"),
        ((lacking,), "^Error: '.*lacking.npz' lacks the array 'novel_test'; the schema needs base_weight"),
        ((split, smaller), "^Error: '.*smaller.npz' has 11 base and 3 novel classes, '.*split.npz' has 11 and 6"),
        ((nameless, "--embeddings", tmp_path / "vectors.npz"), "need class names, which the feature file lacks"),
        ((split, "--embeddings", tmp_path / "vectors.npz"), r"has no embedding for class 'base 0' \(17 are missing\)"),
        (
            (write_features(tmp_path / "m.npz", without=("base_memory",)), "--method", "imprint", "--memory"),
            "base_memory",
        ),
        (
            (write_features(tmp_path / "e.npz", without=("embedding.words",)), "--method", "semantic"),
            "needs embeddings",
        ),
    ):
        err = one_sentence(subspan("bench", *arguments), message)
        assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("draws", "said"), [(0, "first images in file order"), (1, "1 support draw;"), (2, "2 support draws;")]
)
def test_the_title_says_how_support_is_drawn(subspan, split, draws, said):
    status, out, _ = subspan("bench", split, "--method", "prototype", "--draws", draws, *QUICK, "--no-memory")
    assert status == 0
    assert said in " ".join(out.split())


def test_a_traceback_for_those_who_ask(subspan, monkeypatch):
    monkeypatch.setenv("SUBSPAN_TRACEBACK", "1")
    with pytest.raises(ValueError, match="there is no method 'magic'"):
        subspan("bench", "--method", "magic")


def test_an_interrupted_command_says_so(subspan, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("subspan.cli.methods.list_methods", interrupted)
    assert subspan("methods") == (130, "", "Stopped.\n")


# The other commands


def test_methods_are_listed(subspan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    status, out, _ = subspan("methods")
    assert status == 0
    for name in list_methods():
        assert re.search(rf"^{name}\b", out, re.MULTILINE)


def test_one_method_is_explained(subspan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    status, out, _ = subspan("methods", "semantic")
    assert status == 0
    for option, (_, _, explanation) in method_options("semantic").items():
        assert re.search(rf"^{option}\b.*{re.escape(explanation)}", out, re.MULTILINE), option
    one_sentence(subspan("methods", "magic"), "there is no method 'magic'; the methods are")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_convert(precision, suffix, subspan, split, tmp_path):
    names = [f"base {i}" for i in range(C0)] + [f"novel {i}" for i in range(C1)]
    np.savez(tmp_path / "vectors.npz", names=names, vectors=np.eye(C0 + C1))
    target = tmp_path / "new" / f"split{suffix}"
    status, out, _ = subspan(
        "convert", split, target, "--precision", precision, "--embeddings", f"eye={tmp_path / 'vectors.npz'}"
    )
    assert status == 0
    assert f"{target.stat().st_size / 1e6:.2f} MB" in " ".join(out.split())
    old, new = FeatureSet.load(split), FeatureSet.load(target)
    largest = np.abs(old.novel_support).max(-1, keepdims=True)
    bound = {"float32": 1e-6, "float16": 1e-3, "int8": 1 / 250}[precision] * largest
    assert (np.abs(new.novel_support - old.novel_support) <= bound).all()
    np.testing.assert_array_equal(new.embeddings["eye"], np.eye(C0 + C1))
    assert set(new.embeddings) == {"words", "eye"}
    assert new.class_names == old.class_names


def test_convert_refuses(subspan, split, tmp_path):
    target = tmp_path / "t.safetensors"
    one_sentence(
        subspan("convert", split, target, "--precision", "int4"),
        "precision must be one of float32, float16, int8; got 'int4'",
    )
    one_sentence(subspan("convert", split, target, "--embeddings", "x"), "--embeddings reads NAME=FILE; got 'x'")
    one_sentence(subspan("convert", split, tmp_path / "t.npy"), "is written as .safetensors or .npz; got")
    one_sentence(subspan("convert", "none.npz", target), "there is no feature file 'none.npz'")
    assert not target.exists()


def commands(subspan):
    out = subspan("--help")[1]
    return [
        name for name in ("bench", "methods", "convert", "train", "extract", "pack") if re.search(rf"\b{name}\b", out)
    ]


def test_every_help_text_has_an_example(subspan):
    assert "Example" in subspan("--help")[1]
    found = commands(subspan)
    assert {"bench", "methods", "convert"} <= set(found)
    for command in found:
        status, out, _ = subspan(command, "--help")
        assert status == 0
        assert re.search(rf"Examples?:.*subspan {command}", out, re.DOTALL), command


def test_help_names_every_flag_of_the_contract(subspan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = subspan("bench", "--help")[1]
    flags = "method memory no-memory old-penalty solver start shots draws embeddings seed dtype json predictions report"
    for flag in flags.split(" "):
        assert f"--{flag}" in out


def test_version(subspan):
    from subspan import __version__

    assert subspan("--version")[:2] == (0, f"subspan {__version__}\n")


def test_sessions_are_counted_to_their_end(subspan, split, monkeypatch):
    from subspan import progress

    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    status, _, error = subspan("bench", split, "--method", "prototype", "--method", "subspace", *QUICK)
    assert status == 0, error
    counts = [line.split(",")[0] for line in error.splitlines() if line.startswith("sessions: ")]
    # Two methods with and without memory, two sessions each.
    assert counts == [f"sessions: {done} of 8" for done in (2, 4, 6, 8)]
