import numpy as np
import pytest

from pytest_cpg.contracts import BoxActions, FiniteActions

FINITE = FiniteActions([[-1.0, 2.0], [0.5, 0.0], [3.0, 3.0]])
BOX = BoxActions([-2.0, 1.0], [2.0, 5.0])


def streams(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


@pytest.mark.parametrize("space", [FINITE, BOX], ids=["finite", "box"])
def test_samples_have_their_shape_and_follow_each_stream(space):
    drawn = space.sample(streams(1, 2, 3), (4, 5))
    assert drawn.shape == (3, 4, 5, space.size)
    assert np.array_equal(space.sample(streams(2), (4, 5))[0], drawn[1])


def test_finite_samples_are_uniform_over_the_set():
    drawn = FINITE.sample(streams(0), (30_000,))[0]
    for value in FINITE.values:
        assert (drawn == value).all(axis=1).mean() == pytest.approx(1 / 3, abs=0.02)


def test_box_samples_fill_the_box():
    drawn = BOX.sample(streams(0), (10_000,))[0]
    assert (drawn >= BOX.low).all()
    assert (drawn <= BOX.high).all()
    assert drawn.mean(axis=0) == pytest.approx([0.0, 3.0], abs=0.1)


def test_idle_is_the_action_nearest_to_zero():
    assert FINITE.idle.tolist() == [0.5, 0.0]
    assert BOX.idle.tolist() == [0.0, 1.0]


def test_actions_cannot_be_written_to_from_outside():
    with pytest.raises(ValueError, match="read-only"):
        FINITE.values[0, 0] = 7
    FINITE.idle[:] = 7
    assert FINITE.idle.tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FiniteActions([1.0, 2.0]), r"shape \[M, A\], got shape \(2,\)"),
        (lambda: FiniteActions(np.empty((0, 1))), r"got shape \(0, 1\)"),
        (lambda: BoxActions([0.0], [0.0]), "need finite low < high"),
        (lambda: BoxActions([0.0], [np.inf]), "need finite low < high"),
        (lambda: BoxActions([0.0], [1.0, 2.0]), r"need two bounds \[A\]"),
    ],
)
def test_an_action_space_that_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
