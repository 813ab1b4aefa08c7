"""Accuracy over sessions, one panel each for all, base and novel classes: the paper's figure 2."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from subspan.experiments.report.style import LineStyle, method_styles, new_figure, plain_axes
from subspan.experiments.report.summary import mean_and_half_width, summarize
from subspan.experiments.results import MethodResult

PANELS = ("all classes", "base classes", "novel classes")


def accuracy_curves(results: Sequence[MethodResult], styles: Mapping[str, LineStyle] | None = None) -> Figure:
    """One line per result with its 95 % band, where there is more than one sample; the legend stands below."""
    styles = styles or method_styles([result.method for result in results])
    entry_width = max((len(result.method) for result in results), default=0) + 8  # in characters, the line included
    columns = max(1, min(len(results), 130 // entry_width))
    legend_rows = -(-len(results) // columns)
    figure = new_figure(12, 4.1 + 0.24 * legend_rows)
    panels = figure.subplots(1, 3)
    for result in results:
        curves = (summarize(result).weighted, result.base, result.novel)
        for axes, values in zip(panels, curves, strict=True):
            mean, half_width = mean_and_half_width(result, values)
            sessions = np.arange(len(mean))
            look = styles[result.method]
            axes.plot(sessions, mean, label=result.method, linewidth=1.8, markersize=5.5, **vars(look))
            axes.fill_between(sessions, mean - half_width, mean + half_width, color=look.color, alpha=0.16, linewidth=0)
    for axes, title in zip(panels, PANELS, strict=True):
        plain_axes(axes)
        axes.set_title(title, fontsize=12)
        axes.set_xlabel("session", fontsize=11)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    panels[0].set_ylabel("accuracy (%)", fontsize=11)
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=columns, fontsize=10, frameon=False, handlelength=3.2
        )
    return figure
