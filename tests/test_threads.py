"""Threads that share a model: every session is whole, and every answer is of one session."""

import copy
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from subspan import IncrementalClassifier

BASE = 4


def examples(name, count=3, width=8):
    """Features (count, width) around a direction of the class's own."""
    rng = np.random.default_rng(list(map(ord, name)))
    return 3 * rng.normal(size=width) + 0.1 * rng.normal(size=(count, width))


def fitted(width=8, **parameters):
    names = [f"base {i}" for i in range(BASE)]
    model = IncrementalClassifier(**({"method": "imprint"} | parameters))
    return model.fit(np.concatenate([examples(name, 6, width) for name in names]), np.repeat(names, 6))


def teach(model, names):
    for name in names:
        model.add_classes(examples(name), [name] * 3)
    return names


@pytest.fixture(autouse=True)
def often():
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*jobs):
    """What the jobs give, each run in a thread of its own from the same moment; an error in one is raised."""
    ready = threading.Barrier(len(jobs))

    def run(job):
        ready.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [done.result() for done in [pool.submit(run, job) for job in jobs]]


@pytest.mark.parametrize("method", ["imprint", "finetune:max_steps=5"])
def test_four_teachers_lose_no_class(method):
    model = fitted(method=method)
    taught = together(*(lambda t=t: teach(model, [f"novel {t}.{i}" for i in range(15)]) for t in range(4)))
    assert set(model.classes_) == {f"base {i}" for i in range(BASE)}.union(*taught)
    assert len(model.classes_) == len(model.coef_) == BASE + 60
    assert [record.kind for record in model.sessions_] == ["base"] + ["add_classes"] * 60


def test_every_kind_of_session_waits_for_its_turn():
    model = fitted(memory=1)
    teach(model, ["a", "b"])

    def rename():
        for i in range(10):
            model.rename_class(f"name {i - 1}" if i else "a", f"name {i}")

    def remove():
        for _ in range(10):
            model.add_classes(examples("gone"), ["gone"] * 3).remove_class("gone")

    def more():
        for _ in range(10):
            model.add_examples(examples("b"), ["b"] * 3)

    together(rename, remove, more, lambda: teach(model, [f"novel {i}" for i in range(10)]))
    assert set(model.classes_[BASE:]) == {"name 9", "b", *(f"novel {i}" for i in range(10))}
    assert dict(zip(model.classes_, model.examples_seen_, strict=True))["b"] == 33
    assert len(model.sessions_) == 3 + 10 + 20 + 10 + 10


def test_a_saver_and_a_reader_see_whole_sessions(tmp_path):
    """While two teach, one class is known and undone: every answer and every store is of one session."""
    model = fitted(width=24, method="prototype")
    queries = np.concatenate([examples(f"base {i}", 2, 24) for i in range(BASE)])
    truth = model.predict(queries)
    done = threading.Event()

    def teach_all(t):
        for i in range(40):
            name = f"novel {t}.{i}"
            model.add_classes(examples(name, width=24), [name] * 3)

    def teachers():
        try:
            together(lambda: teach_all(0), lambda: teach_all(1))
        finally:
            done.set()

    def reader():
        while not done.is_set():
            np.testing.assert_array_equal(model.predict(queries), truth)
            other = [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))][len(model.classes_) % 3](model)
            assert other.predict_proba(queries).shape[1] == len(other.classes_) == len(other.coef_)

    def saver():
        saves = 0
        while not done.is_set() or not saves:
            loaded = IncrementalClassifier.load(model.save(tmp_path / f"{saves}.subspan"))
            learned = [name for record in loaded.sessions_ for name in record.classes]
            assert loaded.classes_.tolist() == learned
            saves += 1

    together(teachers, reader, saver)
    assert len(model.classes_) == BASE + 80


def test_a_model_fitted_anew_answers_all_the_while():
    """To a model that is refitted from 8 to 24 features and back a query of 8 is known or refused, nothing else."""
    model = fitted()
    small = np.concatenate([examples(f"base {i}", 1) for i in range(BASE)])
    names = np.array([f"base {i}" for i in range(BASE)])
    done, refusals = threading.Event(), []

    def refit():
        try:
            for _ in range(10):
                for width in (24, 8):
                    X = np.concatenate([examples(name, 6, width) for name in names])
                    model.fit(X, np.repeat(names, 6))
                with pytest.raises(ValueError, match="y holds 1 class"):
                    model.fit(small, ["one"] * BASE)
        finally:
            done.set()

    def ask():
        while not done.is_set():
            try:
                np.testing.assert_array_equal(model.predict(small), names)
            except ValueError as error:
                refusals.append(str(error))

    together(refit, ask, ask)
    assert all("expecting 24 features" in told for told in refusals)


class Slow(dict):
    """Embeddings that are looked up when they may."""

    def __init__(self, vectors):
        super().__init__(vectors)
        self.asked, self.given = threading.Event(), threading.Event()

    def __getitem__(self, name):
        self.asked.set()
        assert self.given.wait(60)
        return super().__getitem__(name)


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model))}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_of_a_model_that_is_being_taught_waits_for_nobody(kind):
    names = [f"base {i}" for i in range(BASE)]
    model = IncrementalClassifier(method="semantic:max_steps=5")
    X, y = np.concatenate([examples(name) for name in names]), np.repeat(names, 3)
    model.fit(X, y, embeddings={name: examples(name)[0] for name in names})
    slow = Slow({"late": np.ones(8)})
    with ThreadPoolExecutor(1) as pool:
        teaching = pool.submit(model.add_classes, examples("late"), ["late"] * 3, slow)
        assert slow.asked.wait(60)
        try:
            assert "late" not in model.predict(X)
            other = COPIES[kind](model).add_classes(examples("new"), ["new"] * 3, {"new": np.zeros(8)})
        finally:
            slow.given.set()
        teaching.result()
    assert other.classes_.tolist() == [*names, "new"]
    assert model.classes_.tolist() == [*names, "late"]
