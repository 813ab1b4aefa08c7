"""Work over several processes: the same results in their order, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subspan.experiments.fan_out import Placement, fan_out
from subspan.experiments.inputs import ProtocolError
from waiting import wait_until

SLEEPERS = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs tests in the background ignores it
from subspan.experiments.fan_out import Placement, fan_out

def sleep(folder, *_):
    (pathlib.Path(folder) / str(os.getpid())).touch()
    time.sleep(600)

class Slow:
    # arrives in a worker as slowly as what has to be imported there
    def __reduce__(self):
        return sleep, (sys.argv[1],)

if __name__ == "__main__":
    shared = {"work": sys.argv[1], "start": Slow()}[sys.argv[2]]
    fan_out(sleep, shared, [1, 2], Placement(workers=2))
"""


def add(shared, item):
    return shared + item


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_items(workers):
    told = []
    placement = Placement(workers=workers)
    results = fan_out(add, 10, [3, 1, 2], placement, on_result=lambda i, r: told.append((i, r)))
    assert results == [13, 11, 12]
    assert sorted(told) == [(0, 13), (1, 11), (2, 12)]


def end_by_the_program(program: subprocess.Popen[str], number: signal.Signals) -> None:
    program.send_signal(number)


def end_as_a_terminal_does(program: subprocess.Popen[str], number: signal.Signals) -> None:
    os.killpg(program.pid, number)  # Ctrl-C goes to the workers, too


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "number"),
    [
        (end_by_the_program, signal.SIGKILL),
        (end_by_the_program, signal.SIGINT),
        (end_as_a_terminal_does, signal.SIGINT),
    ],
)
@pytest.mark.parametrize("middle", ["start", "work"])
def test_workers_end_with_their_program_in_the_middle(tmp_path, end, number, middle):
    script, folder = tmp_path / "sleepers.py", tmp_path / "workers"
    script.write_text(SLEEPERS)
    folder.mkdir()
    program = subprocess.Popen(
        [sys.executable, str(script), str(folder), middle], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        wait_until(lambda: len(list(folder.iterdir())) == 2, "two workers in the middle")
        end(program, number)
        wait_until(lambda: program.poll() is not None, "the program gone")
    finally:
        program.kill()
        said = program.communicate()[1]
    assert said.count("Traceback") == (number == signal.SIGINT), "nobody but the program says that it was interrupted"
    workers = [int(path.name) for path in folder.iterdir()]
    wait_until(lambda: not any(map(is_alive, workers)), "both workers gone")


def fail(shared, item):
    if item == 0:
        raise ValueError("the first item is bad")
    time.sleep(600)


def test_an_error_in_one_worker_ends_the_others(capfd):
    with pytest.raises(ValueError, match="the first item is bad"):
        fan_out(fail, None, [0, 1], Placement(workers=2))
    assert capfd.readouterr().err == ""


SCRIPT = """
import numpy as np
from subspan.experiments.fan_out import Placement, fan_out

def add(shared, item):
    return len(shared) + item

def all_of_it():
    print(fan_out(add, np.zeros(1_000_000), [1, 2], Placement(workers=2)))

{start}
"""


def run_script(tmp_path: Path, start: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(start=start))
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("start", ["all_of_it()", "if True:\n    all_of_it()"])
def test_a_script_without_a_main_guard_ends_in_a_sentence(tmp_path: Path, start: str):
    run = run_script(tmp_path, start)
    assert run.returncode == 1
    said = 'none of 2 worker processes began: .* below `if __name__ == "__main__":`'
    assert re.search(f"ProtocolError: .*{said}", run.stderr)
    assert run.stderr.count("bootstrapping") == 0, "the workers end without a word"


@pytest.mark.parametrize(
    "start", ['if __name__ == "__main__":\n    all_of_it()', '__name__ == "__main__" and all_of_it()']
)
def test_a_script_with_a_main_guard_works(tmp_path: Path, start: str):
    run = run_script(tmp_path, start)
    assert (run.stdout, run.stderr) == ("[1000001, 1000002]\n", "")


def test_a_program_that_is_no_script_works():
    code = "from subspan.experiments.fan_out import *; "
    code += "from test_fan_out import add; print(fan_out(add, 1, [1, 2], Placement(workers=2)))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    assert (run.stdout, run.stderr) == ("[2, 3]\n", "")


def die(shared, item):
    os.kill(os.getpid(), signal.SIGKILL)  # as a system does that is out of memory


def test_a_worker_that_is_killed_ends_in_a_sentence():
    with pytest.raises(ProtocolError, match="one of 2 worker processes ended abruptly; where memory ran out, fewer"):
        fan_out(die, None, [0, 1, 2], Placement(workers=2))


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")  # ended, not yet collected
