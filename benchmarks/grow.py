"""Growing: photographs a second of a base session over Ray, feature rows a second of one in parts, and what answers.

Last measured 2026-11-19, 2 CPU cores (AMD EPYC virtual machine) that others kept busy (load 9 to 14), one thread:

    photographs   400 of hands.zip, one run each: 58.5 a second with 1 worker, 30.3 with 2: no core was free for it
    stream        1,000,000 rows: 12,279 a processor second (303 s wall, 2026-11-20); 667 MB from 100,000 on
    indexes       100,000 classes, one question, processor ms: product float32 16.3, faiss flat float16 9.2, faiss
                  1000 lists (16 asked) 0.35 at recall 1.00 on made-up groups of classes; a graph by usearch was
                  stopped half built, after five minutes (some 45 processor seconds)

    python benchmarks/grow.py photographs hands.zip --within test/   # 1 and 2 workers of a local Ray cluster
    python benchmarks/grow.py stream                   # made-up rows by `partial_fit`, in bounded memory
    python benchmarks/grow.py indexes                   # 100,000 classes: products against faiss and usearch (pip)

`photographs` unpacks a zip of class folders, and makes a catalogue of it by the packaged network, one thread a worker;
seconds are those of `init` without starting Ray. `stream` prints the greatest memory of the process by the operating
system (ru_maxrss). `indexes` asks for the class of greatest score among random weights; recall is the share of
questions for which an index names the one that the product names.
"""

import argparse
import resource
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, CLASSES, ROWS, PART = 1280, 100, 1_000_000, 10_000
MANY, QUESTIONS = 100_000, 20


def timed(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """What an action returns, wall seconds, and processor seconds of this process."""
    wall, processor = time.perf_counter(), time.process_time()
    result = action()
    return result, time.perf_counter() - wall, time.process_time() - processor


def measure_photographs(place: Path, within: str, limit: int) -> None:
    import ray

    from subspan.catalogue import sharded
    from subspan.catalogue.catalogue import Catalogue
    from subspan.catalogue.photographs import open_class_photographs

    sharded.SHARD = 128  # some hundred photographs are to keep two workers at work
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(place) as archive:
            archive.extractall(Path(folder) / "photographs", [n for n in archive.namelist() if n.startswith(within)])
        with open_class_photographs(Path(folder) / "photographs") as found:
            each = max(1, limit // len(found))
            chosen = {name: files[:each] for name, files in found.items()}
            count = sum(map(len, chosen.values()))
            for workers in (1, 2):
                ray.init(num_cpus=workers, log_to_driver=False)
                try:
                    first = {name: files[:2] for name, files in chosen.items()}  # workers load the network
                    Catalogue.create(Path(folder) / f"warm{workers}.subspan", first, ray=True)
                    target = Path(folder) / f"{workers}.subspan"
                    report, wall, _ = timed(lambda to=target: Catalogue.create(to, chosen, ray=True)[1])
                finally:
                    ray.shutdown()
                print(f"{workers} workers: {count} photographs in {wall:.1f} s, {count / wall:.1f} a second", end="")
                print(f"; check set {report.accuracy:.1f} %", flush=True)


def measure_stream(rows: int) -> None:
    from subspan import IncrementalClassifier

    rng = np.random.default_rng(0)
    means = np.abs(rng.standard_normal((CLASSES, WIDTH), dtype=np.float32))
    model = IncrementalClassifier()
    wall = processor = 0.0
    for done in range(PART, rows + 1, PART):
        labels = rng.integers(0, CLASSES, PART)
        features = np.abs(means[labels] + rng.standard_normal((PART, WIDTH), dtype=np.float32))
        _, one, other = timed(lambda X=features, y=labels: model.partial_fit(X, y))
        wall, processor = wall + one, processor + other
        if done in (PART, rows // 10, rows):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"{done:9,} rows: wall {wall:.1f} s, processor {processor:.1f} s, ", end="")
            print(f"{done / processor:,.0f} rows a processor second, peak memory {peak:,.0f} MB", flush=True)


def measure_indexes() -> None:
    import faiss  # pyright: ignore[reportMissingImports]
    from usearch.index import Index  # pyright: ignore[reportMissingImports]

    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    # Classes in groups, as kinds of things lie, at length one.
    weights = rng.standard_normal((1000, 64), dtype=np.float32)[rng.integers(0, 1000, MANY)]
    weights = weights + 0.7 * rng.standard_normal((MANY, 64), dtype=np.float32)
    weights = weights @ rng.standard_normal((64, WIDTH), dtype=np.float32)
    weights += 2 * rng.standard_normal((MANY, WIDTH), dtype=np.float32)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    asked = weights[rng.integers(0, MANY, QUESTIONS)] + 0.02 * rng.standard_normal((QUESTIONS, WIDTH), dtype=np.float32)
    right = (asked @ weights.T).argmax(1)

    def ask(name: str, answer: Callable[[Any], int], built: float, megabytes: float) -> None:
        found, wall, processor = timed(lambda: [answer(query[None]) for query in asked])
        recall = np.mean(np.array(found) == right)
        print(f"{name:28} build {built:7.1f} s {megabytes:6.0f} MB   wall {1e3 * wall / QUESTIONS:7.2f} ms", end="")
        print(f"   processor {1e3 * processor / QUESTIONS:7.2f} ms   recall {recall:.2f}", flush=True)

    ask("product, float32", lambda q: int((q @ weights.T).argmax()), 0, weights.nbytes / 1e6)
    flat, _, built = timed(lambda: faiss.IndexScalarQuantizer(WIDTH, faiss.ScalarQuantizer.QT_fp16, 1))
    flat.add(weights)
    ask("faiss flat, float16", lambda q: int(flat.search(q, 1)[1][0, 0]), built, weights.nbytes / 2e6)
    coarse = faiss.IndexFlatIP(WIDTH)
    lists = faiss.IndexIVFScalarQuantizer(coarse, WIDTH, 1000, faiss.ScalarQuantizer.QT_fp16, 1)
    lists.cp.niter, lists.nprobe = 5, 16
    _, _, built = timed(lambda: (lists.train(weights[:40_000]), lists.add(weights)))
    ask("faiss 1000 lists, 16 asked", lambda q: int(lists.search(q, 1)[1][0, 0]), built, weights.nbytes / 2e6)
    graph = Index(ndim=WIDTH, metric="ip", dtype="f16", expansion_add=64)
    _, _, built = timed(lambda: graph.add(np.arange(MANY), weights, threads=1))
    ask("usearch graph, float16", lambda q: int(graph.search(q[0], 1).keys[0]), built, graph.memory_usage / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=("photographs", "stream", "indexes"))
    parser.add_argument("zip", type=Path, nargs="?", help="class folders")
    parser.add_argument("--within", default="", help="folder of the zip")
    parser.add_argument("--limit", type=int, default=600, help="photographs")
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    if arguments.part == "photographs":
        measure_photographs(arguments.zip, arguments.within, arguments.limit)
    elif arguments.part == "stream":
        measure_stream(arguments.rows)
    else:
        measure_indexes()


if __name__ == "__main__":
    main()
