"""What a container installs: pinned with hashes, as the package asks, and without known holes."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "container.lock"


def test_the_lock_pins_every_dependency_of_the_service_with_hashes():
    entries = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+) \\\n(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", LOCK.read_text(), re.M)
    )
    assert len(entries) == LOCK.read_text().count("==") > 20, "each has its hashes"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["serve"]]
    for requirement in map(Requirement, [*wanted, *project["build-system"]["requires"]]):
        assert entries[requirement.name] in requirement.specifier, "`make lock` writes it again"


@pytest.mark.slow
def test_nothing_that_it_pins_has_a_known_hole():
    pytest.importorskip("pip_audit")
    words = ["-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes", "--disable-pip", "--format", "json"]
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    found = json.loads(ran.stdout)["dependencies"] if ran.stdout else []
    audited = [one for one in found if "vulns" in one]
    if not audited:
        reason = found[0]["skip_reason"] if found else ran.stderr[-200:]
        pytest.skip(f"the database of known holes cannot be reached: {reason}")
    assert [(one["name"], hole["id"]) for one in audited for hole in one["vulns"]] == []
