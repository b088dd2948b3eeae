import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from sliders import Scoring, Slider

from pytest_cpg.contracts import CpgError
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.episodes.replay import replay
from pytest_cpg.gates.planning_gap.benchmark import rank_on_starts
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.result import recovery_text
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.gates.planning_gap.sweep import Sweep, sweep_settings
from pytest_cpg.planners import Chance, RandomShooting
from pytest_cpg.tasks.grids import two_room
from pytest_cpg.world_models import OracleDynamics

TASK = two_room(budget=40)
DESIGN = Design(task=TASK, planner=RandomShooting(candidates=25, horizon=6), episodes=12, seed=3)


def right(observations, actions):
    return TASK.step(observations, actions)


def still(observations, actions):
    """Believe that every move is half as long."""
    return observations + actions / 2


def sweep(over, asked, *, design=DESIGN, learned=still, **more):
    return sweep_settings(
        design,
        Criteria(),
        oracle=OracleDynamics(TASK),
        learned=learned,
        settings={over: asked},
        **more,
    )


@pytest.fixture(scope="module")
def perturbed():
    return sweep("perturbation", [None, "drop-next-3", DropActions(9)])


@pytest.fixture(scope="module")
def horizons():
    return sweep("horizon", [1, 4, np.int64(8)], learned=right)


@pytest.fixture(scope="module")
def budgets():
    return sweep("budget", [40, 10, 20])


def outcomes(arm):
    return arm.successes.tolist(), arm.steps.tolist()


def test_a_setting_is_measured_as_its_own_gate_would_be(perturbed):
    assert [row.setting for row in perturbed.rows] == ["none", "drop-next-3", "drop-next-9"]
    bare = measure_gap(DESIGN, oracle=OracleDynamics(TASK), learned=still)
    row = perturbed["none"]
    assert outcomes(row.arms["learned"]) == outcomes(bare.learned)
    assert outcomes(row.arms["oracle"]) == outcomes(bare.oracle)
    assert row.gap == bare.interval
    assert row.success["oracle"] == bare.oracle.interval
    assert perturbed[None] is row
    assert perturbed[DropActions(9)].arms["oracle"].recovery is not None
    with pytest.raises(KeyError, match="delay-2; the sweep has none, drop-next-3"):
        perturbed["delay-2"]


def test_a_horizon_is_the_planners(horizons):
    assert [row.setting for row in horizons.rows] == ["1", "4", "8"]
    assert [row.arms["oracle"].rollout_steps for row in horizons.rows] == [25, 100, 200]
    # The model is the truth.
    assert horizons[4].gap.estimate == 0
    found = horizons.effective_horizon("learned")
    rates = {int(row.setting): row.success["learned"].estimate for row in horizons.rows}
    assert rates[found] >= max(rates.values()) - 0.05
    assert all(rate < max(rates.values()) - 0.05 for h, rate in rates.items() if h < found)
    assert horizons.effective_horizon("oracle", tolerance=1.0) == 1


def test_success_within_budgets_is_counted_in_one_run(budgets):
    assert [row.setting for row in budgets.rows] == ["40", "10", "20"]
    assert len({id(row.arms["oracle"]) for row in budgets.rows}) == 1
    whole = budgets[40]
    assert whole.success["oracle"] == whole.arms["oracle"].interval
    for row in budgets.rows:
        for name, arm in row.arms.items():
            within = arm.successes & (arm.steps <= int(row.setting))
            assert row.success[name].estimate == within.mean()
        difference = row.success["oracle"].estimate - row.success["learned"].estimate
        assert row.gap.estimate == pytest.approx(difference)
    with pytest.raises(ValueError, match="this sweep is over budget"):
        budgets.effective_horizon("oracle")


def test_a_random_planner_succeeds_as_often_under_a_budget_as_within_it():
    design = replace(DESIGN, planner=Chance(horizon=1), episodes=30)
    within = sweep("budget", [25, 40], design=design)
    short = replace(design, task=two_room(budget=25))
    alone = measure_gap(short, oracle=OracleDynamics(short.task), learned=still)
    assert within[25].success["oracle"] == alone.oracle.interval


class Earning(type(TASK)):
    least_return = 5.0


def test_budgets_say_nothing_of_a_return_that_is_a_goal():
    task = Earning(**{one.name: getattr(TASK, one.name) for one in fields(TASK) if one.init})
    with pytest.raises(CpgError, match=r"budget: with a return as its goal .* each budget="):
        sweep("budget", [10, 20], design=replace(DESIGN, task=task))


@pytest.mark.parametrize("name", ["perturbed", "horizons", "budgets"])
def test_a_sweep_prints_within_eighty_columns(name, request):
    found = request.getfixturevalue(name)
    assert isinstance(found, Sweep)
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"sweep over {found.over}: two-room"
    for row in found.rows:
        begin = f"{row.setting}: oracle {row.success['oracle'].estimate:.2f}, learned "
        assert any(line.startswith(begin) for line in lines)
        assert begin in found.line
    assert ("effective horizon" in found.line) == (name == "horizons")


def test_what_is_perturbed_in_all_rows_is_told():
    design = replace(DESIGN, perturbation=DropActions(2), episodes=4)
    found = sweep("horizon", [2], design=design)
    assert str(found).startswith("sweep over horizon: two-room, under drop-next-2\n2: ")
    assert found[2].arms["oracle"].perturbed is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "a sweep is over one thing, got nothing. Write sweep"),
        ({"horizon": [1], "budget": [2]}, "a sweep is over one thing, got horizon and budget"),
        ({"perturbation": ["dely-2"]}, "perturbation: no perturbation is named 'dely-2'. Did"),
        ({"perturbation": ["none", None]}, "the sweep has the perturbation none twice"),
        ({"horizon": [2, 0]}, "horizon: need a whole number of at least 1, got 0"),
        ({"horizon": [2, 2]}, "the sweep has the horizon 2 twice"),
        ({"horizon": 5}, "horizon: need a list of what is swept over, got 5. Write sweep(learned="),
        ({"perturbation": "delay-2"}, "got 'delay-2'. Write sweep(learned=..., perturbations=['d"),
        ({"horizon": iter([2, 0])}, "horizon: need a whole number of at least 1, got 0"),
        ({"budget": [41]}, "an episode has 40 steps, got 41. Write budget=41"),
    ],
)
def test_what_cannot_be_swept_over_is_told_what_to_type(settings, message):
    with pytest.raises(CpgError, match=re.escape(message)):
        sweep_settings(DESIGN, Criteria(), oracle=None, learned=None, settings=settings)


class Striding:
    """Knows the dynamics, and goes to the right whatever they say."""

    def rollout(self, latents, actions):
        return TASK.rollout(latents, actions)

    def plan(self, latents, rngs, remaining):
        del rngs
        count = len(latents)
        right = TASK.actions.values[TASK.actions.values[:, 0].argmax()]
        return np.broadcast_to(right, (count, 3, 2)).copy(), np.minimum(remaining, 3)


def test_a_model_that_plans_itself_has_no_rows_over_horizons():
    with pytest.raises(CpgError, match="Striding object', which looks 3 steps ahead in every"):
        sweep("horizon", [2, 5], learned=Striding())
    design = replace(DESIGN, episodes=3)
    assert len(sweep("budget", [5, 20], design=design, learned=Striding()).rows) == 2


@pytest.mark.parametrize(
    ("over", "asked", "more", "message"),
    [
        ("budget", [5, 20], {"metric": "return"}, 'Write metric="success" in the marker'),
        (
            "perturbation",
            ["none"],
            {"perturbation": DropActions(2)},
            "the marker has 'drop-next-2', and this sweep sets each",
        ),
    ],
)
def test_a_sweep_that_does_not_fit_its_marker_is_refused(over, asked, more, message):
    with pytest.raises(CpgError, match=message):
        sweep(over, asked, design=replace(DESIGN, **more))


@pytest.mark.parametrize(
    ("arm", "tolerance", "message"),
    [
        ("lerned", 0.05, "no arm is named 'lerned'. Did you mean 'learned'?"),
        ("learned", "x", "tolerance: need a number from 0 to 1, got 'x'"),
    ],
)
def test_an_effective_horizon_of_nothing_is_refused(horizons, arm, tolerance, message):
    with pytest.raises(ValueError, match=message):
        horizons.effective_horizon(arm, tolerance=tolerance)


def test_progress_names_the_setting_and_the_arm():
    heard = []
    design = replace(DESIGN, episodes=3)
    asked = ["none", "delay-1"]
    sweep("perturbation", asked, design=design, progress=lambda name, _: heard.append(name))
    assert list(dict.fromkeys(heard)) == [
        f"{setting} {arm}"
        for setting in ("none", "delay-1")
        for arm in ("oracle", "learned", "chance")
    ]


def test_perturbed_arms_are_the_same_on_an_executor_and_from_the_cache(tmp_path, perturbed):
    asked = ["none", "drop-next-3", DropActions(9)]
    cache = ArmCache(tmp_path, max_bytes=10**7)
    with ThreadPoolExecutor(2) as executor:
        spread = sweep("perturbation", asked, execution=Execution(cache, executor))
    again = sweep("perturbation", asked, execution=Execution(cache))
    for row in perturbed.rows:
        for name, arm in row.arms.items():
            for other in (spread, again):
                found = other[row.setting].arms[name]
                assert outcomes(found) == outcomes(arm)
                assert np.array_equal(found.perturbed, arm.perturbed)
    # Oracle, chance and learned arms of three settings.
    assert len(list(tmp_path.glob("*.json"))) == 9


def test_a_perturbed_episode_is_replayed_as_it_went():
    design = replace(DESIGN, perturbation=DropActions(5))
    models = {"oracle": OracleDynamics(TASK), "learned": still}
    result = measure_gap(design, **models)
    replayed = replay(design, **models, episodes=[2, 7])
    for episode, traces in replayed.traces.items():
        for name, trace in zip(("oracle", "learned"), traces, strict=True):
            arm = getattr(result, name)
            assert (trace.success, trace.steps) == (arm.successes[episode], arm.steps[episode])


def test_models_are_ranked_under_the_perturbation_of_the_marker():
    design = replace(DESIGN, perturbation=DropActions(9))
    found = rank_on_starts(design, {"right": right, "still": still})
    alone = measure_gap(design, oracle=OracleDynamics(TASK), learned=still).learned
    assert np.array_equal(found.arms["still"].perturbed, alone.perturbed)
    assert outcomes(found.arms["still"]) == outcomes(alone)


def test_a_model_with_its_own_score_has_one_more_arm():
    track = Slider()
    design = replace(DESIGN, task=track, perturbation=DropActions(1))
    models = {"oracle": OracleDynamics(track), "learned": Scoring()}
    found = sweep_settings(design, Criteria(), **models, settings={"horizon": [4]})
    assert set(found[4].success) == {"oracle", "rescored", "learned", "chance"}
    assert found[4].arms["rescored"].perturbed is not None
    assert ", rescored " in str(found)
    assert ", oracle+score " in recovery_text(measure_gap(design, **models))


def test_the_effective_horizon_is_the_smallest_that_is_as_good_as_any():
    def found(rates, tolerance):
        rows = tuple(
            SimpleNamespace(setting=str(at), success={"learned": SimpleNamespace(estimate=rate)})
            for at, rate in rates.items()
        )
        sweep = Sweep(over="horizon", rows=rows, task="track")
        return sweep.effective_horizon("learned", tolerance=tolerance)

    rates = {20: 0.7, 5: 0.4, 10: 0.85, 15: 0.9}
    assert [found(rates, tolerance) for tolerance in (0.0, 0.05, 1.0)] == [15, 10, 5]
    assert found({5: 0.0, 10: 0.0}, 0.05) is None
