"""What all figures share: the Okabe-Ito palette, line styles that differ without colour, and PNG bytes.

Figures use matplotlib's objects directly; nothing here touches pyplot or any other global state.
"""

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DPI = 160
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#888888"
# Grey stands in for Okabe and Ito's yellow, which does not show on white.
_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


def method_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line style of each distinct name, in order of appearance, for all figures of a report.

    No two of the first 88 share both colour and marker.
    """
    return {
        name: {
            "color": _COLOURS[i % len(_COLOURS)],
            "marker": _MARKERS[i % len(_MARKERS)],
            "linestyle": _DASHES[(i + i // len(_COLOURS)) % len(_DASHES)],  # one colour's next use has other dashes
        }
        for i, name in enumerate(dict.fromkeys(names))
    }


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure of ``width`` x ``height`` inches with its own canvas."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain_axes(axes: Axes, x: str, y: str = "") -> Axes:
    """Quiet axes with these labels: no box above and right, a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=10)
    axes.set_xlabel(x, fontsize=11)
    axes.set_ylabel(y, fontsize=11)
    return axes


def to_png(figure: Figure) -> bytes:
    """The figure as it would be saved, whatever lies outside its frame included."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI, bbox_inches="tight", pad_inches=0.12)
    return stream.getvalue()
