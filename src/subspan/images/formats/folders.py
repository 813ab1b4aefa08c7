"""Any folder of class folders, also with train, val and test folders above them, or one zip or several of such."""

from pathlib import Path

from subspan.images.classfiles import by_folder, find_zips, has_images, image_set_of, open_images
from subspan.images.decode import ReadOptions
from subspan.images.imageset import ImageSet
from subspan.images.read import register_format

ANY_CLASSES = True
TAKES = (
    "a folder of class folders (<class>/<file>.jpg, or <train|val|test>/<class>/<file>.jpg), or zips of class folders"
)


@register_format("folders")
def recognise(path: Path) -> bool:
    """Whether any image lies below the folder, or the path is a zip or a folder with zips."""
    return has_images(path) or bool(find_zips(path))


def read(path: Path, options: ReadOptions) -> ImageSet:
    """All images below ``path``, or in its zips; the folder an image lies in is its class."""
    with open_images(path) as found:
        return image_set_of(by_folder(found, path), path, options)
