"""The gate on plans as a user meets it: in numpy, with models of a puck."""

import json
import re

import pytest
from sessions import flat

from pytest_cpg.gates import GATES
from pytest_cpg.plugin.session import _check_supports

CONFTEST = """
import pytest
import faulty_models as puck

MODELS = {
    "wormhole": puck.wormhole,
    "noise": puck.slightly_noisy,
    "perfect": puck.perfect,
    "heavy": puck.heavy,
    "deaf": puck.deaf,
}


@pytest.fixture
def learned_dynamics(request):
    return MODELS[request.node.name.removeprefix("test_")]


def pytest_cpg_tasks():
    return {"puck": puck.Puck}
"""
HEAD = """
import pytest
from pytest_cpg.planners import CEM

FEW = CEM(horizon=8, samples=24, elites=6, iterations=2)
"""
GATE = """

@pytest.mark.cpg_plan_quality({arguments})
def test_{model}(cpg_plan_quality):
    {body}
"""
USUAL = 'task="puck", planner=FEW'


@pytest.fixture
def pucks(repository):
    """Runs gates on models of a puck, one for each that is named."""
    repository.makeini("[pytest]\ncpg_episodes = 12\naddopts = -p no:hypothesispytest\n")
    repository.makeconftest(CONFTEST)

    def run(*options, models=("perfect",), more="", body="pass", arguments=USUAL):
        gates = [
            GATE.format(arguments=f"{arguments}{more}", model=model, body=body) for model in models
        ]
        repository.makepyfile(test_puck=HEAD + "".join(gates))
        return repository.runpytest(*options)

    run.pytester, run.path = repository, repository.path
    return run


def comparisons(path):
    """Return what was found, but for what it took, by test."""
    gates = json.loads(path.read_text())["gates"]
    return {
        gate["id"].rpartition("::")[2]: {**gate["comparisons"][0]["result"], "seconds": 0}
        for gate in gates
    }


def test_each_model_gets_its_word_and_every_report_shows_it(pucks, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    files = ("--cpg-json=o.json", "--cpg-md=o.md", "--cpg-html=o.html", "--junit-xml=o.xml")
    models = ("perfect", "noise", "wormhole", "deaf")
    result = pucks(*files, models=models)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "EXPLOITED: plans score *in truth, and solve * of 12.",
            "*exploitation *<=0.10 *no*",
            "*above chance *",
            "  beats all *25 neighbours: *% in the model, *% in truth",
            "  solved * of 12 starts",
            "  all alike * plans at * of * decisions in the model, 0 in truth",
            "  worst plan *episode *, step *: score 1.00 in the model, 0.* in truth",
            "  Why      The planner finds plans that are good in the model alone*",
            "  Rerun    pytest *test_puck.py::test_wormhole",
            "*cpg: 4 gates, 2 failed*",
            " 12 episodes",
            " * exploitation *model *truth *solved",
            " NOT EXPLOITED (2): *",
            " . test_perfect * 0.00 *",
            " . test_noise *",
            " EXPLOITED (1): *",
            " F test_wormhole *",
            " BROKEN (1): *",
            " F test_deaf *",
        ]
    )
    text = re.sub(r"::error[^\n]*", "", result.stdout.str())
    section = text.partition("= FAILURES =")[2].partition("-- cpg:")[0].splitlines()
    assert max(len(line) for line in section[1:] if "pytest" not in line) <= 80
    assert "::error file=test_puck.py,line=" in result.stdout.str()
    assert "BROKEN: the learned dynamics ignores the action" in flat(result)
    assert " ".join(section).count("plan looks the same to the planner") == 1
    gates = json.loads((pucks.path / "o.json").read_text())["gates"]
    (comparison,) = gates[2]["comparisons"]
    assert (comparison["kind"], comparison["label"]) == ("cpg_plan_quality", "EXPLOITED")
    page, markdown = ((pucks.path / name).read_text() for name in ("o.html", "o.md"))
    assert "Score of plans in the model and in truth" in page
    assert "Decisions with the most exploitation" in page
    assert "EXPLOITED" in markdown
    assert 'name="cpg_exploitation_low"' in (pucks.path / "o.xml").read_text()


@pytest.mark.usefixtures("own_hashes")
def test_a_result_is_the_same_alone_in_any_order_and_on_workers(pucks):
    models = ("wormhole", "heavy")

    def found(*options, models):
        pucks("--cpg-json=o.json", *options, models=models)
        return comparisons(pucks.path / "o.json")

    together = found(models=models)
    assert found("-n", "2", models=models[::-1]) == together
    assert found("--cpg-workers=2", models=("heavy",)) == {"test_heavy": together["test_heavy"]}


def test_its_result_can_be_asserted_on(pucks):
    body = (
        "assert cpg_plan_quality.exploitation.low > 0.1 > cpg_plan_quality.above_chance.low\n"
        "    assert cpg_plan_quality.score.high < 0.9\n"
        "    assert cpg_plan_quality.worst[0].imagined == 1\n"
        "    assert cpg_plan_quality.regret > 0"
    )
    pucks(models=("wormhole",), more=', max_verdict="exploited"', body=body).assert_outcomes(
        passed=1
    )


def test_each_mistake_in_a_marker_is_told_with_what_to_write_instead(pucks):
    told = {
        "": "the marker names no task. Write @pytest.mark.cpg_plan_quality(task=",
        'task="pukc"': "no task named 'pukc'. Did you mean 'puck'?",
        'task="puck", planner="cemm"': "no planner named 'cemm'. Did you mean 'cem'?",
        'task="puck", max_exploit=0.1': "no argument 'max_exploit'. Did you mean "
        "'max_exploitation'?",
        'task="puck", max_exploitation=2': "max_exploitation: need a number between 0 and 1",
        'task="puck", k=64': "the marker: k= was left out. Leave it out: each plan has 24 neighb",
        'task="puck", episodes=1': "a gate of 1 episode can never miss max_exploitation=0.1 at ",
        'task="puck", max_exploitation=0.9': "a limit that hardly any model misses",
        'task="puck", min_score=0.5': "Write into the test: assert cpg_plan_quality.score.low >= ",
        'task="puck", max_verdict="good plans"': "the verdict GOOD PLANS is called NOT EXPLOITED. "
        'Write max_verdict="NOT EXPLOITED".',
        'task="puck", episodes=3, max_exploitation=0.3': "Write episodes=50 (4 is the least that",
        'task="puck", perturbation="drop-next-5"': "the marker has no argument 'perturbation'",
        'task="puck", planner="preset"': "built-in tasks, and none is named 'puck'",
    }
    modules = {
        f"test_{number}": HEAD + GATE.format(arguments=arguments, model="perfect", body="pass")
        for number, arguments in enumerate(told)
    }
    pucks.pytester.makepyfile(**modules)
    result = pucks.pytester.runpytest("--co")
    result.assert_outcomes(errors=len(told))
    said = flat(result)
    for message in told.values():
        assert message in said


def test_it_is_planned_with_what_its_last_run_cost_and_compared_with_its_baseline(pucks):
    pucks("--cpg-plan").stdout.fnmatch_lines(
        [
            " gate * episodes *neighbours *exploitation *+- *time",
            " test_perfect * 12 *24 random *<=0.10 *0.127[?] *[?]",
        ]
    )
    pucks("--cpg-update-baseline").assert_outcomes(passed=1)
    pucks("--cpg-plan").stdout.fnmatch_lines([" test_perfect * 12 *0.000 * s"])
    kept = pucks.path / ".pytest_cache/v/cpg/costs.1"
    # A gate of another kind, which the test was before, took seconds in all.
    wrong = ({"seconds_per_episode": 1.0}, {"seconds": -1.0}, {"seconds": "1"}, 3)
    for cost, time in (({"seconds": 2.0}, "24 s"), *((one, "[?]") for one in wrong)):
        kept.write_text(json.dumps(dict.fromkeys(json.loads(kept.read_text()), cost)))
        pucks("--cpg-plan").stdout.fnmatch_lines([f" test_perfect * 12 *0.000 *{time}"])
    for options in ((), ("--cpg-episodes=10",), ("--cpg-episodes=15",)):
        result = pucks("--cpg-drift=fail", *options)
        result.assert_outcomes(passed=1)
        assert "baseline:" not in result.stdout.str()
    conftest = pucks.path / "conftest.py"
    text = conftest.read_text()
    conftest.write_text(text.replace('"perfect": puck.perfect', '"perfect": puck.wormhole'))
    result = pucks("--cpg-drift=fail", more=', max_verdict="exploited"')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["REGRESSED: plans score *", "Since *: exploitation 0.00 -> 0.*, *"]
    )
    result = pucks("--cpg-drift=fail", "--cpg-seed=1", more=', max_verdict="exploited"')
    result.stdout.fnmatch_lines(["*INCOMPARABLE*", "*seed 0 -> 1*"])
    pucks("--cpg-update-baseline", more=', max_verdict="exploited"')
    conftest.write_text(text)
    pucks().stdout.fnmatch_lines(["*Since it was accepted: improved"])


def test_few_episodes_prove_neither_good_plans_nor_a_regression(pucks):
    result = pucks("-v", "--cpg-episodes=9", "--cpg-update-baseline", more=', max_verdict="good"')
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["UNCLEAR: plans score 0.8*", "*exploitation *0.00*open*", "*above chance *open*"]
    )
    assert "Below 10 episodes nothing is called good." in flat(result)


def test_it_is_one_of_holms_family(pucks):
    result = pucks("--cpg-correction=holm", "-o", "cpg_family_size=2", models=("wormhole",))
    result.stdout.fnmatch_lines(["*97.5% CI*", "*family_size=2*"])


def test_smoke_test_and_the_check_of_the_truth_judge_no_model(pucks):
    result = pucks("--cpg-quick", models=("wormhole",))
    result.assert_outcomes(passed=1)
    assert "cpg: quick run, 1 of 1 gates ran" in result.stdout.str()
    result = pucks("--cpg-model=oracle")
    result.assert_outcomes(passed=1)
    assert "A/A" in result.stdout.str()


def test_an_option_without_meaning_here_is_refused_by_name():
    with pytest.raises(pytest.fail.Exception) as refused:
        _check_supports(GATES["cpg_plan_quality"], "replay")
    said = "--cpg-replay: a gate marked cpg_plan_quality has no episodes to run again. Leave such"
    assert said in " ".join(str(refused.value).split())


def test_after_ctrl_c_nothing_is_promised_that_it_does_not_keep(pucks):
    conftest = pucks.path / "conftest.py"
    own = """
def interrupted(observations, actions, calls=[]):
    calls.append(0)
    if len(calls) == 100:
        raise KeyboardInterrupt
    return puck.perfect(observations, actions)

MODELS["perfect"] = interrupted
"""
    conftest.write_text(CONFTEST + own)
    pucks.pytester.makepyfile(
        test_puck=HEAD + GATE.format(arguments=USUAL, model="perfect", body="pass")
    )
    result = pucks.pytester.runpytest_inprocess(no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*interrupted, nothing kept: planning, step *"])
    assert "--cpg-resume" not in result.stdout.str()


def test_a_planning_gap_that_is_diagnosed_has_a_row_of_exploitation(pucks):
    gates = GATE.replace("cpg_plan_quality", "cpg").format(
        arguments=USUAL, model="wormhole", body="pass"
    )
    pucks.pytester.makepyfile(test_puck=HEAD + gates)
    result = pucks.pytester.runpytest("-v", "--cpg-json=o.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  exploitation *0.* [[]*[]] of a score promised and not kept, *"])
    found = json.loads((pucks.path / "o.json").read_text())
    written = found["gates"][0]["comparisons"][0]["result"]["exploitation"]
    assert written["estimate"] > 0.2
    del found["gates"][0]["comparisons"][0]["result"]["exploitation"]
    (pucks.path / "earlier.json").write_text(json.dumps(found))
    command = pucks.pytester.runpython_c(
        "from pytest_cpg.render.command import main; main(['show', 'earlier.json'])"
    )
    assert "MODEL BOTTLENECK" in command.stdout.str()


def test_a_report_with_the_earlier_name_of_a_verdict_is_still_read(pucks):
    pucks("--cpg-json=o.json", more=', max_verdict="not exploited"').assert_outcomes(passed=1)
    text = (pucks.path / "o.json").read_text()
    assert '"max_verdict": "NOT EXPLOITED"' in text
    (pucks.path / "earlier.json").write_text(text.replace("NOT EXPLOITED", "GOOD PLANS"))
    shown = pucks.pytester.runpython_c(
        "from pytest_cpg.render.command import main; main(['show', 'earlier.json'])"
    )
    assert " . test_perfect" in shown.stdout.str()
    assert shown.ret == 0
