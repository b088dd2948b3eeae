"""Figures: what is drawn is what the data hold."""

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.gates.card import Effect, Figure, Trend
from pytest_cpg.render.axis import Axis
from pytest_cpg.render.figures import CELL, MARKS, PLOT_HEIGHT, PLOT_WIDTH, draw, ranges, trend
from pytest_cpg.render.forest import bar, effect_axis, effect_text
from pytest_cpg.stats import Interval

values = st.lists(st.floats(-1e300, 1e300), max_size=20)


def figure(kind, *, title="a title", axes=("steps", ""), scale=None, **series):
    return Figure(kind=kind, title=title, reading="", axes=axes, series=series, scale=scale)


@given(values)
def test_an_axis_has_zero_and_every_value_strictly_or_at_its_round_ends(drawn):
    axis = Axis.around(drawn, length=250)
    slack = 1e-9 * (axis.high - axis.low)
    assert axis.low < 0 < axis.high
    assert axis.low - slack <= min([0, *drawn])
    assert axis.high + slack >= max([0, *drawn])
    assert all(0 <= axis.at(value) <= 250 for value in drawn)
    assert (axis.ticks[0], axis.ticks[-1]) == (axis.low, axis.high)
    assert 0 in axis.ticks
    assert len(axis.ticks) <= 8


def test_an_axis_of_gaps_is_labelled_in_round_steps():
    assert Axis.around([-0.05, 0.53], length=250).ticks == pytest.approx(
        (-0.2, 0, 0.2, 0.4, 0.6), abs=1e-12
    )
    assert Axis.around([0.3], length=250).at(0) > 0


def effect(at, below=0.0, above=0.0, *, is_share=True, margin=None):
    found = Interval(estimate=at, low=at - below, high=at + above, level=0.95, method="t")
    return Effect(found=found, unit="of starts", is_share=is_share, margin=margin)


@given(st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e3))
def test_an_effect_that_is_no_share_fits_the_axis_of_shares(at, below, above, margin):
    axis = effect_axis([effect(0.2, 0.3, 0.4)])
    drawn = bar(effect(at, below, above, is_share=False, margin=margin), axis)
    low, high = map(float, re.match(r"M(\S+) 8H([\d.e+-]+)M", drawn.span).groups())
    assert 0 <= low <= drawn.at <= high <= axis.length
    assert float(re.match(r"M(\S+) 0V16", drawn.margin)[1]) <= axis.length


def test_an_effect_that_is_no_share_does_not_stretch_the_axis():
    shares = [effect(0.2, 0.3, 0.4)]
    other = effect(1e6, is_share=False)
    assert effect_axis([*shares, other]) == effect_axis(shares)
    assert bar(other, effect_axis(shares)).margin == ""


def test_an_effect_is_written_as_finely_as_its_unit_asks():
    assert effect_text(effect(0.444, 0.1, 0.2)) == "+0.44 [+0.34,+0.64]"
    assert effect_text(effect(123.4, 10, 20, is_share=False)) == "+123 [+113,+143]"


def corners(path):
    """Return where a staircase stands after each of its steps."""
    x, y, found = 0, PLOT_HEIGHT, []
    for across, rise in re.findall(r"h(\d+)v(-?\d+)", path):
        x, y = x + int(across), y + int(rise)
        found.append((x, y))
    return found


def test_stairs_turn_upward_at_each_point():
    points = ((0, 0), (100, 0.25), (250, 0.5), (250, 0.75), (500, 0.75))
    plot = draw(figure("steps", learned=points, scale=(0, 1)))
    ((style, path),) = plot.marks
    assert style == "thick"
    assert corners(path) == [
        (PLOT_WIDTH // 5, PLOT_HEIGHT - round(PLOT_HEIGHT / 4)),
        (PLOT_WIDTH // 2, PLOT_HEIGHT - round(PLOT_HEIGHT * 3 / 4)),
    ]
    assert path.endswith(f"H{PLOT_WIDTH}")
    assert plot.ends == ("0", "500 steps")


def test_stairs_without_a_step_stay_on_the_ground():
    plot = draw(figure("steps", chance=((0, 0), (500, 0)), scale=(0, 1)))
    assert plot.marks == (("dotted", f"M0 {PLOT_HEIGHT}H{PLOT_WIDTH}"),)


def test_a_staircase_has_one_stair_at_most_for_each_pixel():
    points = tuple((step, step / 100_000) for step in range(100_001))
    plot = draw(figure("steps", learned=points, scale=(0, 1)))
    assert len(corners(plot.marks[0][1])) <= PLOT_WIDTH


def test_a_histogram_rises_from_the_ground_and_comes_back_to_it():
    stairs, half = ((0, 0), (0, 0.5), (1, 1), (2, 0)), PLOT_WIDTH // 2
    plot = draw(figure("histogram", here=stairs, limit=((1, 0), (1, 1))))
    assert plot.marks[0][1] == f"M0 110h0v-55h{half}v-55h{half}v110H{PLOT_WIDTH}"
    assert plot.marks[1] == ("limit", f"M{half} 110L{half} 0")
    assert plot.names == ()


def test_a_curve_goes_through_its_points():
    plot = draw(figure("curves", learned=((1, 0.0), (2, 1.0), (3, -1.0)), scale=(-1, 1)))
    half = PLOT_HEIGHT // 2
    assert plot.marks == (("thick", f"M0 {half}L{PLOT_WIDTH // 2} 0L{PLOT_WIDTH} {PLOT_HEIGHT}"),)
    assert plot.frame == f"M0 {half}h{PLOT_WIDTH}"


def test_a_scatter_has_one_scale_where_its_limit_spans_both_axes():
    diagonal = ((0.2, 0.2), (0.9, 0.9))
    plot = draw(figure("scatter", learned=((0.2, 0.9), (0.5, 0.5)), limit=diagonal))
    (dots, points), (_, line) = plot.marks
    assert dots == "dots"
    assert points.count("h0") == 2
    x, y, x2, y2 = map(float, re.findall(r"[\d.]+", line))
    assert (PLOT_HEIGHT - y) / PLOT_HEIGHT == pytest.approx(x / PLOT_WIDTH, abs=0.001)
    assert (PLOT_HEIGHT - y2) / PLOT_HEIGHT == pytest.approx(x2 / PLOT_WIDTH, abs=0.001)


def test_names_that_are_known_look_the_same_everywhere_and_others_differ_from_them():
    line = ((0, 0), (1, 1))
    plot = draw(figure("curves", mine=line, learned=line, oracle=line, chance=line, limit=line))
    assert [style for style, _ in plot.marks] == ["dashed", "thick", "thin", "dotted", "limit"]
    many = draw(figure("curves", **{f"series {place}": line for place in range(6)}))
    assert len({style for style, _ in many.marks[:4]}) == 4


@pytest.mark.parametrize("kind", ["curves", "steps", "histogram", "scatter"])
@pytest.mark.parametrize("points", [(), ((3, 2),), ((0, 0), (0, 0))])
def test_what_holds_next_to_nothing_is_drawn(kind, points):
    plot = draw(figure(kind, learned=points))
    assert len(plot.marks) == bool(points)
    assert "nan" not in str(plot)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_names_beside_the_curves_do_not_touch(ends):
    series = {f"curve {place}": ((0, 0), (1, end)) for place, end in enumerate(ends)}
    plot = draw(figure("curves", scale=(0, 1), **series))
    heights = sorted(height for height, _ in plot.names)
    assert all(lower - upper >= 11.9 for upper, lower in pairwise(heights))
    assert heights[-1] <= PLOT_HEIGHT


@given(st.lists(st.integers(0, 3), min_size=1, max_size=400))
def test_a_grid_has_one_mark_of_the_right_set_in_every_cell(sets):
    names = ["both", "lost", "won", "neither"]
    places = {
        name: tuple(3 * place for place, one in enumerate(sets) if names[one] == name)
        for name in names
    }
    grid = draw(figure("cells", **places))
    cells = {}
    for mark, name, count, said, path in grid.sets:
        x, y, strokes = MARKS[mark]
        for left, top in re.findall(rf"M(\d+) (\d+){strokes}", path):
            column, row = (int(left) - x) / CELL, (int(top) - y) / CELL
            cells[row * grid.columns + column] = name
        assert count == len(places[name])
        assert said == ", ".join(map(str, places[name]))
    assert [cells[place] for place in range(len(sets))] == [names[one] for one in sets]
    assert len(cells) == len(sets)
    assert grid.height >= (max(cells) // grid.columns + 1) * CELL


def test_no_two_sets_have_the_same_strokes():
    assert max(Counter(strokes for _, _, strokes in MARKS.values()).values()) == 1


def test_a_fifth_set_of_cells_is_refused_as_it_has_no_mark():
    with pytest.raises(ValueError, match="at most 4 sets of cells, got 5 in 'a title'"):
        figure("cells", **{f"set {place}": (place,) for place in range(5)})


def test_a_kind_of_figure_that_nobody_draws_is_refused():
    with pytest.raises(ValueError, match=r"no figure of kind 'pie': .*curves"):
        figure("pie")


def test_a_long_list_is_cut_and_says_so():
    listing = draw(figure("list", **{str(place): ("seed 7", "in 3 steps") for place in range(50)}))
    assert listing.lines[0] == ("0", "seed 7, in 3 steps")
    assert (len(listing.lines), listing.more) == (40, 10)


def followed(estimate):
    bound = Interval(estimate=estimate, low=estimate / 2, high=estimate, level=0.95, method="t")
    return Trend(name="rate", text="", bound=bound, axis=(0, 1))


def test_a_trend_runs_upwards_with_its_number():
    plot = trend([followed(0.1), followed(0.9)], is_hollow=[True, False])
    marks = dict(plot.marks)
    first_x, first_y, second_x, second_y = map(float, re.findall(r"[\d.]+", marks["thick"]))
    assert first_x < second_x
    assert (first_y, second_y) == (99, 11)
    assert marks["hollow"] == "M75 99h0"
    assert marks["dots"].count("h0") == 2
    assert "hollow" not in dict(trend([followed(0.1)], is_hollow=[False]).marks)


@given(st.sets(st.integers(0, 200)))
def test_ranges_name_every_number_once(numbers):
    found = []
    for part in filter(None, ranges(sorted(numbers)).split(", ")):
        ends = [int(end) for end in part.split("-")]
        found += range(ends[0], ends[-1] + 1)
    assert found == sorted(numbers)
