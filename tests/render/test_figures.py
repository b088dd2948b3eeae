"""Figures: what is drawn is what was measured."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from fakes import arm, first
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.render.figures import (
    CELL,
    MARKS,
    PLOT_HEIGHT,
    PLOT_WIDTH,
    Axis,
    Trend,
    curves,
    pair_grid,
    pair_kinds,
    ranges,
)
from pytest_cpg.stats import Interval, wilson_interval

values = st.lists(st.floats(-1e300, 1e300), max_size=20)


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


@given(st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e3))
def test_an_interval_of_other_units_fits_and_stays_on_its_side_of_zero(at, below, above, margin):
    axis = Axis.around([-0.1, 0.6], length=250)
    interval = Interval(estimate=at, low=at - below, high=at + above, level=0.95, method="")
    factor = axis.factor(interval, margin)
    assert factor > 0
    assert axis.at(factor * interval.low) >= 0
    assert axis.at(factor * max(interval.high, margin)) <= axis.length


def stairs(path):
    """Return where a curve's staircase stands after each of its steps."""
    x, y, corners = 0, PLOT_HEIGHT, []
    for across, up in re.findall(r"h(\d+)v-(\d+)", path):
        x, y = x + int(across), y - int(up)
        corners.append((x, y))
    return corners


def test_a_curve_climbs_by_one_episode_where_it_was_solved():
    one = arm("learned", [True, False, True, True])
    object.__setattr__(one, "steps", np.array([100, 500, 250, 250]))
    (curve,) = curves([one], 500)
    assert stairs(curve.path) == [
        (PLOT_WIDTH // 5, PLOT_HEIGHT - round(PLOT_HEIGHT / 4)),
        (PLOT_WIDTH // 2, PLOT_HEIGHT - round(PLOT_HEIGHT * 3 / 4)),
    ]
    assert curve.path.endswith(f"H{PLOT_WIDTH}")


def test_an_arm_without_success_stays_on_the_ground():
    (curve,) = curves([arm("chance", first(0, 10))], 500)
    assert curve.path == f"M0 {PLOT_HEIGHT}H{PLOT_WIDTH}"


@given(st.lists(st.integers(0, 20), min_size=3, max_size=3))
def test_names_beside_the_curves_do_not_touch(solved):
    named = curves(
        [
            arm(name, first(count, 20))
            for name, count in zip(("oracle", "learned", "chance"), solved, strict=True)
        ],
        500,
    )
    heights = sorted(curve.label_y for curve in named)
    assert all(lower - upper >= 11.9 for upper, lower in pairwise(heights))
    assert heights[-1] <= PLOT_HEIGHT


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=400))
def test_a_grid_has_one_mark_of_the_right_kind_in_every_cell(outcomes):
    kinds = pair_kinds(*(np.array(column) for column in zip(*outcomes, strict=True)))
    grid = pair_grid(kinds)
    cells = {}
    for kind, path in grid.paths.items():
        x, y, strokes = MARKS[kind]
        for left, top in re.findall(rf"M(\d+) (\d+){strokes}", path):
            column, row = (int(left) - x) / CELL, (int(top) - y) / CELL
            cells[row * grid.columns + column] = kind
    assert [cells[place] for place in range(len(kinds))] == kinds
    assert len(cells) == len(kinds)
    assert grid.height >= (max(cells) // grid.columns + 1) * CELL


def test_pairs_are_named_by_who_solved_the_start():
    oracle, learned = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)
    assert pair_kinds(oracle, learned) == ["both", "oracle-only", "learned-only", "neither"]


def test_no_two_kinds_have_the_same_strokes():
    assert max(Counter(strokes for _, _, strokes in MARKS.values()).values()) == 1


def test_a_trend_runs_upwards_with_its_quantity():
    low, high = wilson_interval(5, 50), wilson_interval(45, 50)
    trend = Trend.of([low, high], Axis.of_rates(length=100), is_hollow=[True, False])
    first_x, first_y, second_x, second_y = map(float, re.findall(r"[\d.]+", trend.line))
    assert first_x < second_x
    assert (first_y, second_y) == (90, 10)
    assert trend.hollow == "M75 90h0"
    assert trend.dots.count("h0") == 2


@given(st.sets(st.integers(0, 200)))
def test_ranges_name_every_number_once(numbers):
    found = []
    for part in filter(None, ranges(sorted(numbers)).split(", ")):
        ends = [int(end) for end in part.split("-")]
        found += range(ends[0], ends[-1] + 1)
    assert found == sorted(numbers)
