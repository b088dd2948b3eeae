"""Figures: what is drawn is what the data hold."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_cpg.gates.card import Effect, Figure, Reel, Strip, Trend
from pytest_cpg.gates.notation import ranges
from pytest_cpg.render.axis import SPAN_WIDTH, Axis, bar, bound_bar, effect_axis
from pytest_cpg.render.figures import LEFT, TOP, Course, course_plot, draw, spark
from pytest_cpg.render.page import FRAME_WIDTH, films
from pytest_cpg.render.words import effect_text
from pytest_cpg.stats import Interval

# Of a figure in a column: the area between its axes.
WIDTH, HEIGHT = 400, 266
FOOT, RIGHT = TOP + HEIGHT, LEFT + WIDTH
values = st.lists(st.floats(-1e300, 1e300), max_size=20)


def plot_of(kind, **more):
    """Return a figure as it is drawn in a column."""
    return draw(figure(kind, **more), "half")


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
    low, high = map(float, re.match(r"M(\S+) 14H([\d.e+-]+)M", drawn.span).groups())
    assert 0 <= low <= drawn.at <= high <= axis.length
    assert float(re.match(r"M(\S+) 4V24", drawn.margin)[1]) <= axis.length


def test_an_effect_that_is_no_share_does_not_stretch_the_axis():
    shares = [effect(0.2, 0.3, 0.4)]
    other = effect(1e6, is_share=False)
    assert effect_axis([*shares, other]) == effect_axis(shares)
    assert bar(other, effect_axis(shares)).margin == ""


def test_an_axis_of_losses_that_are_no_differences_begins_at_zero():
    loss = replace(effect(0.26, 0.04, 0.06), is_difference=False)
    assert effect_axis([loss]).low == 0
    assert effect_axis([loss, effect(0.2, 0.1, 0.1)]).low < 0
    below = replace(effect(0.2, 0.3, 0.1, is_share=False), is_difference=False)
    assert effect_axis([loss, below]).low < 0


def test_an_effect_is_written_as_finely_as_its_unit_asks():
    assert effect_text(effect(0.444, 0.1, 0.2)) == "+0.44 [+0.34, +0.64]"
    assert effect_text(effect(123.4, 10, 20, is_share=False)) == "+123 [+113, +143]"


@given(st.floats(-1e3, 1e3), st.floats(0, 1e3))
@example(-45.30669715254464, 1e-13)
@example(309.9309265194306, 4e-14)
def test_round_steps_lie_between_the_ends_of_an_axis(low, width):
    axis = Axis.across(low, low + width, length=400)
    assert 1 <= len(axis.ticks) <= 7
    slack = 1e-9 * (axis.high - axis.low)
    assert all(axis.low - slack <= tick <= axis.high + slack for tick in axis.ticks)


def test_an_interval_beside_a_row_stays_on_its_scale():
    beyond = Interval(estimate=0.5, low=-3.0, high=9.0, level=0.95, method="t")
    assert bound_bar(beyond, (0.0, 1.0)).span.startswith(f"M0 8H{SPAN_WIDTH}M")
    assert bound_bar(beyond, (0.0, 1.0)).at == SPAN_WIDTH / 2


def corners(path):
    """Return where a staircase stands after each of its steps, from the lower left corner on."""
    x, y, found = LEFT, FOOT, []
    for across, rise in re.findall(r"h(\d+)v(-?\d+)", path):
        x, y = x + int(across), y + int(rise)
        found.append((x, y))
    return found


def words(plot):
    return {label.text for label in plot.labels}


def test_stairs_turn_upward_at_each_point():
    points = ((0, 0), (100, 0.25), (250, 0.5), (250, 0.75), (500, 0.75))
    plot = plot_of("steps", learned=points, scale=(0, 1))
    ((style, path),) = plot.marks
    assert style == "learned"
    assert corners(path) == [
        (LEFT + WIDTH // 5, round(FOOT - HEIGHT / 4)),
        (LEFT + WIDTH // 2, round(FOOT - HEIGHT * 3 / 4)),
    ]
    assert path.endswith(f"H{RIGHT}")
    assert {"0", "100", "500", "0.5", "1", "steps"} <= words(plot)


def test_stairs_without_a_step_stay_on_the_ground():
    plot = plot_of("steps", chance=((0, 0), (500, 0)), scale=(0, 1))
    assert plot.marks == (("chance", f"M{LEFT} {FOOT}H{RIGHT}"),)


def test_a_staircase_has_one_stair_at_most_for_each_pixel():
    points = tuple((step, step / 100_000) for step in range(100_001))
    plot = plot_of("steps", learned=points, scale=(0, 1))
    assert len(corners(plot.marks[0][1])) <= WIDTH


def test_a_band_is_an_area_behind_the_lines_without_a_name():
    sides = ((0, 0.2), (1, 0.4), (1, 0.8), (0, 0.6))
    plot = plot_of("curves", learned=((0, 0.4), (1, 0.6)), band=sides, scale=(0, 1))
    (behind, path), (line, _) = plot.marks
    assert (behind, line) == ("band", "learned")
    assert path.endswith("z")
    assert path.count("L") == 3
    assert "band" not in words(plot) | set(plot.said.split())


def test_a_histogram_has_bars_that_change_beyond_its_limit_before_the_stairs_of_the_others():
    stairs, limit = ((0, 0), (0, 0.5), (1, 1), (2, 0)), ((1, 0), (1, 1))
    plot = plot_of("histogram", here=stairs, there=stairs, limit=limit)
    half = LEFT + WIDTH // 2
    assert dict(plot.marks) == {
        "behind": f"M{LEFT} {FOOT}h0v-133h{WIDTH // 2}v-133h{WIDTH // 2}v266H{RIGHT}V{FOOT}z",
        "bars": f"M{LEFT + 1} {FOOT}V{FOOT - 133}H{half - 1}V{FOOT}z",
        "beyond": f"M{half + 1} {FOOT}V{TOP}H{RIGHT - 1}V{FOOT}z",
        "limit": f"M{half} {FOOT}L{half} {TOP}",
    }
    assert plot.marks[0][0] == "behind"


def test_a_curve_goes_through_its_points():
    plot = plot_of("curves", learned=((1, 0.0), (2, 1.0), (3, -1.0)), scale=(-1, 1))
    half = TOP + HEIGHT // 2
    ((_, path),) = plot.marks
    assert path == f"M{LEFT} {half}L{LEFT + WIDTH // 2} {TOP}L{RIGHT} {FOOT}"


def test_a_scatter_has_one_scale_where_its_limit_spans_both_axes():
    diagonal = ((0.2, 0.2), (0.9, 0.9))
    plot = plot_of("scatter", learned=((0.2, 0.9), (0.5, 0.5)), limit=diagonal)
    (dots, points), (_, line) = plot.marks
    assert dots == "dots"
    assert points.count("h0") == 2
    ends = list(map(float, re.findall(r"[\d.]+", line)))
    for x, y in zip(ends[::2], ends[1::2], strict=True):
        assert (FOOT - y) / HEIGHT == pytest.approx((x - LEFT) / WIDTH, abs=0.001)


def test_names_that_are_known_look_the_same_everywhere_and_others_differ_from_them():
    line = ((0, 0), (1, 1))
    plot = plot_of("curves", mine=line, learned=line, oracle=line, chance=line, limit=line)
    assert [style for style, _ in plot.marks] == ["other", "learned", "oracle", "chance", "limit"]
    many = plot_of("curves", **{f"series {place}": line for place in range(6)})
    assert len({style for style, _ in many.marks[:4]}) == 4


@pytest.mark.parametrize("kind", ["curves", "steps", "histogram", "scatter"])
@pytest.mark.parametrize("points", [(), ((3, 2),), ((0, 0), (0, 0))])
def test_what_holds_next_to_nothing_is_drawn(kind, points):
    plot = plot_of(kind, learned=points)
    # A bar has two ends.
    assert len(plot.marks) == (bool(points) and kind != "histogram")
    assert "nan" not in str(plot)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_names_beside_the_curves_do_not_touch(ends):
    series = {f"curve {place}": ((0, 0), (1, end)) for place, end in enumerate(ends)}
    plot = plot_of("curves", scale=(0, 1), **series)
    heights = sorted(label.y for label in plot.labels if label.text in series)
    assert len(heights) == len(series)
    assert all(lower - upper >= 19.9 for upper, lower in pairwise(heights))
    assert heights[-1] <= FOOT + 4


def test_a_fifth_set_of_cells_is_refused_as_it_has_no_mark():
    with pytest.raises(ValueError, match="at most 4 sets of cells, got 5 in 'a title'"):
        figure("cells", **{f"set {place}": (place,) for place in range(5)})


def test_a_kind_of_figure_that_nobody_draws_is_refused():
    with pytest.raises(ValueError, match=r"no figure of kind 'pie': .*curves"):
        figure("pie")


def followed(estimate):
    bound = Interval(estimate=estimate, low=estimate / 2, high=estimate, level=0.95, method="t")
    return Trend(name="rate", text="", bound=bound, axis=(0, 1))


def course(*estimates, accepted=None, is_hollow=()):
    return Course(
        trends=tuple(map(followed, estimates)),
        revisions=tuple(f"r{place}" for place in range(len(estimates))),
        is_hollow=is_hollow or (False,) * len(estimates),
        accepted=accepted,
    )


def test_a_course_runs_upwards_with_its_number_and_names_its_ends():
    plot = course_plot(course(0.5, 0.9, accepted=0, is_hollow=(True, False)))
    assert plot.reading == "2 commits. Bars are 95% intervals."
    marks = dict(plot.marks)
    left, first, right, last = map(float, re.findall(r"[\d.]+", marks["learned"]))
    assert (left, right) == (LEFT, plot.right)
    assert plot.foot > first > last > TOP
    assert marks["hollow"] == marks["ring"] == f"M{left:g} {first:g}h0"
    assert marks["limit"] == f"M{left:g} {first:g}H{plot.right}"
    assert {"r0", "r1", "accepted", "now "} <= words(plot)


def test_a_spark_has_the_shape_of_the_course_without_axes():
    followed = course(0.1, 0.9, 0.5)
    marks = dict(spark(followed))
    heights = [float(y) for y in re.findall(r" ([\d.]+)", marks["learned"])]
    assert heights[1] < heights[2] < heights[0]
    assert {"hollow", "ring"}.isdisjoint(marks)
    assert followed.said == "rate in 3 sessions: , , "


@given(st.sets(st.integers(0, 200)))
def test_ranges_name_every_number_once(numbers):
    found = []
    for part in filter(None, ranges(sorted(numbers)).split(", ")):
        ends = [int(end) for end in part.split("-")]
        found += range(ends[0], ends[-1] + 1)
    assert found == sorted(numbers)


def strip_of(**steps):
    """Return a strip of arms that have pictures at these steps."""
    reels = (
        Reel(arm=arm, ending="", is_solved=True, frames=tuple((step, "") for step in sorted(at)))
        for arm, at in steps.items()
    )
    return Strip(episode=4, lost=9, period=0.01, reels=tuple(reels))


@given(st.sets(st.integers(0, 500), min_size=1), st.sets(st.integers(0, 500), min_size=1))
def test_no_picture_hides_another_and_the_last_one_always_stands(oracle, learned):
    for film in films(strip_of(oracle=oracle, learned=learned)):
        for lane in film.lanes:
            wide = FRAME_WIDTH * film.scale
            numbers, edges = zip(*lane.frames, strict=True)
            assert {0, (len(lane.reel.frames) - 1) // 2, numbers[-1]} <= {*numbers} or len(
                edges
            ) > 2
            assert numbers[-1] == len(lane.reel.frames) - 1
            assert all(right - left >= wide for left, right in pairwise(edges))
            assert edges[0] >= 0
            assert edges[-1] + wide <= film.width + 1
        first, second = film.lanes
        assert first.top + 84 * film.scale < second.top < film.foot < film.height


def test_pictures_of_both_arms_stand_on_one_axis():
    for film in films(strip_of(oracle={0, 250}, learned={0, 250, 500})):
        oracle, learned = (lane.frames for lane in film.lanes)
        assert oracle[-1] == learned[1]
        assert [text for _, text in film.ticks] == ["0", "100", "200", "300", "400", "500"]
