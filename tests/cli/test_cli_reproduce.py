"""``subspan reproduce multi-session`` as a user types it, on small made-up feature files."""

import csv
import dataclasses
import json
import re
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from made_up_features import BASE_COUNT, made_up_arrays

from subspan.cli import main
from subspan.engine.sgd import sgd
from subspan.experiments.config import Config, Setting
from subspan.experiments.multi_session import MultiSession
from subspan.features.feature_set import FeatureSet
from subspan.learners.parts import regularizer
from subspan.learners.registry import create_method, spec_of
from subspan.paper import multi_session, sources
from subspan.paper.pages import problems
from subspan.paper.stored_results import StoredResult

C0, C1 = BASE_COUNT, 16  # eight sessions of two ways
RUN = ("ncm", "ranpac:form=calibrated,alpha=0.25", "fecam", "subspan.learners.prototype:Prototype")  # systems that can


@pytest.fixture(scope="module")
def subspan(tmp_path_factory):
    """Run a command in this process under a protocol of few classes and few steps: (status, output and errors)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multi_session, "CLASSES", (C0, C1))
        patch.setattr(multi_session, "RANDOM", MultiSession(ways=2, shots=2, draws=1))
        patch.setattr(multi_session, "FIXED", MultiSession(ways=2, shots=2, draws=0))
        patch.setattr(regularizer, "sgd", lambda p, o: sgd(p, dataclasses.replace(o, max_steps=5)))
        patch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it

        def call(capsys, *arguments):
            patch.setattr(
                sys, "argv", ["subspan", "reproduce", "multi-session", "--workers", "1", *map(str, arguments)]
            )
            with pytest.raises(SystemExit) as stop:
                main()
            captured = capsys.readouterr()
            return stop.value.code or 0, captured.out, captured.err

        yield call


def write_split(folder, name, seed, *, novel=C1, without=(), suffix=".npz", **meta):
    arrays = made_up_arrays(seed, novel, support_images=3) | {"meta": meta}
    arrays = {key: value for key, value in arrays.items() if key not in without}
    return FeatureSet.from_arrays(arrays).save(folder / f"{name}{suffix}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two random splits, the development split, the fixed one; `strong`; the other network.

    The last is safetensors, all others are npz.
    """
    folder = tmp_path_factory.mktemp("features")
    write_split(folder, "paper-random-1", 1, split="random:1", session0_validation=81.5, session0_test=80.0)
    write_split(folder, "paper-random-4", 4, split="random:4", session0_test=78.0)
    write_split(folder, "paper-random-0", 0, split="random:0", session0_validation=99.9, session0_test=99.9)
    write_split(folder, "paper-fixed", 5, split="fixed")
    write_split(folder, "strong-random-3", 6, split="random:3")
    write_split(folder, "strong-fixed", 6, split="fixed")
    write_split(folder, "he-random-2", 2, suffix=".safetensors", split="random:2", session0_validation=79.5)
    return folder


def store_topic(folder, features):
    """A stored result of a system that moves the network, as the command of the training machine leaves it."""
    result = multi_session.RANDOM.run(features, create_method("ncm"), memory=False)
    about = {"seconds": 120.0, "device": "a GPU", "base_session": {"recipe": "paper"}}
    StoredResult("topic", result, "random:1", "digest", "items", about).save(folder / "topic-random-1.json")


class NoCapture:
    readouterr = staticmethod(lambda: type("Captured", (), {"out": "", "err": ""}))


@pytest.fixture(scope="module")
def written(subspan, folder, tmp_path_factory):
    out, parts = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("parts")
    store_topic(parts, FeatureSet.load(folder / "paper-random-1.npz"))
    options = (
        "--systems",
        f"{','.join(RUN)},lwof,topic",
        "--parts",
        parts,
        "--report",
        out,
        "--markdown",
        out / "R.md",
    )
    status, _, _ = subspan(NoCapture, "--features", folder, *options)
    assert status == 0
    return out


@pytest.fixture(scope="module")
def strong(subspan, folder, tmp_path_factory):
    """The section of another recipe, which has a packaged config."""
    out = tmp_path_factory.mktemp("strong")
    options = ("--recipe", "strong", "--report", out, "--markdown", out / "R.md")
    status, _, _ = subspan(NoCapture, "--features", folder, *options)
    assert status == 0
    return out


def rows_of(path):
    """The lines of a csv table by their first two headings."""
    with path.open() as file:
        header, *lines = csv.reader(file)
    return {tuple(line[:2]): dict(zip(header, line, strict=True)) for line in lines}


def test_every_table_is_there_in_every_form(written):
    names = "main sessions-without-memory sessions-with-memory networks fixed-split rivals"
    for name in names.split():
        for ending in ("csv", "md", "tex"):
            assert (written / f"{name}.{ending}").stat().st_size > 0
    page = (written / "report.html").read_text()
    assert all(f'<h2 id="{name}">' in page for name in names.split())
    assert page.count('<img src="data:image/png;base64,') == 5  # curves, heat maps, two weight spaces, costs of systems
    assert "Means over 2 of 10 splits: random-1, random-4." in page


def test_our_rows_are_means_over_the_splits_present(written, folder):
    """Session 0 needs no session at all: base rows times base test features."""
    accuracies = []
    for seed in (1, 4):
        features = FeatureSet.load(folder / f"paper-random-{seed}.npz")
        predicted = (features.base_test @ features.base_weight.T).argmax(1)
        accuracies.append(100 * (predicted == features.base_test_labels).mean())
    tables = rows_of(written / "sessions-without-memory.csv")
    ours = tables["Subspace", "ours"]
    assert float(ours["session_0"]) == pytest.approx(np.mean(accuracies))
    assert float(ours["session_0_ci95"]) == pytest.approx(12.706 * abs(np.diff(accuracies)[0]) / 2, rel=1e-4)
    assert float(tables["Subspace", "ours, scaled"]["session_0"]) == pytest.approx(80.37)
    assert {"base", "novel", "harmonic", "plain_harmonic", "average", "drop"} <= set(ours)


def test_networks_come_from_the_files_and_missing_ones_stay_empty(written):
    tables = rows_of(written / "networks.csv")
    tian = tables["ResNet-18 of Tian et al.", "validation, ours"]
    assert [tian[f"seed_{seed}"] for seed in (1, 2, 4)] == ["81.5", "", ""]
    assert tables["ResNet-18 of Tian et al.", "test, ours"]["mean"] == "79.0"
    assert tables["ResNet-18 of He et al.", "validation, ours"]["seed_2"] == "79.5"


def test_the_fixed_split_stands_beside_later_systems(written):
    with (written / "fixed-split.csv").open() as file:
        header, *lines = csv.reader(file)
    ours = [line for line in lines if line[header.index("source")] == "ours"]
    assert len(ours) == 14  # seven methods without memory and with it
    assert len(lines) - len(ours) == 11


def test_our_own_method_has_the_options_of_each_recipe(written, strong, folder):
    found = {}
    for recipe, out in (("paper", written), ("strong", strong)):
        with (out / "fixed-split.csv").open() as file:
            lines = [line for line in csv.DictReader(file) if line["system"] == "Calibrated prototypes"]
        (found[recipe],) = (float(line["novel"]) for line in lines if line["memory"] == "no")
    chosen = {"shrinkage": 8.0, "learned": 0.15, "pull": 0.0, "offset": 0.08}
    for recipe, options in (("paper", {}), ("strong", chosen)):
        features = FeatureSet.load(folder / f"{recipe}-fixed.npz")
        result = multi_session.FIXED.run(features, create_method("calibrated", **options), memory=False)
        assert found[recipe] == pytest.approx(result.novel[0, -1])
    default = multi_session.FIXED.run(features, create_method("calibrated"), memory=False)
    assert found["strong"] != pytest.approx(default.novel[0, -1])
    note = "calibrated: on recipe 'strong' run as calibrated:shrinkage=8,learned=0.15,pull=0,offset=0.08."
    assert note in (strong / "R.md").read_text().replace("\\", "")
    assert "run as" not in (written / "R.md").read_text()


def test_methods_of_the_paper_have_the_options_of_each_recipe(strong):
    text = (strong / "R.md").read_text().replace("\\", "")
    notes = set(re.findall(r"(?m)^(\w+): on recipe 'strong' run as (\w+:[^ ]+)\.", text))
    settings = Config.load("multi-session-strong", "multi-session").settings
    assert notes == {(setting.method, spec_of(setting.create())) for setting in settings}
    assert len(settings) == 5


def test_variants_and_the_user_outrank_the_options_of_a_recipe():
    mine = Config("multi-session", (Setting("finetune", given={"beta_base": 1.0}),))
    config = multi_session.config_for("strong", mine)
    assert config.method("finetune") == create_method("finetune", beta_base=1.0)
    semantic = config.method("semantic")
    assert semantic != create_method("semantic")
    assert config.method("semantic:gamma=0.5") == dataclasses.replace(semantic, gamma=0.5)
    assert multi_session.config_for("paper", mine) is mine


def test_what_a_file_lacks_leaves_methods_of_ours_and_systems_out(subspan, folder, tmp_path, capsys):
    shutil.copy(folder / "paper-random-1.npz", tmp_path)
    write_split(tmp_path, "paper-random-4", 4, split="random:4", without=["base_covariance"])
    page = tmp_path / "R.md"
    status, _, _ = subspan(capsys, "--features", tmp_path, "--systems", "ncm,fecam", "--markdown", page)
    assert status == 0
    text = page.read_text()
    assert "Calibrated prototypes: paper-random-4.npz without what the method needs (base_covariance)." in text
    assert "| Calibrated prototypes |" not in text
    assert "System fecam on random-4: method 'fecam' needs the array 'base_covariance'" in text
    assert "| fecam | -M | ours |" in text, "on the other split"


def test_systems_run_where_they_can(written, folder):
    random, fixed = (rows_of(written / f"systems-{where}-paper.csv") for where in ("random", "fixed"))
    assert {name for name, _ in random} == {*RUN, "topic", "subspace", "prototype", "calibrated"}
    assert {name for name, _ in fixed} == {*RUN, "subspace", "prototype", "calibrated"}
    features = FeatureSet.load(folder / "paper-fixed.npz")
    assert fixed[RUN[3], "-M"]["session_8"] == fixed["prototype", "-M"]["session_8"]
    released = multi_session.FIXED.run(features, create_method(RUN[1]), memory=False)
    assert float(fixed[RUN[1], "-M"]["session_8"]) == pytest.approx(released.weighted[0, -1])
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (features.base_test, features.base_mean)]
    accuracy = 100 * ((unit[0] @ unit[1].T).argmax(1) == features.base_test_labels).mean()
    assert float(fixed["ncm", "-M"]["session_0"]) == pytest.approx(accuracy)
    text = (written / "R.md").read_text()
    assert "System lwof on random-1, random-4: " in text
    assert "System topic: no stored result for random-4 with recipe 'paper'." in text
    with (written / "systems-random-paper.csv").open() as file:
        header, *lines = csv.reader(file)
    stored = dict(zip(header, next(line for line in lines if "ours, stored" in line), strict=True))
    assert (stored["system"], stored["training_minutes"]) == ("topic", "2.0")
    assert stored["part trained on"] == "real images on a GPU"


def test_an_unknown_system_is_named(subspan, folder, capsys):
    status, _, errors = subspan(capsys, "--features", folder, "--systems", "ncm,nobody")
    assert status == 2
    assert "there is no method 'nobody'; the methods are " in errors
    status, _, errors = subspan(capsys, "--features", folder, "--systems", "ncm,xtarnet")
    assert status == 2
    assert "system 'xtarnet' has results under single-session only: `subspan reproduce single-session`" in errors


def test_where_it_writes_is_looked_at_before_the_work(subspan, tmp_path, capsys):
    (tmp_path / "file").touch()
    for option, path in (("--markdown", tmp_path), ("--report", tmp_path / "file")):
        status, _, errors = subspan(capsys, "--features", tmp_path / "none", option, path)
        assert status == 2
        assert f"Invalid value for '{option}'" in errors


def test_the_document_says_what_is_missing(written):
    text = (written / "R.md").read_text()
    assert "No feature files of recipe 'paper' for random splits 2, 3, 5, 6, 7, 8, 9, 10." in text
    assert "No validation accuracy of session 0 is recorded in paper-random-4." in text
    assert "99.9" not in text


def test_the_development_split_enters_no_table(subspan, folder, tmp_path, capsys):
    shutil.copy(folder / "paper-random-0.npz", tmp_path)
    status, _, error = subspan(capsys, "--features", tmp_path)
    assert status == 2
    assert "no feature file of the random splits 1 to 10" in error
    shutil.move(tmp_path / "paper-random-0.npz", tmp_path / "paper-random-3.npz")
    status, _, error = subspan(capsys, "--features", tmp_path)
    assert status == 2
    assert "is named after random:3 but was made from the novel classes of random:0" in error


def test_methods_are_run_with_the_settings_of_a_config(subspan, folder, tmp_path, capsys):
    """With fine-tuning's weight decay and no pull the subspace regularizer is fine-tuning."""
    subspace = Setting("subspace", given={"gamma": 0.0, "learning_rate": 0.3}, chosen={"weight_decay": 5e-3})
    finetune = Setting("finetune", given={"learning_rate": 0.3})
    config = Config("multi-session", (subspace, finetune)).save(tmp_path / "config.json")
    shutil.copy(folder / "paper-random-1.npz", tmp_path)
    status, _, _ = subspan(capsys, "--features", tmp_path, "--config", config, "--markdown", tmp_path / "R.md")
    assert status == 0
    lines = (tmp_path / "R.md").read_text().splitlines()
    ours = {
        name: [line.removeprefix(f"| {name} | ours |") for line in lines if line.startswith(f"| {name} | ours |")]
        for name in ("Fine-tuning", "Subspace", "Linear mapping")
    }
    assert ours["Subspace"] == ours["Fine-tuning"][: len(ours["Subspace"])] != []
    assert ours["Linear mapping"] != ours["Subspace"]
    settings = "subspace:gamma=0,weight_decay=0.005,learning_rate=0.3; finetune:learning_rate=0.3"
    assert f'"settings": "{settings}",' in lines


def test_recipes_of_one_command_get_sections_of_one_page(subspan, folder, tmp_path, capsys):
    shutil.copy(folder / "he-random-2.safetensors", tmp_path / "mine-random-2.safetensors")
    for name in ("paper-random-1", "paper-fixed"):
        shutil.copy(folder / f"{name}.npz", tmp_path)
    page = tmp_path / "docs" / "R.md"
    page.parent.mkdir()
    recipes, options = ("--recipe", "mine", "--recipe", "paper"), ("--features", tmp_path, "--markdown", page)
    status, output, _ = subspan(capsys, *options, *recipes, "--report", tmp_path / "report")
    assert status == 0
    assert all((tmp_path / "report" / recipe / "report.html").is_file() for recipe in ("mine", "paper"))
    opening, paper, mine = page.read_text().split("<!-- section\n")
    assert opening.startswith("# Results: multi-session")
    assert "## Recipe paper\n" in paper
    assert "## Recipe mine\n" in mine
    assert "Base sessions by recipe 'mine'." in mine
    assert "Two kinds of ResNet-18" in paper
    assert "Two kinds of ResNet-18" not in mine
    assert "the fixed split\n" not in mine.split("## Recipe mine")[1]
    assert "No feature files of recipe 'mine' for random splits 1, 3, 4, 5, 6, 7, 8, 9, 10." in mine
    assert "recipe 'paper'" not in mine
    for text in (output, mine):
        assert "Not scaled, ours is at or above the published accuracy in" in text
    picture = page.parent / "images" / "R-paper-accuracy-with-memory.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"(images/{picture.name})" in paper
    assert set(json.loads(paper.partition("\n-->")[0])["sources"]) == {
        f"{tmp_path.name}/{name}.npz" for name in ("paper-random-1", "paper-fixed")
    } | {"package/paper/published.json"}
    assert problems("multi-session", page.read_text(), tmp_path.parent) == []
    shutil.copy(folder / "paper-random-4.npz", tmp_path / "paper-random-1.npz")
    (stale,) = problems("multi-session", page.read_text(), tmp_path.parent)
    assert stale.startswith(f"Recipe 'paper': {tmp_path.name}/paper-random-1.npz has changed; run `subspan reproduce ")


def test_without_files_the_tables_are_printed_with_what_was_left_out(subspan, folder, tmp_path, capsys):
    for name in ("paper-random-0", "paper-random-1"):
        shutil.copy(folder / f"{name}.npz", tmp_path)
    status, output, error = subspan(capsys, "--features", tmp_path)
    assert status == 0
    assert "Means over 1 of 10 splits: random-1." in error
    assert "random-0" not in output + error
    for title in ("Main table", "All sessions, with memory", "Two kinds of ResNet-18"):
        assert title in output


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "has no feature file of the random splits 1 to 10 with recipe 'paper'"),
        ({"other": {}}, "has no feature file of the random splits 1 to 10 with recipe 'paper'"),
        ({"paper-random-1": {"novel": 8}}, "has 11 base and 8 novel classes; random:1 has 11 and 16"),
    ],
)
def test_bad_folders_end_in_one_sentence(subspan, tmp_path, capsys, files, sentence):
    for name, given in files.items():
        write_split(tmp_path, name, 0, **given)
    status, _, error = subspan(capsys, "--features", tmp_path)
    assert status == 2
    assert sentence in error
    assert error.count("Error:") == 1
    assert "Traceback" not in error


def test_no_folder_at_all(subspan, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, error = subspan(capsys)
    assert status == 2
    assert "name a folder of feature files with --features" in error
    status, _, error = subspan(capsys, "--features", tmp_path / "none")
    assert status == 2
    assert "there is no folder" in error


def test_the_folder_of_this_checkout_has_every_split_once():
    folder = Path(__file__).parents[2] / sources.FOLDER
    for recipe in ("paper", "strong"):
        for split in ("fixed", "ravi", *(f"random-{seed}" for seed in range(1, 11))):
            assert sources.find_file(folder, f"{recipe}-{split}"), f"{recipe}-{split}"


def test_the_folder_of_a_checkout_is_found_from_within(tmp_path):
    (tmp_path / "benchmarks" / "features").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    assert sources.find_folder(None, tmp_path / "docs") == tmp_path / "benchmarks" / "features"
