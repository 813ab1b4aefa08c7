"""All figures of a report that its results allow, each with title, caption and a text for those who do not see it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from subspan.experiments.records import Result, WeightSpace
from subspan.experiments.report.drawings import (
    accuracy_curves,
    method_styles,
    prediction_heatmaps,
    to_files,
    weight_space_figure,
)
from subspan.experiments.results import MethodResult


@dataclass(frozen=True)
class ReportFigure:
    """One finished picture."""

    name: str  # of its file, without ending
    title: str
    caption: str
    alt: str
    files: Mapping[str, bytes]  # by ending

    @property
    def png(self) -> bytes:
        return self.files["png"]


def report_figures(results: Sequence[Result]) -> list[ReportFigure]:
    """Accuracy curves of each memory setting, heat maps, and the weight space with moving and with fixed targets."""
    sessions = [one for one in results if isinstance(one, MethodResult)]
    return [*curve_figures(sessions), *heatmap_figures(sessions), *weight_space_figures(results)]


def curve_figures(
    results: Sequence[MethodResult], published: Mapping[tuple[str, bool], Sequence[float]] | None = None
) -> Iterator[ReportFigure]:
    """Accuracy over sessions, one picture per memory setting; ``published`` ones by method and memory beside ours."""
    styles = method_styles([result.method for result in results])
    for memory in (False, True):
        chosen = [result for result in results if result.memory == memory]
        if not chosen:
            continue
        theirs = {method: values for (method, kept), values in (published or {}).items() if kept == memory}
        beside = " Hollow marks are published values, which exist for all classes only." if theirs else ""
        last = "; ".join(f"{result.method} {result.weighted[:, -1].mean():.1f} %" for result in chosen)
        yield ReportFigure(
            name=f"accuracy-{'with' if memory else 'without'}-memory",
            title=f"Accuracy over sessions, {chosen[0].where}",
            caption="Accuracy on all classes seen so far (base and novel weighted by numbers of classes), on base "
            f"classes and on novel classes after each session. Bands are 95 % intervals of the mean.{beside}",
            alt=f"Line charts of accuracy over sessions. All classes after the last session: {last}.",
            files=to_files(accuracy_curves(chosen, styles, theirs)),
        )


def heatmap_figures(results: Sequence[MethodResult]) -> Iterator[ReportFigure]:
    """Predictions of the first sessions: fine-tuning above subspace, or what there is; without memory if possible."""
    rank = {"finetune": 0, "subspace": 1}
    shown: dict[str, MethodResult] = {}  # the first of each method, whatever its options
    for result in sorted(results, key=lambda result: result.memory):
        first = next(iter(shown.values()), result)
        if result.memory == first.memory and result.confusion is not None and len(result.class_counts) > 1:
            shown.setdefault(result.method.partition(":")[0], result)
    chosen = [shown[kind] for kind in sorted(shown, key=lambda kind: rank.get(kind, 2))[:2]]
    if not chosen:
        return
    names = " above ".join(result.method for result in chosen)
    yield ReportFigure(
        name="predictions",
        title=f"Predictions of the first sessions, {chosen[0].where}",
        caption=f"{names}: predictions across, gold labels down, brighter is more frequent (square-root scale). Dashed "
        "lines part base from novel classes; bright columns on the right are a bias towards novel classes."
        + (" Of several feature files the first is shown." if chosen[0].splits.any() else ""),
        alt=f"Heat maps of predicted against gold labels for each session, {names}.",
        files=to_files(prediction_heatmaps(chosen)),
    )


def weight_space_figures(results: Sequence[Result]) -> Iterator[ReportFigure]:
    """The first result with moving targets, and the first with fixed ones; without memory first."""
    for moving in (True, False):
        for result in sorted(results, key=lambda result: getattr(result, result.setting[0])):
            if result.weight_space is not None and result.weight_space.moving == moving:
                yield weight_space_picture(f"{result.method}, {result.where}", result.weight_space)
                break


def weight_space_picture(what: str, space: WeightSpace) -> ReportFigure:
    """The weight space of one head; ``what`` names method and setting."""
    kind = "moving" if space.moving else "fixed"
    target = "is the row's projection on the base subspace and moves with it" if space.moving else ""
    return ReportFigure(
        name=f"weight-space-{kind}-targets",
        title=f"Weight space with {kind} targets: {what}",
        caption="The rows of the classifier on their first two principal components. Novel classes are red "
        "triangles, each tied to its target, a green cross; the target "
        f"{target or 'is fixed before the session starts'}. Base classes are black; the nearest are named.",
        alt=f"Scatter plot of {len(space.base)} base rows and {len(space.novel)} novel rows with their targets.",
        files=to_files(weight_space_figure(space)),
    )
