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
from subspan.train.distributed import Processes
from subspan.train.step import Share

WORKER = Path(__file__).with_name("train_worker.py")
WORDS = ("double", "norm='group'", "dropblock='none'", "epochs=2", "cuts=(1,)", "learning_rate=0.01")
MUON = ("optimiser='muon'",)


def run(folder: Path, words: Sequence[str], *launcher: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(WORKER), str(folder), *WORDS, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), MUON], ids=["sgd", "muon"])
def test_two_processes_follow_the_trajectory_of_one(tmp_path: Path, words: Sequence[str]) -> None:
    pytest.importorskip("lightning")
    run(tmp_path / "one", words)
    run(tmp_path / "two", words, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    one, two = (read_tensors(tmp_path / name / "checkpoint.safetensors")[0] for name in ("one", "two"))
    start = 0.0
    for name, value in one.items():
        if ".clock." in name:
            continue  # the noise of each process is keyed apart
        torch.testing.assert_close(two[name], value, rtol=1e-8, atol=1e-10)
        start += value.float().abs().sum().item()
    assert start > 0
    logs = []
    for name in ("one", "two"):
        with (tmp_path / name / "log.csv").open() as file:
            logs.append([(float(row["loss"]), float(row["accuracy"])) for row in csv.DictReader(file)])
    assert len(logs[0]) == 2
    assert logs[1] == [pytest.approx(row, rel=1e-6) for row in logs[0]]


def test_one_process_needs_no_lightning() -> None:
    processes = Processes.start("cpu")
    assert processes.share == Share(0, 1)
    assert processes.first
    assert processes.execution("auto") == "auto"
    assert processes.sums(1.0, 2.0) == (1.0, 2.0)
