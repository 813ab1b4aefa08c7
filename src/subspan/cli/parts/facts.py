"""What a reader must know to repeat a run, stamped on reports and feature files."""

import datetime
import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from subspan import __version__


def run_facts(protocol: object, device: str, seconds: float) -> dict[str, str]:
    """What a reader must know to repeat a run."""
    return {
        "command": command_line(),
        "protocol": f"{protocol}",
        "device": f"{device}: {platform.processor() or platform.machine()}, Python {platform.python_version()}",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": f"{seconds:.1f}",
        "version": version(),
    }


def run_record(
    title: str, name: str, protocol: Any, place: Any, seconds: float, files: Mapping[str, Path], **more: Any
) -> dict[str, Any]:
    """What a record of a run holds beside what was measured: all that is needed to run it again.

    ``files`` are named as whoever reads the record knows them.
    """
    return {
        "title": title,
        **run_facts(f"{name}: {protocol}", place.device, seconds),
        "settings": {"protocol": name, **asdict(protocol)},
        "files": [{"name": known, "sha256": sha256_of(path)} for known, path in files.items()],
        "placement": asdict(place),
        "versions": {one: metadata.version(one) for one in ("torch", "numpy", "scipy", "scikit-learn")},
        **more,
    }


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def command_line(*, folders: bool = True) -> str:
    """The command as it was typed; without ``folders`` paths are cut to their last names, which mean more elsewhere."""
    words = sys.argv[1:] if folders else [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    return shlex.join(["subspan", *words])


def version() -> str:
    """The version of Subspan, and the commit of the checkout it is run from, if it is one.

    A copy of the tree that travels without its history is told its commit by the variable SUBSPAN_COMMIT.
    """
    if told := os.environ.get("SUBSPAN_COMMIT"):
        return f"{__version__}, commit {told}"
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=, with uncommitted changes"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True)  # nosec B603 # words of ours alone
        commit = f"commit {ran.stdout.strip()}"
    except (OSError, subprocess.CalledProcessError):
        commit = "installed package"
    return f"{__version__}, {commit}"
