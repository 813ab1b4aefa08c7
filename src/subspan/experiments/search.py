"""Which option values a sweep tries: a whole grid, or random draws."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from subspan.experiments.config import Setting
from subspan.experiments.inputs import ProtocolError
from subspan.learners.registry import method_options


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


def trials_of(
    setting: Setting, values: Mapping[str, Values], draws: int | None = None, seed: int = 0
) -> list[dict[str, Any]]:
    """The options to try for one method: those of ``values`` that it has and that its setting does not fix.

    The whole grid, or with ``draws`` so many random combinations, none twice. A method without any such option is tried
    once as it is.
    """
    has = method_options(setting.method)
    open_values = {name: wanted for name, wanted in values.items() if name in has and name not in setting.given}
    if draws is None:
        ranges = [name for name, wanted in open_values.items() if isinstance(wanted, Range)]
        if ranges:
            raise ProtocolError(f"a grid needs single values; {ranges[0]} has a range: add --random N to draw from it")
        lists = [wanted for wanted in open_values.values() if not isinstance(wanted, Range)]
        return [dict(zip(open_values, chosen, strict=True)) for chosen in itertools.product(*lists)]
    rng = np.random.default_rng([seed, *setting.name.encode(), setting.shots or 0])
    found: dict[tuple, dict[str, Any]] = {}
    for _ in range(20 * draws):  # lists may have fewer combinations than draws
        if len(found) == draws:
            break
        drawn = {name: _draw(wanted, rng) for name, wanted in open_values.items()}
        found.setdefault(tuple(drawn.items()), drawn)
    return list(found.values())


def check_names(settings: Sequence[Setting], values: Mapping[str, Values]) -> None:
    """Raise where an option is tried that none of the methods has open."""
    for name in values:
        has = [setting for setting in settings if name in method_options(setting.method)]
        if not has:
            methods = ", ".join(dict.fromkeys(s.method for s in settings))
            raise ProtocolError(f"none of the methods {methods} has an option '{name}'; see `subspan methods NAME`")
        if all(name in setting.given for setting in has):
            raise ProtocolError(f"option '{name}' is fixed in all settings; there is nothing to try")


def _draw(values: Values, rng: np.random.Generator) -> Any:
    if not isinstance(values, Range):
        return values[rng.integers(len(values))]
    value = math.exp(rng.uniform(math.log(values.low), math.log(values.high)))
    return float(f"{value:.3g}")  # as it can be typed again
