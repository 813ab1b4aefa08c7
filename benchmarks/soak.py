"""``subspan serve`` for long: eight clients beside a killer and a full disk. Nothing acknowledged may be lost.

Last measured 2026-11-20, 2 CPU cores shared with others, ``--seconds 300``:

    300 s, 8 clients, 10 kills, 8 times a full disk
    135 sessions acknowledged, 96 taken back, 0 lost, 0 back
    answers from 126 versions; from a wrong one 0
    memory of the service that was not killed: 132 MB after 60 s, 134 MB at the end

    python benchmarks/soak.py --seconds 1800

Two services of one store, with a network of a few filters, so that sessions and not pixels are the work. Eight clients
ask either of them at random: they classify, add a class of their own, or take the last session back. Every few seconds
one of the services is killed (SIGKILL) and started again, or for a second the other can write no byte to any file, as
when the disk is full. At the end:

- an added class that was acknowledged must be known, unless its undo was acknowledged, or was under way when its
  service was killed; a class whose undo was acknowledged must not be known;
- an answer names its version: the classes it scored must be those of that version, as it lies in the store;
- the service that is never killed must not grow: its memory after the first minute (or third of the time) and at the
  end are printed, as the highest of a few seconds.
"""

import argparse
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.catalogue.snapshot import Snapshot
from subspan.files.store import load_version

TOKEN = "token-of-the-benchmark"
CLIENTS, MOST_CLASSES = 8, 40
OPTIONS = ["--trust", "--rate", "1e6", "--burst", "1000000", "--pixel-rate", "1e12", "--refresh-seconds", "0.2"]


class Running:
    """One service, as a process."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path, self.options, self.port = path, options, 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "subspan", "serve", str(self.path), "--port", str(self.port), *self.options]
        environment = {**os.environ, "SUBSPAN_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()
        found = re.search(r":(\d+)/", self.process.stdout.readline())
        assert found, "the service did not start"
        self.port = int(found[1])

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def memory(self) -> float:
        """MB it holds now."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found
        return int(found[1]) / 1024

    def fill_disk(self, full: bool) -> None:
        """No byte can be written to a file while it is full."""
        most = resource.RLIM_INFINITY
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0 if full else most, most))


@dataclass
class Seen:
    """What the clients were told, all of them together."""

    added: set[str] = field(default_factory=set)  # acknowledged
    undone: set[str] = field(default_factory=set)  # acknowledged
    unsure: set[str] = field(default_factory=set)  # its undo was under way
    answers: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)


class Client:
    """Asks, adds and takes back at random, until it is time."""

    def __init__(self, number: int, services: list[Running], seen: Seen, until: float) -> None:
        self.number, self.services, self.seen, self.until = number, services, seen, until
        self.random, self.count = random.Random(number), 0
        self.pictures = [made.encoded(one) for one in made.photographs("pink", 20, seed=number)]

    def run(self) -> None:
        while time.monotonic() < self.until:
            service = self.random.choice(self.services)
            step = self.random.choices([self.predict, self.add, self.undo], [6, 2, 2])[0]
            try:
                step(service)
            except httpx2.HTTPError as error:  # it is being killed
                self.seen.statuses[type(error).__name__] += 1
                time.sleep(0.05)

    def ask(self, service: Running, path: str, **body: Any) -> Any:
        """What it answers; None where it refuses."""
        answer = httpx2.request(
            "POST" if body else "GET",
            service.url(path),
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=60,
            **body,
        )
        self.seen.statuses[str(answer.status_code)] += 1
        return answer.json() if answer.status_code < 300 else None

    def images(self, count: int) -> list[Any]:
        return [("images", ("a.png", one, "image/png")) for one in self.random.sample(self.pictures, count)]

    def predict(self, service: Running) -> None:
        answer = self.ask(service, "predict", files=self.images(2), data={"top": "1000"})
        for one in answer["predictions"] if answer else []:
            names = frozenset(candidate["name"] for candidate in one["candidates"])
            self.seen.answers.add((answer["version"], names))

    def add(self, service: Running) -> None:
        known = self.ask(service, "classes")
        if known is None or len(known["classes"]) > MOST_CLASSES:
            self.undo(service)
            return
        self.count += 1
        name = f"class {self.number} {self.count}"
        if self.ask(service, "classes", files=self.images(3), data={"name": name}):
            self.seen.added.add(name)

    def undo(self, service: Running) -> None:
        if not (log := self.ask(service, "sessions")) or len(log["sessions"]) < 2:
            return
        last = log["sessions"][-1]
        try:
            answer = self.ask(service, "undo", json={"version": last["version"]})
        except httpx2.HTTPError:
            self.seen.unsure.update(last["classes"])
            raise
        if answer:
            self.seen.undone.update(answer["classes"])


def disturb(victim: Running, steady: Running, until: float, every: float) -> tuple[int, int]:
    """Kill the one or fill the disk of the other until it is time; how often."""
    chance, kills, full = random.Random(0), 0, 0
    while (left := until - time.monotonic()) > 2 * every:
        time.sleep(chance.uniform(0.2, min(left, every)))
        if chance.random() < 0.7:
            victim.process.kill()
            victim.process.wait()
            victim.start()
            kills += 1
        else:
            steady.fill_disk(True)
            time.sleep(1)
            steady.fill_disk(False)
            full += 1
    return kills, full


def soak(path: Path, seconds: float, every: float) -> bool:
    """Whether nothing was lost."""
    services = [Running(path, *OPTIONS), Running(path, *OPTIONS)]
    began, seen = time.monotonic(), Seen()
    until = began + seconds
    clients = [threading.Thread(target=Client(i, services, seen, until).run) for i in range(CLIENTS)]
    memory: list[tuple[float, float]] = []

    def measure() -> None:
        while time.monotonic() < until:
            memory.append((time.monotonic() - began, services[1].memory()))
            time.sleep(0.5)

    for thread in (*clients, measuring := threading.Thread(target=measure)):
        thread.start()
    try:
        kills, full = disturb(services[0], services[1], until, every)
        for thread in (*clients, measuring):
            thread.join()
    finally:
        for service in services:
            service.process.terminate()
            service.process.wait(60)
    catalogue = Catalogue.open(path, trust=True)
    known = {one.name for one in catalogue.classes()}
    lost = seen.added - seen.undone - seen.unsure - known
    back = (seen.undone & known) - seen.unsure
    wrong = [
        (version[:12], names)
        for version, names in seen.answers
        if names != set(Snapshot.from_version(load_version(path, version), path, (version,), True).classes)
    ]
    early = min(60.0, seconds / 3)
    first = max(held for at, held in memory if early - 5 <= at <= early + 5)
    last = max(held for at, held in memory if at >= seconds - 10)
    print(f"{seconds:g} s, {CLIENTS} clients, {kills} kills, {full} times a full disk; answers {dict(seen.statuses)}")
    print(f"{len(seen.added)} sessions acknowledged, {len(seen.undone)} taken back, {len(lost)} lost, {len(back)} back")
    print(f"answers from {len({version for version, _ in seen.answers})} versions; from a wrong one {len(wrong)}")
    print(f"memory of the service that was not killed: {first:.0f} MB after {early:.0f} s, {last:.0f} MB at the end")
    for what in (*lost, *back, *wrong):
        print(f"  {what}")
    return not (lost or back or wrong) and bool(seen.added) and last < first + 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--every", type=float, default=5, help="seconds at most between two disturbances")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        network = f"onnx:{made.write_onnx(Path(folder) / 'tiny.onnx')}"
        path = Path(folder) / "c.subspan"
        photographs = {name: made.photographs(name, 30) for name in ("red", "green", "blue")}
        Catalogue.create(path, photographs, CatalogueOptions(backbone=network))
        sys.exit(0 if soak(path, arguments.seconds, arguments.every) else "something was lost, wrong or grew")


if __name__ == "__main__":
    main()
