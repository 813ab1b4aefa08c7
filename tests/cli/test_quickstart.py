"""The quick start's commands print what its page says, but for times, versions and places."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart.md"
PERCENT = re.compile(r"(\d+(?:\.\d)?) ?%")  # another processor rounds the networks' features otherwise
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def steps() -> list[tuple[str, str]]:
    """Every command of the page, without `subspan`, and what it prints."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    return re.findall(r"^\$ subspan (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.M)


def test_the_quick_start_prints_what_it_says(subspan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert len(steps()) >= 6
    for command, expected in steps():
        status, out, err = subspan(*command.split())
        assert status == 0, err
        said, found = (PERCENT.findall(text) for text in (expected, out))
        if "compare" not in command:  # whose tables the page leaves out
            assert [float(one) for one in found] == pytest.approx([float(one) for one in said], abs=1), command
        said, found = (PERCENT.sub("#", text) for text in (expected, out))
        assert doctest.OutputChecker().check_output(said, found, SAME), f"{command}\n{out}"
