"""What runs cost: as trained parts and stored results say it, and one line for each place of training."""

from dataclasses import replace

import numpy as np
import torch

from subspan.experiments.config import Setting
from subspan.experiments.report.render import MISSING, to_markdown
from subspan.experiments.results import EpisodeResult
from subspan.learners.parts.trained_part import TrainedPart
from subspan.paper.costs import TrainingCost
from subspan.paper.single_session_tables import EpisodeRun, costs_table
from subspan.paper.stored_results import StoredResult


def part(**about) -> TrainedPart:
    return TrainedPart("lwof", {}, {"scale": torch.ones(1)}, 1, (1.0,), "real", about)


def episodes(shots: int, seconds: float) -> EpisodeResult:
    accuracies = np.array([50.0, 60.0])
    return EpisodeResult("lwof", shots, *(accuracies,) * 4, np.zeros(2), seconds, "0123abcd")


def stored(**about) -> StoredResult:
    return StoredResult("xtarnet", "C", episodes(5, 3.0), "ravi", "digest", "items", about)


def lines(runs) -> list[list[str]]:
    """The lines of the table in markdown, below its head."""
    text = to_markdown(costs_table("mini", runs).table)
    table = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_training_is_the_mean_over_splits_and_names_every_device():
    told = TrainingCost.of_parts([part(seconds=60.0, device="a GPU"), part(seconds=120.0, device="cpu")])
    assert told == TrainingCost(1.5, "real features on a GPU and real features on cpu")
    assert TrainingCost.of_parts([part()]) == TrainingCost(0.0, "real features on an unknown device")
    assert TrainingCost.of_parts([None]) == TrainingCost()


def test_stored_results_say_the_same_of_themselves():
    told = TrainingCost.of_stored([stored(seconds=60.0, device="a GPU"), stored(seconds=120.0, device="a GPU")])
    assert told == TrainingCost(1.5, "real images on a GPU")


def test_every_number_of_shots_has_its_minutes_and_seconds():
    one, five = Setting("lwof", "LwoF", 1), Setting("lwof", "LwoF", 5)
    early, late = TrainingCost(0.5, "real features on a GPU"), TrainingCost(0.75, "real features on a GPU")
    plain = EpisodeRun(Setting("imprint", "Imprinting", 5), episodes(5, 0.25))
    kept = EpisodeRun(Setting("xtarnet", "XtarNet", 1), episodes(1, 3.0), TrainingCost(2.0, "real images"), stored=True)
    runs = [plain, EpisodeRun(one, episodes(1, 4.0), early), EpisodeRun(five, episodes(5, 8.0), late), kept]
    assert lines(runs) == [
        ["Imprinting", "ours", "", MISSING, MISSING, "0.0", "0.25"],
        ["LwoF", "ours", "real features on a GPU", "0.5", "4.00", "0.8", "8.00"],
        ["XtarNet", "ours, stored", "real images", "2.0", "3.00", MISSING, MISSING],
    ]
    elsewhere = replace(runs[2], training=TrainingCost(9.0, "real features on cpu"))
    assert lines([*runs[:2], elsewhere])[1:] == [
        ["LwoF", "ours", "real features on a GPU", "0.5", "4.00", MISSING, MISSING],
        ["LwoF", "ours", "real features on cpu", MISSING, MISSING, "9.0", "8.00"],
    ]
