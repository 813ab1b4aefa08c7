"""What one more JPEG pass at 84 pixels does to features and to nearest-mean accuracy: a candidate cause of session 0.

The miniImageNet files here are JPEG of quality 75 at 84 x 84, made from ImageNet's own JPEG; the paper's authors had
arrays. A pass cannot be taken back, so one more is made, on the packaged EfficientNet-Lite0. Quality 75 on the same
grid of blocks finds most coefficients already rounded, so a second way compresses off the grid, by four pixels, as a
fresh image would be. Half of the images of a class make its mean, the other half ask; `moved` is the distance between
the features of an image before and after, as a share of the mean distance between two images of one class.

    nice python benchmarks/jpeg_passes.py MINI_IMAGENET --each 50      # the zips of miniImageNet: all 100 classes
    nice python benchmarks/jpeg_passes.py birds.zip --each 20          # larger photographs, scaled down to 84 first
"""

import argparse
import io
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from subspan.pretrained.registry import load_backbone

SIDE, QUALITY, OFF_GRID = 84, 75, 4
Pixels = NDArray[np.uint8]


def one_pass(image: Pixels) -> Pixels:
    """The image (84, 84, 3) as JPEG and back."""
    file = io.BytesIO()
    PIL.Image.fromarray(image).save(file, "JPEG", quality=QUALITY)
    return np.asarray(PIL.Image.open(file).convert("RGB"))


def pass_off_the_grid(image: Pixels) -> Pixels:
    """The same with blocks that start four pixels earlier; the border is repeated."""
    around = ((OFF_GRID, OFF_GRID), (OFF_GRID, OFF_GRID), (0, 0))
    return one_pass(np.pad(image, around, "edge"))[OFF_GRID:-OFF_GRID, OFF_GRID:-OFF_GRID]


WAYS: dict[str, Callable[[Pixels], Pixels]] = {
    "as they are": lambda image: image,
    "one more pass": one_pass,
    "one more, off the grid": pass_off_the_grid,
}


def read(path: Path, each: int) -> list[list[Pixels]]:
    """The first images of every class, classes by the last folder's name; larger ones are scaled and cut to 84."""
    found: dict[str, list[Pixels]] = defaultdict(list)
    for file in sorted(path.glob("images-*.zip")) if path.is_dir() else [path]:
        with zipfile.ZipFile(file) as packed:
            for name in packed.namelist():
                images = found[Path(name).parent.name]
                if Path(name).suffix and len(images) < each:
                    images.append(scaled(PIL.Image.open(packed.open(name)).convert("RGB")))
    return [images for images in found.values() if len(images) == each]


def scaled(image: PIL.Image.Image) -> Pixels:
    edge = min(image.size)
    left, top = (image.width - edge) // 2, (image.height - edge) // 2
    if edge == SIDE:
        return np.asarray(image.crop((left, top, left + SIDE, top + SIDE)))
    box = (left, top, left + edge, top + edge)
    return np.asarray(image.resize((SIDE, SIDE), PIL.Image.Resampling.LANCZOS, box=box))


def accuracy(learned: NDArray[np.float32], asked: NDArray[np.float32]) -> NDArray[np.float64]:
    """Percent right of each class (C,): cosines of features (C, n, d) with the means of others, both centred."""
    center = learned.mean((0, 1))
    means = learned.mean(1) - center
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    found = ((asked - center) @ means.T).argmax(2)  # a query's own length does not change which is largest
    return 100 * (found == np.arange(len(means))[:, None]).mean(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, help="a zip with one folder a class, or a folder of images-*.zip")
    parser.add_argument("--each", type=int, default=50, help="images of every class")
    given = parser.parse_args()
    network, classes, half = load_backbone("efficientnet-lite0"), read(given.images, given.each), given.each // 2
    features = {name: [] for name in WAYS}
    for images in track(classes, "classes", console=Console(stderr=True)):
        for name, change in WAYS.items():
            features[name].append(network.features([change(image) for image in images]))
    arrays = {name: np.stack(found) for name, found in features.items()}
    before = arrays["as they are"]
    unlike = np.linalg.norm(before[:, :half] - before[:, half : 2 * half], axis=2).mean()
    base = accuracy(before[:, :half], before[:, half:])
    print(f"{given.images.name}: {len(classes)} classes, {half} images a mean, {given.each - half} asked")
    for name, after in arrays.items():
        moved = np.linalg.norm(after - before, axis=2).mean() / unlike
        both = accuracy(after[:, :half], after[:, half:])
        asked = accuracy(before[:, :half], after[:, half:])
        told = " ".join(
            f"{label} {found.mean():5.2f} ({(found - base).mean():+5.2f} +- "
            f"{1.96 * (found - base).std(ddof=1) / len(found) ** 0.5:4.2f})"
            for label, found in (("means and queries", both), ("queries alone", asked))
        )
        print(f"{name:24} moved {moved:5.3f}   {told}", flush=True)


if __name__ == "__main__":
    main()
