"""Many runs of the single-session protocol: methods and numbers of shots, their episodes fanned out batch by batch."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from numpy.typing import NDArray

from subspan.engine.contract import Learner
from subspan.experiments.episodes import Episodes
from subspan.experiments.fan_out import Placement, Tick, fan_out, nothing, with_notes
from subspan.experiments.inputs import ProtocolError, check_inputs
from subspan.experiments.results import EpisodeResult
from subspan.experiments.single_session import SingleSession, Stage, batch_size, batches
from subspan.features.feature_set import FeatureSet


@dataclass(frozen=True)
class Cell:
    """One method with one number of shots: a cell of the table."""

    method: Learner
    shots: int
    embeddings: str | None = None  # which of the embeddings given


def run_cells(
    protocol: SingleSession,
    features: FeatureSet,
    cells: Sequence[Cell],
    placement: Placement | None = None,
    *,
    embeddings: Mapping[str, NDArray] | None = None,
    episodes: Episodes | None = None,
    batch: int | None = None,
    on_episodes: Callable[[int], object] = nothing,
    on_cell: Callable[[int, EpisodeResult], object] = nothing,
) -> list[EpisodeResult]:
    """One result per cell, in their order. Cells with the same number of shots see the same episodes.

    Parameters
    ----------
    protocol : its number of shots is that of the cell each time.
    embeddings : of all classes (C0 + C1, e) by name.
    episodes : replay these instead of drawing; cells with fewer shots take the first.
    on_episodes : called with how many episodes have been learned and scored since the last call.
    on_cell : called with number and result of a cell as soon as it is done.
    """
    placement = placement or Placement()
    embeddings = embeddings or {}
    for cell in cells:
        if cell.embeddings is not None and cell.embeddings not in embeddings:
            raise ProtocolError(f"there are no embeddings '{cell.embeddings}' among {', '.join(embeddings) or 'none'}")
        check_inputs(features, cell.method, False, embeddings.get(cell.embeddings or ""))
    drawn: dict[int, Episodes] = {}
    for shots in sorted({cell.shots for cell in cells}):
        made = replace(protocol, shots=shots).draw(features) if episodes is None else episodes.first_shots(shots)
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

    def take(index: int, part: EpisodeResult) -> None:
        number, start, stop = pieces[index]
        found[number][start] = part
        on_episodes(stop - start)
        if len(found[number]) == waiting[number]:
            whole[number] = EpisodeResult.joined([part for _, part in sorted(found[number].items())])
            on_cell(number, whole[number])

    shared = _Shared(features, dict(embeddings), drawn, tuple(cells), placement.device, protocol.dtype)
    fan_out(_run, shared, pieces, placement, on_result=take)
    return [whole[number] for number in range(len(cells))]


@dataclass
class _Shared:
    """What every process needs, and the stages it has set up so far."""

    features: FeatureSet
    embeddings: dict[str, NDArray]
    episodes: dict[int, Episodes]
    cells: tuple[Cell, ...]
    device: str
    dtype: str
    stages: dict[tuple[bool, str | None], Stage] = field(default_factory=dict)

    def stage(self, cell: Cell) -> Stage:
        key = (cell.method.uses_bias, cell.embeddings)
        if key not in self.stages:
            vectors = None if cell.embeddings is None else self.embeddings[cell.embeddings]
            self.stages[key] = Stage(self.features, vectors, use_bias=key[0], device=self.device, dtype=self.dtype)
        return self.stages[key]


def _run(shared: _Shared, piece: tuple[int, int, int], tick: Tick) -> EpisodeResult:
    """The result of one cell's episodes from the first to before the last."""
    number, start, stop = piece
    cell = shared.cells[number]
    episodes = shared.episodes[cell.shots].part(start, stop)
    result, notes = with_notes(lambda: shared.stage(cell).run(cell.method, episodes))
    tick()
    return replace(result, notes=notes)
