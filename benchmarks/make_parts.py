"""Trains the parts of systems that travel with multi-session feature files, on draws from the files' own statistics.

    python benchmarks/make_parts.py benchmarks/features/paper-random-5.npz --out benchmarks/systems
    python benchmarks/make_parts.py FILES... --system lwof --system attractor --out benchmarks/systems

A part takes eight seconds to four minutes of one core, all of a file five to seven minutes. What is there already is
kept; delete it to train it anew. `--signal 0.6` was chosen on split 0 (docs/systems.md), the numbers of steps are what
a laptop can give.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from subspan.systems.trained_part import TrainedPart

OPTIONS = {  # system: how it is named to `subspan train`, and what else it is told
    "idlvq": ("idlvq", []),
    "etf": ("etf:hidden=256", []),
    "semantic-distill": ("semantic-distill", ["--embeddings", "glove300"]),
    "lwof": ("lwof", ["--steps", "4000", "--signal", "0.6"]),
    "attractor": (
        "attractor:damping=0",
        ["--steps", "800", "--batch", "8", "--rates", "0.1,0.01", "--rate-cuts", "0.7", "--signal", "0.6"],
    ),
    "cec": ("cec:queries=3", ["--steps", "300"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("files", type=Path, nargs="+", help="multi-session feature files with a covariance")
    parser.add_argument("--system", choices=OPTIONS, action="append", help="one of them; default: all")
    parser.add_argument("--out", type=Path, required=True, help="folder of the parts")
    given = parser.parse_args()
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    for file in given.files:
        for system in given.system or OPTIONS:
            part = given.out / f"{system}-{file.stem}.npz"
            if part.exists():
                print(f"{part} is there", flush=True)
                continue
            name, more = OPTIONS[system]
            began = time.perf_counter()
            command = [sys.executable, "-m", "subspan.cli", "train", "--system", name, str(file), *more]
            status = subprocess.run([*command, "--out", str(part)], env=environment).returncode
            if status != 0:  # the command has said why
                sys.exit(status)
            TrainedPart.load(part).save(part, precision="int8")  # half the size
            print(f"{part}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
