"""`benchmarks/soak.py` for a minute: eight clients beside a killer and a full disk."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
def test_a_minute_of_kills_and_full_disks_loses_nothing():
    command = [sys.executable, str(SOAK), "--seconds", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 lost, 0 back\n" in done.stdout
    assert "; from a wrong one 0\n" in done.stdout
