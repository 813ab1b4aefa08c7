"""Many runs of the multi-session protocol: methods under both memory settings, over splits, fanned out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from subspan.engine.contract import Learner
from subspan.experiments.fan_out import Placement, Tick, fan_out, nothing, with_notes
from subspan.experiments.inputs import ProtocolError, check_inputs
from subspan.experiments.multi_session import MultiSession, run_together
from subspan.experiments.results import BY_DRAW, MethodResult
from subspan.features.feature_set import FeatureSet

Split = tuple[FeatureSet, NDArray | None]  # features of a file, embeddings of its classes


@dataclass(frozen=True)
class Job:
    """One method under one memory setting, on feature files of one shape."""

    protocol: MultiSession
    method: Learner
    memory: bool
    splits: tuple[int, ...] = (0,)


def run_jobs(
    splits: Sequence[Split],
    jobs: Sequence[Job],
    placement: Placement | None = None,
    *,
    on_session: Tick = nothing,
    on_job: Callable[[int, MethodResult], object] = nothing,
    keep_predictions: bool = False,
) -> list[MethodResult]:
    """One result per job, in their order: the draws of all its files. Jobs of one method are solved at once.

    Parameters
    ----------
    splits : features of each file with the embeddings of its classes.
    on_session : called whenever a session of some job is done.
    on_job : called with number and result of a job as soon as it is done.
    """
    placement = placement or Placement()
    shared = (list(splits), placement.device, keep_predictions)
    groups = _in_step(splits, jobs)
    found: dict[int, MethodResult] = {}

    def on_group(number: int, results: list[MethodResult]) -> None:
        for i, result in zip(groups[number], results, strict=True):
            found[i] = result
            on_job(i, result)

    fan_out(
        _run,
        shared,
        [[jobs[i] for i in group] for group in groups],
        placement,
        cost=lambda group: (hasattr(group[0].method, "solver"), sum(len(job.splits) for job in group), group[0].memory),
        on_tick=on_session,
        on_result=on_group,
    )
    return [found[i] for i in range(len(jobs))]


def _in_step(splits: Sequence[Split], jobs: Sequence[Job]) -> list[list[int]]:
    """The numbers of jobs that can run in step: one method, one memory unless it has no use for any, equal shapes."""
    groups: dict[object, list[int]] = {}
    for i, job in enumerate(jobs):
        shapes = frozenset(_shape(splits[number][0]) for number in job.splits)
        alike = job.method, job.memory and job.method.uses_memory, shapes
        protocol = replace(job.protocol, draws=0, seed=0)  # in these they may differ
        groups.setdefault((*alike, protocol), []).append(i)
    return list(groups.values())


def _shape(features: FeatureSet) -> tuple[object, ...]:
    """What files must share to be solved as one batch."""
    copies = features.novel_support.shape[1:]  # and the width
    return features.base_weight.shape, features.base_bias is None, copies, features.novel_count


def merge(results: Sequence[MethodResult]) -> MethodResult:
    """The results of one method on several files as one, with the draws of all and the number of each draw's file.

    What shows single classes, whose like there is not in every file, is of the first file: confusion and weight space.
    """
    first = results[0]
    if len(results) == 1:
        return first
    predictions = None
    if first.predictions is not None:
        labels = [np.asarray(r.query_labels) for r in results]
        if any(not np.array_equal(one, labels[0]) for one in labels):
            raise ProtocolError("predictions of several files need the same number of test items of each class in all")
        predictions = tuple(np.concatenate(p) for p in zip(*(r.predictions or () for r in results), strict=True))
    return replace(
        first,
        **{name: np.concatenate([getattr(r, name) for r in results]) for name in BY_DRAW},
        splits=np.concatenate([np.full(len(r.base), i) for i, r in enumerate(results)]),
        seconds=sum(r.seconds for r in results),
        final_rows=None,
        predictions=predictions,
        notes=tuple(dict.fromkeys(note for r in results for note in r.notes)),
    )


def _run(shared: tuple[list[Split], str, bool], group: list[Job], tick: Tick) -> list[MethodResult]:
    splits, device, keep_predictions = shared

    def on_session(_: int) -> None:
        for _job in group:
            tick()

    for job in group:
        for number in job.splits:
            check_inputs(splits[number][0], job.method, job.memory, splits[number][1])
    files = list(dict.fromkeys((job.protocol, number) for job in group for number in job.splits))
    results, notes = with_notes(
        lambda: run_together(
            [(protocol, *splits[number]) for protocol, number in files],
            group[0].method,
            memory=all(job.memory for job in group),
            device=device,
            on_session=on_session,
            keep_predictions=keep_predictions,
        )
    )
    if notes and len(group) > 1:  # of which job they are is not known: alone each has its own
        return [result for job in group for result in _run(shared, [job], nothing)]
    found = dict(zip(files, results, strict=True))
    merged = [merge([found[job.protocol, number] for number in job.splits]) for job in group]
    return [
        replace(result, memory=job.memory, notes=(*result.notes, *notes))
        for job, result in zip(group, merged, strict=True)
    ]
