"""A network of your own: ``module:package.function``, called without arguments.

The function gives a torch module from normalised images (n, 3, size, size) to features (n, d), or that module and its
`Preprocessing`; without one, the usual one of ImageNet is taken.
"""

import importlib

from torch import nn

from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import register_source


@register_source("module:PACKAGE.FUNCTION")
def module_function(place: str, digest: str | None) -> TorchBackbone:
    """What the function gives. Its package must be importable: installed, or on PYTHONPATH."""
    package, _, function = place.rpartition(".")
    try:
        made = getattr(importlib.import_module(package), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise BackboneError(
            f"backbone 'module:{place}' cannot be loaded ({error}); it must name a function without arguments of a "
            "package that is installed or on PYTHONPATH"
        ) from error
    module, preprocessing = made if isinstance(made, tuple) and len(made) == 2 else (made, Preprocessing())
    if not isinstance(module, nn.Module) or not isinstance(preprocessing, Preprocessing):
        raise BackboneError(f"'{place}' must give a torch module, or a module and a Preprocessing; got {made!r}")
    return TorchBackbone(f"module:{place}", module, preprocessing, digest)
