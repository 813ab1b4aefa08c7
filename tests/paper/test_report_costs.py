"""What runs cost: as trained parts and stored results say it, and one line for each place of training."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from subspan.experiments.report.render import MISSING, to_markdown
from subspan.experiments.results import EpisodeResult
from subspan.learners.training.trained_part import TrainedPart
from subspan.paper.published import STORED
from subspan.paper.stored_results import StoredResult
from subspan.paper.tables.runs import Run, cost_of
from subspan.paper.tables.single_session import costs_table


def part(**about) -> TrainedPart:
    return TrainedPart("lwof", {}, {"scale": torch.ones(1)}, 1, (1.0,), "real", about, path="a.npz")


def episodes(shots: int, seconds: float) -> EpisodeResult:
    accuracies = np.array([50.0, 60.0])
    of = dict.fromkeys(("base", "novel", "base_alone", "novel_alone"), accuracies)
    return EpisodeResult(method="lwof", shots=shots, **of, steps=np.zeros(2), seconds=seconds, protocol="0123abcd")


def stored(**about) -> StoredResult:
    return StoredResult("xtarnet", episodes(5, 3.0), "ravi", "digest", "items", about, "b.json")


def lines(runs) -> list[list[str]]:
    """The lines of the table in markdown, below its head."""
    text = to_markdown(costs_table("mini", runs))
    table = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_training_is_the_mean_over_splits_and_names_every_device():
    told = cost_of([part(seconds=60.0, device="a GPU"), part(seconds=120.0, device="cpu")])
    files = (Path("a.npz"),)
    assert told == {"minutes": 1.5, "place": "real features on a GPU and real features on cpu", "files": files}
    assert cost_of([part()]) == {"minutes": 0.0, "place": "real features on an unknown device", "files": files}
    assert cost_of([]) == {"minutes": 0.0, "place": "", "files": ()}


def test_stored_results_say_the_same_of_themselves():
    told = cost_of([stored(seconds=60.0, device="a GPU"), stored(seconds=120.0, device="a GPU")])
    assert told == {"minutes": 1.5, "place": "real images on a GPU", "files": (Path("b.json"),)}


def test_every_number_of_shots_has_its_minutes_and_seconds():
    runs = [
        Run("Imprinting", episodes(5, 0.25)),
        Run("LwoF", episodes(1, 4.0), minutes=0.5, place="real features on a GPU"),
        Run("LwoF", episodes(5, 8.0), minutes=0.75, place="real features on a GPU"),
        Run("XtarNet", episodes(1, 3.0), minutes=2.0, place="real images", row=STORED),
    ]
    assert lines(runs) == [
        ["Imprinting", "ours", "", MISSING, MISSING, "0.0", "0.25"],
        ["LwoF", "ours", "real features on a GPU", "0.5", "4.00", "0.8", "8.00"],
        ["XtarNet", "ours, stored", "real images", "2.0", "3.00", MISSING, MISSING],
    ]
    elsewhere = replace(runs[2], minutes=9.0, place="real features on cpu")
    assert lines([*runs[:2], elsewhere])[1:] == [
        ["LwoF", "ours", "real features on a GPU", "0.5", "4.00", MISSING, MISSING],
        ["LwoF", "ours", "real features on cpu", MISSING, MISSING, "9.0", "8.00"],
    ]
