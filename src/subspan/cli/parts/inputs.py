"""What commands for photographs read: images, class folders, heads, names, descriptions."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from subspan.catalogue.errors import CatalogueError
from subspan.images.classfiles import ImageFile, check_found, is_image, stream_images
from subspan.images.imageset import DataError
from subspan.pretrained.backbone import Image


def photographs_by_class(
    path: Path | None, by_path: bool = False
) -> contextlib.AbstractContextManager[dict[str, list[ImageFile]]]:
    """The photographs of a folder of class folders, or of a zip of them; none without a path."""
    from subspan.catalogue.photographs import open_class_photographs  # here: one photograph's answer needs no formats

    return contextlib.nullcontext({}) if path is None else open_class_photographs(path, by_path)


def image_files(paths: Sequence[Path]) -> Iterator[Path]:
    """The images named, and all images below the folders named, folder by folder; what is not read is warned of."""
    for path in paths:
        if not (path.exists() or is_image(path.name)):
            raise DataError(f"there is nothing at {path}")
    return _images(paths)


def _images(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        check_found((yield from stream_images(path)), path)


def sample_photographs() -> list[Image]:
    """The two photographs that come with scikit-learn, whole and in halves."""
    from sklearn.datasets import load_sample_images

    whole = [np.asarray(image, np.uint8) for image in load_sample_images().images]
    return [np.ascontiguousarray(part) for image in whole for part in (image, *np.array_split(image, 2, axis=1))]


def read_head(path: Path) -> dict[str, Any]:
    """``weight`` (C, d) and perhaps ``bias`` (C,) and ``means`` (C, d) of a file."""
    from subspan.files.arrays import read_arrays  # for this alone

    arrays, _ = read_arrays(path, "", CatalogueError)
    plain = {name.rpartition(".")[2].replace("weights", "weight"): array for name, array in arrays.items()}
    if "weight" not in plain:
        raise CatalogueError(f"'{path}' must hold 'weight' (classes, d); it holds {', '.join(arrays) or 'nothing'}")
    return plain


def read_names(path: Path) -> list[str]:
    try:
        return [name for line in path.read_text("utf-8").splitlines() if (name := line.strip())]
    except UnicodeDecodeError as error:
        raise CatalogueError(f"'{path}' must be text with one class name a line: {error}") from error


def read_descriptions(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CatalogueError(f"'{path}' is not JSON: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(text, str) for text in content.values()):
        raise CatalogueError(f"'{path}' must be a JSON object from class names to descriptions")
    return content
