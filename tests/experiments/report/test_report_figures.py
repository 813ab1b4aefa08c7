"""Figures show the numbers they are given, without overlaps, for whatever results there are."""

import dataclasses
import io
import subprocess
import sys
import warnings
from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from subspan.experiments.report.drawings import (
    RED,
    accuracy_curves,
    method_styles,
    prediction_heatmaps,
    row_percent,
    to_files,
    weight_space_figure,
)
from subspan.experiments.report.figures import report_figures


def drawn(figure):
    FigureCanvasAgg(figure).draw()
    return figure


def test_curves_show_means_from_session_zero_and_novel_from_one(result):
    one = result(draws=3, sessions=4)
    panels = accuracy_curves([one]).axes
    assert [axes.get_title() for axes in panels] == ["all classes", "base classes", "novel classes"]
    counts = np.array(one.class_counts)
    novel = np.nan_to_num(one.novel.mean(axis=0))
    expected = (counts[0] * one.base.mean(axis=0) + (counts - counts[0]) * novel) / counts
    np.testing.assert_allclose(panels[0].lines[0].get_ydata(), expected)
    np.testing.assert_allclose(panels[1].lines[0].get_ydata(), one.base.mean(axis=0))
    shown = np.asarray(panels[2].lines[0].get_ydata())
    assert np.isnan(shown[0])
    np.testing.assert_allclose(shown[1:], one.novel.mean(axis=0)[1:])


def test_published_curves_are_hollow_and_stand_beside_ours_on_all_classes_only(result):
    both = [result("subspace", draws=3, sessions=2), result("prototype", draws=3, sessions=2)]
    panels = accuracy_curves(both, published={"subspace": [80.0, 71.5, 66.25]}).axes
    (theirs,) = [line for line in panels[0].lines if str(line.get_label()).endswith("published")]
    assert np.asarray(theirs.get_ydata()).tolist() == [80.0, 71.5, 66.25]
    assert (theirs.get_color(), theirs.get_markerfacecolor()) == (panels[0].lines[0].get_color(), "white")
    assert [len(axes.lines) for axes in panels] == [3, 2, 2]


@pytest.mark.parametrize("count", [1, 3, 12])
def test_the_legend_stands_below_the_panels(result, count):
    figure = drawn(accuracy_curves([result(f"method:option={i}") for i in range(count)]))
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.y1 <= min(axes.get_tightbbox().y0 for axes in figure.axes) + 1
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


def test_methods_differ_without_colour_and_keep_their_style():
    styles = method_styles([f"m{i}" for i in range(30)] + ["m0"])
    assert len(styles) == 30
    assert len({(style["color"], style["marker"]) for style in styles.values()}) == 30
    assert len({style["marker"] for style in list(styles.values())[:8]}) == 8
    assert method_styles(["m0", "m1"])["m1"] == styles["m1"]


def test_one_draw_and_one_session_draw_without_a_warning(result):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures = report_figures([result(draws=1, sessions=1), result("zero", draws=1, sessions=0)])
    assert figures


def test_heat_maps_show_shares_of_each_gold_class_and_the_border(result):
    first, second = result("finetune", sessions=6), result("subspace", sessions=6, seed=1)
    figure = prediction_heatmaps([first, second])
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 8
    shown = np.asarray(panels[5].images[0].get_array())  # second row, session 2: 6 + 4 classes
    counts = second.confusion[2, :10, :10]
    np.testing.assert_allclose(shown.sum(axis=1), 100)
    assert shown[3, 4] == pytest.approx(100 * counts[3, 4] / counts[3].sum())
    assert {tuple(line.get_ydata()) for line in panels[5].lines} == {(5.5, 5.5), (0, 1)}


def test_row_percent_of_an_empty_class_is_zero():
    np.testing.assert_array_equal(row_percent(np.array([[1, 3], [0, 0]])), [[25, 75], [0, 0]])


def test_heat_maps_need_confusion_counts(result):
    with pytest.raises(ValueError, match="confusion"):
        prediction_heatmaps([result(confusion=False)])


@pytest.mark.parametrize(("moving", "novel"), [(True, 1), (False, 5), (True, 20)])
def test_weight_space_names_all_novel_classes_without_overlaps(weight_space, moving, novel):
    space = weight_space(moving, base=40, novel=novel)
    figure = drawn(weight_space_figure(space))
    texts = figure.axes[0].texts
    assert {text.get_text() for text in texts if text.get_color() == RED} == set(space.novel_names)
    boxes = [text.get_window_extent() for text in texts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert any(text.get_text().startswith("base") for text in texts)


def test_weight_space_ties_each_row_to_its_target(weight_space):
    space = weight_space(moving=False)
    rows = np.concatenate([space.base, space.novel])
    mean = rows.mean(0)
    plane = np.linalg.svd(rows - mean)[2][:2]
    plane *= np.sign(plane[range(2), np.abs(plane).argmax(1)])[:, None]
    lines = [np.stack(line.get_data(), axis=1) for line in weight_space_figure(space).axes[0].lines]
    expected = np.stack([(space.novel[2] - mean) @ plane.T, (space.targets[2] - mean) @ plane.T])
    assert any(line.shape == (2, 2) and np.allclose(line, expected) for line in lines)


def test_weight_space_before_any_novel_class(weight_space):
    space = weight_space(moving=True)
    nothing = np.empty((0, 16))
    space = dataclasses.replace(space, novel=nothing, targets=nothing, novel_names=())
    assert to_files(weight_space_figure(space))


def test_a_report_takes_the_figures_its_results_allow(result, weight_space):
    results = [
        result("semantic", weight_space=weight_space(False), confusion=False),
        result("subspace:gamma=1", weight_space=weight_space(True)),
        result("finetune"),
        result("finetune", memory=True),
    ]
    figures = {figure.name: figure for figure in report_figures(results)}
    assert list(figures) == [
        "accuracy-without-memory",
        "accuracy-with-memory",
        "predictions",
        "weight-space-moving-targets",
        "weight-space-fixed-targets",
    ]
    assert figures["predictions"].caption.startswith("finetune above subspace:gamma=1")
    assert "without memory" in figures["predictions"].title
    for figure in figures.values():
        assert figure.alt
        assert Image.open(io.BytesIO(figure.png)).width > 1000
        assert b"/FontFile2" in figure.files["pdf"], "fonts are in the file, and as outlines that editors take"
        assert b"/Type3" not in figure.files["pdf"]
        assert b"<text" not in figure.files["svg"], "letters are outlines: no font is looked for"
    again = {figure.name: figure.files for figure in report_figures(results[:2])}
    assert (
        again["accuracy-without-memory"]
        == {f.name: f.files for f in report_figures(results[:2])}["accuracy-without-memory"]
    )


def test_heat_maps_fall_back_to_what_there_is(result):
    names = [
        figure.caption for figure in report_figures([result("imprint", memory=True)]) if figure.name == "predictions"
    ]
    assert names[0].startswith("imprint:")
    assert [figure.name for figure in report_figures([result(confusion=False)])] == ["accuracy-without-memory"]
    assert report_figures([]) == []


def test_pyplot_is_never_imported():
    check = "import sys, subspan.experiments.report.html; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
