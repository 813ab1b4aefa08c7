"""Connections that do nothing, against ``subspan serve`` as a process with 128 file handles: the service goes on."""

import contextlib
import logging
import os
import re
import resource
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from uploading import TOKEN, WRITE, pictures

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.serve.rate import Thinned
from waiting import wait_until

HANDLES = 128
OPTIONS = ("--trust", "--port", "0", "--rate", "1e6", "--burst", "1000000")
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@dataclass(frozen=True)
class Running:
    """A service, its port and its log."""

    port: int
    log: Path

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def health(self) -> int:
        return httpx2.get(self.url("/healthz"), timeout=60).status_code

    def handles(self) -> int:
        """How many file handles it holds."""
        found = re.search(r"^process_open_fds (\S+)$", httpx2.get(self.url("/metrics"), timeout=60).text, re.MULTILINE)
        assert found
        return int(float(found[1]))

    @contextlib.contextmanager
    def connections(self, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
        with contextlib.ExitStack() as stack:
            sockets = []
            for _ in range(count):
                sockets.append(stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=60)))
                sockets[-1].sendall(first)
            yield sockets


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start services with few file handles and these options."""
    folder = tmp_path_factory.mktemp("connections")
    network = f"onnx:{made.write_onnx(folder / 'tiny.onnx')}"
    photographs = {name: made.photographs(name, 30) for name in ("red", "green", "blue")}
    Catalogue.create(folder / "c.subspan", photographs, CatalogueOptions(backbone=network))
    processes = []

    def run(*options: str) -> Running:
        log = folder / f"{len(processes)}.log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "subspan", "serve", str(folder / "c.subspan"), *OPTIONS, *options],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "SUBSPAN_TOKEN": TOKEN},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (HANDLES, HANDLES)),
            )
        processes.append(process)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[2] == "At most 64 connections, by the limit on open files of this process.\n"
        found = re.match(r"Page: http://127\.0\.0\.1:(\d+)/ ", lines[1])
        assert found
        return Running(int(found[1]), log)

    yield run
    for process in processes:
        process.terminate()
    for process in processes:
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def patient(start) -> Running:
    """It closes nothing because of the time."""
    return start("--head-seconds", "3600", "--upload-seconds", "3600")


@pytest.fixture(scope="module")
def impatient(start) -> Running:
    return start("--head-seconds", "0.5", "--upload-seconds", "1")


def closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it, however much of its answer is unread."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


@pytest.mark.parametrize("first", [b"", HEAD, HEAD + b"\r\n"], ids=["idle", "half a head", "answered"])
def test_with_more_connections_than_file_handles_questions_are_answered_and_classes_added(patient, first: bytes):
    with patient.connections(HANDLES + 12, first) as sockets:
        assert patient.health() == 200
        write = {"data": {"name": "pink"}, "files": pictures("pink", 3), "headers": WRITE, "timeout": 60}
        assert httpx2.post(patient.url("/classes"), **write).status_code == 201
        wait_until(lambda: sum(map(closed, sockets)) >= HANDLES + 12 - 64)
    assert patient.log.stat().st_size < 1000


def test_requests_at_work_keep_their_connection_whoever_comes(patient):
    body = b"Content-Length: 5\r\nContent-Type: application/json\r\nAuthorization: Bearer " + TOKEN.encode()
    with patient.connections(1, b"POST /undo HTTP/1.1\r\nHost: 127.0.0.1\r\n" + body + b"\r\n\r\n{") as (working,):
        with patient.connections(HANDLES + 12) as sockets:
            wait_until(lambda: sum(map(closed, sockets)) >= HANDLES + 12 - 64)
            assert not closed(working)
        working.sendall(b"    ")
        assert working.recv(100).startswith(b"HTTP/1.1 422 ")


@pytest.mark.parametrize(
    "lines",
    [b"no HTTP at all\r\n\r\n", HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"],
    ids=["garbage", "websockets"],
)
def test_the_log_cannot_be_filled_from_outside(patient, lines: bytes):
    before = patient.log.stat().st_size
    for _ in range(10):
        with patient.connections(50, lines) as sockets:
            for one in sockets:
                with contextlib.suppress(ConnectionResetError):
                    one.recv(10)
    assert 0 < patient.log.stat().st_size - before < 2000
    assert patient.health() == 200


def test_lines_left_out_of_the_log_are_counted_place_by_place():
    now = [0.0]
    logger, thinned = logging.Logger("test"), Thinned(lambda: now[0])
    written: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())
    handler.addFilter(thinned)
    logger.addHandler(handler)

    def complain(number: int) -> None:
        logger.error("line %d", number)

    for number in range(100):
        complain(number)
    assert written == [f"line {number}" for number in range(10)]
    logger.error("from another place")
    now[0] = 3600
    complain(100)
    complain(101)
    assert written[10:] == ["from another place", "line 100 (and 90 more of this kind, left out)", "line 101"]


STALLED = {  # what is sent, and what more once that is answered
    "nothing": (b"", b""),
    "half a head": (HEAD, b""),
    "a second head": (HEAD + b"\r\n", HEAD),
    "a refused body": (b"POST /undo HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n", b"{"),
}


@pytest.mark.parametrize(("first", "second"), STALLED.values(), ids=STALLED.keys())
def test_a_client_that_stops_half_way_is_not_waited_for(impatient, first: bytes, second: bytes):
    with impatient.connections(3, first) as sockets:
        for one in sockets if second else []:
            assert one.recv(10_000).startswith(b"HTTP/1.1 ")
            one.sendall(second)
        wait_until(lambda: all(map(closed, sockets)), seconds=30)
    assert impatient.health() == 200


def test_a_client_that_does_not_read_its_answers_is_not_waited_for(impatient):
    before = impatient.handles()
    with impatient.connections(8, (HEAD.replace(b"healthz", b"openapi.json") + b"\r\n") * 1000):
        wait_until(lambda: impatient.handles() < before + 4, seconds=60)


def test_a_head_that_trickles_in_is_not_waited_for(impatient):
    with impatient.connections(1, HEAD + b"X-Padding: ") as (one,), contextlib.suppress(ConnectionError):
        wait_until(lambda: closed(one) or one.sendall(b"x"), seconds=30)
