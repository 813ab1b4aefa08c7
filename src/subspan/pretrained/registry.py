"""Backbones by name: ``efficientnet-lite0``, or a source and what it is asked for, as in ``timm:resnet50``.

A new source is one decorated function in a file of its own, and no edit elsewhere.
"""

import contextlib
import importlib
import logging
import os
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from subspan.pretrained.backbone import Backbone, BackboneError

DEFAULT_BACKBONE = "efficientnet-lite0"
WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # the variable by which torch.load refuses to run what a pickle holds
LONGEST = 400  # characters that are passed on of another package's message; some list all they know

Load = Callable[[str, str | None], Backbone]  # from what stands behind the colon, and the digest that is wanted
Registered = TypeVar("Registered", bound=Load)


class _Source(NamedTuple):
    form: str
    load: Load
    packaged: bool


_SOURCES: dict[str, _Source] = {}


def register_source(form: str, packaged: bool = False) -> Callable[[Registered], Registered]:
    """Decorate the function that loads backbones of this form, ``PREFIX:WHAT`` or a name alone.

    What of its work fails because a package is missing or does not fit belongs into `optional_import`. A ``packaged``
    network is one that an installed package brings, so that it may be loaded whoever names it.
    """

    def keep(source: Registered) -> Registered:
        _SOURCES[form.partition(":")[0]] = _Source(form, source, packaged)
        return source

    return keep


def list_sources() -> list[str]:
    """The forms that names of backbones take.

    >>> list_sources()[0]
    'efficientnet-lite0'
    """
    _import_all()
    return sorted(source.form for source in _SOURCES.values())


def load_backbone(name: str, digest: str | None = None) -> Backbone:
    """The backbone of this name, with its weights and its preprocessing.

    With a ``digest``, other weights are refused before the network computes anything.
    """
    source, what = _find(name)
    return source.load(what, digest)


def is_packaged(name: str) -> bool:
    """Whether an installed package brings this network: loading it fetches nothing and reads nobody's files."""
    return _find(name)[0].packaged


def _find(name: str) -> tuple[_Source, str]:
    """The source of a backbone, and what it is asked for."""
    _import_all()
    prefix, colon, what = name.partition(":")
    if prefix not in _SOURCES:
        raise BackboneError(f"there is no backbone '{name}'; names are {', '.join(list_sources())}")
    source = _SOURCES[prefix]
    if bool(colon) != (":" in source.form) or (colon and not what):
        raise BackboneError(f"a backbone of this kind is named {source.form}; got '{name}'")
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


def _import_all() -> None:
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
