"""A search for the best options of methods on development data, written down trial by trial: a kill costs little.

A trial is a setting with one choice of options, from a grid or drawn at random. Every finished one is a line of
``trials.jsonl``. A sweep that starts again reads them, leaves out what is done, and drops a last line that a kill cut
short.
"""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.engine.contract import Learner
from subspan.experiments.config import Setting
from subspan.experiments.episodes import digest_of_items
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.metrics import interval_half_width
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.experiments.runs import Cell, Job, run_cells, run_jobs
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import method_options, spec_of

Protocol = SingleSession | MultiSession
DEVELOPMENT_SPLIT = "random:0"  # of the random splits: it enters no table
LOG = "trials.jsonl"


@dataclass(frozen=True)
class Range:
    """All numbers between two positive ones, drawn evenly by their logarithm."""

    low: float
    high: float


Values = tuple[str, ...] | Range


def parse_values(text: str) -> tuple[str, Values]:
    """An option and what to try for it, from the command line.

    >>> parse_values("gamma=0.1,1")
    ('gamma', ('0.1', '1'))
    >>> parse_values("gamma=0.001..1")
    ('gamma', Range(low=0.001, high=1.0))
    """
    name, equals, values = text.partition("=")
    name = name.strip()
    if not equals or not name or not values.strip():
        raise ProtocolError(f"what to try reads option=value,value,... or option=low..high; got '{text}'")
    if ".." not in values:
        return name, tuple(value.strip() for value in values.split(","))
    low, _, high = values.partition("..")
    try:
        made = Range(float(low), float(high))
    except ValueError:
        raise ProtocolError(f"a range reads low..high with two numbers; got '{values}' for {name}") from None
    if not 0 < made.low < made.high < math.inf:
        raise ProtocolError(f"a range runs from a positive number to a larger one; got '{values}' for {name}")
    return name, made


def check_names(settings: Sequence[Setting], values: Mapping[str, Values]) -> None:
    """Raise where an option is tried that none of the methods has open."""
    for name in values:
        has = [setting for setting in settings if name in method_options(setting.method)]
        if not has:
            methods = ", ".join(dict.fromkeys(s.method for s in settings))
            raise ProtocolError(f"none of the methods {methods} has an option '{name}'; see `subspan methods NAME`")
        if all(name in setting.given for setting in has):
            raise ProtocolError(f"option '{name}' is fixed in all settings; there is nothing to try")


def trials_of(setting: Setting, values: Mapping[str, Values], draws: int | None = None, seed: int = 0) -> list[Setting]:
    """The setting with each choice to try: options of ``values`` that its method has and that it does not fix.

    The whole grid, or with ``draws`` so many random combinations, none twice. A method without any such option is tried
    once as it is.
    """
    has = method_options(setting.method)
    tried = {name: wanted for name, wanted in values.items() if name in has and name not in setting.given}
    ranges = [name for name, wanted in tried.items() if isinstance(wanted, Range)]
    if draws is None and ranges:
        raise ProtocolError(f"a grid needs single values; {ranges[0]} has a range: add --random N to draw from it")
    if draws is None:
        lists = [wanted for wanted in tried.values() if not isinstance(wanted, Range)]
        found = dict.fromkeys(itertools.product(*lists))
    else:
        rng = np.random.default_rng([seed, *setting.name.encode(), setting.shots or 0])
        found: dict[tuple[str | float, ...], None] = {}
        for _ in range(20 * draws):  # lists may have fewer combinations than draws
            if len(found) < draws:
                found[tuple(_draw(wanted, rng) for wanted in tried.values())] = None
    trials = []
    for choice in found:
        made = setting.create(**dict(zip(tried, choice, strict=True)))
        trials.append(replace(setting, chosen={**setting.chosen, **{name: getattr(made, name) for name in tried}}))
    return trials


@dataclass(frozen=True)
class Outcome:
    """What a trial reached, in percent."""

    score: float  # mean accuracy: joint over episodes, or weighted after the last session
    half_width: float  # of its 95 % interval; NaN where the samples have no spread

    @classmethod
    def of(cls, result: EpisodeResult | MethodResult) -> "Outcome":
        if isinstance(result, EpisodeResult):
            return cls(float(result.joint.mean()), float(interval_half_width(result.joint, distribution="normal")))
        last = result.weighted[:, -1]
        return cls(float(last.mean()), float(interval_half_width(last)))


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
    trials: Sequence[Setting],
    placement: Placement,
    *,
    embeddings: Mapping[str, NDArray],
    memory: bool = False,
) -> list[Outcome]:
    """The outcome of every trial, in their order; those in the folder's log are not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = read_log(folder / LOG)
    methods = [trial.create() for trial in trials]
    keys = [_key(protocol, features, *pair, memory) for pair in zip(trials, methods, strict=True)]
    waiting = [i for i, key in enumerate(keys) if key not in outcomes]

    def record(number: int, result: EpisodeResult | MethodResult) -> None:
        i = waiting[number]
        outcomes[keys[i]] = outcome = Outcome.of(result)
        half_width = outcome.half_width if np.isfinite(outcome.half_width) else None
        about = {"key": keys[i], "setting": trials[i].name, "shots": trials[i].shots, "method": spec_of(methods[i])}
        with (folder / LOG).open("a", encoding="utf-8") as file:
            line = {**about, "score": outcome.score, "half_width": half_width}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())  # on disk before the next is begun

    if isinstance(protocol, SingleSession):
        cells = [Cell(methods[i], _shots(trials[i]), trials[i].embeddings) for i in waiting]
        run_cells(protocol, features, cells, placement, embeddings=embeddings, bar="episodes", on_cell=record)
    else:
        kinds = list(dict.fromkeys(trials[i].embeddings for i in waiting))
        splits = [(features, None if kind is None else embeddings[kind]) for kind in kinds]
        jobs = [Job(protocol, methods[i], memory, (kinds.index(trials[i].embeddings),)) for i in waiting]
        run_jobs(splits, jobs, placement, bar="sessions", on_job=record)
    return [outcomes[key] for key in keys]


def read_log(path: Path) -> dict[str, Outcome]:
    """The finished trials of a folder: one JSON object a line."""
    outcomes: dict[str, Outcome] = {}
    whole = 0
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        try:
            record = json.loads(line)
            half_width = np.nan if record["half_width"] is None else float(record["half_width"])
            outcomes[str(record["key"])] = Outcome(float(record["score"]), half_width)
        except (ValueError, KeyError, TypeError) as error:
            if line.endswith(b"\n"):
                raise ProtocolError(f"'{path}' is damaged in '{line[:60].decode(errors='replace')}'") from error
            os.truncate(path, whole)  # a kill cut the last line short: that trial is run again
        whole += len(line)
    return outcomes


def best_of(groups: Sequence[Sequence[Setting]], outcomes: Sequence[Outcome]) -> list[tuple[Setting, Outcome]]:
    """The best trial of each group, and what it reached; of equals the first. ``outcomes`` are those of all groups."""
    left = iter(outcomes)
    return [max(zip(group, left, strict=False), key=lambda pair: pair[1].score) for group in groups]


def _draw(values: Values, rng: np.random.Generator) -> str | float:
    if not isinstance(values, Range):
        return values[rng.integers(len(values))]
    value = math.exp(rng.uniform(math.log(values.low), math.log(values.high)))
    return float(f"{value:.3g}")  # as it can be typed again


def _shots(setting: Setting) -> int:
    if setting.shots is None:
        raise ProtocolError(f"the setting '{setting.name}' does not say how many shots it is for")
    return setting.shots


def _key(protocol: Protocol, features: FeatureSet, trial: Setting, method: Learner, memory: bool) -> str:
    """A hash of all that the outcome depends on."""
    of_network = hashlib.sha256(np.ascontiguousarray(features.base_weight).tobytes()).hexdigest()
    parts = [protocol.digest, digest_of_items(features), of_network, spec_of(method), trial.shots]
    text = json.dumps([*parts, trial.embeddings if method.needs & {"embeddings"} else None, memory])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
