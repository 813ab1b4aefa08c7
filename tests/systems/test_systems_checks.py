"""Every system passes the common suite of checks that methods pass."""

import pytest

from subspan import checks, list_systems


@pytest.mark.parametrize("check", checks.list_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("system", list_systems())
def test_system(system, check):
    check(system)
