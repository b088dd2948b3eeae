import numpy as np
import pytest

from pytest_cpg.contracts import BoxActions, FiniteActions
from pytest_cpg.planners.distributions import Spread, draw_noise, plan_distribution, shift

BOX = BoxActions(np.array([-3.0]), np.array([1.0]))
SET = FiniteActions(np.array([[-1.0], [0.0], [1.0]]))
LENGTHS = np.array([1, 3])


def begin(actions, memory=None, **settings):
    return plan_distribution(actions, Spread(horizon=3, **settings), 2, memory)


def draw(distribution, count=4000):
    return distribution.draw([np.random.default_rng(n) for n in range(2)], count)


def test_a_plan_is_shifted_by_what_each_episode_has_executed():
    plans = np.arange(6.0).reshape(2, 3, 1)
    assert shift(plans, LENGTHS, np.array([9.0]))[..., 0].tolist() == [[1, 2, 9], [9, 9, 9]]


def test_the_deviation_of_a_box_is_in_halves_of_its_width():
    narrow = draw(begin(BOX, initial_deviation=0.1))
    assert narrow.mean(axis=1) == pytest.approx(-1, abs=0.02)
    assert narrow.std(axis=1) == pytest.approx(0.2, abs=0.01)


def test_a_fit_never_falls_below_the_minimum_deviation():
    for minimum, expected in ((0.0, 0.0), (0.05, 0.1)):
        distribution = begin(BOX, minimum_deviation=minimum)
        distribution.fit(np.full((2, 5, 3, 1), -0.5))
        assert draw(distribution).std(axis=1) == pytest.approx(expected, abs=0.01)
        assert (distribution.mode == -0.5).all()


@pytest.mark.parametrize("actions", [BOX, SET], ids=["box", "finite"])
@pytest.mark.parametrize("settings", [{"correlation": 0.9}, {"colour": 3.0}])
def test_correlated_and_coloured_noise_make_actions_last(actions, settings):
    white, lasting = (
        draw(plan_distribution(actions, Spread(horizon=12, **chosen), 2))
        for chosen in ({}, settings)
    )
    turns = [np.abs(np.diff(plans, axis=2)).mean() for plans in (white, lasting)]
    assert turns[1] < 0.6 * turns[0]
    assert lasting.mean() == pytest.approx(white.mean(), abs=0.1)


def test_a_warm_start_over_a_set_leaves_half_of_the_draws_free():
    distribution = begin(SET)
    distribution.fit(np.ones((2, 5, 3, 1)))
    assert (distribution.mode == 1).all()
    again = draw(begin(SET, distribution.shifted(LENGTHS)))
    shares = (again == 1).mean(axis=1)[..., 0]
    assert shares == pytest.approx(np.array([[2, 2, 1], [1, 1, 1]]) / 3, abs=0.03)


def test_weights_move_the_mean_and_the_likeliest_actions():
    plans = np.array([-1.0, 0.0, 1.0])[None, :, None, None] * np.ones((2, 3, 3, 1))
    weights = np.array([[0.2, 0.5, 0.3], [0.1, 0.3, 0.6]])
    for actions, expected in ((BOX, [0.1, 0.5]), (SET, [0.0, 1.0])):
        distribution = begin(actions)
        distribution.weigh(plans, weights)
        assert distribution.mode[:, :, 0] == pytest.approx(np.outer(expected, np.ones(3)))


MANY = (20_000, 8, 1)


def drawn(shape=MANY, seed=0, **settings):
    return draw_noise([np.random.default_rng(seed)], shape, **settings)[0, ..., 0]


@pytest.mark.parametrize("settings", [{}, {"correlation": 0.7}, {"colour": 2.0}, {"colour": 1.0}])
@pytest.mark.parametrize("horizon", [1, 2, 7, 8])
def test_every_step_of_a_plan_has_variance_one(settings, horizon):
    noise = drawn((20_000, horizon, 1), **settings)
    assert noise.mean(axis=0) == pytest.approx(0, abs=0.03)
    assert noise.var(axis=0) == pytest.approx(1, abs=0.05)


def test_correlated_noise_is_correlated_by_the_power_of_the_distance():
    noise = drawn(correlation=0.7)
    for distance in (1, 2, 3):
        found = (noise[:, :-distance] * noise[:, distance:]).mean()
        assert found == pytest.approx(0.7**distance, abs=0.02)


@pytest.mark.parametrize("colour", [1.0, 2.0])
def test_coloured_noise_has_the_spectrum_of_its_colour(colour):
    power = (np.abs(np.fft.rfft(drawn((20_000, 16, 1), colour=colour), axis=1)) ** 2).mean(axis=0)
    frequencies = np.fft.rfftfreq(16)
    slope = np.polyfit(np.log(frequencies[1:]), np.log(power[1:]), 1)[0]
    assert slope == pytest.approx(-colour, abs=0.02)
