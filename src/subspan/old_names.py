"""Names of version 0.1 that have moved: they lead to the new ones, with a warning, until version 0.4."""

import sys
import warnings
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_TOP = {  # names of the package itself
    "FeatureSet": "features.feature_set",
    "SessionRecord": "state",
    "create_method": "learners.registry",
    "list_systems": "learners.registry",
}
_HOMES = {  # an old module, and the modules in which its names are found
    "subspan.backbones": ("backbones.registry", "backbones.network", "backbones.heads"),
    "subspan.catalogue": (
        *("catalogue.catalogue", "catalogue.errors", "catalogue.options", "catalogue.records"),
        *("catalogue.export", "catalogue.photographs"),
    ),
    "subspan.data": ("images.read", "images.imageset", "images.splits.parse", "images.splits.split"),
    "subspan.language": (
        *("language.descriptions", "language.embeddings", "language.errors", "language.packaged", "language.words"),
    ),
    "subspan.data.splits": ("images.splits.parse", "images.splits.split"),
    "subspan.methods": ("learners.registry", "learners.automatic", "learners.subspace", "engine.contract"),
    "subspan.metrics": ("experiments.metrics",),
    "subspan.pretrained": ("pretrained.registry", "pretrained.backbone"),
    "subspan.protocols.multi_session": ("experiments.multi_session",),
    "subspan.protocols.single_session": ("experiments.single_session",),
    "subspan.serve": ("serve.settings",),
    "subspan.solve": ("engine.objective", "engine.optimum", "engine.sgd"),
    "subspan.systems": ("learners.registry", "learners.parts.system", "learners.training.trained_system"),
}
_GONE = {*_HOMES, "subspan.protocols"} - {
    f"subspan.{name}" for name in ("backbones", "catalogue", "language", "pretrained", "serve")
}


def find(module: str, name: str) -> Any:
    """What ``module.name`` was in version 0.1."""
    homes = (_TOP[name],) if module == "subspan" and name in _TOP else _HOMES.get(module, ())
    for home in homes if not name.startswith("__") else ():
        found = getattr(import_module(f"subspan.{home}"), name, None)
        if found is not None:
            now = getattr(found, "__name__", name)  # some have another name in their new home
            text = f"{module}.{name} is subspan.{home}.{now} now; the old name goes in version 0.4"
            warnings.warn(text, DeprecationWarning, stacklevel=3 if module == "subspan" else 2)
            return found
    raise AttributeError(f"module '{module}' has no attribute '{name}'")


class _OldModules(MetaPathFinder, Loader):
    """Modules of version 0.1 under their old names."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname in _GONE else None

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, "__getattr__", partial(find, module.__name__))  # noqa: B010 (a module declares no such name)


sys.meta_path.append(_OldModules())
