"""Plan quality as a kind of gate, loaded with the first one that is collected."""

from __future__ import annotations

from types import MappingProxyType

from pytest_cpg.gates import GATES
from pytest_cpg.gates.arguments import (
    OF_EPISODES,
    REQUIRED,
    Argument,
    as_given,
    between,
    of_option,
    one_of,
    whole,
)
from pytest_cpg.gates.kept import reading
from pytest_cpg.gates.plan_quality.card import card_of
from pytest_cpg.gates.plan_quality.compare import KeptPlans, compare
from pytest_cpg.gates.plan_quality.forecast import cost_of, forecast_of
from pytest_cpg.gates.plan_quality.measure import measure_plans
from pytest_cpg.gates.plan_quality.result import PlanQualityResult
from pytest_cpg.gates.plan_quality.ruling import LABELS, alarm_of, ruling_of
from pytest_cpg.gates.plan_quality.spec import spec_of

_share = between(0, 1)
_KNOWN = GATES["cpg_plan_quality"]


class PlanQuality:
    """Whether plans that a learned model likes are as good in truth."""

    marker, fixture, help = _KNOWN.marker, _KNOWN.fixture, _KNOWN.help
    example = 'task="reacher-easy", planner="preset"'
    has_smoke_test = True
    arguments = (
        Argument("task", as_given, REQUIRED, help="the name of a task, or a Task"),
        Argument("planner", as_given, "random-shooting", help="the name of a planner, or one"),
        Argument("max_exploitation", _share, 0.1, help="score in the model beyond that in truth"),
        Argument("min_score", _share, help="the smallest mean score in truth"),
        Argument("k", whole(2, 10_000), 24, help="neighbours of each plan"),
        Argument(
            "neighbours", one_of("random", "adversarial"), "random", help="how they are found"
        ),
        of_option("episodes"),
        of_option("seed"),
        of_option("confidence"),
        *OF_EPISODES,
    )

    labels = MappingProxyType(LABELS)
    result = PlanQualityResult
    parse = staticmethod(spec_of)
    measure = staticmethod(measure_plans)
    judge = staticmethod(ruling_of)
    card = staticmethod(card_of)
    alarm = staticmethod(alarm_of)
    cost = staticmethod(cost_of)
    forecast = staticmethod(forecast_of)
    entry = staticmethod(KeptPlans.of)
    read_entry = staticmethod(reading(KeptPlans))
    compare = staticmethod(compare)
