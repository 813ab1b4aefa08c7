"""``subspan serve`` under images that are small as files and huge as pixels: what they cost the service and others.

Last measured 2026-11-20, 2 CPU cores shared with others, one run each, 20 s; before: the service of 2026-11-19:

                                            before                           now
    20 images, 3.2 MB                       200 after 48.6 s                 413 after 0.1 s
    two clients with 5 each                 2 answers                        2 answers, 40 times 429
    small requests meanwhile                p50 0.20, p99 19.7, max 21.3 s   p50 0.19, p99 0.41, max 0.42 s
    memory before, at most, after           125, 506, 506 MB                 128, 685, 133 MB

    python benchmarks/costly.py

One request of twenty empty PNGs of 7,000 x 7,000 pixels; then two clients with five of them each, again and again for
``--seconds``, while a third asks about one small image after the other. Memory is what the service holds before the
first request, at most, and at the end.
"""

import argparse
import io
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx2
import numpy as np
from PIL import Image

from soak import TOKEN, Running, made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions


def ask(service: Running, images: list[bytes]) -> tuple[int, float]:
    """The status and the seconds of one request."""
    files = [("images", ("a.png", image, "image/png")) for image in images]
    began = time.perf_counter()
    answer = httpx2.post(service.url("predict"), files=files, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=600)
    return answer.status_code, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    stream = io.BytesIO()
    Image.new("RGB", (7000, 7000), "grey").save(stream, "PNG")
    large, small = stream.getvalue(), made.encoded(made.photographs("red", 1)[0])
    with tempfile.TemporaryDirectory() as folder:
        network = f"onnx:{made.write_onnx(Path(folder) / 'tiny.onnx')}"
        photographs = {name: made.photographs(name, 30) for name in ("red", "green", "blue")}
        Catalogue.create(Path(folder) / "c.subspan", photographs, CatalogueOptions(backbone=network))
        service = Running(Path(folder) / "c.subspan", "--trust")
        try:
            ask(service, [small])
            memory = [service.memory()]
            status, seconds = ask(service, [large] * 20)
            print(f"20 images of 49 million pixels, {20 * len(large) / 1e6:.1f} MB: {status} after {seconds:.1f} s")
            statuses: Counter[int] = Counter()
            until = time.monotonic() + arguments.seconds

            def attack() -> None:
                while time.monotonic() < until:
                    statuses[ask(service, [large] * 5)[0]] += 1

            clients = [threading.Thread(target=attack) for _ in range(2)]
            for client in clients:
                client.start()
            waits = []
            while any(client.is_alive() for client in clients):
                waits.append(ask(service, [small])[1])
                memory.append(service.memory())
                time.sleep(0.2)
            ask(service, [small])
            time.sleep(2)
            p50, p99, most = np.percentile(waits, [50, 99, 100])
            print(f"two clients with 5 of them each: answers {dict(statuses)}")
            print(f"small requests meanwhile: {len(waits)}, p50 {p50:.2f} s, p99 {p99:.2f} s, longest {most:.2f} s")
            print(f"memory: {memory[0]:.0f} MB before, {max(memory):.0f} MB at most, {service.memory():.0f} MB after")
        finally:
            service.process.terminate()
            service.process.wait(60)


if __name__ == "__main__":
    main()
