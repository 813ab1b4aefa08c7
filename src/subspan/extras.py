"""What a plain install does without: the packages that come with extras, and the sentence that names the extra.

A plain install is for photographs. Whatever imports one of these packages does so where it is used, and whoever lacks
it reads one sentence, wherever that was.
"""

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
