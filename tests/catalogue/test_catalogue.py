"""The catalogue: teaching, judging, rejecting, undoing; from photographs and from weights."""

import dataclasses
import json
import threading
from pathlib import Path

import numpy as np
import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.options import CatalogueOptions
from subspan.catalogue.photographs import open_class_photographs
from subspan.catalogue.versions import go_back
from subspan.classifier import IncrementalClassifier
from subspan.files import store
from subspan.images.imageset import DataError
from subspan.model import Model
from subspan.pretrained.backbone import Preprocessing, TorchBackbone


def answers(catalogue: Catalogue, name: str, count: int = 20) -> list[str | None]:
    return [one.name for one in catalogue.predict(made.photographs(name, count, seed=9))]


def names(catalogue: Catalogue) -> list[str]:
    return [one.name for one in catalogue.classes()]


# Making


def test_every_photograph_is_taught_and_a_few_of_each_class_are_kept(tmp_path: Path, backbone):
    counts = {"red": 40, "green": 10, "blue": 4, "yellow": 2, "grey": 1}
    photographs = {name: made.photographs(name, count) for name, count in counts.items()}
    catalogue, report = Catalogue.create(
        tmp_path / "c.subspan", photographs, CatalogueOptions(keep=5), backbone=backbone
    )
    assert {one.name: one.examples for one in catalogue.classes()} == counts
    assert {one.name: one.kept for one in catalogue.classes()} == dict(red=5, green=2, blue=1, yellow=0, grey=0)
    assert (report.judged, report.examples, report.classes) == (56, 57, 5)  # nobody says what the only grey one is


@pytest.mark.parametrize("method", ["auto", "prototype"])
def test_the_accuracy_is_that_of_models_of_the_others(tmp_path: Path, backbone, method: str):
    photographs = {name: made.photographs(name, 7 + i, spread=90) for i, name in enumerate(made.BASE)}
    options = CatalogueOptions(method=method)
    catalogue, report = Catalogue.create(tmp_path / "c.subspan", photographs, options, backbone=backbone)
    names = np.array([name for name in photographs for _ in photographs[name]])
    features = backbone.features([image for name in photographs for image in photographs[name]])
    classes = sorted(photographs)
    right = []
    for fold in range(5):
        out = np.zeros(len(names), bool)
        for label, name in enumerate(classes):
            out[[place for i, place in enumerate(np.flatnonzero(names == name)) if (i + label) % 5 == fold]] = True
        model = Model(method=catalogue._snapshot.classifier.method_).fit(features[~out], names[~out])
        right += (model.classes_[model.class_scores(features[out]).argmax(axis=1)] == names[out]).tolist()
    assert report.accuracy == pytest.approx(100 * np.mean(right))
    assert report.judged == len(names)
    check = catalogue.sessions()[0].check
    assert check is not None
    assert check.after == report.accuracy < 100


def test_the_check_of_old_classes_is_by_a_model_that_was_not_taught_them(tmp_path: Path, backbone):
    photographs = {name: made.photographs(name, 25, spread=60) for name in made.BASE}
    catalogue, _ = Catalogue.create(tmp_path / "c.subspan", photographs, backbone=backbone)
    features = {name: backbone.features(images) for name, images in photographs.items()}
    kept = {tuple(row) for row in catalogue._snapshot.check.features.astype(np.float16)}
    rest = {name: rows[[tuple(np.float16(row)) not in kept for row in rows]] for name, rows in features.items()}
    assert {len(rows) for rows in rest.values()} == {20}
    alone = Model().fit(np.concatenate(list(rest.values())), np.repeat(list(rest), 20))
    check, new = catalogue._snapshot.check, backbone.features(made.photographs("pink", 5))

    def accuracy() -> float:
        answers = alone.classes_[alone.class_scores(check.features).argmax(axis=1)]
        return 100 * float(np.mean(answers == np.array(check.names)))

    before = accuracy()
    change = catalogue.add("pink", made.photographs("pink", 5)).check
    alone.add_classes(new, ["pink"] * 5)
    assert change is not None
    assert (change.before, change.after, change.examples) == pytest.approx((before, accuracy(), 20))
    reopened = Catalogue.open(catalogue.path)._snapshot.unseen
    np.testing.assert_allclose(reopened.familiarities, alone.familiarity(check.features), rtol=1e-3)


def test_a_small_catalogue_can_reject_after_a_session_as_it_could_before(tmp_path: Path, backbone):
    photographs = {name: made.photographs(name, 8) for name in made.BASE}
    catalogue, _ = Catalogue.create(tmp_path / "c.subspan", photographs, backbone=backbone)
    promised = catalogue._snapshot.threshold(0.05)
    catalogue.add("pink", made.photographs("pink", 5))
    assert Catalogue.open(catalogue.path)._snapshot.threshold(0.05) == promised is not None


def test_all_ways_to_hand_photographs_over_agree(colours: Catalogue, tmp_path: Path):
    pixels = made.photographs("red", 1, seed=9)[0]
    file = tmp_path / "a.png"
    file.write_bytes(made.encoded(pixels))
    found = colours.predict([pixels, made.encoded(pixels), file], top=2)
    assert [one.name for one in found] == ["red"] * 3
    chances = [[c.probability for c in one.candidates] for one in found]
    assert chances[1] == pytest.approx(chances[0]) == chances[2]


def test_from_weights_the_answers_are_the_heads(tmp_path: Path, backbone):
    rng = np.random.default_rng(0)
    rows, bias = rng.normal(size=(3, made.WIDTH)), rng.normal(size=3)
    catalogue, report = Catalogue.create_from_weights(
        tmp_path / "w.subspan", rows, ["c", "a", "b"], bias=bias, backbone=backbone
    )
    images = made.photographs("green", 6)
    scores = backbone.features(images) @ rows.T + bias
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    for row, answer in zip(expected, catalogue.predict(images, top=3), strict=True):
        assert {c.name: pytest.approx(c.probability, abs=1e-5) for c in answer.candidates} == dict(
            zip("cab", row, strict=True)
        )
    assert (report.accuracy, report.judged, report.method) == (None, 0, "subspace")
    taught = catalogue.add("pink", made.photographs("pink", 5))
    assert taught.check is None  # and says so, instead of inventing a number
    with pytest.raises(CatalogueError, match=r"needs at least 19 photographs .* this catalogue has 0"):
        catalogue.predict(images, reject=True)


def test_from_weights_photographs_for_checking_make_the_check_set(tmp_path: Path, backbone):
    images = [image for name in made.BASE for image in made.photographs(name, 40)]
    model = IncrementalClassifier(method="finetune").fit(backbone.features(images), np.repeat(made.BASE, 40))
    catalogue, report = Catalogue.create_from_weights(
        tmp_path / "w.subspan",
        model.coef_,
        model.classes_.tolist(),
        bias=model.intercept_,
        check={name: made.photographs(name, 12, seed=3) for name in made.BASE},
        backbone=backbone,
    )
    assert report.judged == 40
    assert report.accuracy is not None
    assert report.accuracy >= 80
    change = catalogue.add("pink", made.photographs("pink", 5)).check
    assert change is not None
    assert change.examples == 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"photographs": {}}, "at least one class; got none"),
        ({"photographs": {"red": 3, "blue": 0}}, "class 'blue' has no photograph"),
        ({"photographs": {"red": 3, " blue": 3}}, "no space at its ends"),
        ({"photographs": {"red": 3, "bl\nue": 3}}, "printable"),
        ({"photographs": {"red": 3, "": 3}}, "not empty"),
        ({"options": CatalogueOptions(method="semantic")}, "uses language; name its source"),
        ({"options": CatalogueOptions(method="nonsense")}, "no method 'nonsense'"),
    ],
)
def test_what_cannot_become_a_catalogue_leaves_nothing_behind(tmp_path: Path, backbone, arguments: dict, message: str):
    counts = arguments.get("photographs", {"red": 5, "blue": 5})
    photographs = {name: made.photographs("red", count) for name, count in counts.items()}
    with pytest.raises(ValueError, match=message):
        Catalogue.create(tmp_path / "c.subspan", photographs, arguments.get("options"), backbone=backbone)
    assert list(tmp_path.iterdir()) == []


def test_a_catalogue_is_never_overwritten(colours: Catalogue, backbone):
    with pytest.raises(CatalogueError, match="exists already"):
        Catalogue.create(colours.path, {"a": [], "b": []}, backbone=backbone)
    assert names(Catalogue.open(colours.path)) == sorted(made.BASE)


def test_photographs_that_cannot_be_read_stop_the_work_or_are_told(tmp_path: Path, backbone):
    photographs = {"red": [*made.photographs("red", 8), b"broken"], "blue": made.photographs("blue", 8)}
    with pytest.raises(DataError, match="number 9 is not in a format"):
        Catalogue.create(tmp_path / "a.subspan", photographs, backbone=backbone)
    catalogue, report = Catalogue.create(tmp_path / "b.subspan", photographs, backbone=backbone, skip_bad=True)
    assert len(report.skipped) == 1
    assert "number 9" in report.skipped[0]
    with pytest.raises(CatalogueError, match="class 'green' has no photograph that can be read"):
        catalogue.add_all({"green": [b"broken"]}, skip_bad=True)


def test_class_folders_and_zips_are_read_alike(tmp_path: Path):
    import shutil

    folder = made.write_folders(tmp_path / "photos", {"red": 3, "blue": 2})
    (folder / "red" / "notes.txt").write_text("no image")
    shutil.make_archive(str(tmp_path / "photos"), "zip", folder)
    with open_class_photographs(folder) as one, open_class_photographs(tmp_path / "photos.zip") as other:
        assert {name: [image.read() for image in images] for name, images in one.items()} == {
            name: [image.read() for image in images] for name, images in other.items()
        }
        assert {name: len(images) for name, images in one.items()} == {"blue": 2, "red": 3}
    for bad in (tmp_path / "nowhere", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(DataError), open_class_photographs(bad):
            pass


# Teaching


def test_a_taught_class_is_recognised_and_the_others_are_kept(colours: Catalogue):
    report = colours.add("pink", made.photographs("pink", 5), "a pale red")
    assert (report.kind, report.classes, report.examples, report.session) == ("add_classes", ("pink",), 5, 1)
    assert answers(colours, "pink").count("pink") >= 17
    assert answers(colours, "green").count("green") >= 17
    assert colours.classes()[-1].description == "a pale red"
    assert report.version == colours.version == Catalogue.open(colours.path).version


def test_the_report_says_what_the_session_did_to_the_others(colours: Catalogue, backbone):
    check = colours._snapshot.check
    before = IncrementalClassifier.load(colours.path).predict(check.features)
    report = colours.add("grey", made.photographs("grey", 5))
    after = IncrementalClassifier.load(colours.path).predict(check.features)
    truth = np.array(check.names)
    assert report.check is not None
    assert report.check.before == pytest.approx(100 * np.mean(before == truth))
    assert report.check.after == pytest.approx(100 * np.mean(after == truth))
    lost = {name: int(np.sum((truth == name) & (before == name) & (after == "grey"))) for name in made.BASE}
    assert {one.name: one.lost for one in report.takes_from} == {one.name: lost[one.name] for one in report.takes_from}
    assert colours.sessions()[-1].check == report.check


def test_a_class_that_copies_another_is_caught_and_undone(colours: Catalogue):
    report = colours.add("crimson", made.photographs("red", 20, seed=5), warn_drop=5)
    assert report.takes_from[0].name == "red"
    assert report.takes_from[0].lost > 0
    assert report.warning is not None
    assert "fell by" in report.warning
    assert colours.sessions()[-1].warning == report.warning
    undone = colours.undo()
    assert undone.classes == ("crimson",)
    assert answers(colours, "red").count("red") >= 17
    assert colours.add("crimson", made.photographs("red", 20, seed=5), warn_drop=100).warning is None


def test_more_of_a_known_class_is_another_session(colours: Catalogue):
    colours.add("pink", made.photographs("pink", 2))
    report = colours.add("pink", made.photographs("pink", 4, seed=2))
    assert (report.kind, report.session) == ("add_examples", 2)
    pink = colours.classes()[-1]
    assert (pink.examples, pink.kept) == (6, 6)


def test_new_and_known_classes_together_are_two_sessions_written_at_once(colours: Catalogue):
    reports = colours.add_all(
        {
            "red": made.photographs("red", 3, seed=4),
            "pink": made.photographs("pink", 5),
            "grey": made.photographs("grey", 5),
        }
    )
    assert [(one.kind, one.classes) for one in reports] == [
        ("add_classes", ("grey", "pink")),
        ("add_examples", ("red",)),
    ]
    assert len(store.read(colours.path).chain) == 3
    with pytest.raises(CatalogueError):
        colours.add_all({"brown": made.photographs("brown", 3), "": made.photographs("red", 3)})
    assert len(colours.sessions()) == 3


def test_rename_remove_and_undo(colours: Catalogue):
    colours.add("pink", made.photographs("pink", 5), "pale")
    before = colours.predict(made.photographs("pink", 3), top=9)
    colours.rename("pink", "rose")
    after = colours.predict(made.photographs("pink", 3), top=9)
    assert [[(c.name.replace("rose", "pink"), c.probability) for c in one.candidates] for one in after] == [
        [(c.name, c.probability) for c in one.candidates] for one in before
    ]
    assert (colours.classes()[-1].description, colours.classes()[-1].kept) == ("pale", 5)
    entry = colours.remove("rose")
    assert (entry.kind, names(colours)) == ("remove_class", sorted(made.BASE))
    assert [colours.undo().kind for _ in range(3)] == ["remove_class", "rename_class", "add_classes"]
    with pytest.raises(CatalogueError, match="nothing to undo"):
        colours.undo()
    for bad in (lambda: colours.rename("nobody", "x"), lambda: colours.remove("nobody")):
        with pytest.raises(ValueError, match="class 'nobody' is not known"):
            bad()
    assert names(Catalogue.open(colours.path)) == sorted(made.BASE)


def test_prune_removes_undone_and_old_versions_and_keeps_the_log(colours: Catalogue, backbone):
    for name in ("pink", "grey", "brown"):
        colours.add(name, made.photographs(name, 5))
    colours.undo()
    assert len(store.version_ids(colours.path)) == 4
    assert len(colours.prune()) == 1
    assert len(colours.prune(keep=2)) == 1
    assert [entry.version is None for entry in colours.sessions()] == [True, False, False]
    again = Catalogue.open(colours.path, backbone)
    assert again.sessions() == colours.sessions()
    assert again.add("brown", made.photographs("brown", 5)).session == 3
    again.undo()
    again.undo()
    with pytest.raises(CatalogueError, match="nothing to undo: only one version is left"):
        again.undo()
    with pytest.raises(store.StoreError, match="was pruned"):
        IncrementalClassifier.load(colours.path).undo()
    with pytest.raises(CatalogueError, match="at least the current version"):
        again.prune(keep=0)


def test_everything_it_says_is_plain_json(colours: Catalogue):
    report = colours.add("pink", made.photographs("pink", 5))
    said = [
        report,
        *colours.classes(),
        *colours.sessions(),
        *colours.predict(made.photographs("red", 2)),
        colours.weight_map(),
        colours.evaluate({"red": made.photographs("red", 3)}),
    ]
    for one in said:
        json.dumps(dataclasses.asdict(one))


def test_the_map_marks_the_newest_class_and_the_base_rows_nearest_to_it(colours: Catalogue):
    colours.add("pink", made.photographs("pink", 5))
    points = {one.name: one for one in colours.weight_map().points}
    assert [name for name, one in points.items() if one.newest] == ["pink"]
    model = IncrementalClassifier.load(colours.path)
    rows = dict(zip(model.classes_.tolist(), model.coef_, strict=True))
    cosine = {n: rows[n] @ rows["pink"] / np.linalg.norm(rows[n]) / np.linalg.norm(rows["pink"]) for n in made.BASE}
    assert {name for name, one in points.items() if one.near} == set(sorted(made.BASE, key=lambda n: -cosine[n])[:3])
    centred = model.coef_ - model.coef_.mean(axis=0)
    spread = np.linalg.eigvalsh(centred.T @ centred)[::-1]
    assert sum(one.x**2 for one in points.values()) == pytest.approx(spread[0], rel=1e-4)
    assert sum(one.y**2 for one in points.values()) == pytest.approx(spread[1], rel=1e-4)


# Judging photographs


def test_evaluate_counts_right_wrong_and_unknown(colours: Catalogue):
    photographs = {name: made.photographs(name, 30, seed=7) for name in ("red", "green", "grey")}
    result = colours.evaluate(photographs)
    predicted = {name: [one.name for one in colours.predict(photographs[name])] for name in ("red", "green")}
    right = sum(predicted[name].count(name) for name in predicted)
    assert result.accuracy == pytest.approx(100 * right / 60)
    assert (result.examples, result.unknown_examples) == (60, 30)
    for one in result.per_class:
        assert one.correct == predicted[one.name].count(one.name)
        assert dict(one.taken_for) == {n: predicted[one.name].count(n) for n in set(predicted[one.name]) - {one.name}}
    for point in result.curve:
        rejected = [one.rejected for one in colours.predict(photographs["grey"], reject=point.promised)]
        assert point.unknown_rejected == pytest.approx(100 * np.mean(rejected))
    rates = [point.unknown_rejected for point in result.curve]
    assert rates == sorted(rates)


def test_rejected_photographs_have_no_name(colours: Catalogue):
    found = colours.predict(made.photographs("grey", 40, seed=7), reject=0.3)
    assert any(one.rejected for one in found)
    assert all((one.name is None) == one.rejected for one in found)
    assert not any(one.rejected for one in colours.predict(made.photographs("grey", 40, seed=7)))
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(CatalogueError, match="between 0 and 1"):
            colours.predict(made.photographs("grey", 1), reject=share)
    with pytest.raises(CatalogueError, match="top must be at least 1"):
        colours.predict(made.photographs("grey", 1), top=0)


# The right network


def test_other_weights_or_another_preparation_are_refused(colours: Catalogue, backbone):
    other = made.network()
    other[0].weight.data[0, 0, 0, 0] += 0.5  # pyright: ignore[reportIndexIssue]
    with pytest.raises(CatalogueError, match="has other weights"):
        Catalogue.open(colours.path, TorchBackbone("tiny", other, made.PREPROCESSING))
    with pytest.raises(CatalogueError, match="prepares photographs otherwise"):
        Catalogue.open(colours.path, TorchBackbone("tiny", made.network(), Preprocessing(size=16, resize=20)))


def test_a_model_of_features_is_no_catalogue(tmp_path: Path):
    features = np.random.default_rng(0).normal(size=(20, 4))
    path = IncrementalClassifier(method="finetune").fit(features, ["a", "b"] * 10).save(tmp_path / "m.subspan")
    with pytest.raises(store.StoreError, match="no catalogue of photographs"):
        Catalogue.open(path)


def test_language_methods_take_descriptions(tmp_path: Path, backbone):
    words = {"red": [1, 0, 0], "green": [0, 1, 0], "blue": [0, 0, 1], "pink": [0.8, 0, 0.3]}
    vectors = tmp_path / "words.txt"
    vectors.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in words.items()))
    options = CatalogueOptions(method="semantic:tau=0.1", embeddings=str(vectors))
    photographs = {name: made.photographs(name, 20) for name in ("red", "green", "blue")}
    catalogue, _ = Catalogue.create(tmp_path / "c.subspan", photographs, options, backbone=backbone)
    catalogue.add("pink", made.photographs("pink", 5))
    assert answers(catalogue, "pink").count("pink") >= 10


# Threads


def test_readers_go_on_with_the_old_version_while_a_class_is_taught(colours: Catalogue, monkeypatch):
    learning, finish = threading.Event(), threading.Event()
    learn = Model.add_classes

    def slow(self, *arguments, **options):
        learning.set()
        assert finish.wait(30)
        return learn(self, *arguments, **options)

    monkeypatch.setattr(Model, "add_classes", slow)
    images = made.photographs("pink", 5)
    before = colours.predict(images)
    teacher = threading.Thread(target=colours.add, args=("pink", images))
    teacher.start()
    assert learning.wait(30)
    assert colours.predict(images) == before
    assert names(colours) == sorted(made.BASE)
    assert len(colours.sessions()) == 1
    finish.set()
    teacher.join()
    assert colours.predict(images)[0].name == "pink"


def test_teachers_in_threads_and_another_object_lose_nothing(colours: Catalogue, backbone):
    other = Catalogue.open(colours.path, backbone)
    features = backbone.features(made.photographs("pink", 5))
    threads = [
        threading.Thread(target=(colours, other)[i % 2].add_features, args=(f"class {i}", features + i))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for catalogue in (colours, other):
        catalogue.refresh()
        assert set(names(catalogue)) == {*made.BASE, *(f"class {i}" for i in range(4))}
        assert not catalogue.refresh()
    assert [entry.session for entry in colours.sessions()] == list(range(5))


def test_undo_where_the_last_version_is_damaged(colours: Catalogue, backbone):
    colours.add("pink", made.photographs("pink", 5))
    file = colours.path / "versions" / colours.version / "arrays.safetensors"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(store.StoreError, match=r"is damaged.*`subspan undo` goes back"):
        Catalogue.open(colours.path)
    assert go_back(colours.path)[1].kind == "damaged"
    again = Catalogue.open(colours.path, backbone)
    assert names(again) == sorted(made.BASE)
    again.add("pink", made.photographs("pink", 5))
    assert names(again)[-1] == "pink"


FOREIGN = {
    "no mapping": "catalogue",
    "a format in words": {"catalogue": "one"},
    "a backbone that is a number": {"backbone": 7},
    "descriptions that are a number": {"descriptions": 7},
    "an option of another type": {"options": {"keep": "ten"}},
    "judgements without names": {"judgements": [[]]},
}


@pytest.mark.parametrize("extra", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_version_with_foreign_metadata_is_refused_and_can_be_undone(colours: Catalogue, extra):
    first = colours.version
    good = store.load_version(colours.path, colours.add("pink", made.photographs("pink", 5)).version)
    extra = {**good.meta["extra"], **extra} if isinstance(extra, dict) else extra
    foreign = store.make_version(good.arrays, {**good.meta, "extra": extra})
    store.write(colours.path, [first, foreign], foreign.id)
    with pytest.raises(store.StoreError, match=r"missing or foreign|of format 'one'|that no catalogue can have"):
        colours.refresh()
    assert colours.version == good.id
    assert go_back(colours.path)[1].kind == "damaged"
    assert store.read(colours.path).current == first


def test_damage_to_an_old_version_does_not_stop_new_sessions(colours: Catalogue, backbone):
    first = colours.version
    colours.add("pink", made.photographs("pink", 5))
    (colours.path / "versions" / first / "version.json").write_bytes(b"{}")
    again = Catalogue.open(colours.path, backbone)
    again.add("grey", made.photographs("grey", 5))
    assert again.undo().classes == ("grey",)
    with pytest.raises(store.StoreError, match=r"version\.json' is damaged"):
        again.undo()
    assert names(Catalogue.open(colours.path)) == [*sorted(made.BASE), "pink"]


def test_a_store_replaced_by_a_catalogue_with_another_network_is_left_alone(colours: Catalogue, tmp_path: Path):
    network = made.network()
    network[0].weight.data.neg_()  # pyright: ignore[reportIndexIssue]
    photographs = {name: made.photographs(name, 10) for name in made.BASE}
    other, _ = Catalogue.create(
        tmp_path / "other.subspan",
        photographs,
        CatalogueOptions(),
        backbone=TorchBackbone("other", network, made.PREPROCESSING),
    )
    last = other.add("pink", made.photographs("pink", 5)).version
    colours.path.rename(tmp_path / "aside")
    other.path.rename(colours.path)
    for change in (colours.refresh, colours.undo, lambda: colours.remove("red")):
        with pytest.raises(CatalogueError, match="was replaced by a catalogue with another network"):
            change()
    assert store.read(colours.path).current == last
    assert names(colours) == sorted(made.BASE)


def test_undo_of_another_version_than_the_expected_one_changes_nothing(colours: Catalogue):
    first = colours.version
    last = colours.add("pink", made.photographs("pink", 5)).version
    with pytest.raises(store.StoreChangedError, match=f"must be {first}; it is {last}"):
        colours.undo(expected=first)
    assert store.read(colours.path).current == last
    assert colours.undo(expected=last).classes == ("pink",)
    assert store.read(colours.path).current == first


def test_methods_of_version_0_1_are_understood_with_a_warning(colours: Catalogue):
    with pytest.warns(DeprecationWarning, match=r"Catalogue\.teach is Catalogue\.add now; the old name goes in"):
        assert colours.teach("pink", made.photographs("pink", 3)).classes == ("pink",)  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match=r"Catalogue\.add_all now"):
        assert colours.teach_all({"grey": made.photographs("grey", 3)})[0].session == 2  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'learn'"):
        colours.learn  # type: ignore[attr-defined]  # noqa: B018
