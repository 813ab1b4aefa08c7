"""A script in a Python of its own, for tests that kill it or run two at once."""

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def python(script: str, *arguments: object) -> Iterator[tuple[IO[str], IO[str]]]:
    """Run ``script``, which may import what the tests import: its input and output, once it has printed "ready"."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.stdin, process.stdout
        process.stdin.close()
    assert process.returncode == 0
