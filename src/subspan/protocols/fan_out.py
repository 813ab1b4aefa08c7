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
from .multi_session import MultiSession, ProtocolError
from .results import MethodResult

Split = tuple[FeatureSet, NDArray | None]  # features of a file, embeddings of its classes


@dataclass(frozen=True)
class Job:
    """One method under one memory setting, on feature files of one shape."""

    method: Method
    memory: bool
    splits: tuple[int, ...] = (0,)


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
    """One result per job, in their order: the draws of all its files.

    Parameters
    ----------
    splits : features of each file with the embeddings of its classes.
    workers : processes; by default one per core on a CPU, and none beside this one on a GPU.
    on_session : called whenever a session of some job is done.
    """
    workers = min(workers or (1 if device != "cpu" else os.cpu_count() or 1), len(jobs))
    arguments = (protocol, device, keep_predictions)
    if workers <= 1:
        return [_run(job, splits, arguments, lambda _: on_session()) for job in jobs]
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


def _merge(results: Sequence[MethodResult]) -> MethodResult:
    """The results of one method on several files as one, with the draws of all and the number of each draw's file."""
    first = results[0]
    if len(results) == 1:
        return first
    stacked = ("base", "novel", "steps", "novel_at_birth", "novel_at_end")
    predictions = None
    if first.predictions is not None:
        labels = [np.asarray(r.query_labels) for r in results]
        if any(not np.array_equal(one, labels[0]) for one in labels):
            raise ProtocolError("predictions of several files need the same number of test items of each class in all")
        predictions = tuple(np.concatenate(p) for p in zip(*(r.predictions or () for r in results), strict=True))
    return replace(
        first,
        **{name: np.concatenate([getattr(r, name) for r in results]) for name in stacked},
        splits=np.concatenate([np.full(len(r.base), i) for i, r in enumerate(results)]),
        seconds=sum(r.seconds for r in results),
        confusion=None,  # classes differ from file to file
        final_rows=None,
        predictions=predictions,
    )


_worker: dict = {}


def _start_worker(ticks, splits, arguments) -> None:
    torch.set_num_threads(1)
    _worker.update(ticks=ticks, splits=splits, arguments=arguments)


def _run_in_worker(job: Job) -> MethodResult:
    return _run(job, _worker["splits"], _worker["arguments"], _worker["ticks"].put)


def _run(job: Job, splits: Sequence[Split], arguments: tuple, on_session: Callable[[int], object]) -> MethodResult:
    protocol, device, keep_predictions = arguments
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = protocol.run_together(
            [splits[i] for i in job.splits],
            job.method,
            memory=job.memory,
            device=device,
            on_session=on_session,
            keep_predictions=keep_predictions,
        )
    notes = tuple(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)))
    return replace(_merge(results), notes=notes)
