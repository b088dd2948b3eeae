import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
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
from pytest_cpg.gates.kind import Run
from pytest_cpg.gates.planning_gap.benchmark import Benchmark, Sweep
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.result import recovery_text
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.planners import RandomShooting
from pytest_cpg.tasks.grids import two_room
from pytest_cpg.world_models import OracleDynamics

TASK = two_room(budget=40)
DESIGN = Design(task=TASK, planner=RandomShooting(candidates=25, horizon=6), episodes=12, seed=3)


def right(observations, actions):
    return TASK.step(observations, actions)


def still(observations, actions):
    """Believe that every move is half as long."""
    return observations + actions / 2


def benchmark(design=DESIGN, criteria=None, *, progress=lambda *_: None, execution=None):
    """Return the fixture's value in a session of which nobody sees anything."""
    run = Run(given={}, execution=execution or Execution(), task=None, progress=progress)
    measuring = SimpleNamespace(beside=lambda: nullcontext(run), note=lambda *_, **__: None)
    return Benchmark(design=design, criteria=criteria or Criteria(), measuring=measuring)


def sweep(over, asked, *, design=DESIGN, learned=still, **more):
    return benchmark(design, **more).sweep(learned=learned, **{f"{over}s": asked})


@pytest.fixture(scope="module")
def perturbed():
    return sweep("perturbation", [None, "drop-next-3", DropActions(9)])


@pytest.fixture(scope="module")
def horizons():
    return sweep("horizon", [1, 4, np.int64(8)], learned=right)


def outcomes(arm):
    return arm.successes.tolist(), arm.steps.tolist()


def test_a_setting_is_measured_as_its_own_gate_would_be(perturbed):
    assert list(perturbed.results) == ["none", "drop-next-3", "drop-next-9"]
    bare = measure_gap(DESIGN, oracle=OracleDynamics(TASK), learned=still)
    result = perturbed["none"]
    assert outcomes(result.learned) == outcomes(bare.learned)
    assert outcomes(result.oracle) == outcomes(bare.oracle)
    assert result.interval == bare.interval
    assert perturbed[None] is result
    assert perturbed[DropActions(9)].oracle.recovery is not None
    with pytest.raises(KeyError, match="delay-2; the sweep has none, drop-next-3"):
        perturbed["delay-2"]


def test_the_gap_of_a_row_is_bounded_without_margin_family_or_looks(perturbed):
    criteria = Criteria(margin=0.3, family_size=5, stop="sequential")
    found = sweep("perturbation", ["none"], criteria=criteria)
    assert found[None].interval == perturbed[None].interval


def test_a_horizon_is_the_planners(horizons):
    assert list(horizons.results) == ["1", "4", "8"]
    assert [result.oracle.rollout_steps for result in horizons.results.values()] == [25, 100, 200]
    # The model is the truth.
    assert horizons[4].gap == 0
    found = horizons.effective_horizon("learned")
    rates = {int(at): result.learned.success_rate for at, result in horizons.results.items()}
    assert rates[found] >= max(rates.values()) - 0.05
    assert all(rate < max(rates.values()) - 0.05 for h, rate in rates.items() if h < found)


def test_an_effective_horizon_is_of_horizons(perturbed):
    with pytest.raises(ValueError, match="this sweep is over perturbation"):
        perturbed.effective_horizon("oracle")


@pytest.mark.parametrize("name", ["perturbed", "horizons"])
def test_a_sweep_prints_within_eighty_columns(name, request):
    found = request.getfixturevalue(name)
    assert isinstance(found, Sweep)
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"sweep over {found.over}: two-room"
    for setting, result in found.results.items():
        begin = f"{setting}: oracle {result.oracle.success_rate:.2f}, learned "
        assert any(line.startswith(begin) for line in lines)
        assert begin in found.line
    assert ("effective horizon" in found.line) == (name == "horizons")


def test_what_is_perturbed_in_all_rows_is_told():
    design = replace(DESIGN, perturbation=DropActions(2), episodes=4)
    found = sweep("horizon", [2], design=design)
    assert str(found).startswith("sweep over horizon: two-room, under drop-next-2\n2: ")
    assert found[2].oracle.perturbed is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "a sweep is over one thing, got nothing. Write sweep"),
        ({"horizon": [1], "perturbation": ["none"]}, "got perturbation and horizon"),
        ({"perturbation": ["dely-2"]}, "perturbation: no perturbation is named 'dely-2'. Did"),
        ({"perturbation": ["none", None]}, "the sweep has the perturbation none twice"),
        ({"horizon": [2, 0]}, "horizon: need a whole number of at least 1, got 0"),
        ({"horizon": [2, 2]}, "the sweep has the horizon 2 twice"),
        ({"horizon": 5}, "horizon: need a list of what is swept over, got 5. Write sweep(learned="),
        ({"perturbation": "delay-2"}, "got 'delay-2'. Write sweep(learned=..., perturbations=['d"),
        ({"horizon": iter([2, 0])}, "horizon: need a whole number of at least 1, got 0"),
    ],
)
def test_what_cannot_be_swept_over_is_told_what_to_type(settings, message):
    with pytest.raises(CpgError, match=re.escape(message)):
        benchmark().sweep(learned=still, **{f"{over}s": asked for over, asked in settings.items()})


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
    assert len(sweep("perturbation", ["none"], design=design, learned=Striding()).results) == 1


@pytest.mark.parametrize(
    ("over", "asked", "more", "message"),
    [
        ("horizon", [5, 20], {"metric": "return"}, 'Write metric="success" in the marker'),
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


def test_an_effective_horizon_of_no_arm_is_refused(horizons):
    with pytest.raises(ValueError, match=r"no arm is named 'lerned'\. Did you mean 'learned'"):
        horizons.effective_horizon("lerned")


def test_progress_names_the_setting_and_the_arm():
    heard = []
    design = replace(DESIGN, episodes=3)
    asked = ["none", "delay-1"]
    sweep("perturbation", asked, design=design, progress=lambda name, *_: heard.append(name))
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
    for setting, result in perturbed.results.items():
        for number, arm in enumerate(result.arms):
            for other in (spread, again):
                found = other[setting].arms[number]
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
    found = benchmark(design).rank({"right": right, "still": still})
    alone = measure_gap(design, oracle=OracleDynamics(TASK), learned=still).learned
    assert np.array_equal(found.arms["still"].perturbed, alone.perturbed)
    assert outcomes(found.arms["still"]) == outcomes(alone)


def test_a_model_with_its_own_score_has_one_more_arm():
    track = Slider()
    design = replace(DESIGN, task=track, perturbation=DropActions(1))
    models = {"oracle": OracleDynamics(track), "learned": Scoring()}
    found = sweep("horizon", [4], design=design, learned=models["learned"])
    assert found[4].rescored.perturbed is not None
    assert ", rescored " in str(found)
    assert ", oracle+score " in recovery_text(measure_gap(design, **models))


@pytest.mark.parametrize(
    ("rates", "horizon"),
    [({20: 0.7, 5: 0.4, 10: 0.85, 15: 0.9}, 10), ({5: 0.0, 10: 0.0}, None)],
)
def test_the_effective_horizon_is_the_smallest_that_is_as_good_as_any(rates, horizon):
    results = {
        str(at): SimpleNamespace(arms=[SimpleNamespace(name="learned", success_rate=rate)])
        for at, rate in rates.items()
    }
    assert Sweep(over="horizon", results=results).effective_horizon("learned") == horizon
