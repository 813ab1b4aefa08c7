"""What a plain install does without: the packages that come with extras, and the sentence that names the extra.

A plain install is for photographs. Whatever imports one of these packages does so where it is used, and whoever lacks
it reads one sentence, wherever that was.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

MODULES = {  # of each extra, by the names they are imported under
    "research": ("torch", "sklearn", "pandas", "matplotlib", "jinja2"),
    "language": ("sentence_transformers",),
    "serve": ("fastapi", "multipart", "prometheus_client", "uvicorn"),
    "ray": ("ray",),
    "onnx": ("onnx", "onnxscript"),
}


def sentence(error: ImportError) -> str | None:
    """What to install, where a module could not be found that an extra brings.

    >>> sentence(ModuleNotFoundError(name="sklearn.base"))
    "this needs the package sklearn; install it with: pip install 'subspan[research]'"
    """
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in MODULES.items() if package in modules), None)
    if extra is None or not isinstance(error, ModuleNotFoundError):
        return None
    return f"this needs the package {package}; install it with: pip install 'subspan[{extra}]'"


def imported(module: str) -> ModuleType:
    """A module of ours; where it needs an extra that is not there, the error is that sentence."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(sentence(error) or str(error), name=error.name, path=error.path) from error


@contextmanager
def ray_cluster() -> Iterator[ModuleType]:
    """Ray on the cluster that runs, or on one begun here meanwhile; the error of a task is raised as it was."""
    ray = imported("ray")
    began_here = not ray.is_initialized()
    if began_here:
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield ray
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    finally:
        if began_here:
            ray.shutdown()
