"""Photographs a second that a packaged network sees on a CPU, in torch and in onnxruntime.

Last measured 2026-11-19, 2 CPU cores (virtual machine) that other work kept busy (load 12), torch 2.13.0, onnxruntime
1.31.1, `--count 16`; least of five runs:

    threads                   torch  onnxruntime  ratio
          1 alone              15.8         51.7    3.3
          1 with decoding      16.2         45.5    2.8
          2 alone               6.1         65.8   10.7
          2 with decoding       6.4         42.7    6.7
    greatest difference of a feature: 1.3e-05 of 5.1

Two threads of torch wait for each other on a core that is taken; those of onnxruntime leave it to others.

``python benchmarks/eye.py [--network efficientnet-lite2]``: network alone, on photographs that are prepared, and with
decoding, from JPEG files of 640 x 480 pixels; least of five runs each. The features of both engines are compared in
the same run.

``python benchmarks/eye.py --eyes``: the eyes that have a name, from JPEG files on one core, beside one middle crop for
Lite0. ``--sets FOLDER`` with zips of photographs (base/CLASS, s01/CLASS, ..., test/CLASS) instead prints how well the
default method does with an eye, classes counted alike, after the last session:

    photographs a processor second, and how many times those of Lite0; 2026-11-20, load 20, --count 8:
    efficientnet-lite0         73.3   1.00
    fast                       25.3   0.35
    good                       11.5   0.16
    best                        8.9   0.12
    efficientnet-lite2         39.3   0.54
"""

import argparse
import io
import os
import time
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from subspan import IncrementalClassifier
from subspan.pretrained import efficientnet_lite as eye
from subspan.pretrained.backbone import Backbone, Pixels, TorchBackbone
from subspan.pretrained.onnx_file import OnnxBackbone
from subspan.pretrained.registry import EYES, load_backbone

RUNS = 5


def photographs(count: int) -> list[bytes]:
    """Encoded photographs: coloured noise, smooth as pictures are."""
    random = np.random.default_rng(0)
    encoded = []
    for _ in range(count):
        small = Image.fromarray(random.integers(0, 256, (30, 40, 3), dtype=np.uint8))
        stream = io.BytesIO()
        small.resize((640, 480), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=90)
        encoded.append(stream.getvalue())
    return encoded


def least(work: Callable[[], object]) -> float:
    """Seconds of the fastest of `RUNS` runs, after one that is not counted."""
    seconds = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])


def alone(backbone: Backbone, pixels: Pixels, _: list[bytes]) -> None:
    for start in range(0, len(pixels), backbone.batch):
        backbone.forward(pixels[start : start + backbone.batch])


def with_decoding(backbone: Backbone, _: Pixels, images: list[bytes]) -> None:
    backbone.features(images)


def accuracy(backbone: Backbone, file: Path) -> float:
    """Mean over classes of the percent right, after the base session and all others of a zip."""
    with zipfile.ZipFile(file) as opened:
        names = [name for name in opened.namelist() if not name.endswith("/")]
        features = backbone.features([opened.read(name) for name in names])
    parts, labels = (np.array([name.split("/")[level] for name in names]) for level in (0, 1))
    model = IncrementalClassifier().fit(features[parts == "base"], labels[parts == "base"])
    for session in sorted(set(parts) - {"base", "test"}):
        model.add_classes(features[parts == session], labels[parts == session])
    asked = labels[parts == "test"]
    right = model.predict(features[parts == "test"]) == asked
    return 100 * float(np.mean([right[asked == name].mean() for name in np.unique(asked)]))


def show_eyes(names: Sequence[str], images: list[bytes]) -> None:
    """Photographs a second on one core, and how many times that of one crop for Lite0."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    eyes = {name: load_backbone(name) for name in (eye.LITE0, *names)}
    seconds = dict.fromkeys(eyes, np.inf)
    for _ in range(RUNS + 1):  # in turn: other work on the machine slows all alike
        for name, backbone in eyes.items():
            began = time.process_time()
            backbone.features(images)
            seconds[name] = min(seconds[name], time.process_time() - began)
    for name, least in seconds.items():
        print(f"{name:24} {len(images) / least:6.1f} {seconds[eye.LITE0] / least:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=32, help="photographs")
    parser.add_argument("--network", default=eye.LITE0)
    parser.add_argument("--eyes", action="store_true")
    parser.add_argument("--sets", type=Path, help="folder of zips")
    options = parser.parse_args()
    images = photographs(options.count)
    if options.sets:
        backbone, files = load_backbone(options.network), sorted(options.sets.glob("*.zip"))
        print(options.network, *(f"{file.stem} {accuracy(backbone, file):.1f}" for file in files))
    elif options.eyes:
        show_eyes([*EYES, eye.LITE2], images)
    else:
        compare_engines(options.network, images)


def compare_engines(name: str, images: list[bytes]) -> None:
    print(f"{name}, {len(images)} photographs, photographs a second")
    print(f"{'threads':>7} {'':14} {'torch':>8} {'onnxruntime':>12} {'ratio':>6}")
    for threads in (1, 2):
        torch.set_num_threads(threads)  # onnxruntime's session takes as many
        fast = eye.efficientnet_lite0("", None) if name == eye.LITE0 else eye.efficientnet_lite2("", None)
        assert isinstance(fast, OnnxBackbone), "a GPU is here"
        module = eye.in_torch(name, eye.read_weights(name))
        slow = TorchBackbone(name, module, fast.preprocessing, fast.digest)
        pixels = np.stack([fast.preprocessing.pixels(image) for image in images])
        for what, see in (("alone", alone), ("with decoding", with_decoding)):
            rates = [len(images) / least(partial(see, one, pixels, images)) for one in (slow, fast)]
            print(f"{threads:7} {what:14} {rates[0]:8.1f} {rates[1]:12.1f} {rates[1] / rates[0]:6.1f}")
    difference = np.abs(fast.features(images) - slow.features(images)).max()
    print(f"greatest difference of a feature: {difference:.1e} of {np.abs(slow.features(images)).max():.1f}")


if __name__ == "__main__":
    main()
