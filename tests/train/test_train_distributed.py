"""Two processes against one: the same trajectory at the same global batch, on a network without batch statistics.

In float64: in float32 two orders of a sum part a maximum or a leaky ReLU once in a few runs, and weights by percents.
"""

import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from subspan.backbones.checkpoint import read_tensors
from subspan.train.parts.device import Processes

WORKER = Path(__file__).with_name("train_worker.py")
WORDS = ("double", "dropblock='none'", "cuts=(1,)", "learning_rate=0.01")


def run(folder: Path, words: Sequence[str], *launcher: str) -> list[tuple[float, float]]:
    """Loss and accuracy of each epoch."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(WORKER), str(folder), *WORDS, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with (folder / "log.csv").open() as file:
        return [(float(row["loss"]), float(row["accuracy"])) for row in csv.DictReader(file)]


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("optimiser='muon'",)], ids=["sgd", "muon"])
def test_two_processes_follow_the_trajectory_of_one(tmp_path: Path, words: Sequence[str]) -> None:
    logs = [run(tmp_path / "one", words)]
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    logs.append(run(tmp_path / "two", words, *launcher))
    assert len(logs[0]) == 2
    assert logs[1] == [pytest.approx(row, rel=1e-6) for row in logs[0]]
    one, two = (read_tensors(tmp_path / name / "checkpoint.safetensors")[0] for name in ("one", "two"))
    assert sum(value.float().abs().sum() for value in one.values()) > 0
    for name, value in one.items():
        if ".clock." not in name:  # the noise of each process is keyed apart
            torch.testing.assert_close(two[name], value, rtol=1e-8, atol=1e-10)


def test_one_process_is_the_first_and_only_one() -> None:
    processes = Processes.start("cpu")
    assert (processes.rank, processes.count, processes.first) == (0, 1, True)
    assert processes.execution("auto") == "eager"
    assert processes.sums(1.0, 2.0) == (1.0, 2.0)
