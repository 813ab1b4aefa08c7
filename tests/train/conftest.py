"""Networks trained once for all tests of a worker; a test that changes a run works on a copy of its folder."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from colour_classes import IMAGES, LEARNS, QUICK, colour_job, run, tiny_recipe

from subspan.train.trainer import Outcome, train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One network, which has learned the colours."""
    return run(tmp_path_factory.mktemp("trained") / "run", **LEARNS)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two networks trained together, ``a`` and ``b``, with seeds 1 and 2."""
    folder = tmp_path_factory.mktemp("pair")
    train(IMAGES, [colour_job(folder / "a", 1), colour_job(folder / "b", 2)], tiny_recipe(epochs=3), QUICK)
    return folder


@pytest.fixture(scope="session")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Two networks of two epochs, joined; 10 of their features kept."""
    return run(tmp_path_factory.mktemp("joined") / "run", head="cosine", members=2, kept_features=10)


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path | Outcome], Path]:
    """Copies a run, by its folder or outcome, to a folder of the test's own."""

    def copy(source: Path | Outcome) -> Path:
        source = source.job.folder if isinstance(source, Outcome) else source
        return shutil.copytree(source, tmp_path / f"copy-of-{source.name}")

    return copy
