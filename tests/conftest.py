"""What all tests share: one thread per worker, repeatable hypothesis runs, the shared data of a development machine."""

import os

# Before torch is imported: with a busy machine, two OpenMP threads per worker can be hundreds of times slower than one.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("MPLBACKEND", "agg")

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from subspan.learners import registry

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder ../shared/data beside the repository; tests that need it are skipped where it is not."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the shared data folder {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture
def forgotten_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers, or adds as a file, is found by it and forgotten after it."""
    monkeypatch.setattr(registry, "LEARNERS", replace(registry.LEARNERS, added=dict(registry.LEARNERS.added)))
