"""Backbones by name: ``efficientnet-lite0``, or a source and what it is asked for, as in ``timm:resnet50``.

A new source is one decorated function in a file of its own, and no edit elsewhere. Views of a photograph stand behind
a network's name, other networks behind a plus: ``timm:resnet50,crop,squash-mirrored+efficientnet-lite0,crop``.
"""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError

from subspan.pretrained.backbone import Backbone, BackboneError
from subspan.pretrained.eye import VIEWS, Eye
from subspan.registry import Entry, Registry

EYES = {
    "fast": "efficientnet-lite0,crop,squash-mirrored,tight",
    "good": "efficientnet-lite0,crop,squash-mirrored,tight+efficientnet-lite2,squash-mirrored,tight",
    "best": "efficientnet-lite0,crop,squash-mirrored,tight+efficientnet-lite2,crop,squash-mirrored,tight",
}  # the packaged networks, by what they are good for
DEFAULT_BACKBONE = "good"
WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # the variable by which torch.load refuses to run what a pickle holds
LONGEST = 400  # characters that are passed on of another package's message; some list all they know

SOURCES = Registry("source of backbones", "register_source", ("subspan.pretrained",), "subspan.pretrained")
# Decorates the function that loads backbones of a form, ``PREFIX:WHAT`` or a name alone, from what stands behind the
# colon and the digest that is wanted. Whatever it raises becomes one sentence, which says how to ``install`` the module
# it ``needs`` where that could not be imported. ``packaged=True`` is said of a network that an installed package
# brings, so that it may be loaded whoever names it, ``hub=True`` of a package that loads whatever it is asked for.
register_source = SOURCES.named


def list_sources() -> list[str]:
    """The forms that names of backbones take.

    >>> list_sources()[:4]
    ['fast', 'good', 'best', 'efficientnet-lite0']
    """
    return [*EYES, *(entry.name for entry in SOURCES.entries())]


def load_backbone(name: str, digest: str | None = None) -> Backbone:
    """The backbone of this name, with its weights and its preprocessing.

    With a ``digest``, other weights are refused before the network computes anything.
    """
    networks = _networks(name)
    if len(networks) == 1 and not networks[0][1]:
        return _load(networks[0][0], digest)
    digests = digest.split("+")[:-1] if digest else [None] * len(networks)
    if len(digests) != len(networks):
        raise BackboneError(f"backbone '{name}' is of {len(networks)} networks, and this model of {len(digests)}")
    parts = [(_load(one, wanted), views) for (one, views), wanted in zip(networks, digests, strict=True)]
    return Eye(parts, digest)


def _load(name: str, digest: str | None) -> Backbone:
    """One network."""
    source, what = _find(name)
    try:
        with _tensors_only() if source.facts.get("hub") else contextlib.nullcontext():
            return source.load()(what, digest)
    except BackboneError:
        raise
    except Exception as error:  # packages, the hub, file formats and torch raise kinds of their own
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, UnpicklingError):  # torch's own words advise to run what the file holds
            reason = "it holds more than tensors and plain values, and was not read"
        reason = reason if len(reason) <= LONGEST else f"{reason[:LONGEST]} ..."
        needs = source.facts.get("needs")
        lacking = needs and (isinstance(error, ModuleNotFoundError) or sys.modules.get(needs) is None)
        cure = f"; install what it needs with: {source.facts['install']}" if lacking else ""
        raise BackboneError(f"backbone '{name}' cannot be loaded: {reason}{cure}") from error


def is_packaged(name: str) -> bool:
    """Whether installed packages bring its networks: loading them fetches nothing and reads nobody's files."""
    return all(_find(network)[0].facts.get("packaged") for network, _ in _networks(name))


def _networks(name: str) -> list[tuple[str, list[str]]]:
    """The networks of a backbone, each with its views."""
    starts, found = "|".join(re.escape(entry.name.partition(":")[0]) for entry in SOURCES.entries()), []
    name = "+".join(EYES.get(part, part) for part in name.split("+"))
    for part in re.split(rf"\+(?=(?:{starts})(?:[:,+]|$))", name):  # a file's name may hold a plus, too
        network, *views = part.split(",")
        while views and views[0] not in VIEWS:  # or a comma
            network = f"{network},{views.pop(0)}"
        found.append((network, views))
    return found


def _find(name: str) -> tuple[Entry, str]:
    """The source of a network, and what it is asked for."""
    prefix, colon, what = name.partition(":")
    source = next((entry for entry in SOURCES.entries() if entry.name.partition(":")[0] == prefix), None)
    if source is None:
        raise BackboneError(f"there is no backbone '{name}'; names are {', '.join(list_sources())}")
    if bool(colon) != (":" in source.name) or (colon and not what):
        raise BackboneError(f"a backbone of this kind is named {source.name}; got '{name}'")
    return source, what


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """While another package loads a model, it logs nothing, and torch reads tensors and plain values out of pickles.

    Whatever the package asks of torch, which else would run what a pickle holds.
    """
    before, forced = logging.root.manager.disable, os.environ.get(WEIGHTS_ONLY)
    logging.disable(logging.ERROR)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        logging.disable(before)
        if forced is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = forced


def split_file(name: str) -> tuple[str, Path | None]:
    """Model and weights file of ``MODEL@FILE``; no file where there is only a model."""
    model, at, place = name.partition("@")
    if not at:
        return name, None
    if not model:
        raise BackboneError(f"weights from a file are named MODEL@FILE; got '{name}'")
    if not Path(place).is_file():
        raise BackboneError(f"there is no file '{place}' of weights")
    return model, Path(place).resolve()
