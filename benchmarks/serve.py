"""``subspan serve`` under load and abuse, over loopback: requests per second, p99, nothing lost, memory.

Last measured 2026-11-15, 2 quiet CPU cores (AMD EPYC virtual machine), torch 2.13.0, one thread a request; one run,
10 s for each number of clients:

    clients   requests/s   p50       p99       all answered 200   classes added beside it, median
       1         12.8        72 ms    154 ms   128                10, 0.29 s
       8         44.3       152 ms    354 ms   448                10, 0.37 s
      32         46.7       698 ms    800 ms   494                10, 0.37 s

    30 classes acknowledged, none lost. 3898 bad uploads of 26 kinds, all 4xx. Peak memory: 489 MB after the first
    answer, 766 MB after the load, 766 MB after the abuse.

The network is the limit: it alone took 27 ms an image on one core of a busier machine. More clients than cores wait in
line, so their p99 is their number over the rate.

    python benchmarks/serve.py                # under a minute
    python benchmarks/serve.py --seconds 20

The catalogue: ten classes of pieces of the two photographs that come with scikit-learn, EfficientNet-Lite0, in a
temporary folder. The service is a process of its own with the defaults, but for the rate limit, which would stop a
benchmark. Every client keeps one connection and asks about one JPEG (320 x 320) after the other; beside them another
adds a new class from five JPEGs every second, or as soon as it is done with the last one. At the end every class that
was acknowledged must be in the service's answer and in the store, opened anew. Then eight clients send
the corpus of bad uploads (tests/serve/bad_uploads.py): every answer must be a 4xx with one sentence. Clients and
service share the cores. Memory is the peak of the service (VmHWM).
"""

import argparse
import http.client
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from subspan.catalogue.catalogue import Catalogue

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "serve"))
from bad_uploads import BAD_UPLOADS

TOKEN = "token-of-the-benchmark"
CLIENTS = (1, 8, 32)
BASE = 10


def pieces(seed: int) -> Iterator[bytes]:
    """JPEGs cut out of the photographs; one place of one photograph is one class."""
    rng = np.random.default_rng(seed)
    photograph = Image.fromarray(load_sample_images().images[seed % 2])
    left, top = int(rng.integers(0, 300)), int(rng.integers(0, 100))
    while True:
        x, y = left + int(rng.integers(0, 20)), top + int(rng.integers(0, 7))
        stream = io.BytesIO()
        photograph.crop((x, y, x + 320, y + 320)).save(stream, "JPEG", quality=90)
        yield stream.getvalue()


def form(images: list[bytes], **fields: str) -> tuple[bytes, dict[str, str]]:
    """A multipart body and its header."""
    parts = [f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()]
    head = b'--x\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
    parts += [head + image + b"\r\n" for image in images]
    return b"".join(parts) + b"--x--\r\n", {
        "Content-Type": "multipart/form-data; boundary=x",
        "Authorization": f"Bearer {TOKEN}",
    }


class Client:
    """One connection, opened anew where the service closed it."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        self.connection.request(method, path, body, headers or {})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


def repeat(seconds: float, count: int, work: Callable[[int], Callable[[], None]]) -> float:
    """Run ``work(i)()`` again and again in ``count`` threads; the seconds it took until all were done."""
    deadline = time.perf_counter() + seconds

    def run(i: int) -> None:
        step = work(i)
        while time.perf_counter() < deadline:
            step()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


class Adding:
    """Adds a new class every second; knows which were acknowledged."""

    def __init__(self, port: int) -> None:
        self.client, self.added = Client(port), []
        self.seconds: list[float] = []

    def step(self) -> None:
        began = time.perf_counter()
        name = f"added {len(self.added)}"
        status, answer = self.client.ask(
            "POST", "/classes", *form(list(itertools.islice(pieces(100 + len(self.added)), 5)), name=name)
        )
        assert status == 201, answer
        self.added.append(name)
        self.seconds.append(time.perf_counter() - began)
        time.sleep(max(0.0, 1 - self.seconds[-1]))


def load(port: int, adding: Adding, clients: int, seconds: float) -> None:
    latencies: list[float] = []
    statuses: Counter[int] = Counter()
    images = [next(pieces(seed)) for seed in range(BASE)]

    def work(i: int) -> Callable[[], None]:
        client, requests = (
            Client(port),
            itertools.cycle(form([image]) for image in images[i % BASE :] + images[: i % BASE]),
        )

        def step() -> None:
            began = time.perf_counter()
            status, _ = client.ask("POST", "/predict", *next(requests))
            latencies.append(time.perf_counter() - began)
            statuses[status] += 1

        return step

    before = len(adding.seconds)
    beside = threading.Thread(target=lambda: repeat(seconds, 1, lambda _: adding.step))
    beside.start()
    took = repeat(seconds, clients, work)
    beside.join()
    p50, p99 = (1000 * float(np.percentile(latencies, p)) for p in (50, 99))
    took_each = adding.seconds[before:]
    print(
        f"{clients:3d} clients  {len(latencies) / took:6.1f} requests/s   p50 {p50:6.0f} ms   p99 {p99:6.0f} ms   "
        f"statuses {dict(statuses)}   {len(took_each)} classes added, median {np.median(took_each):.2f} s"
    )


def abuse(port: int, seconds: float) -> None:
    statuses: Counter[int] = Counter()

    def work(i: int) -> Callable[[], None]:
        uploads = itertools.cycle(BAD_UPLOADS.items())

        def step() -> None:
            name, (content, _) = next(uploads)
            status, answer = Client(port).ask("POST", "/predict", *form([content]))
            assert 400 <= status < 500, (name, status)
            assert set(answer) == {"error"}, answer
            statuses[status] += 1

        return step

    repeat(seconds, 8, work)
    total = sum(statuses.values())
    print(f"abuse        {total} bad uploads of {len(BAD_UPLOADS)} kinds, statuses {dict(sorted(statuses.items()))}")


@contextmanager
def service(path: Path) -> Iterator[tuple[int, int]]:
    """The port and the process id of ``subspan serve``."""
    command = [
        sys.executable,
        "-m",
        "subspan",
        "serve",
        str(path),
        "--port",
        "0",
        "--rate",
        "1000000",
        "--burst",
        "1000000",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "SUBSPAN_TOKEN": TOKEN})
    try:
        assert process.stdout is not None
        process.stdout.readline()
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait(30)


def peak_memory(pid: int) -> str:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return f"{int(found[1]) / 1024:.0f} MB" if found else "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="for each number of clients")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pieces.subspan"
        Catalogue.create(path, {f"place {seed}": list(itertools.islice(pieces(seed), 10)) for seed in range(BASE)})
        with service(path) as (port, pid):
            Client(port).ask("POST", "/predict", *form([next(pieces(0))]))
            print(f"service ready, peak memory {peak_memory(pid)}")
            adding = Adding(port)
            for clients in CLIENTS:
                load(port, adding, clients, arguments.seconds)
            print(f"peak memory after load {peak_memory(pid)}")
            abuse(port, arguments.seconds / 2)
            print(f"peak memory after abuse {peak_memory(pid)}")
            expected = [*sorted(f"place {seed}" for seed in range(BASE)), *adding.added]
            answered = [one["name"] for one in Client(port).ask("GET", "/classes")[1]["classes"]]
            sessions = Client(port).ask("GET", "/sessions")[1]["sessions"]
            assert answered == expected, "the service has lost a class"
            assert len(sessions) == 1 + len(adding.added), "the service has lost a session"
        stored = [one.name for one in Catalogue.open(path).classes()]
        assert stored == expected, "the store has lost a class"
        print(f"nothing lost: {len(adding.added)} classes acknowledged, all in the service and in the store")


if __name__ == "__main__":
    main()
