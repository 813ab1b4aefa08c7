"""``subspan reproduce single-session`` as a user types it, on small made-up feature files."""

import csv
import dataclasses
import json
import shutil
from functools import partial

import pytest
from made_up_features import BASE_COUNT, made_up_arrays

from subspan.engine.sgd import sgd
from subspan.experiments.config import Config, Setting
from subspan.experiments.episodes import Episodes
from subspan.experiments.metrics import paired_tests
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureSet
from subspan.learners.parts import regularizer
from subspan.learners.published.lwof import Lwof
from subspan.learners.registry import create_method
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import TrainingRun
from subspan.learners.training.trained_part import TrainedPart, signature_of
from subspan.paper import single_session
from subspan.paper.stored_results import StoredResult
from subspan.paper.systems import episode_settings, stored_episodes

NOVEL = 8
PROTOCOL = SingleSession(ways=3, base_queries=6, novel_queries=6, count=30)
HALVES = tuple(dataclasses.replace(half, classes=(BASE_COUNT, NOVEL)) for half in single_session.HALVES)
OURS = "Calibrated prototypes"  # beside the methods of the paper
LEARNED = ("Fine-tuning", "Subspace", "Linear mapping", "Semantic subspace (description)", "Semantic subspace (label)")


@pytest.fixture
def reproduce(subspan, monkeypatch):
    """Run the command under a protocol of few classes, episodes and steps: (status, output, errors)."""
    monkeypatch.setattr(single_session, "PROTOCOL", PROTOCOL)
    monkeypatch.setattr(single_session, "HALVES", HALVES)
    monkeypatch.setattr(regularizer, "sgd", lambda p, o: sgd(p, dataclasses.replace(o, max_steps=5)))
    return partial(subspan, "reproduce", "single-session", "--workers", 1, "--count", 30)


def write_half(folder, split, seed=0, *, novel=NOVEL, kind="novel", recipe="paper", **meta):
    arrays = made_up_arrays(seed, novel, support_images=6)
    words = arrays.pop("embedding.words")
    arrays |= {f"embedding.{name}": words for name in ("glove300", "glove100", "description")}
    arrays["meta"] = {"split": split, "contents": {"novel": kind}, "session0_test": 71.5, **meta}
    if recipe == "strong":
        arrays |= {"head": "cosine", "head_scale": 16.0}
    return FeatureSet.from_arrays(arrays).save(folder / f"{recipe}-{split}.npz")


def rows_of(path):
    with path.open() as file:
        header, *lines = csv.reader(file)
    return {tuple(line[:2]): dict(zip(header, line, strict=True)) for line in lines}


def test_both_halves_in_every_form(reproduce, tmp_path):
    for seed, split in enumerate(("ravi", "tiered")):
        write_half(tmp_path, split, seed)
    out = tmp_path / "out"
    features = FeatureSet.load(tmp_path / "paper-ravi.npz")
    episodes = PROTOCOL.draw(features).first_shots(1)
    kept = PROTOCOL.run(features, create_method("ncm"), episodes=episodes)
    about = {"seconds": 60.0, "base_session": {"recipe": "paper"}}
    StoredResult("xtarnet", kept, "ravi", "digest", episodes.items, about).save(tmp_path / "parts" / "x.json")
    options = ("--systems", "teen,lwof,xtarnet", "--parts", tmp_path / "parts")
    options += ("--report", out, "--markdown", out / "R.md")
    status, output, _ = reproduce("--features", tmp_path, *options)
    assert status == 0
    assert "always wrong has the best, 0" in " ".join(output.split())
    names = [f"single-session-{half}{what}" for half in ("mini", "tiered") for what in ("", "-costs", "-settings")]
    assert all((out / f"{name}.{ending}").stat().st_size > 0 for name in names for ending in ("csv", "md", "tex"))
    page = (out / "report.html").read_text()
    assert all(f'<h2 id="{name}">' in page for name in names)
    assert page.count('<img src="data:image/png;base64,') == 4  # moving and fixed targets of each half
    document = (out / "R.md").read_text()
    assert document.startswith("# Results: single session")
    assert "ours are held out of each base class's own images (4 of them" in document
    assert "Session 0 is at 71.50 %" in document
    assert "miniImageNet: System lwof, 1-shot: " in document
    mini, tiered = (rows_of(out / f"single-session-{half}.csv") for half in ("mini", "tiered"))
    assert float(mini["teen", "ours"]["accuracy_1_shot"]) > 0
    assert float(mini["XtarNet", "ours, stored"]["accuracy_1_shot"]) == pytest.approx(kept.joint.mean())
    assert mini["XtarNet", "ours, stored"]["accuracy_5_shot"] == ""
    assert "miniImageNet: System xtarnet, 5-shot: no stored result on these episodes with recipe 'paper'." in document
    assert "System topic" not in document, "it is of the other protocol"
    assert mini["LwoF", "quoted"]["accuracy_5_shot"] == "59.66"
    assert mini["Linear mapping", "published"]["accuracy_5_shot"] == "69.68"
    assert mini["Linear mapping", "published"]["accuracy_5_shot_ci95"] == "0.31"
    assert tiered["XtarNet", "quoted"]["delta_1_shot"] == "-1.85"
    assert tiered["Prototypes", "ours"]["accuracy_1_shot"] != mini["Prototypes", "ours"]["accuracy_1_shot"]
    for table, added in ((mini, {OURS}), (tiered, set())):
        assert {name for name, row in table if row == "ours"} == {*LEARNED, "Imprinting", "Prototypes", "teen"} | added
        for name in LEARNED:
            ours = {key: float(value) for key, value in table[name, "ours"].items() if key.endswith("5_shot") and value}
            assert ours["accuracy_5_shot"] == pytest.approx((ours["base_5_shot"] + ours["novel_5_shot"]) / 2)
            gap = (ours["base_alone_5_shot"] + ours["novel_alone_5_shot"]) / 2
            assert ours["delta_5_shot"] == pytest.approx(ours["accuracy_5_shot"] - gap)


def write_lwof(features, shots, path, **about):
    """A part of LwoF for these features, trained for one step only."""
    system, found = Lwof(shots=shots), TrainingFeatures.drawn(features, 20, seed=0)
    tensors = system.train_part(found, TrainingRun(dataclasses.replace(system.training, steps=1)))
    signature = tuple(signature_of(found.base.rows).tolist())
    TrainedPart("lwof", system.part_options(), tensors, found.width, signature, "drawn", about).save(path)


def test_costs_are_those_of_parts_and_stored_results(reproduce, tmp_path):
    features, parts = FeatureSet.load(write_half(tmp_path, "ravi")), tmp_path / "parts"
    write_lwof(features, 1, parts / "1.safetensors", seconds=45.0, device="a GPU")
    write_lwof(features, 5, parts / "5.safetensors", seconds=90.0, device="a GPU")
    episodes = PROTOCOL.draw(features)
    kept = dataclasses.replace(PROTOCOL.run(features, create_method("ncm"), episodes=episodes), seconds=7.5)
    about = {
        "seconds": 127.5,
        "seconds_before_sessions": 120.0,
        "device": "another GPU",
        "base_session": {"recipe": "paper"},
    }
    StoredResult("xtarnet", kept, "ravi", "digest", episodes.items, about).save(parts / "x.json")
    settings = tuple(Setting("imprint", "Imprinting", shots) for shots in (1, 5))
    config = Config("single-session", settings).save(tmp_path / "c.json")
    out, options = tmp_path / "out", ("--systems", "lwof,xtarnet", "--parts", parts, "--config", config)
    status, _, error = reproduce("--features", tmp_path, *options, "--report", out, "--markdown", out / "R.md")
    assert status == 0, error
    costs = rows_of(out / "single-session-mini-costs.csv")
    keys = [f"training_minutes_{shots}_shot" for shots in (1, 5)]
    assert {name: (line["part trained on"], *(line[key] for key in keys)) for (name, _), line in costs.items()} == {
        "Imprinting": ("", "0.0", "0.0"),
        "LwoF": ("drawn features on a GPU", "0.75", "1.5"),
        "XtarNet": ("real images on another GPU", "", "2.0"),
    }
    assert costs["XtarNet", "ours, stored"]["seconds_5_shot"] == "7.5"
    assert all(float(costs["LwoF", "ours"][f"seconds_{shots}_shot"]) > 0 for shots in (1, 5))
    document = (out / "R.md").read_text()
    assert "### Cost, miniImageNet" in document
    assert "| XtarNet | ours, stored | real images on another GPU |" in document


def test_each_recipe_has_its_own_section_settings_parts_and_stored_results(reproduce, tmp_path):
    parts, document = tmp_path / "parts", tmp_path / "R.md"
    of = {
        recipe: FeatureSet.load(write_half(tmp_path, "ravi", seed, recipe=recipe))
        for seed, recipe in enumerate(("paper", "strong"))
    }
    for minutes, recipe, shots in ((1, "paper", 5), (2, "strong", 5), (3, "strong", 1)):
        write_lwof(of[recipe], shots, parts / f"lwof-{recipe}-ravi-{shots}-shot.npz", seconds=60.0 * minutes)
    episodes = PROTOCOL.draw(of["paper"])
    assert PROTOCOL.draw(of["strong"]).items == episodes.items, "the same images, seen by another network"
    kept = PROTOCOL.run(of["paper"], create_method("ncm"), episodes=episodes)
    about = {"seconds": 60.0, "base_session": {"recipe": "paper"}}
    StoredResult("xtarnet", kept, "ravi", "digest", episodes.items, about).save(parts / "x.json")
    options = ("--features", tmp_path, "--systems", "lwof,xtarnet", "--parts", parts, "--markdown", document)
    assert reproduce(*options, "--report", tmp_path / "paper")[0] == 0
    section = document.read_text()
    status, _, error = reproduce(*options, "--recipe", "strong", "--report", tmp_path / "strong")
    assert status == 0, error
    both = document.read_text()
    assert both.startswith(section.rstrip()), "that of the paper stays as it was"
    own = both.removeprefix(section.rstrip())
    assert "## Recipe strong\n" in own
    assert '"settings, miniImageNet": "single-session-mini-strong, which comes with the package"' in own
    assert '"settings, miniImageNet": "single-session-mini, which comes with the package"' in section
    paper, strong = (rows_of(tmp_path / recipe / "single-session-mini.csv") for recipe in of)
    assert paper["XtarNet", "ours, stored"]["accuracy_5_shot"] != ""
    assert ("XtarNet", "ours, stored") not in strong
    assert "System xtarnet, 5-shot: no stored result on these episodes with recipe 'strong'." in own
    costs = {recipe: rows_of(tmp_path / recipe / "single-session-mini-costs.csv")["LwoF", "ours"] for recipe in of}
    minutes = {recipe: [costs[recipe][f"training_minutes_{shots}_shot"] for shots in (1, 5)] for recipe in of}
    assert minutes == {"paper": ["", "1.0"], "strong": ["3.0", "2.0"]}, "each recipe has its own parts"
    assert {name for name, row in strong if row == "ours"} == {name for name, row in paper if row == "ours"}
    for recipe, table, settings in (("paper", paper, paper_settings()), ("strong", strong, strong_settings())):
        setting = next(one for one in settings if (one.method, one.shots) == ("calibrated", 5))
        made = PROTOCOL.run(of[recipe], setting.create())
        assert float(table[OURS, "ours"]["accuracy_5_shot"]) == pytest.approx(made.joint.mean())


@pytest.mark.parametrize(("shots", "other"), [(1, 5), (5, 1)])
def test_a_part_for_one_number_of_shots_stands_in_for_no_other(tmp_path, shots, other):
    features, parts = FeatureSet.load(write_half(tmp_path, "ravi")), tmp_path / "parts"
    write_lwof(features, shots, parts / "lwof.npz")
    settings, left_out = episode_settings(["lwof", "ncm"], features, parts, [1, 5])
    assert {(one.method, one.shots) for one in settings} == {("lwof", shots), ("ncm", 1), ("ncm", 5)}
    (sentence,) = left_out
    assert sentence.startswith(f"System lwof, {other}-shot: ")


@pytest.mark.parametrize("about", [{}, {"base_session": None}, {"base_session": "paper"}])
def test_a_stored_result_that_does_not_tell_its_recipe_stands_in_no_table(tmp_path, about):
    features = FeatureSet.load(write_half(tmp_path, "ravi"))
    episodes = PROTOCOL.draw(features)
    kept = PROTOCOL.run(features, create_method("ncm"), episodes=episodes)
    StoredResult("xtarnet", kept, "ravi", "digest", episodes.items, about).save(tmp_path / "x.json")
    found, left_out = stored_episodes(["xtarnet"], tmp_path, episodes, [5], "paper")
    assert found == []
    assert left_out == ["System xtarnet, 5-shot: no stored result on these episodes with recipe 'paper'."]


def paper_settings():
    return Config.load("single-session-mini", "single-session").settings


def strong_settings():
    return Config.load("single-session-mini-strong", "single-session").settings


def test_settings_for_a_cosine_head_are_all_chosen_and_say_so(reproduce, tmp_path):
    settings = strong_settings()
    known = {(one.name, one.method, one.shots, one.embeddings) for one in paper_settings()}
    assert {(one.name, one.method, one.shots, one.embeddings) for one in settings} == known
    assert not any(one.given for one in settings)
    write_half(tmp_path, "ravi", recipe="strong")
    assert reproduce("--features", tmp_path, "--recipe", "strong", "--report", tmp_path / "out")[0] == 0
    with (tmp_path / "out" / "single-session-mini-settings.csv").open() as file:
        lines = {(line["method"], line["shots"]): line for line in csv.DictReader(file)}
    assert {name for name, _ in lines} == set(LEARNED)
    for one in settings:
        if one.name in LEARNED:
            line = lines[one.name, f"{one.shots}-shot"]
            for name in ("learning_rate", "weight_decay", "max_steps"):
                assert (float(line[name]), line[f"{name}_mark"]) == (one.chosen[name], "†")
    notes = " ".join((tmp_path / "out" / "single-session-mini-settings.md").read_text().split()).replace("\\", "")
    assert "None is taken from the paper's appendix, whose values are for a linear head. †: " in notes
    assert "Calibrated prototypes, 5-shot: run as calibrated:" in notes


def test_what_a_recipe_lacks_is_said(reproduce, tmp_path):
    """No covariance for our own method; no settings for a cosine head of a recipe that the package does not know."""
    path = write_half(tmp_path, "ravi", recipe="strong")
    dataclasses.replace(FeatureSet.load(path), base_covariance=None).save(path)
    shutil.copy(path, tmp_path / "mine-ravi.npz")
    for recipe in ("strong", "mine"):
        status, _, error = reproduce("--features", tmp_path, "--recipe", recipe, "--markdown", tmp_path / "R.md")
        assert status == 0, error
    _, mine, strong = (tmp_path / "R.md").read_text().split("<!-- section\n")
    sentence = "Calibrated prototypes, 5-shot: method 'calibrated:"
    for section in (mine, strong):
        assert sentence in section
        assert "needs the array 'base_covariance', which the feature file lacks." in section
    assert "miniImageNet: settings for a cosine head; those for a linear one were taken." in mine
    assert "settings for a cosine head" not in strong


def test_settings_without_shots_have_those_of_the_protocol(reproduce, tmp_path):
    path = write_half(tmp_path, "ravi")
    dataclasses.replace(FeatureSet.load(path), base_covariance=None).save(path)
    settings = (Setting("subspace"), Setting("prototype", chosen={"scale": 10.0}), Setting("calibrated"))
    config = Config("single-session", settings).save(tmp_path / "c.json")
    assert reproduce("--features", tmp_path, "--config", config, "--markdown", tmp_path / "R.md")[0] == 0
    document = (tmp_path / "R.md").read_text()
    assert "miniImageNet: calibrated, 5-shot: method 'calibrated' needs the array 'base_covariance'" in document
    assert "| subspace | 5-shot |" in document
    assert "prototype, 5-shot: run as prototype:scale=10" in document


def test_ours_are_what_the_protocol_gives_and_bold_is_what_the_test_leaves(reproduce, tmp_path):
    features = FeatureSet.load(write_half(tmp_path, "ravi"))
    assert reproduce("--features", tmp_path, "--report", tmp_path / "out")[0] == 0
    table = rows_of(tmp_path / "out" / "single-session-mini.csv")
    results = {}
    for setting in paper_settings():
        if setting.shots == 1:
            vectors = features.embeddings.get(setting.embeddings or "")
            made = dataclasses.replace(PROTOCOL, shots=1).run(features, setting.create(), embeddings=vectors)
            results[setting.name] = made.joint
            assert float(table[setting.name, "ours"]["accuracy_1_shot"]) == pytest.approx(made.joint.mean())
            half_width = 1.959964 * made.joint.std(ddof=1) / 30**0.5
            assert float(table[setting.name, "ours"]["accuracy_1_shot_ci95"]) == pytest.approx(half_width)
    bold = {name for name in results if table[name, "ours"]["accuracy_1_shot_top"] == "true"}
    assert bold == {name for name, test in paired_tests(results).items() if test.not_below}
    assert table["Imprinting", "ours"]["delta_1_shot_top"] == "false"


def test_settings_say_where_they_come_from(reproduce, tmp_path):
    write_half(tmp_path, "ravi")
    chosen = [
        Setting("subspace", "Subspace", 5, given={"gamma": 0.03}, chosen={"learning_rate": 0.004}),
        Setting("imprint", "Imprinting", 5),
    ]
    config = Config("single-session", tuple(chosen), {"chosen": "chosen in a test"}).save(tmp_path / "c.json")
    status, output, error = reproduce("--features", tmp_path, "--config", config, "--report", tmp_path / "out")
    assert status == 0, error
    (line,) = rows_of(tmp_path / "out" / "single-session-mini-settings.csv").values()
    assert {name: (line[name], line[f"{name}_mark"]) for name in ("gamma", "learning_rate", "beta_base", "tau")} == {
        "gamma": ("0.03", ""),
        "learning_rate": ("0.004", "†"),
        "beta_base": ("0.2", "°"),
        "tau": ("", ""),
    }
    assert "†: not given there, chosen in a test." in (tmp_path / "out" / "single-session-mini-settings.md").read_text()
    assert "5-shot" in output
    assert "1-shot" not in output


def test_stored_episodes_give_the_very_same_table(reproduce, tmp_path):
    write_half(tmp_path, "ravi")
    stored = tmp_path / "episodes.safetensors"
    assert reproduce("--features", tmp_path, "--seed", 3, "--episodes-out", stored, "--report", tmp_path / "1")[0] == 0
    assert len(Episodes.load(stored)) == 30
    reproduce("--features", tmp_path, "--episodes", stored, "--report", tmp_path / "2")
    reproduce("--features", tmp_path, "--report", tmp_path / "3")
    first, again, other = (rows_of(tmp_path / name / "single-session-mini.csv") for name in "123")
    assert ("Subspace", "ours") in again
    assert first == again != other


def test_the_packaged_settings_are_those_of_the_paper():
    mini = {(s.name, s.shots): s for s in paper_settings()}
    tiered = {(s.name, s.shots): s for s in Config.load("single-session-tiered", "single-session").settings}
    assert len(tiered) == 14
    assert set(mini) == {*tiered, (OURS, 1), (OURS, 5)}
    assert mini["Fine-tuning", 1].given == {"learning_rate": 0.003, "weight_decay": 5e-3}
    assert mini["Subspace", 1].given == {"gamma": 0.005, "weight_decay": 5e-5}
    assert mini["Semantic subspace (label)", 1].given == {"gamma": 0.005, "weight_decay": 5e-4, "tau": 1.5}
    five = {"learning_rate": 0.002, "weight_decay": 5e-3, "beta_base": 0.03}
    assert mini["Fine-tuning", 5].given == five
    assert mini["Linear mapping", 5].given == {**five, "gamma": 0.03}
    assert mini["Semantic subspace (description)", 5].given == {**five, "gamma": 0.01}
    assert tiered["Fine-tuning", 5].given == {"learning_rate": 0.001, "weight_decay": 5e-3, "beta_base": 0.3}
    assert tiered["Semantic subspace (label)", 5].given == {"gamma": 0.05, "beta_base": 0.2}
    assert tiered["Subspace", 1].given == {"gamma": 0.001}
    for setting in (*mini.values(), *tiered.values()):
        assert not set(setting.given) & set(setting.chosen)
        assert setting.create().name == setting.method


def test_calibrated_has_no_value_of_the_paper_and_a_sweep_of_its_own():
    config = Config.load("single-session-mini", "single-session")
    ours = {one.shots: one for one in config.settings if one.method == "calibrated"}
    assert {shots: (one.name, dict(one.given)) for shots, one in ours.items()} == {1: (OURS, {}), 5: (OURS, {})}
    for one in ours.values():
        assert set(one.chosen) == {"offset", "shrinkage", "pull"}
        assert one.create().offset > create_method("calibrated").offset, "5 novel classes count as much as all others"
    sweeps = config.about["sweeps"]
    assert set(sweeps) == {OURS, f"all but {OURS}"}
    for sweep in sweeps.values():
        assert sweep["command"].startswith("subspan sweep benchmarks/features/paper-ravi-development.")
    assert "--method calibrated --shots 1 --shots 5 " in sweeps[OURS]["command"]


@pytest.mark.parametrize(
    ("prepare", "arguments", "sentence"),
    [
        (lambda folder: None, (), "has no feature file paper-ravi or paper-tiered (.safetensors or .npz)"),
        (
            lambda folder: write_half(folder, "ravi"),
            ("--recipe", "strong"),
            "has no feature file strong-ravi or strong-tiered (.safetensors or .npz)",
        ),
        (
            lambda folder: write_half(folder, "ravi", recipe="strong", kind="development"),
            ("--recipe", "strong"),
            "is named after ravi but was made from the development classes of ravi",
        ),
        (
            lambda folder: write_half(folder, "ravi"),
            ("--data", "tiered"),
            "has no feature file paper-tiered (.safetensors or .npz)",
        ),
        (lambda folder: write_half(folder, "ravi"), ("--data", "cifar"), "--data must be one of mini, tiered"),
        (
            lambda folder: write_half(folder, "ravi", novel=6),
            (),
            "has 11 base and 6 novel classes; ravi has 11 and 8",
        ),
        (
            lambda folder: write_half(folder, "ravi", kind="development"),
            (),
            "was made from the development classes of ravi",
        ),
        (
            lambda folder: FeatureSet.load(write_half(folder, "ravi")).save(folder / "paper-ravi.safetensors"),
            (),
            "are two files of one split; remove one",
        ),
        (
            lambda folder: shutil.move(write_half(folder, "tiered"), folder / "paper-ravi.npz"),
            (),
            "is named after ravi but was made from the novel classes of tiered",
        ),
        (lambda folder: write_half(folder, "ravi"), ("--config", "none.json"), "is no config of method settings"),
        (
            lambda folder: write_half(folder, "ravi"),
            ("--episodes", "none.safetensors"),
            "is no readable",
        ),
    ],
)
def test_bad_input_ends_in_one_sentence(reproduce, tmp_path, prepare, arguments, sentence):
    prepare(tmp_path)
    status, _, error = reproduce("--features", tmp_path, *arguments)
    assert status == 2
    assert sentence in error
    assert error.count("Error:") == 1


def test_a_config_of_another_protocol_is_refused(reproduce, tmp_path):
    write_half(tmp_path, "ravi")
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"protocol": "multi-session", "settings": [{"method": "subspace"}]}))
    status, _, error = reproduce("--features", tmp_path, "--config", path)
    assert status == 2
    assert "holds settings for the multi-session protocol, not for single-session" in error


def test_a_config_without_settings_is_refused(reproduce, tmp_path):
    write_half(tmp_path, "ravi")
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"protocol": "single-session", "settings": []}))
    status, _, error = reproduce("--features", tmp_path, "--config", path)
    assert status == 2
    assert "is no config of method settings (it has no settings)" in error
