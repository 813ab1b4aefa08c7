"""Trains the parts of systems that travel with feature files, on draws from the files' own statistics.

    python benchmarks/make_parts.py benchmarks/features/paper-random-5.npz --out benchmarks/systems
    python benchmarks/make_parts.py FILES... --system lwof --system attractor --out benchmarks/systems
    python benchmarks/make_parts.py benchmarks/features/strong-ravi.npz --out benchmarks/systems

A part takes eight seconds to four minutes of one core, all of a multi-session file five to seven minutes. What is there
already is kept; delete it to train it anew. `--signal 0.6` was chosen on split 0 (docs/tried.md), the numbers of
steps are what a laptop can give.

A file of the single-session protocol (RECIPE-ravi, RECIPE-tiered) gets a part for each number of shots where a system
has that option, SYSTEM-FILE-1-shot.npz and SYSTEM-FILE-5-shot.npz. Small parts come first: the last three systems have
0.65 to 0.77 MB each for 640 features, 0.2 to 0.42 MB for 320. `lwof` has `--signal 1` there, and on features of
`strong` so has `attractor`, chosen on development classes (docs/tried.md). The five small parts take six minutes of
one core, all nine about thirteen.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from subspan.learners.registry import create_method
from subspan.learners.training.trained_part import TrainedPart
from subspan.learners.training.trained_system import TrainedSystem
from subspan.paper.single_session import HALVES

SHOTS = (5, 1)  # of the single-session protocol; 5 first, which a part for 1 would stand in for where it is alone
OPTIONS = {  # system: how it is named to `subspan train`, and what else it is told; small parts first
    "idlvq": ("idlvq", []),
    "lwof": ("lwof", ["--steps", "4000", "--signal", "0.6"]),
    "attractor": (
        "attractor:damping=0",
        ["--steps", "800", "--batch", "8", "--rates", "0.1,0.01", "--rate-cuts", "0.7", "--signal", "0.6"],
    ),
    "etf": ("etf:hidden=256", []),
    "semantic-distill": ("semantic-distill", ["--embeddings", "glove300"]),
    "cec": ("cec:queries=3", ["--steps", "300"]),
}
IN_ONE_SESSION = {  # recipe: where its files of one session ask for something else
    "paper": {"lwof": ["--signal", "1"]},
    "strong": {"lwof": ["--signal", "1"], "attractor": ["--signal", "1"]},
}
SINGLE_SESSION = {half.split for half in HALVES}


def is_of_one_session(file: Path) -> bool:
    """Whether the name of a feature file says that it is of the single-session protocol."""
    return file.stem.rpartition("-")[2] in SINGLE_SESSION


def options_of(file: Path, system: str) -> list[str]:
    """What `subspan train` is told for a system beside its name; of an option given twice the last counts."""
    recipe = file.stem.partition("-")[0]
    own = IN_ONE_SESSION.get(recipe, {}).get(system, []) if is_of_one_session(file) else []
    return [*OPTIONS[system][1], *own]


def parts_of(file: Path, system: str) -> dict[str, str]:
    """The names of the parts of a system for a feature file, each with the system as `subspan train` takes it."""
    name = OPTIONS[system][0]
    made = create_method(name)
    assert isinstance(made, TrainedSystem)
    if not is_of_one_session(file) or "shots" not in made.part_options():
        return {f"{system}-{file.stem}.npz": name}
    comma = "," if ":" in name else ":"
    return {f"{system}-{file.stem}-{shots}-shot.npz": f"{name}{comma}shots={shots}" for shots in SHOTS}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("files", type=Path, nargs="+", help="feature files with a covariance")
    parser.add_argument("--system", choices=OPTIONS, action="append", help="one of them; default: all")
    parser.add_argument("--out", type=Path, required=True, help="folder of the parts")
    given = parser.parse_args()
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    for file in given.files:
        wanted = given.system or OPTIONS
        named = [(system, *pair) for system in wanted for pair in parts_of(file, system).items()]
        for system, part_name, name in named:
            part = given.out / part_name
            if part.exists():
                print(f"{part} is there", flush=True)
                continue
            began = time.perf_counter()
            command = [sys.executable, "-m", "subspan", "train", "--system", name, str(file)]
            command += [*options_of(file, system), "--out", str(part)]
            status = subprocess.run(command, env=environment).returncode
            if status != 0:  # the command has said why
                sys.exit(status)
            TrainedPart.load(part).save(part, precision="int8")  # half the size
            print(f"{part}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
