"""Rules that name a cause where its neighbours cannot be shown; tests/calibration has models."""

from dataclasses import fields, replace

import pytest

from pytest_cpg.gates.planning_gap.diagnosis.losses import WonBack
from pytest_cpg.gates.planning_gap.diagnosis.measures import Measures, causes_of
from pytest_cpg.stats import Interval


def between(low, high):
    return Interval(estimate=(low + high) / 2, low=low, high=high, level=0.95, method="")


# A model that loses by its predictions, with nothing shown of where and how.
LOST = Measures(
    **dict.fromkeys(field.name for field in fields(Measures))
    | {"regret": between(0.8, 1), "other_error": 1.0, "right_places": 0.0}
)


def won_by(**shares):
    nothing = dict.fromkeys(
        ("noise", "places", "promises", "restarts", "dynamics"), between(-0.1, 0.1)
    )
    shares = {name: between(*share) for name, share in shares.items()}
    return replace(LOST, won=WonBack(shares={**nothing, **shares}, limit=0.5))


def named(measures, *, share=None, memory="none"):
    interval = None if share is None else between(*share)
    return [
        str(cause)
        for cause in causes_of(measures, scoring_share=interval, memory=memory, by_task=None)
    ]


@pytest.mark.parametrize(
    ("share", "causes"),
    [((0.7, 1.0), ["SCORE HEAD"]), ((0.3, 1.0), []), ((-0.2, 0.2), []), (None, [])],
)
def test_a_score_that_loses_most_of_the_gap_by_itself_is_at_fault(share, causes):
    hidden = won_by(dynamics=(0.25, 1.0))
    assert named(hidden, share=share) == causes
    assert named(replace(hidden, won=None), share=share) == causes


def test_a_memory_that_cannot_be_read_may_be_what_misleads_the_third_arm():
    assert named(won_by(dynamics=(0.25, 1.0)), share=(0.7, 1.0), memory="opaque") == []


@pytest.mark.parametrize(
    ("bad", "cause"), [((0.2, 0.6), "LOCAL ERROR"), ((0.7, 0.9), "ONE-STEP ERROR")]
)
def test_wrong_places_are_named_though_nothing_shows_where_they_lie(bad, cause):
    found = replace(
        won_by(places=(0.9, 1.0), dynamics=(1, 1)),
        window_error=between(0.1, 0.9),
        bad_windows=between(*bad),
    )
    assert named(found) == [cause]


@pytest.mark.parametrize(
    ("places", "causes"), [((0.2, 0.8), ["COMPOUNDING ERROR"]), ((0.3, 1.2), [])]
)
def test_what_is_lost_beyond_wrong_places_is_lost_by_growth(places, causes):
    found = won_by(places=places, restarts=(0.95, 1.0), dynamics=(1, 1))
    assert named(replace(found, window_error=between(0.1, 0.7))) == causes
