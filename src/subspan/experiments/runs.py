"""Many runs of both protocols, fanned out: jobs of methods over splits, cells of methods over episodes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from subspan.engine.contract import Learner
from subspan.experiments.episodes import Episodes
from subspan.experiments.fan_out import Placement, fan_out, nothing, with_notes
from subspan.experiments.inputs import ProtocolError, check_inputs
from subspan.experiments.multi_session import MultiSession, run_together
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.experiments.single_session import SingleSession, Stage, batch_size, batches
from subspan.features.feature_set import FeatureSet
from subspan.progress import progress_bar

Split = tuple[FeatureSet, NDArray | None]  # features of a file, embeddings of its classes


@dataclass(frozen=True)
class Job:
    """One method under one memory setting of the multi-session protocol, on feature files of one shape."""

    protocol: MultiSession
    method: Learner
    memory: bool
    splits: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Cell:
    """One method under either protocol, on all files."""

    method: Learner
    shots: int | None = None  # of episodes only; None: the protocol's
    embeddings: str | None = None  # which of the embeddings given
    memory: bool = False  # of sessions only


def run_settings(
    protocol: MultiSession | SingleSession,
    sets: Sequence[FeatureSet],
    cells: Sequence[Cell],
    placement: Placement,
    *,
    embeddings: Sequence[Mapping[str, NDArray]],
    on_result: Callable[[int, Any], object] = nothing,
    keep_predictions: bool = False,
) -> Sequence[MethodResult] | Sequence[EpisodeResult]:
    """One result per cell, in their order, with a bar; ``embeddings`` are of each file, by name."""
    if isinstance(protocol, SingleSession):
        if len(sets) > 1:
            raise ProtocolError(f"episodes are of one feature file; got {len(sets)}")
        given = {"embeddings": embeddings[0], "bar": "episodes", "on_cell": on_result}
        return run_cells(protocol, sets[0], cells, placement, **given)
    kinds = list(dict.fromkeys(one.embeddings for one in cells))
    splits = [(f, vectors.get(kind or "")) for kind in kinds for f, vectors in zip(sets, embeddings, strict=True)]
    first = {kind: number * len(sets) for number, kind in enumerate(kinds)}
    numbers = [tuple(range(first[one.embeddings], first[one.embeddings] + len(sets))) for one in cells]
    jobs = [Job(protocol, one.method, one.memory, of_files) for one, of_files in zip(cells, numbers, strict=True)]
    given = {"bar": "sessions", "on_job": on_result, "keep_predictions": keep_predictions}
    return run_jobs(splits, jobs, placement, **given)


def run_jobs(
    splits: Sequence[Split],
    jobs: Sequence[Job],
    placement: Placement | None = None,
    *,
    bar: str | None = None,
    on_job: Callable[[int, MethodResult], object] = nothing,
    keep_predictions: bool = False,
) -> list[MethodResult]:
    """One result per job, in their order: the draws of all its files, which are solved at once.

    Parameters
    ----------
    splits : features of each file with the embeddings of its classes.
    bar : name of a bar that counts the sessions of finished jobs.
    on_job : called with number and result of a job as soon as it is done.
    """
    placement = placement or Placement()
    shared = (list(splits), placement.device, keep_predictions)
    counts = [len(job.protocol.ends(splits[job.splits[0]][0])) - 1 for job in jobs]

    def cost(job: Job) -> tuple[bool, int, bool]:
        return hasattr(job.method, "solver"), len(job.splits), job.memory

    with progress_bar(bar or "", sum(counts), enabled=bar is not None) as advance:

        def take(number: int, result: MethodResult) -> None:
            advance(counts[number])
            on_job(number, result)

        return fan_out(_run_job, shared, jobs, placement, cost=cost, on_result=take)


def _run_job(shared: tuple[list[Split], str, bool], job: Job) -> MethodResult:
    splits, device, keep_predictions = shared
    results, notes = with_notes(
        lambda: run_together(
            [(job.protocol, *splits[number]) for number in job.splits],
            job.method,
            memory=job.memory,
            device=device,
            keep_predictions=keep_predictions,
        )
    )
    result = MethodResult.joined(results)
    return replace(result, notes=(*result.notes, *notes))


def run_cells(
    protocol: SingleSession,
    features: FeatureSet,
    cells: Sequence[Cell],
    placement: Placement | None = None,
    *,
    embeddings: Mapping[str, NDArray] | None = None,
    episodes: Episodes | None = None,
    batch: int | None = None,
    bar: str | None = None,
    on_cell: Callable[[int, EpisodeResult], object] = nothing,
) -> list[EpisodeResult]:
    """One result per cell, in their order. Cells with the same number of shots see the same episodes.

    Parameters
    ----------
    protocol : its number of shots is that of the cell each time.
    embeddings : of all classes (C0 + C1, e) by name.
    episodes : replay these instead of drawing; cells with fewer shots take the first.
    bar : name of a bar that counts the episodes.
    on_cell : called with number and result of a cell as soon as it is done.
    """
    placement, embeddings = placement or Placement(), embeddings or {}
    for cell in cells:
        if cell.embeddings is not None and cell.embeddings not in embeddings:
            raise ProtocolError(f"there are no embeddings '{cell.embeddings}' among {', '.join(embeddings) or 'none'}")
        check_inputs(features, cell.method, False, embeddings.get(cell.embeddings or ""))
    drawn: dict[int | None, Episodes] = {}
    for shots in {cell.shots for cell in cells}:
        number = shots or protocol.shots
        made = replace(protocol, shots=number).draw(features) if episodes is None else episodes.first_shots(number)
        made.check(features)
        drawn[shots] = made
    pieces = [
        (number, start, stop)
        for number, cell in enumerate(cells)
        for start, stop in batches(len(drawn[cell.shots]), batch or batch_size(cell.method, placement.device))
    ]
    waiting = Counter(number for number, _, _ in pieces)
    found: list[dict[int, EpisodeResult]] = [{} for _ in cells]  # parts of each cell by their start
    whole: dict[int, EpisodeResult] = {}

    shared = _Shared(features, embeddings, drawn, cells, placement.device, protocol.dtype, {})
    with progress_bar(bar or "", sum(stop - start for _, start, stop in pieces), enabled=bar is not None) as advance:

        def take(index: int, part: EpisodeResult) -> None:
            number, start, stop = pieces[index]
            found[number][start] = part
            advance(stop - start)
            if len(found[number]) == waiting[number]:
                whole[number] = EpisodeResult.joined([part for _, part in sorted(found[number].items())])
                on_cell(number, whole[number])

        fan_out(_run_piece, shared, pieces, placement, on_result=take)
    return [whole[number] for number in range(len(cells))]


class _Shared(NamedTuple):
    """What every process needs, and the stages it has set up so far."""

    features: FeatureSet
    embeddings: Mapping[str, NDArray]
    episodes: Mapping[int | None, Episodes]
    cells: Sequence[Cell]
    device: str
    dtype: str
    stages: dict[tuple[bool, str | None], Stage]


def _run_piece(shared: _Shared, piece: tuple[int, int, int]) -> EpisodeResult:
    """The result of one cell's episodes from the first to before the last."""
    number, start, stop = piece
    cell = shared.cells[number]
    episodes, vectors = shared.episodes[cell.shots].part(start, stop), shared.embeddings.get(cell.embeddings or "")

    def run() -> EpisodeResult:
        key = use_bias, _ = cell.method.uses_bias, cell.embeddings
        if key not in shared.stages:
            made = Stage(shared.features, vectors, use_bias=use_bias, device=shared.device, dtype=shared.dtype)
            shared.stages[key] = made
        return shared.stages[key].run(cell.method, episodes)

    result, notes = with_notes(run)
    return replace(result, notes=(*result.notes, *notes))
