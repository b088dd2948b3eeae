"""Film strip: each picture stands at its step, and none hides another."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.gates.strip import Reel, Strip
from pytest_cpg.render.film_strip import FRAME_WIDTH, film_strip


def reel(arm, *steps):
    frames = tuple((step, f"{arm} at {step}") for step in steps)
    return Reel(arm=arm, ending=f"solved at step {steps[-1]}", is_solved=True, frames=frames)


def strip_of(*reels, period=0.01):
    return Strip(episode=4, lost=9, period=period, reels=reels)


@given(st.sets(st.integers(0, 500), min_size=1), st.sets(st.integers(0, 500), min_size=1))
def test_no_picture_hides_another_and_the_last_one_always_stands(oracle, learned):
    drawn = film_strip(strip_of(reel("oracle", *sorted(oracle)), reel("learned", *sorted(learned))))
    for layout in drawn.layouts:
        for lane in layout.lanes:
            assert lane.frames[-1].number == len(lane.reel.frames) - 1
            wide = FRAME_WIDTH * layout.scale
            assert all(right.x - left.x >= wide for left, right in pairwise(lane.frames))
            assert lane.frames[0].x >= 0
            assert lane.frames[-1].x + wide <= layout.width + 1
        first, second = layout.lanes
        assert first.top + 84 * layout.scale < second.top < layout.foot < layout.height


def test_pictures_of_both_arms_stand_on_one_axis():
    drawn = film_strip(strip_of(reel("oracle", 0, 250), reel("learned", 0, 250, 500)))
    for layout in drawn.layouts:
        oracle, learned = (lane.frames for lane in layout.lanes)
        assert oracle[-1].x == learned[1].x
        assert [text for _, text in layout.ticks] == ["0", "100", "200", "300", "400", "500"]
    assert drawn.axis == "step, 0.01 s each"
    assert drawn.said == "oracle solved at step 250; learned solved at step 500"
    assert film_strip(strip_of(reel("oracle", 3), reel("learned", 3), period=0.0)).axis == "step"
