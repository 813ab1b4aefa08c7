"""What all figures share: the Okabe-Ito palette, line styles that differ without colour, and PNG bytes.

Figures use matplotlib's objects directly; nothing here touches pyplot or any other global state.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class LineStyle:
    """Colour, marker and dashes of one method; no two of the first 88 share both colour and marker."""

    color: str
    marker: str
    linestyle: Any


def method_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """One style per distinct name, in order of appearance: a method looks the same in all figures of a report."""
    return {
        name: LineStyle(
            _COLOURS[i % len(_COLOURS)],
            _MARKERS[i % len(_MARKERS)],
            _DASHES[(i + i // len(_COLOURS)) % len(_DASHES)],  # one colour's next use has other dashes
        )
        for i, name in enumerate(dict.fromkeys(names))
    }


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure of ``width`` x ``height`` inches with its own canvas."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain_axes(axes: Axes) -> None:
    """Quiet axes: no box above and right, a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=10)


def to_png(figure: Figure) -> bytes:
    """The figure as it would be saved, whatever lies outside its frame included."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI, bbox_inches="tight", pad_inches=0.12)
    return stream.getvalue()
