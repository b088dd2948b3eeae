import pytest

from pytest_cpg.gates.at_most import AtMost, Measured
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.kind import MaxVerdict
from pytest_cpg.stats import Interval


def kind_of(**more):
    return AtMost(marker="error", help="", number="error", sample=lambda *_: None, **more)


@pytest.mark.parametrize(("more", "limit"), [({}, 1e300), ({}, 1e308), ({"most": 1}, 1)])
def test_a_limit_that_no_model_can_miss_is_refused(more, limit):
    (parse,) = (one.parse for one in kind_of(**more).arguments if one.name == "limit")
    assert parse(limit / 1e300 / 2) == limit / 1e300 / 2
    with pytest.raises(Exception, match="need a number between 0 and"):
        parse(limit)


def test_the_largest_numbers_can_be_drawn():
    found = Interval(estimate=1e308, low=0.0, high=1.7e308, level=0.95, method="plain")
    result = Measured(limit=1e38, size="1 step", conditions={}, found=found, p_value=1.0)
    card = kind_of().card(result, MaxVerdict(label="UNCLEAR", severity=Severity.UNSURE))
    assert card.table.axis[1] >= found.high
