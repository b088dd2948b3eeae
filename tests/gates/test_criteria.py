import pytest

from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.planners import Chance
from pytest_cpg.tasks.grids import maze

DESIGN = Design(task=maze(), planner=Chance(), episodes=40, seed=0, level=0.9)


def test_gates_of_a_family_share_the_error_of_one():
    assert Criteria().gap_level(DESIGN) == pytest.approx(0.9)
    assert Criteria(family_size=5).gap_level(DESIGN) == pytest.approx(0.98)


@pytest.mark.parametrize(
    ("stop", "margin", "looks", "method"),
    [
        ("fixed", None, 1, "agresti-caffo"),
        ("fixed", 0.1, 1, "agresti-caffo"),
        ("sequential", None, 3, "bonett-price"),
        ("sequential", 0.2, 3, "tango"),
    ],
)
def test_a_rule_that_may_stop_early_brings_its_own_method(stop, margin, looks, method):
    criteria = Criteria(stop=stop, margin=margin)
    boundary = criteria.boundary(DESIGN)
    sizes = boundary.looks if boundary else [40]
    assert (len(sizes), sizes[-1]) == (looks, 40)
    assert criteria.method == method
