"""The A/A check: the oracle in both arms, which nobody may read as a judged model."""

import re
from itertools import cycle, product

import pytest
from conftest import CONFTEST
from sessions import flat

from pytest_cpg.render.command import main

GATES = """
import pytest

from pytest_cpg.planners import PLANNERS

DESIGNS = {designs!r}
SETTINGS = {{"random-shooting": {{"candidates": 4, "horizon": 3}}, "greedy": {{}}}}


def marked(planner="random-shooting", stop="fixed", **more):
    settings = SETTINGS.get(planner, {{"horizon": 3}})
    size = {{"episodes": 4}} if stop == "fixed" else {{"max_episodes": 10}}
    return pytest.mark.cpg(
        planner=PLANNERS[planner](**settings),
        budget=3,
        stop=stop,
        model="oracle",
        # Of an arm this short nobody can be told from chance.
        max_verdict="PLANNER BOTTLENECK",
        **size,
        **more,
    )


@pytest.mark.parametrize(
    "place", [pytest.param(i, marks=marked(**one)) for i, one in enumerate(DESIGNS)]
)
def test_gate(cpg, place):
    assert cpg.label == "A/A"
    assert cpg.gap == cpg.interval.estimate == cpg.paired_interval.estimate == 0
    for what in ("indices", "successes", "steps", "returns"):
        assert getattr(cpg.oracle, what).tobytes() == getattr(cpg.learned, what).tobytes()
"""
STOPS = "fixed", "sequential"
GRIDS = "maze", "two-room"
CONTROL = "acrobot-swingup", "cartpole-swingup", "reacher-easy", "dmc:walker-walk"


def run(repository, designs):
    repository.makepyfile(test_gates=GATES.format(designs=designs))
    result = repository.runpytest("--cpg-json=report.json", "-W", "ignore")
    result.assert_outcomes(passed=len(designs))
    result.stdout.fnmatch_lines([f"*- cpg A/A check: {len(designs)} gates passed -*"])
    gates = repository.json("report.json")["gates"]
    return [gate["comparisons"][0]["result"] for gate in gates]


@pytest.mark.parametrize(
    ("extra", "tasks", "more"),
    [
        (None, GRIDS, {}),
        ("dm_control", CONTROL, {}),
        ("gymnasium", ("gym:Pendulum-v1",), {"goal": "return>=-20"}),
    ],
    ids=["grids", "control", "gymnasium"],
)
def test_arms_of_an_aa_check_end_alike_by_every_task_stop_and_metric(
    repository, extra, tasks, more
):
    if extra:
        pytest.importorskip(extra)
    # Where episodes take long, each rule and metric is that of some task, and each task has one.
    pairs = zip(tasks, cycle(STOPS)) if tasks is CONTROL else product(tasks, STOPS)
    designs = [{"task": task, "stop": stop, **more} for task, stop in pairs]
    designs += [{"task": task, "metric": "return"} for task in tasks]
    found = run(repository, designs)
    assert {one["stop"] for one in found} == set(STOPS)
    assert all(one["swapped"] == [] and one["is_aa"] for one in found)


@pytest.mark.parametrize(
    ("extra", "task", "planners"),
    [
        (None, {"task": "maze"}, ("random-shooting", "beam", "greedy")),
        (
            "dm_control",
            {"task": "pendulum-swingup", "actions": "box"},
            ("cem", "icem", "mppi", "gradient"),
        ),
    ],
    ids=["grid", "control"],
)
def test_arms_of_an_aa_check_end_alike_by_every_planner(repository, extra, task, planners):
    if extra:
        pytest.importorskip(extra)
    run(repository, [{**task, "planner": planner} for planner in planners])


GATE = """
import pytest

@pytest.mark.cpg(task="{task}", {more})
def test_gate(cpg):
    pass
"""


def gate(task="track", more='model="right"'):
    return GATE.format(task=task, more=more)


REFUSED = (
    "the learned arm was given the true dynamics, so that no model would be judged. Give your "
    "model; for the A/A check, which runs the true dynamics in both arms, write "
    'model="oracle" or --cpg-model=oracle.'
)


ORACLE_GIVEN = """
import pytest


@pytest.fixture
def learned_dynamics(oracle_dynamics):
    return oracle_dynamics


@pytest.mark.cpg(task="track")
def test_fixture(cpg): ...


@pytest.mark.cpg(task="track")
def test_compare(benchmark_runner, oracle_dynamics):
    benchmark_runner.compare(learned=oracle_dynamics)
"""


def test_the_oracle_as_a_model_without_the_name_of_the_check_is_refused(repository):
    repository.makepyfile(ORACLE_GIVEN)
    result = repository.runpytest()
    result.assert_outcomes(failed=1, errors=1)
    assert flat(result).count(REFUSED) == 2


def test_an_aa_check_is_shown_as_one_everywhere_and_as_no_verdict(repository):
    repository.makepyfile(gate())
    names = ("json", "md", "html")
    options = [f"--cpg-{name}=report.{name}" for name in names]
    result = repository.runpytest("--cpg-model=oracle", "--junit-xml=report.xml", *options)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*- cpg A/A check: 1 gate passed -*",
            " A/A (1): the true dynamics in both arms",
            " . test_gate *1.00 *1.00 *0.00 *",
        ]
    )
    read = {name: repository.text(f"report.{name}") for name in names}
    assert "A/A check, no verdicts" in read["md"]
    assert re.search(r"<span>A/A( check)?</span>", read["html"])
    assert 'name="cpg_verdict" value="A/A"' in repository.text("report.xml")
    for text in (result.stdout.str(), *read.values()):
        assert "AS GOOD AS ORACLE" not in text.replace("MODEL AS GOOD AS ORACLE&#", "")
        assert "LEARNED OUTPERFORMS" not in text


def test_an_aa_check_tells_that_a_gate_is_blind(repository):
    repository.makepyfile(gate("unreachable"))
    result = repository.runpytest("--cpg-model=oracle")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["A/A: the true dynamics solves *", "  Why      Random actions *", "*A/A check: *"]
    )
    assert "Random actions would have passed this gate" in flat(result)


def test_an_aa_check_of_a_task_that_keeps_a_state_fails(repository):
    repository.makeconftest(
        CONFTEST
        + """

class Tired(Track):
    name, steps = "tired", 0

    def step(self, states, actions):
        self.steps += len(states)
        return states + (actions if self.steps < 200 else 0 * actions)


def pytest_cpg_tasks():
    return {"tired": Tired}
"""
    )
    repository.makepyfile(gate("tired"))
    result = repository.runpytest("--cpg-model=oracle")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["A/A: the true dynamics solves *", "  Why      The true dynamics ended *"]
    )
    assert "episodes otherwise when they were run again" in flat(result)


@pytest.mark.parametrize("way", ["option", "ini"])
def test_an_aa_check_left_in_ci_fails_the_session(repository, monkeypatch, way):
    repository.makepyfile(gate(more="max_verdict='INCONCLUSIVE'"))
    monkeypatch.setenv("CI", "true")
    if way == "ini":
        repository.add("tox.ini", "cpg_model = oracle")
    result = repository.runpytest(*["--cpg-model=oracle"] * (way == "option"))
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*- cpg A/A check: 1 gate, passed, the session fails -*",
            " 1 of 1 gates was run as an A/A check,*",
        ]
    )
    assert 'Leave --cpg-model=oracle or model="oracle" out' in flat(result)


def test_an_aa_check_that_is_written_in_a_test_runs_in_ci_beside_others(repository, monkeypatch):
    repository.makepyfile(test_check=gate(more="model='oracle'"), test_model=gate())
    monkeypatch.setenv("CI", "true")
    assert repository.runpytest().ret == 0
    # It counts as no gate that is judged.
    assert repository.runpytest("--cpg-require=2").ret == 1
    assert repository.runpytest("--cpg-require=1").ret == 0


def test_an_aa_check_is_no_result_to_accept_or_to_compare(repository):
    repository.makepyfile(gate())
    result = repository.runpytest("--cpg-model=oracle", "--cpg-update-baseline")
    assert result.ret == 1
    assert "not accepted: A/A check, which judges no model" in flat(result)
    assert not (repository.path / ".cpg" / "baseline.json").exists()
    assert repository.runpytest("--cpg-model=mirrored", "--cpg-json=r.json").ret == 1
    assert main(["accept", "r.json", "--force"]) == 0
    again = repository.runpytest("--cpg-model=oracle", "--cpg-drift=fail")
    again.assert_outcomes(passed=1)
    assert "learned was" not in flat(again)


@pytest.mark.parametrize("option", ["--cpg-model=oracle", "--cpg-quick"])
def test_a_gate_that_is_known_to_fail_need_not_where_no_model_is_judged(repository, option):
    repository.makeconftest(CONFTEST)
    repository.makepyfile(
        """
        import pytest

        @pytest.mark.xfail(strict=True, reason="known to fail")
        @pytest.mark.parametrize("fails", [False, True])
        @pytest.mark.cpg(task="track", model="mirrored", episodes=20)
        def test_gate(cpg, fails):
            assert not fails
        """
    )
    repository.runpytest().assert_outcomes(xfailed=2)
    result = repository.runpytest(option)
    assert result.ret == 0
    # A smoke test judges nothing, nor does its body.
    judged = option != "--cpg-quick"
    result.assert_outcomes(xpassed=2 - judged, xfailed=int(judged))
