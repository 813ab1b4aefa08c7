"""The package of four methods in `examples/`, installed beside Subspan, and the three ways to run it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from subspan.features.feature_set import FeatureSet

EXAMPLES = Path(__file__).parents[2] / "examples"
PACKAGE = EXAMPLES / "own_methods"
SPECS = ("offset:share=0.2", "average:max_steps=60", "running:prior=50", "margin:clip=none,steps=5")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder on the path of every Python started with it, as pip leaves one: the package, and what it registers."""
    place = tmp_path_factory.mktemp("installed")
    (place / "own_methods").symlink_to(PACKAGE / "own_methods")
    about = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    points = about["entry-points"]["subspan.learners"]
    info = place / "own_methods-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    lines = [f"{name} = {path}\n" for name, path in points.items()]
    (info / "entry_points.txt").write_text("[subspan.learners]\n" + "".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join([str(place), *filter(None, sys.path)]))
        patch.setenv("PYTHON", sys.executable)
        yield place


def run(*words, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def subspan(*words):
    return run(sys.executable, "-m", "subspan", *words)


@pytest.fixture
def features(tmp_path):
    """Small clouds, with test images enough for base classes that play novel ones."""
    rng = np.random.default_rng(0)
    base, novel = rng.normal(size=(8, 12)), rng.normal(size=(6, 12))

    def around(centers, *shape):
        return centers[:, *(None for _ in shape)] + 0.7 * rng.normal(size=(len(centers), *shape, 12))

    arrays = {"base_weight": base, "base_mean": base, "base_test": around(base, 12)}
    arrays |= {"novel_test": around(novel, 5), "novel_support": around(novel, 5, 1)}
    FeatureSet.from_arrays(arrays).save(tmp_path / "dev.npz", precision="float32")
    return tmp_path / "dev.npz"


@pytest.mark.parametrize("spec", SPECS)
def test_check_method_passes_each_of_the_four(installed, spec):
    run(sys.executable, "-c", f"from subspan.checks import check_method; check_method({spec!r})")


def test_they_are_listed_and_explained_by_name(installed):
    listed = subspan("methods")
    assert all(spec.partition(":")[0] in listed for spec in SPECS)
    assert "a number|none" in subspan("methods", "margin")


def results_of(path):
    """What a run says of each method, but for its seconds and the command, which has the number of workers."""
    told = json.loads(path.read_text())
    return [{key: value for key, value in one.items() if key not in ("seconds", "run")} for one in told]


FOUR = [word for spec in SPECS for word in ("--method", spec)]
QUICK = ("--ways", "3", "--shots", "2", "--draws", "2", "--no-memory")
EPISODES = ("--protocol", "single-session", "--shots", "2", "--count", "6")


@pytest.mark.parametrize("protocol", [QUICK, EPISODES], ids=["multi-session", "single-session"])
def test_bench_gives_the_same_numbers_with_any_number_of_workers(installed, features, tmp_path, protocol):
    for workers in (1, 2):
        subspan("bench", features, *FOUR, *protocol, "--workers", workers, "--json", tmp_path / f"{workers}.json")
    first, second = (results_of(tmp_path / f"{workers}.json") for workers in (1, 2))
    assert first == second
    assert [one["method"].partition(":")[0] for one in first] == ["offset", "average", "running", "margin"]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [QUICK, EPISODES], ids=["multi-session", "single-session"])
def test_bench_gives_the_same_numbers_on_ray(installed, features, tmp_path, protocol):
    pytest.importorskip("ray", reason="needs ray: pip install 'subspan[ray]'")
    for where in ("--workers=1", "--ray"):
        subspan("bench", features, *FOUR, *protocol, where, "--json", tmp_path / f"{where}.json")
    assert results_of(tmp_path / "--ray.json") == results_of(tmp_path / "--workers=1.json")


@pytest.mark.parametrize("protocol", ["single-session", "multi-session"])
def test_sweep_tries_their_options_under_both_protocols(installed, features, tmp_path, protocol):
    words = ("--method", "offset", "--method", "margin:steps=5", "--try", "share=0.2,0.8", "--try", "clip=none,1")
    subspan(
        *("sweep", features, *words, "--protocol", protocol, "--out", tmp_path / "out"),
        *("--count", 4, "--draws", 1, "--shots", 2, "--workers", 2, "--hold-out-classes", 5),
    )
    chosen = json.loads((tmp_path / "out" / "config.json").read_text())
    assert [one["method"] for one in chosen["settings"]] == ["offset", "margin"]
    assert len(list((tmp_path / "out" / "trials").iterdir())) == 4


# The three ways


def test_a_script_that_calls_the_library_says_the_same_with_one_worker_and_with_two(installed):
    tables = [run(sys.executable, EXAMPLES / "by_library.py", workers) for workers in (1, 2)]
    first, second = (table.partition("**Over all sessions**")[0] for table in tables)  # there seconds are shown
    assert first == second
    assert "own\\_methods" in first or "running:prior=50" in first


def test_a_script_that_calls_the_command(installed, features):
    assert "Against offset" in run(sys.executable, EXAMPLES / "by_command.py", features, *QUICK[:-1], "--workers", 2)


def test_the_command_line_alone(installed, features):
    out = run("sh", EXAMPLES / "by_path.sh", features, *QUICK[:-1], "--workers", 2, cwd=EXAMPLES)
    assert "share=0.2" in out


# What two of them compute, by hand


def after_one_example(method, base, example):
    """What a method knows after a session of one class with one example."""
    from subspan.engine.sessions import session_of

    novel = len(base.rows)
    support = torch.tensor([example]).to(base.rows)
    return method.learn(method.start(base), session_of(support, torch.tensor([novel]), (novel,)))


@pytest.fixture
def methods(installed, monkeypatch, forgotten_methods):
    """The classes of the package."""
    monkeypatch.syspath_prepend(str(installed))
    from own_methods import average, offset, running

    return {"average": average.Average, "offset": offset.Offset, "running": running.Running}


def test_average_pulls_novel_rows_to_the_mean_base_row(methods):
    from subspan.engine.contract import Base

    base = Base(torch.eye(3, dtype=torch.float64))
    after = after_one_example(methods["average"](gamma=100, solver="optimum"), base, [0.0, 0.0, 1.0])
    torch.testing.assert_close(after.rows[3], torch.full((3,), 1 / 3, dtype=torch.float64), rtol=0, atol=0.01)


def test_offset_takes_its_share_of_the_mean_base_feature_off(methods):
    from subspan.engine.contract import Base

    base = Base(torch.eye(2), means=torch.tensor([[4.0, 0.0], [0.0, 0.0]]))  # mean (2, 0)
    after = after_one_example(methods["offset"](share=0.5), base, [4.0, 4.0])
    torch.testing.assert_close(after.rows[2], torch.tensor([0.6, 0.8]))  # (4, 4) - (1, 0), normalised


def test_running_has_the_covariance_of_all_examples_seen(methods):
    from subspan.engine.contract import Base
    from subspan.engine.sessions import session_of

    means = torch.eye(2, 3, dtype=torch.float64)
    method, rng = methods["running"](prior=3.0), np.random.default_rng(0)
    state, expected = method.start(Base(means, means=means)), 3 * float(means.var()) * np.eye(3)
    for place in (2, 3):
        support = rng.normal(size=(4, 3))
        state = method.learn(state, session_of(torch.tensor(support), torch.full((4,), place), (place,)))
        expected = expected + 3 * np.cov(support.T)  # n - 1 of 4
    np.testing.assert_allclose(state["scatter"], expected)
    assert state["seen"].tolist() == [11.0]
