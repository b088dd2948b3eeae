"""The third arm: the true dynamics, rated as the learned model rates."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from sliders import Forgetful, Remembering, Scoring, Slider, Slippery

from pytest_cpg.contracts import IncompleteError
from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.replay import replay
from pytest_cpg.gates import GATES
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.kind import worst_of
from pytest_cpg.gates.planning_gap import explanation
from pytest_cpg.gates.planning_gap.card import card_of
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis
from pytest_cpg.gates.planning_gap.explanation import loss_split
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.ruling import ruling_of
from pytest_cpg.gates.planning_gap.stopping import Criteria
from pytest_cpg.planners import RandomShooting
from pytest_cpg.plugin.item_report import properties
from pytest_cpg.render.section import section, text_of
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import OracleDynamics

USUAL = Criteria()


class Keyed(Slider):
    cache_key = "1"


TASK = Keyed()
DESIGN = Design(task=TASK, planner=RandomShooting(candidates=30, horizon=6), episodes=20, seed=1)


def measured(learned, oracle=None, design=DESIGN, criteria=USUAL, **options):
    truth = oracle or OracleDynamics(TASK)
    return measure_gap(design, criteria, oracle=truth, learned=learned, **options)


class Off(Scoring):
    """Rates by a place that is not the goal."""

    def __init__(self):
        super().__init__(goal=40.0)


class Fickle(Forgetful):
    """Forgets the speed and rates as it should."""

    def score(self, latents):
        return np.abs(latents[..., 0])


@pytest.fixture(scope="module")
def off():
    return measured(Off())


def test_a_wrong_score_is_blamed_for_what_it_loses(off):
    assert off.swapped == ("dynamics", "score")
    assert off.rescored.name == "rescored"
    assert off.rescored.episodes == off.learned.episodes == 20
    assert off.oracle.success_count == 20
    assert off.scoring_loss.estimate == pytest.approx(1 - off.rescored.success_rate)
    assert off.scoring_loss.low > 0.5
    assert off.dynamics_loss.low < 0 < off.dynamics_loss.high
    assert off.scoring_loss.method.startswith("Agresti-Caffo")
    both = off.scoring_loss.estimate + off.dynamics_loss.estimate
    assert both == pytest.approx(off.gap)


def test_what_to_do_follows_from_what_loses(off):
    """Advice on the dynamics would contradict the third arm, or the cause that is named."""

    def said(result):
        return explanation.told(result, Verdict.INCONCLUSIVE).advice[0]

    def diagnosed(cause):
        found = Diagnosis(cause=cause, summary="", recommendation="", episodes=(), seconds=0.0)
        return said(replace(off, diagnosis=found))

    on_score = "What loses is how it rates plans"
    on_dynamics = "Compare its predictions with the simulator"
    for text in (said(off), diagnosed(Cause.SCORE_HEAD), diagnosed(Cause.NONE)):
        assert on_score in text
        assert on_dynamics not in text
    assert on_dynamics in diagnosed(Cause.DYNAMICS_BIAS)
    assert on_dynamics in said(replace(off, rescored=None))


def test_forgotten_speed_is_blamed_on_the_dynamics_and_not_on_the_score():
    result = measured(Fickle())
    assert result.rescored.success_count == 20
    assert result.scoring_loss.estimate == 0
    assert result.dynamics_loss.estimate == result.gap > 0


def test_returns_are_split_where_they_are_judged():
    result = measured(Off(), design=replace(DESIGN, metric="return"))
    assert result.scoring_loss.method == result.interval.method
    both = result.scoring_loss.estimate + result.dynamics_loss.estimate
    assert both == pytest.approx(result.interval.estimate)
    assert " a start: with the true dynamics" in loss_split(result)


@pytest.mark.parametrize("learned", [lambda o, a: o + a, OracleDynamics(TASK)])
def test_there_is_no_third_arm_where_the_task_rates_plans(learned):
    is_aa = isinstance(learned, OracleDynamics)
    result = measured(learned, criteria=Criteria(is_aa=is_aa))
    assert result.rescored is result.scoring_loss is result.dynamics_loss is None
    assert [arm.name for arm in result.arms] == ["oracle", "learned", "chance"]
    assert loss_split(result) == ""


def test_beside_a_surrogate_nothing_is_split():
    assert measured(Off(), oracle=lambda o, a: o + a).rescored is None


def test_a_result_with_a_third_arm_survives_json_and_an_older_one_has_none(off):
    again = GateResult.from_json(off.to_json())
    assert again.to_json() == off.to_json()
    assert again.scoring_loss == off.scoring_loss
    older = json.loads(off.to_json())
    del older["rescored"]
    assert GateResult.from_json(json.dumps(older)).rescored is None
    assert json.loads(measured(lambda o, a: o + a).to_json())["rescored"] is None


def test_a_result_with_a_third_arm_is_as_the_schema_of_reports_says(off):
    schema = json.loads(
        files("pytest_cpg.report").joinpath("report.schema.json").read_text("utf-8")
    )
    part = {"$ref": "#/$defs/result", "$defs": schema["$defs"]}
    jsonschema.validate(json.loads(off.to_json()), part)


def test_the_failure_says_in_eighty_columns_where_the_gap_comes_from(off):
    card = card_of(off, Verdict.INCONCLUSIVE, model="off")
    ruling = ruling_of(off, Verdict.INCONCLUSIVE)
    accepted = worst_of(Severity.UNSURE, GATES["cpg"].labels)
    found = Judgement(result=None, ruling=ruling, max_verdict=accepted, reason="bad", shown=card)
    text = text_of(section(found))
    assert all(len(line) <= 80 for line in text.splitlines())
    arm = off.rescored
    line = next(line for line in text.splitlines() if line.startswith("  oracle+score"))
    assert line.split()[1] == f"{arm.success_count}/20"
    assert f"  {arm.success_rate:.2f} [" in line
    said = " ".join(text.split())
    loss = off.scoring_loss
    assert f"{loss.estimate:.2f} [{loss.low:.2f}, {loss.high:.2f}] is lost by its score" in said
    assert "is lost by its dynamics (Agresti-Caffo 95%)" in said
    assert ("cpg_rescored_rate", arm.success_rate) in properties(card, ruling)


def test_a_decoder_and_a_planner_are_named_where_they_lose():
    class Steering(Remembering):
        def plan(self, latents, rngs, remaining):
            return -np.sign(latents[:, None, :1]), np.ones(1)

    result = measured(Steering())
    assert result.swapped == ("dynamics", "decoder", "planner")
    assert result.rescored.success_count == 20
    assert "lost by its decoder, " in loss_split(result)
    assert "lost by its dynamics and planner " in loss_split(result)


@pytest.mark.parametrize("spread", [False, True], ids=["here", "in workers"])
def test_what_stands_for_the_truth_is_planned_by_the_gate_although_it_brings_a_planner(spread):
    class Surrogate(Remembering):
        def plan(self, latents, rngs, remaining):
            return np.zeros((1, 3, 1)), np.ones(1)

        def rollout(self, latents, actions):
            return TASK.rollout(latents, actions)

    with ThreadPoolExecutor(1) as pool:
        execution = Execution(executor=pool if spread else None)
        result = measured(Off(), Surrogate(), execution=execution)
    assert result.oracle.rollout_steps == 30 * 6
    assert result.oracle.success_count > result.chance.success_count
    assert result.chance.rollout_steps == 0


@pytest.mark.parametrize("model", [Off(), Slippery()], ids=["score", "memory and noise"])
def test_workers_run_every_arm_as_this_process_does(model):
    here = measured(model)
    with ThreadPoolExecutor(1) as pool:
        spread = measured(model, execution=Execution(executor=pool))
    for one, other in zip(spread.arms, here.arms, strict=True):
        for name in ("name", "successes", "steps", "returns"):
            assert encode(one)[name] == encode(other)[name]


def test_a_third_arm_that_was_broken_off_is_resumed_and_never_reused_otherwise(tmp_path, off):
    cache = ArmCache(tmp_path, max_bytes=10**7)

    def stop(arm, stage):
        if arm == "rescored" and stage.solved:
            raise IncompleteError("time is up")

    def went_on(**options):
        execution = Execution(cache=cache, **options)
        return [str(line) for line in measured(Off(), execution=execution).reuse]

    def broken_off():
        cache = ArmCache(tmp_path, max_bytes=10**7)
        with pytest.raises(IncompleteError, match="chance solved"):
            measured(Off(), progress=stop, execution=Execution(cache=cache))

    broken_off()
    assert "rescored: run anew" in went_on()
    assert any("rescored: 20 episodes stored" in line for line in went_on(resumes=True))
    resumed = measured(Off(), execution=Execution(cache=cache, resumes=True))
    assert encode(resumed.rescored)["steps"] == encode(off.rescored)["steps"]


def test_a_replay_rates_the_truth_as_the_model_with_its_memory_sees_it():
    found = replay(DESIGN, oracle=OracleDynamics(TASK), learned=Scoring(), episodes=[2, 5])
    assert found.has_own_score
    for traces in found.traces.values():
        # The first plan is made before the speed is known; after it the model is right.
        np.testing.assert_array_equal(traces.learned.predicted[1:], traces.learned.actual[1:])
        assert traces.learned.at[0] == 0
