"""What pictures of an ensemble's answers show."""

import numpy as np
import pytest
from comparisons import graded_table

from pytest_cpg.gates.policy_comparison.card import figures
from pytest_cpg.stats import wilson_interval


def risk_over_coverage(wrong, confidences):
    return figures(graded_table(wrong, confidences))[0]


def test_the_band_holds_wilsons_interval_at_each_coverage_from_twenty_answers_on():
    wrong = np.arange(49) % 4 == 3
    drawn = risk_over_coverage(wrong, np.linspace(1, 0, 49))
    band = drawn.series["band"]
    count = len(band) // 2
    lower, upper = band[:count], band[: count - 1 : -1]
    assert [round(49 * x) for x, _ in lower] == [*range(20, 50)]
    for (x, low), (same, high) in zip(lower, upper, strict=True):
        first = round(49 * x)
        expected = wilson_interval(int(wrong[:first].sum()), first)
        assert (same, low, high) == pytest.approx((x, expected.low, expected.high))
    assert "The band is the 95% interval" in drawn.reading


@pytest.mark.parametrize(
    "confidences", [np.linspace(1, 0, 20), np.ones(60)], ids=["few answers", "one threshold"]
)
def test_where_nothing_tells_a_band_none_is_drawn_or_spoken_of(confidences):
    drawn = risk_over_coverage(np.arange(len(confidences)) % 4 == 3, confidences)
    assert not drawn.series["band"]
    assert "band" not in drawn.reading
