"""Work on a two-node local Ray cluster: the same results as here, also when one machine dies in the middle."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from small_features import make_features

from subspan.experiments.fan_out import Placement, fan_out
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.runs import Cell, Job, run_cells, run_jobs
from subspan.experiments.single_session import SingleSession
from subspan.learners.registry import create_method
from waiting import PATIENCE, wait_until

ray = pytest.importorskip("ray", reason="needs ray: pip install 'subspan[ray]'")
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    """Two machines of one core each; the second can be killed."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        here = Path(__file__).parent
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (here, here.parent))))  # tasks find functions of tests
        # A dead machine is noticed at once, not after half a minute.
        settings = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_failure_threshold": 2,
        }
        memory = {"object_store_memory": 100 * 2**20}
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": settings, **memory})
        made.second = made.add_node(num_cpus=1, **memory)
        made.connect()
        yield made
        ray.shutdown()
        made.shutdown()


def episodes_with_a_note(shared, start):
    """Two episodes from ``start`` on, or none: the machine that is to die begins its first ones and never ends them.

    A file tells which machine began them. The other machine waits until the doomed one is at work.
    """
    folder, doomed, features, method, episodes = shared
    node = ray.get_runtime_context().get_node_id()
    (folder / f"{start}-{node}-{time.monotonic_ns()}").touch()
    if node == doomed:
        time.sleep(2 * PATIENCE)
        raise AssertionError("nobody killed this machine")
    wait_until(lambda: begun_on(folder, doomed), "the doomed machine to begin")
    return PROTOCOL.run(features, method, episodes=episodes.part(start, start + 2))


def begun_on(folder: Path, machine: str) -> set[int]:
    names = [path.name.split("-") for path in folder.iterdir()]
    return {int(start) for start, node, _ in names if node == machine}


def failing(shared, number):
    raise ProtocolError(f"number {number} cannot be done")


PROTOCOL = SingleSession(ways=3, shots=2, base_queries=6, novel_queries=6, count=40)
FIELDS = ("base", "novel", "base_alone", "novel_alone", "steps")


def check_that_a_cluster_gives_what_this_machine_gives():
    features = make_features(noise=2.0)
    embeddings = {"words": features.embeddings["names"]}
    cells = [
        Cell(create_method("subspace", learning_rate=0.05, max_steps=30), 2),
        Cell(create_method("semantic", learning_rate=0.05, max_steps=30), 1, "words"),
    ]
    here, there = (
        run_cells(PROTOCOL, features, cells, place, embeddings=embeddings, batch=10)
        for place in (Placement(workers=1), Placement(ray=True))
    )
    for one, other in zip(here, there, strict=True):
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert (one.method, one.shots, one.protocol, one.notes) == (
            other.method,
            other.shots,
            other.protocol,
            other.notes,
        )
    sessions = MultiSession(ways=3, shots=2, draws=2)
    jobs = [Job(sessions, create_method("finetune", max_steps=20), memory, (0, 1)) for memory in (False, True)]
    splits = [(make_features(seed), None) for seed in (0, 1)]
    here = run_jobs(splits, jobs, Placement(workers=1))
    there = run_jobs(splits, jobs, Placement(ray=True))
    for one, other in zip(here, there, strict=True):
        assert one.notes == other.notes == ()
        np.testing.assert_array_equal(one.novel, other.novel)
        np.testing.assert_array_equal(one.base, other.base)


def check_that_a_fault_of_the_work_is_raised_here_as_it_is():
    with pytest.raises(ProtocolError, match=r"^number 3 cannot be done$"):
        fan_out(failing, None, [3], Placement(ray=True))


def check_that_a_machine_killed_in_the_middle_costs_nothing(cluster, tmp_path):
    features = make_features(noise=2.0)
    method = create_method("subspace", learning_rate=0.05, max_steps=30)
    episodes = PROTOCOL.draw(features)
    starts = list(range(0, 40, 2))
    done = []

    doomed = cluster.second.node_id

    def note_and_kill(number, result) -> None:
        done.append(number)
        if len(done) == 5:
            cluster.remove_node(cluster.second, allow_graceful=False)
            cluster.second = None

    shared = (tmp_path, doomed, features, method, episodes)
    parts = fan_out(
        episodes_with_a_note,
        shared,
        starts,
        Placement(ray=True),
        on_result=note_and_kill,
    )
    assert cluster.second is None, "the machine was killed"
    assert begun_on(tmp_path, doomed), "it was at work"
    assert len(list(tmp_path.iterdir())) > len(starts), "what it was at was begun once more"
    assert sorted(done) == list(range(20))
    alone = PROTOCOL.run(features, method, batch=2)
    for name in FIELDS:
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(alone, name))


def test_a_cluster(cluster, tmp_path):
    """One test, since a cluster takes seconds to start."""
    check_that_a_cluster_gives_what_this_machine_gives()
    check_that_a_fault_of_the_work_is_raised_here_as_it_is()
    check_that_a_machine_killed_in_the_middle_costs_nothing(cluster, tmp_path)
