"""Backbones by name: ``efficientnet-lite0``, or a source and what it is asked for, as in ``timm:resnet50``.

A new source is one decorated function in a file of its own, and no edit elsewhere.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError

from subspan.pretrained.backbone import Backbone, BackboneError
from subspan.registry import Entry, Registry

DEFAULT_BACKBONE = "efficientnet-lite0"
WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # the variable by which torch.load refuses to run what a pickle holds
LONGEST = 400  # characters that are passed on of another package's message; some list all they know

SOURCES = Registry("source of backbones", "register_source", ("subspan.pretrained",), "subspan.pretrained")
# Decorates the function that loads backbones of a form, ``PREFIX:WHAT`` or a name alone, from what stands behind the
# colon and the digest that is wanted. What of its work fails because a package is missing or does not fit belongs into
# `optional_import`. ``packaged=True`` is said of a network that an installed package brings, so that it may be loaded
# whoever names it.
register_source = SOURCES.named


def list_sources() -> list[str]:
    """The forms that names of backbones take.

    >>> list_sources()[0]
    'efficientnet-lite0'
    """
    return [entry.name for entry in SOURCES.entries()]


def load_backbone(name: str, digest: str | None = None) -> Backbone:
    """The backbone of this name, with its weights and its preprocessing.

    With a ``digest``, other weights are refused before the network computes anything.
    """
    source, what = _find(name)
    return source.load()(what, digest)


def is_packaged(name: str) -> bool:
    """Whether an installed package brings this network: loading it fetches nothing and reads nobody's files."""
    return bool(_find(name)[0].facts.get("packaged"))


def _find(name: str) -> tuple[Entry, str]:
    """The source of a backbone, and what it is asked for."""
    prefix, colon, what = name.partition(":")
    source = next((entry for entry in SOURCES.entries() if entry.name.partition(":")[0] == prefix), None)
    if source is None:
        raise BackboneError(f"there is no backbone '{name}'; names are {', '.join(list_sources())}")
    if bool(colon) != (":" in source.name) or (colon and not what):
        raise BackboneError(f"a backbone of this kind is named {source.name}; got '{name}'")
    return source, what


@contextlib.contextmanager
def optional_import(backbone: str, install: str) -> Iterator[None]:
    """Turn what a missing or unfitting package raises while it is imported into one sentence."""
    try:
        yield
    except (ImportError, RuntimeError, AttributeError) as error:  # a torchvision that does not fit torch raises any
        raise BackboneError(
            f"backbone '{backbone}' cannot be loaded ({in_one_line(error)}); install it with: {install}"
        ) from error


@contextlib.contextmanager
def loading(package: str, name: str) -> Iterator[None]:
    """Turn whatever another package raises while it loads a model into one sentence, and keep it from logging more.

    Meanwhile torch reads nothing but tensors and plain values out of a pickle, whatever the package asks of it.
    """
    before, forced = logging.root.manager.disable, os.environ.get(WEIGHTS_ONLY)
    logging.disable(logging.ERROR)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    except UnpicklingError as error:  # torch's own words advise to run what the file holds
        raise BackboneError(
            f"{package} cannot load '{name}': it holds more than tensors and plain values, and was not read"
        ) from error
    except Exception as error:  # unknown names, the hub, the file formats and torch raise kinds of their own
        raise BackboneError(f"{package} cannot load '{name}': {in_one_line(error)}") from error
    finally:
        logging.disable(before)
        if forced is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = forced


def in_one_line(error: Exception) -> str:
    """What another package says of its failure, however long, as a part of a sentence.

    >>> in_one_line(ValueError("size mismatch:\\n    2 instead of 3"))
    'size mismatch: 2 instead of 3'
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def split_file(source: str, name: str) -> tuple[str, Path | None]:
    """Model and weights file of ``MODEL@FILE``; no file where there is only a model."""
    model, at, place = name.partition("@")
    if not at:
        return name, None
    if not model:
        raise BackboneError(f"weights from a file are named {source}:MODEL@FILE; got '{source}:{name}'")
    if not Path(place).is_file():
        raise BackboneError(f"backbone '{source}:{name}' cannot be loaded: there is no file '{place}'")
    return model, Path(place).resolve()
