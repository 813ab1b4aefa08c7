"""The multi-session protocol on small files, measured again by plain loops."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from small_features import C0, C1, TURNED, D, make_features, turned_arrays

from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.runs import Job, run_jobs
from subspan.learners.registry import create_method, list_methods

PROTOCOL = MultiSession(ways=3, shots=2, draws=0, dtype="float64")


def unit(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


@pytest.mark.parametrize("turned", TURNED)
def test_arrays_are_taken_however_they_lie_in_memory(turned):
    features, embeddings, method = make_features(bias=True), np.eye(C0 + C1), create_method("semantic:max_steps=5")
    expected = PROTOCOL.run(features, method, memory=True, embeddings=embeddings)
    other = PROTOCOL.run(turned_arrays(features, turned), method, memory=True, embeddings=TURNED[turned](embeddings))
    np.testing.assert_array_equal(other.base, expected.base)
    np.testing.assert_array_equal(other.novel, expected.novel)


def test_prototypes_session_by_session():
    """Every number of the result from its definition."""
    features = make_features()
    result = PROTOCOL.run(features, create_method("prototype"), memory=False, keep_predictions=True)
    assert result.class_counts == (11, 14, 17, 18)
    center = features.base_mean.mean(0)
    support = features.novel_support.reshape(C1, 4, 2, D)[:, :2]  # the first two images, with both copies
    rows = np.concatenate([unit(features.base_weight), unit(support.reshape(C1, 4, D).mean(1) - center)])
    queries = np.concatenate([features.base_test, features.novel_test])
    truth = np.repeat(np.arange(C0 + C1), 4)
    np.testing.assert_array_equal(result.predictions[0].labels, truth)
    sessions = [range(11), range(11, 14), range(14, 17), range(17, 18)]
    born = []
    for t, seen in enumerate(result.class_counts):
        items = truth < seen
        predicted = (unit(queries[items] - center) @ rows[:seen].T).argmax(1)
        np.testing.assert_array_equal(result.predictions[0].by_session[t][0], predicted)
        right = predicted == truth[items]
        by_session = [100 * right[np.isin(truth[items], classes)].mean() for classes in sessions[: t + 1]]
        assert result.base[0, t] == pytest.approx(by_session[0])
        assert result.accuracy[0, t] == pytest.approx(100 * right.mean())
        if t == 0:
            assert np.isnan([result.novel[0, t], result.novel_session_mean[0, t]]).all()
        else:
            assert result.novel[0, t] == pytest.approx(100 * right[truth[items] >= C0].mean())
            assert result.novel_session_mean[0, t] == pytest.approx(np.mean(by_session[1:]))
        counts = np.zeros((C0 + C1, C0 + C1), int)
        for true, found in zip(truth[items], predicted, strict=True):
            counts[true, found] += 1
        np.testing.assert_array_equal(result.confusion[t], counts)
        born.append(by_session[t])
        if t:
            lost = np.subtract(born, by_session)[:-1]
            assert result.forgetting[0, t] == pytest.approx(lost.mean())
    np.testing.assert_array_equal(result.steps, np.zeros((1, 3)))


def test_memory_is_the_stored_base_examples_and_the_first_image_of_each_novel_class():
    features = make_features()
    seen = []

    class Spy(type(create_method("imprint"))):
        def learn(self, state, session):
            seen.append(session)
            return super().learn(state, session)

    PROTOCOL.run(features, Spy(), memory=True)
    support = features.novel_support.reshape(C1, 4, 2, D)
    for t, session in enumerate(seen):
        first, count = 3 * t, min(3, C1 - 3 * t)
        np.testing.assert_array_equal(
            session.support[0], support[first : first + count, :2].reshape(-1, D), "two images, two copies each"
        )
        np.testing.assert_array_equal(session.labels[0], C0 + first + np.repeat(np.arange(count), 4))
        np.testing.assert_array_equal(session.base_memory.features[0], features.base_memory)
        np.testing.assert_array_equal(session.base_memory.labels[0], np.arange(C0))
        assert session.classes == tuple(range(C0 + first, C0 + first + count))
        if t == 0:
            assert session.novel_memory is None
        else:
            np.testing.assert_array_equal(session.novel_memory.features[0], support[:first, 0].reshape(-1, D))
            np.testing.assert_array_equal(session.novel_memory.labels[0], C0 + np.repeat(np.arange(first), 2))


def test_references_are_the_rows_at_the_end_of_their_own_session():
    before, after = [], []

    class Spy(type(create_method("finetune"))):
        def learn_together(self, sessions):
            before.extend(state for state, _ in sessions)
            after.extend(super().learn_together(sessions))
            return after[-len(sessions) :]

    features = make_features()
    PROTOCOL.run(features, Spy(learning_rate=0.1, max_steps=30), memory=True)
    references, rows = before[2]["references"][0], [state.rows[0] for state in after]
    np.testing.assert_array_equal(references[:C0], features.base_weight)
    np.testing.assert_array_equal(references[C0 : C0 + 3], rows[0][C0 : C0 + 3])
    np.testing.assert_array_equal(references[C0 + 3 : C0 + 6], rows[1][C0 + 3 : C0 + 6])
    np.testing.assert_array_equal(before[2].rows[0, : C0 + 6], rows[1])
    assert not np.array_equal(rows[1][C0 : C0 + 3], rows[0][C0 : C0 + 3]), "session 2 must have moved these rows"


def test_draws_are_random_images_of_the_class_and_repeatable():
    features = make_features(images=6)
    marks = np.arange(C1 * 6, dtype=np.float64)
    features = replace(features, novel_support=np.repeat(marks, 2 * D).reshape(C1 * 6, 2, D))  # image i is all i
    drawn = []

    class Spy(type(create_method("imprint"))):
        def learn(self, state, session):
            drawn.append(session.support[:, :, 0])
            return super().learn(state, session)

    for seed in (0, 0, 1):
        MultiSession(ways=C1, shots=3, draws=4, seed=seed, dtype="float64").run(features, Spy(), memory=False)
    for images in drawn[0].reshape(4, C1, 3, 2):
        for c in range(C1):
            np.testing.assert_array_equal(images[c, :, 0], images[c, :, 1])  # both copies of an image
            chosen = images[c, :, 0].astype(int)
            assert len(set(chosen)) == 3
            assert {i // 6 for i in chosen} == {c}
    assert len({draw.tobytes() for draw in drawn[0]}) == 4
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize(("images", "draws"), [(2, 1), (3, 4)])
def test_as_many_images_as_shots_are_one_draw(images, draws):
    features = make_features(images=images)
    protocol, method = replace(PROTOCOL, draws=4), create_method("imprint")
    (result,) = run_jobs([(features, None)], [Job(protocol, method, True)], Placement(workers=1))
    assert len(result.base) == len(result.splits) == len(result.final_rows) == draws
    alone = replace(protocol, draws=1).run(features, method, memory=True)
    np.testing.assert_allclose(result.final_rows[0], alone.final_rows[0], atol=1e-10)
    said = "4 support draws asked for, but no novel class has more than 2 support images, so there is one draw."
    assert result.notes == ((said,) if draws == 1 else ())
    assert alone.notes == PROTOCOL.run(features, method, memory=True).notes == ()


@pytest.mark.parametrize("spec", ["semantic:max_steps=40", "subspace:old_penalty=squared,max_steps=40", "prototype"])
def test_a_draw_does_not_depend_on_the_others(spec):
    features = make_features()
    vectors = features.embeddings["names"]
    results = [
        replace(PROTOCOL, draws=draws).run(features, create_method(spec), memory=True, embeddings=vectors)
        for draws in (1, 3)
    ]
    np.testing.assert_allclose(results[1].final_rows[0], results[0].final_rows[0], atol=1e-10)
    np.testing.assert_array_equal(results[1].base[0], results[0].base[0])


def test_a_bias_takes_part():
    features = make_features(bias=True)
    result = PROTOCOL.run(features, create_method("finetune", max_steps=5), memory=False)
    scores = features.base_test @ features.base_weight.T + features.base_bias
    assert result.base[0, 0] == pytest.approx(100 * (scores.argmax(1) == features.base_test_labels).mean())
    assert result.final_rows.shape[2] == D + 1
    plain = PROTOCOL.run(features, create_method("imprint"), memory=False)
    assert plain.final_rows.shape[2] == D


def test_a_cosine_head_is_measured_by_cosines():
    features = make_features(head="cosine", head_scale=10.0)
    result = PROTOCOL.run(features, create_method("finetune", max_steps=1), memory=False)
    cosines = unit(features.base_test) @ unit(features.base_weight).T
    assert result.base[0, 0] == pytest.approx(100 * (cosines.argmax(1) == features.base_test_labels).mean())


def test_the_digest_is_of_all_settings():
    digests = {MultiSession().digest}
    for name, value in dict(ways=3, shots=1, draws=9, seed=4, dtype="float64").items():
        assert name in asdict(MultiSession())
        digests.add(MultiSession(**{name: value}).digest)
    assert len(digests) == 6
    assert MultiSession(ways=5).digest == MultiSession().digest


def test_weight_space_of_moving_and_static_targets():
    features = make_features()
    vectors = features.embeddings["names"]
    for name, moving in (("subspace", True), ("semantic", False)):
        method = create_method(name, max_steps=10)
        space = PROTOCOL.run(features, method, memory=False, embeddings=vectors).weight_space
        assert space.moving is moving
        assert space.novel.shape == space.targets.shape == (3, D)
        assert space.novel_names == ("class 11", "class 12", "class 13")
    assert PROTOCOL.run(features, create_method("imprint"), memory=False).weight_space is None


def test_what_cannot_run_is_said():
    features = make_features()
    with pytest.raises(ProtocolError, match="shots must be at least 1; got 0"):
        MultiSession(shots=0)
    with pytest.raises(ProtocolError, match="draws must be at least 0; got -1"):
        MultiSession(draws=-1)
    with pytest.raises(ProtocolError, match="9 shots asked for, but class 'class 11' has only 4 support images"):
        MultiSession(shots=9).run(features, create_method("imprint"), memory=False)
    with pytest.raises(ProtocolError, match="method 'semantic' needs embeddings of the classes"):
        PROTOCOL.run(features, create_method("semantic"), memory=False)
    with pytest.raises(ProtocolError, match="there are 18 classes but 3 embeddings"):
        PROTOCOL.run(features, create_method("semantic"), memory=False, embeddings=np.ones((3, 2)))
    with pytest.raises(
        ProtocolError, match="method 'prototype' needs the array 'base_mean', which the feature file lacks"
    ):
        PROTOCOL.run(replace(features, base_mean=None), create_method("prototype"), memory=False)
    with pytest.raises(ProtocolError, match="method 'finetune:without_mean=true' needs the array 'base_mean'"):
        PROTOCOL.run(replace(features, base_mean=None), create_method("finetune:without_mean=true"), memory=False)
    with pytest.raises(ProtocolError, match="running with memory needs the array 'base_memory'"):
        PROTOCOL.run(replace(features, base_memory=None), create_method("imprint"), memory=True)


# Over files and processes


def test_files_and_processes_change_nothing():
    """Files in one job or in jobs of one method, solved together and in processes, are the files one by one."""
    splits = [(make_features(seed), None) for seed in (0, 1)]
    protocol = replace(PROTOCOL, draws=2)
    methods = [create_method(name) for name in ("imprint", "subspace:max_steps=20,old_penalty=squared")]
    jobs = [Job(protocol, method, True, (0, 1)) for method in methods]
    jobs.append(Job(replace(PROTOCOL, draws=0), methods[1], True, (1,)))
    done = []
    here = run_jobs(splits, jobs, Placement(workers=1), on_job=lambda i, _: done.append(i), keep_predictions=True)
    assert sorted(done) == [0, 1, 2]
    there = run_jobs(splits, jobs, Placement(workers=2), keep_predictions=True)
    for job, one, other in zip(jobs, here, there, strict=True):
        files = [splits[number][0] for number in job.splits]
        alone = [job.protocol.run(f, job.method, memory=True, keep_predictions=True) for f in files]
        for found in (one, other):
            assert (found.method, found.protocol) == (alone[0].method, job.protocol.digest)
            np.testing.assert_array_equal(found.splits, np.repeat(range(len(files)), len(alone[0].base)))
            np.testing.assert_array_equal(found.confusion, alone[0].confusion)
            for name in ("accuracy", "class_mean", "base", "novel", "steps", "forgetting"):
                expected = np.concatenate([getattr(r, name) for r in alone])
                np.testing.assert_array_equal(getattr(found, name), expected, name)
            for own, of_file in zip(found.predictions, alone, strict=True):
                for predicted, expected in zip(own.by_session, of_file.predictions[0].by_session, strict=True):
                    np.testing.assert_array_equal(predicted, expected)


@pytest.mark.parametrize("name", [*list_methods(), "ncm", "teen", "fecam", "ranpac", "alice", "calibrated-fecam"])
def test_memory_counts_for_those_that_use_it(name):
    features = make_features(base_covariance=np.eye(D))
    method, vectors = create_method(name), features.embeddings["names"]
    with_memory, without = (PROTOCOL.run(features, method, memory=m, embeddings=vectors) for m in (True, False))
    same = np.array_equal(with_memory.final_rows, without.final_rows)
    assert same == (not method.uses_memory)
    alike = run_jobs([(features, vectors)], [Job(PROTOCOL, method, m) for m in (True, False)], Placement(workers=1))
    for alone, found in zip((with_memory, without), alike, strict=True):
        assert found.memory == alone.memory
        np.testing.assert_array_equal(found.base, alone.base)
        np.testing.assert_array_equal(found.novel, alone.novel)


def test_jobs_of_other_shapes_and_precision_run_apart():
    eye, names = np.eye(5, D), np.ones((5 + C1, 5))
    few = {"base_weight": eye, "base_mean": eye, "base_memory": eye, "base_test": np.ones((5, 1, D))}
    fewer = replace(make_features(**few, **{"embedding.names": names}), base_memory=None)
    splits = [(make_features(), None), (fewer, None)]
    method = create_method("subspace:max_steps=20")
    jobs = [Job(PROTOCOL, method, False), Job(PROTOCOL, method, False, (1,))]
    jobs.append(Job(replace(PROTOCOL, dtype="float32"), method, False))
    found = run_jobs(splits, jobs, Placement(workers=1))
    for job, result in zip(jobs, found, strict=True):
        alone = job.protocol.run(splits[job.splits[0]][0], method, memory=False)
        np.testing.assert_array_equal(result.base, alone.base)
        np.testing.assert_array_equal(result.novel, alone.novel)
    jobs = [Job(PROTOCOL, create_method("imprint"), memory, (1,)) for memory in (False, True)]
    with pytest.raises(ProtocolError, match="running with memory needs the array 'base_memory'"):
        run_jobs(splits, jobs, Placement(workers=1))


def test_notes_and_seconds_are_those_of_their_job():
    narrow = np.zeros((C0, D))
    narrow[:, :2] = np.arange(2 * C0).reshape(C0, 2)
    splits = [(make_features(), None), (make_features(base_weight=narrow), None)]
    method = create_method("subspace:max_steps=2")
    jobs = [Job(replace(PROTOCOL, draws=draws), method, False, (split,)) for split, draws in ((0, 1), (1, 0))]
    first, second = run_jobs(splits, jobs, Placement(workers=1))
    assert (len(first.notes), len(second.notes)) == (0, 1)
    assert min(first.seconds, second.seconds) > 0


def test_warnings_become_notes():
    small = make_features(
        base_weight=np.eye(2, D),
        base_mean=np.eye(2, D),
        base_memory=np.eye(2, D),
        base_test=np.ones((2, 1, D)),
        **{"embedding.names": np.ones((2 + C1, 5))},
    )
    job = Job(PROTOCOL, create_method("subspace:max_steps=2"), False)
    (result,) = run_jobs([(small, None)], [job], Placement(workers=1))
    assert len(result.notes) == 1, "the same warning of every session is said once"
    assert "the 2 base rows span only 2 of 16 feature dimensions" in result.notes[0]
