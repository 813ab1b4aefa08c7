"""The command line inside the test's own process."""

import sys
import warnings

import pytest

from subspan.cli import main


@pytest.fixture
def subspan(monkeypatch, capsys):
    """Run a command in this process: (exit status, standard output, standard error)."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["subspan", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return call
