"""One tiny trained network for all tests of systems that move the network."""

import pytest
from made_up_images import World, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Made-up images, their split and a network trained on the base classes."""
    return make_world(tmp_path_factory.mktemp("run"))
