"""Train the small network that lies in the repository, and go the whole way on it: some minutes on two CPU cores.

    python benchmarks/make_network.py --data ../shared/data/mini-imagenet

Twenty classes of miniImageNet are its base session, twenty others come in four sessions: every third base class of the
published split, and its first sessions, image by image. The commands are those that a person would give: `train`,
`extract`, `pack`, and with the packed network `init --backbone`, `predict` and `export`. What is kept lies in
`benchmarks/network`: weights in float16, the features packed from these, what was asked for and the log.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch

from subspan.backbones.checkpoint import read_tensors, write_tensors
from subspan.images.lists import read_json
from subspan.images.splits.listed import LIST_NAMES

KEPT = Path(__file__).parent / "network"
BASE_EVERY, SESSIONS = 3, 4
PHOTOGRAPHS = 20  # of each base class, from which a catalogue begins


def shortened(record: dict) -> dict:
    """The published lists with every third base class and the first sessions."""
    first, *others = record["sessions"]
    kept = {name: first[name][::BASE_EVERY] for name in ("classes", "train")}
    sessions = [{"session": 0, **kept}, *others[:SESSIONS]]
    classes = [key for session in sessions for key in session["classes"]]
    tests = dict(zip(record["class_order"], record["test"], strict=True))
    return {"class_order": classes, "sessions": sessions, "test": [tests[key] for key in classes]}


def unpack(data: Path, classes: list[str], folder: Path) -> None:
    """The images of these classes as a folder of class folders."""
    for place in sorted(data.glob("*.zip")):
        with zipfile.ZipFile(place) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.partition("/")[0] in classes])


def subspan(*arguments: object) -> None:
    """Run a command of ours, shown before."""
    print("$ subspan", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "subspan", *map(str, arguments)], check=True)


def halve(weights: Path) -> None:
    """Write weights in float16."""
    tensors, meta = read_tensors(weights)
    half = {name: value.half() if value.is_floating_point() else value for name, value in tensors.items()}
    write_tensors(weights, half, meta)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="miniImageNet: zips of classes, and splits/ beside")
    parser.add_argument("--work", type=Path, help="folder for images and run; default: one that is removed afterwards")
    parser.add_argument("--out", type=Path, default=KEPT)
    arguments = parser.parse_args()
    work = arguments.work or Path(tempfile.mkdtemp())
    images, run, lists = work / "images", work / "run", arguments.out / "sessions.json.gz"
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = shortened(read_json(arguments.data / "splits" / LIST_NAMES[0]))
    lists.write_bytes(gzip.compress(json.dumps(record, separators=(",", ":")).encode(), mtime=0))
    unpack(arguments.data, record["class_order"], images)
    shutil.copy(arguments.data / "classes.json", images)

    data = ("--data", images, "--lists", lists)
    subspan("train", *data, "--split", "fixed", "--recipe", "small", "--out", run, "--resume", "--device", "cpu")
    halve(run / "weights.safetensors")
    subspan("extract", "--run", run, *data)
    subspan("pack", "--run", run, *data, "--out", arguments.out / "features.npz")
    subspan("bench", arguments.out / "features.npz")
    for name in ("run.json", "log.csv", "weights.safetensors"):
        shutil.copy(run / name, arguments.out)

    photographs = work / "photographs"
    for key, files in zip(record["sessions"][0]["classes"], record["sessions"][0]["train"], strict=True):
        (photographs / key).mkdir(parents=True, exist_ok=True)
        for name in files[:PHOTOGRAPHS]:
            shutil.copy(images / key / name, photographs / key)
    catalogue = work / "catalogue.subspan"
    backbone = f"subspan:{arguments.out.resolve()}"
    subspan("init", catalogue, photographs, "--backbone", backbone)
    subspan("export", catalogue, "--onnx", work / "catalogue.onnx", "--check", photographs, "--trust")
    if arguments.work is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    torch.set_num_threads(2)
    main()
