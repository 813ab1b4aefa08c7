"""Many runs of a protocol over the cores of one machine, each in a process of its own, with progress."""

import multiprocessing
import os
import queue
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ..features import FeatureSet
from ..methods import Method
from .multi_session import MultiSession
from .results import MethodResult


Split = tuple[FeatureSet, NDArray | None]  # features of a file, embeddings of its classes


@dataclass(frozen=True)
class Job:
    """One method under one memory setting on one feature file."""

    split: int
    method: Method
    memory: bool


def run_jobs(
    protocol: MultiSession,
    splits: Sequence[Split],
    jobs: Sequence[Job],
    *,
    device: str = "cpu",
    workers: int | None = None,
    on_session: Callable[[], object] = lambda: None,
    keep_predictions: bool = False,
) -> list[MethodResult]:
    """Results in the order of the jobs.

    Parameters
    ----------
    splits : features of each file with the embeddings of its classes.
    workers : processes; by default one per core on a CPU, and none beside this one on a GPU.
    on_session : called whenever a session of some job is done.
    """
    workers = min(workers or (1 if device != "cpu" else os.cpu_count() or 1), len(jobs))
    arguments = (protocol, device, keep_predictions)
    if workers <= 1:
        return [_run(job, splits[job.split], arguments, lambda _: on_session()) for job in jobs]
    context = multiprocessing.get_context("spawn")
    ticks = context.Queue()
    # Long jobs first: they leave no core idle at the end.
    order = sorted(range(len(jobs)), key=lambda i: (jobs[i].memory, hasattr(jobs[i].method, "solver")), reverse=True)
    with ProcessPoolExecutor(workers, context, _start_worker, (ticks, list(splits), arguments)) as pool:
        futures = {i: pool.submit(_run_in_worker, jobs[i]) for i in order}
        while not all(future.done() for future in futures.values()):
            if any(future.done() and future.exception() for future in futures.values()):
                pool.shutdown(cancel_futures=True)
                break
            try:
                ticks.get(timeout=0.2)
                on_session()
            except queue.Empty:
                continue
        return [futures[i].result() for i in range(len(jobs))]


def merge_splits(results: Sequence[MethodResult]) -> MethodResult:
    """The results of one method on several files as one, with the draws of all and the number of each draw's file."""
    first = results[0]
    if any(r.class_counts != first.class_counts for r in results):
        raise ValueError("files of one table must have the same numbers of classes per session")
    stacked = ("base", "novel", "steps", "novel_at_birth", "novel_at_end")
    return replace(
        first,
        **{name: np.concatenate([getattr(r, name) for r in results]) for name in stacked},
        splits=np.concatenate([np.full(len(r.base), i) for i, r in enumerate(results)]),
        seconds=sum(r.seconds for r in results),
        confusion=None if len(results) > 1 else first.confusion,
        final_rows=None if len(results) > 1 else first.final_rows,
        predictions=None if len(results) > 1 else first.predictions,
    )


_worker: dict = {}


def _start_worker(ticks, splits, arguments) -> None:
    torch.set_num_threads(1)
    _worker.update(ticks=ticks, splits=splits, arguments=arguments)


def _run_in_worker(job: Job) -> MethodResult:
    return _run(job, _worker["splits"][job.split], _worker["arguments"], _worker["ticks"].put)


def _run(job: Job, split: Split, arguments: tuple, on_session: Callable[[int], object]) -> MethodResult:
    features, embeddings = split
    protocol, device, keep_predictions = arguments
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = protocol.run(
            features,
            job.method,
            memory=job.memory,
            embeddings=embeddings,
            device=device,
            on_session=on_session,
            keep_predictions=keep_predictions,
        )
    notes = tuple(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)))
    return replace(result, notes=notes)
