import numpy as np
import pytest

from pytest_cpg.planners.distributions import draw_noise

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
