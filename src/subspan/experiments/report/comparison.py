"""What a comparison leaves: its findings in words, one table, one figure, and all figures for programs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from subspan.arrays import FloatArray
from subspan.experiments.compare import Compared
from subspan.experiments.compare.ways import OURS
from subspan.experiments.metrics import paired_tests
from subspan.experiments.records import plain
from subspan.experiments.report.drawings import method_styles, new_figure, plain_axes, to_files
from subspan.experiments.report.figures import ReportFigure
from subspan.experiments.report.tables import Cell, Column, Row, Table, bold_note, not_below_best

ACCURACY, COST = "Accuracy (%), mean over classes", "What it costs"
ACCURACIES = {"accuracy": "all", "base": "base", "novel": "novel"}  # of a record, and what columns call them
BY_SESSION = ("seconds", *ACCURACIES)


def findings(results: Sequence[Compared]) -> list[str]:
    """Who is best after the last session, who may be as good, and where Subspan's default stands."""
    last = {one.method: one.accuracy[:, -1] for one in results}
    tests = paired_tests(last)
    best = next(one for one in results if tests[one.method].best)
    draws = len(best.accuracy)
    sentences = [f"Best after the last session: {best.method}, {_percent(best)} (mean over classes)."]
    if draws == 1:
        sentences.append("One draw: no interval and no test, so a lead of a few points may be chance.")
    elif len(results) > 1:
        level = [name for name, test in tests.items() if not (test.best or test.p_value < 0.05)]
        said = f"Not significantly below it: {', '.join(level)}" if level else "All others are significantly below it"
        sentences.append(f"{said} (paired t-test over {draws} draws, p < 0.05 after Bonferroni correction).")
    ours = next((one for one in results if one.method == OURS), None)
    if ours is not None and ours is not best:
        behind = float(np.mean(last[best.method] - last[OURS]))
        verdict = "" if draws == 1 else ", which is not significant" if tests[OURS].not_below else ", significantly"
        sentences.append(f"Subspan's default has {_percent(ours)}: {behind:.1f} points less{verdict}.")
    if best.old_examples:
        free = [one for one in results if not one.old_examples]
        if free:
            leader = max(free, key=lambda one: float(one.accuracy[:, -1].mean()))
            sentences.append(
                f"It needs all old examples; the best that needs none is {leader.method}, {_percent(leader)}."
            )
    return sentences


def _percent(one: Compared) -> str:
    mean, half_width = one.mean_and_half_width(one.accuracy[:, -1])
    return f"{mean:.1f}" + (f" ± {half_width:.1f}" if np.isfinite(half_width) else "") + " %"


def comparison_table(results: Sequence[Compared], title: str = "") -> Table:
    """One row per way: accuracies and costs at the end, then base and novel classes after each session."""
    sessions = results[0].accuracy.shape[1]
    shown: list[tuple[Column, Callable[[Compared], FloatArray]]] = [
        (
            Column(key, name, f"{name} classes", f"{ACCURACY}: after the last session"),
            lambda one, key=key: getattr(one, key)[:, -1],
        )
        for key, name in ACCURACIES.items()
    ]
    shown += [
        (
            Column("milliseconds", "ms", "to add a session, up to its first answer", COST, 1),
            lambda one: 1e3 * one.session_seconds,
        ),
        (Column("base_seconds", "base s", "seconds to learn the base session", COST), lambda one: one.seconds[:, 0]),
        (Column("kilobytes", "KB", "kept after the last session", COST, 0), lambda one: one.bytes / 1e3),
    ]
    shown += [
        (
            Column(
                f"{key}_{n}",
                str(n),
                f"{name} classes after session {n}",
                f"{ACCURACY}: {name} classes after session",
            ),
            lambda one, key=key, n=n: getattr(one, key)[:, n],
        )
        for key, name in ACCURACIES.items()
        if key != "accuracy"
        for n in range(sessions)
        if n or key == "base"
    ]
    cells: list[dict[str, Cell]] = [{} for _ in results]
    for column, values_of in shown:
        samples, cost = [values_of(one) for one in results], column.group == COST
        tops = [False] * len(results) if cost else not_below_best(samples)
        for row, one, values, top in zip(cells, results, samples, tops, strict=True):
            mean, half_width = one.mean_and_half_width(values)
            row[column.key] = Cell(float(mean), np.nan if cost else float(half_width), top)
    rows = [
        Row((one.method, "yes" if one.old_examples else "no"), row) for one, row in zip(results, cells, strict=True)
    ]
    draws = len(results[0].accuracy)
    notes = (
        ["One draw: no interval and no test."]
        if draws == 1
        else [
            f"Mean and 95 % interval (Student t) over {draws} draws of classes and examples.",
            *bold_note(draws, "its column"),
        ]
    )
    notes.append(
        "old: whether old examples must be kept. ms: to add a session, first answer included. KB: kept at the end."
    )
    notes += [note for one in results for note in one.notes]
    legend = tuple(f"{one.method}: {one.meaning}." for one in results)
    columns = tuple(column for column, _ in shown)
    return Table(("way", "old"), columns, tuple(rows), title, tuple(notes), legend, name="comparison")


def comparison_figure(results: Sequence[Compared]) -> ReportFigure:
    """Accuracy of base and of novel classes by session; below, seconds to add a session and bytes kept."""
    styles = method_styles([one.method for one in results])
    figure = new_figure(11, 7.2 + 0.12 * len(results))
    rivals = [one for one in results if one.method != OURS]
    banded = {OURS, *(one.method for one in sorted(rivals, key=lambda one: -one.accuracy[:, -1].mean())[:1])}
    panels = figure.subplots(2, 2, height_ratios=(3, 0.6 + 0.22 * len(results)))
    for axes, (title, key) in zip(panels[0], (("base classes", "base"), ("novel classes", "novel")), strict=True):
        for one in results:
            mean, half_width = one.mean_and_half_width(getattr(one, key))
            look, at = styles[one.method], np.arange(len(mean))
            width = 3.0 if one.method == OURS else 1.5
            axes.plot(at, mean, label=one.method, linewidth=width, markersize=5.5, **look)
            if one.method in banded:
                axes.fill_between(
                    at, mean - half_width, mean + half_width, color=look["color"], alpha=0.15, linewidth=0
                )
        plain_axes(axes, "session", "accuracy (%), mean over classes" if key == "base" else "")
        axes.set_title(title, fontsize=12)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    panels[0][1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=10, handlelength=3.2)
    places = np.arange(len(results))[::-1]
    costs = {
        "seconds to add a session": [float(one.session_seconds.mean()) for one in results],
        "bytes kept (hatched: with old examples)": [one.bytes.mean() for one in results],
    }
    for axes, (title, values) in zip(panels[1], costs.items(), strict=True):
        bars = axes.barh(places, values, color=[styles[one.method]["color"] for one in results], height=0.7)
        for bar, one in zip(bars, results, strict=True):
            bar.set(hatch="////" if one.old_examples else "", edgecolor="white")
        plain_axes(axes, title)
        axes.set(xscale="log", yticks=places, yticklabels=[one.method for one in results])
        axes.grid(visible=False, axis="y")
    last = "; ".join(f"{one.method} {one.accuracy[:, -1].mean():.1f} %" for one in results)
    return ReportFigure(
        name="comparison",
        title="Accuracy by session, and what it costs",
        caption="Accuracy, mean over base and over novel classes, after each session, with 95 % "
        "intervals of Subspan's default and of the best other way. "
        "Below, on logarithmic scales, seconds to add a session up to its first answer, and bytes kept.",
        alt=f"Line charts of accuracy over sessions, bar charts of costs. All classes after the last session: {last}.",
        files=to_files(figure),
    )


def to_json(results: Sequence[Compared], facts: Mapping[str, str]) -> dict[str, Any]:
    """Findings, facts and one object per way: means over draws, and all draws; what has no value is null."""
    return {
        "findings": findings(results),
        "facts": dict(facts),
        "ways": [
            {
                "method": one.method,
                "meaning": one.meaning,
                "old_examples": one.old_examples,
                **{key: plain(np.mean(getattr(one, key), axis=0)) for key in (*BY_SESSION, "bytes")},
                "per_draw": {key: plain(getattr(one, key)) for key in (*BY_SESSION, "bytes")},
                "notes": list(one.notes),
            }
            for one in results
        ],
    }
