"""A search for the best options of methods on development data, written down trial by trial: a kill costs little.

Every finished trial is one line of ``trials.jsonl``. A sweep that starts again reads them, leaves out what is done, and
drops a last line that a kill cut short.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.engine.contract import Learner
from subspan.experiments.config import Setting
from subspan.experiments.episodes import digest_of_items
from subspan.experiments.fan_out import Placement, nothing
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.metrics import interval_half_width
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.multi_session_runs import Job, run_jobs
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.experiments.single_session import SingleSession
from subspan.experiments.single_session_runs import Cell, run_cells
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import spec_of

Protocol = SingleSession | MultiSession
DEVELOPMENT_SPLIT = "random:0"  # of the random splits: it enters no table
LOG = "trials.jsonl"


@dataclass(frozen=True)
class Trial:
    """One method with one choice of options."""

    setting: int  # which of the settings
    options: Mapping[str, Any]
    method: Learner


@dataclass(frozen=True)
class Outcome:
    """What a trial reached, in percent."""

    score: float  # mean accuracy: joint over episodes, or weighted after the last session
    half_width: float  # of its 95 % interval; NaN where the samples have no spread


def check_development(features: FeatureSet, protocol: Protocol) -> None:
    """Raise unless the features are of data on which settings may be chosen: no table reports it."""
    told = features.meta.get("split")
    if isinstance(protocol, SingleSession):
        contents = features.meta.get("contents")
        if not isinstance(contents, Mapping) or contents.get("novel") != "development":
            raise ProtocolError(
                f"a sweep over episodes needs the development classes; this file is of {told or 'unknown data'} with "
                "its novel classes: make one with `subspan pack --novel development`"
            )
    elif told != DEVELOPMENT_SPLIT:
        raise ProtocolError(
            f"a sweep over sessions needs the development split {DEVELOPMENT_SPLIT}, which no table reports; this file "
            f"is of {told or 'unknown data'}"
        )


def run_sweep(
    folder: Path,
    protocol: Protocol,
    features: FeatureSet,
    settings: Sequence[Setting],
    trials: Sequence[Trial],
    placement: Placement,
    *,
    embeddings: Mapping[str, NDArray],
    memory: bool = False,
    on_part: Callable[[int], object] = nothing,
) -> list[Outcome]:
    """The outcome of every trial, in their order; those in the folder's log are not run again.

    ``on_part`` is called with how many episodes or sessions have been done since the last call.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = TrialLog(folder / LOG)
    of_trial = [settings[trial.setting] for trial in trials]
    keys = [
        _key(protocol, features, setting, trial.method, memory) for setting, trial in zip(of_trial, trials, strict=True)
    ]
    waiting = [i for i, key in enumerate(keys) if key not in log.outcomes]

    def record(i: int, outcome: Outcome) -> None:
        setting = of_trial[i]
        log.add(keys[i], outcome, setting=setting.name, shots=setting.shots, method=spec_of(trials[i].method))

    if isinstance(protocol, SingleSession):
        run_cells(
            protocol,
            features,
            [Cell(trials[i].method, _shots(of_trial[i]), of_trial[i].embeddings) for i in waiting],
            placement,
            embeddings=embeddings,
            on_episodes=on_part,
            on_cell=lambda number, result: record(waiting[number], _of_episodes(result)),
        )
    else:
        for name in dict.fromkeys(of_trial[i].embeddings for i in waiting):
            chosen = [i for i in waiting if of_trial[i].embeddings == name]
            run_jobs(
                [(features, None if name is None else embeddings[name])],
                [Job(protocol, trials[i].method, memory) for i in chosen],
                placement,
                on_session=lambda: on_part(1),
                on_job=lambda number, result, chosen=chosen: record(chosen[number], _of_sessions(result)),
            )
    return [log.outcomes[key] for key in keys]


def best_settings(
    settings: Sequence[Setting], trials: Sequence[Trial], outcomes: Sequence[Outcome]
) -> list[tuple[Setting, Outcome]]:
    """Each setting with the options of its best trial, and what this reached; of equals the first."""
    found = []
    for number, setting in enumerate(settings):
        mine = [(trial, outcome) for trial, outcome in zip(trials, outcomes, strict=True) if trial.setting == number]
        trial, outcome = max(mine, key=lambda pair: pair[1].score)
        chosen = {**setting.chosen, **{name: getattr(trial.method, name) for name in trial.options}}
        found.append((replace(setting, chosen=chosen), outcome))
    return found


class TrialLog:
    """The finished trials of a folder: one JSON object a line, each on disk before the next is begun."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, Outcome] = {}
        if not path.exists():
            return
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                record = json.loads(line)
                half_width = record["half_width"]
                outcome = Outcome(float(record["score"]), np.nan if half_width is None else float(half_width))
                self.outcomes[str(record["key"])] = outcome
            except (ValueError, KeyError, TypeError) as error:
                if line.endswith(b"\n"):
                    raise ProtocolError(f"'{path}' is damaged in '{line[:60].decode(errors='replace')}'") from error
                os.truncate(path, whole)  # a kill cut the last line short: that trial is run again
                return
            whole += len(line)

    def add(self, key: str, outcome: Outcome, **about: Any) -> None:
        """Write one finished trial; returns when it is on disk."""
        self.outcomes[key] = outcome
        half_width = outcome.half_width if np.isfinite(outcome.half_width) else None
        record = {"key": key, **about, "score": outcome.score, "half_width": half_width}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _shots(setting: Setting) -> int:
    if setting.shots is None:
        raise ProtocolError(f"the setting '{setting.name}' does not say how many shots it is for")
    return setting.shots


def _of_episodes(result: EpisodeResult) -> Outcome:
    return Outcome(float(result.joint.mean()), float(interval_half_width(result.joint, distribution="normal")))


def _of_sessions(result: MethodResult) -> Outcome:
    last = result.weighted[:, -1]
    return Outcome(float(last.mean()), float(interval_half_width(last)))


def _key(protocol: Protocol, features: FeatureSet, setting: Setting, method: Learner, memory: bool) -> str:
    """A hash of all that the outcome depends on."""
    of_network = hashlib.sha256(np.ascontiguousarray(features.base_weight).tobytes()).hexdigest()
    parts = [protocol.digest, digest_of_items(features), of_network, spec_of(method), setting.shots]
    text = json.dumps([*parts, setting.embeddings if method.needs & {"embeddings"} else None, memory])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
