"""A search for the best options of methods on development data: each finished trial is kept, so a kill costs little.

A trial is a setting with one choice of options, from a grid or drawn at random.
"""

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.experiments.config import Setting
from subspan.experiments.episodes import digest_of_items
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.kept import kept_or_run, key_of
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.records import Result
from subspan.experiments.runs import Cell, run_settings
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureSet
from subspan.files.arrays import arrays_digest
from subspan.images.splits.drawing import generator
from subspan.learners.registry import method_options, spec_of

Protocol = SingleSession | MultiSession
DEVELOPMENT_SPLIT = "random:0"  # of the random splits: it enters no table
DEVELOPMENT_CLASSES = {"ravi": "489f8af43b25", "tiered": "4ee5b13fa317"}  # hashes of the 16 and 97 of their "val"


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


def check_development(features: FeatureSet, protocol: Protocol) -> None:
    """Raise unless the features are of data on which settings may be chosen, as no table reports it.

    What the file says of itself is not enough: its classes must be those of the development data.
    """
    told, contents = features.meta.get("split"), features.meta.get("contents")
    if isinstance(protocol, SingleSession):
        wanted = "over episodes needs the development classes: `subspan pack --novel development` of ravi or tiered"
        said = isinstance(contents, Mapping) and contents.get("novel") == "development"
        holds = classes_digest(features.novel_wnids or ()) == DEVELOPMENT_CLASSES.get(str(told))
    else:
        wanted = f"over sessions needs the development split {DEVELOPMENT_SPLIT}"
        said = told == DEVELOPMENT_SPLIT
        known = sorted((features.base_wnids or ()) + (features.novel_wnids or ()))
        drawn = [known[i] for i in generator(0, "classes").permutation(len(known))][features.base_count :]
        holds = drawn == list(features.novel_wnids or ())
    if said and holds:
        return
    is_of = f"is of {told or 'unknown data'}" + " by what it says, but holds other classes" * bool(said)
    raise ProtocolError(
        f"a sweep {wanted}, which no table reports; this file {is_of}. On any file --hold-out-classes N makes base "
        "classes play the novel ones"
    )


def classes_digest(wnids: Sequence[str]) -> str:
    """A short hash of which classes there are."""
    return hashlib.sha256("\n".join(sorted(wnids)).encode()).hexdigest()[:12]


def edges_of(group: Sequence[Setting], best: Setting) -> list[str]:
    """A sentence for each number whose best value is the least or the greatest of those tried."""
    sentences = []
    for name, value in best.chosen.items():
        tried = sorted({one.chosen[name] for one in group if isinstance(one.chosen.get(name), int | float)})
        if len(tried) > 1 and value in (tried[0], tried[-1]):
            end, further = ("least", "smaller") if value == tried[0] else ("greatest", "larger")
            sentences.append(f"{best.name}: {name}={value} is the {end} tried; {further} ones may be better.")
    return sentences


def run_sweep(
    folder: Path,
    protocol: Protocol,
    features: FeatureSet,
    trials: Sequence[Setting],
    placement: Placement,
    *,
    embeddings: Mapping[str, NDArray],
    memory: bool = False,
) -> list[Result]:
    """The result of every trial, in their order; those that the folder has are not run again."""
    made = [Cell(one.create(), one.shots, one.embeddings, memory) for one in trials]
    network = arrays_digest({"base_weight": features.base_weight})
    about = (protocol.digest, digest_of_items(features), network)
    keys = [key_of(*about, spec_of(one.method), one.shots, one.embeddings, memory) for one in made]

    def run(waiting: list[int], on_result: Callable[[int, Result], object]) -> None:
        wanted = [made[i] for i in waiting]
        run_settings(protocol, [features], wanted, placement, embeddings=[embeddings], on_result=on_result)

    return kept_or_run(folder / "trials", keys, run, without=("confusion", "weight_space"))


def _draw(values: Values, rng: np.random.Generator) -> str | float:
    if not isinstance(values, Range):
        return values[rng.integers(len(values))]
    value = math.exp(rng.uniform(math.log(values.low), math.log(values.high)))
    return float(f"{value:.3g}")  # as it can be typed again
