"""The gate on compared policies as a user meets it: in numpy, with ensembles of carts."""

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from comparisons import cart_queries
from sessions import flat

from pytest_cpg.gates.policy_comparison import kind
from pytest_cpg.planners.policies import TanhNetwork

CONFTEST = """
import pytest
from comparisons import *

MODELS = {
    "good": Carts(drift=-0.4),
    "unsure": Carts(drift=0.5),
    "wrong": Carts(push=-1.0),
    "over": Carts(push=0.1),
    "constant": Constant(),
    "frozen": Frozen(),
    "random": Random(),
    "copies": Carts(push=0.3, noise=0.0),
    "stateful": Stateful(),
    "callable": lambda observations, actions: observations,
    "alone": Carts(1),
    "nan": Carts(lost=25),
    "crash": Carts(crash=40),
}


@pytest.fixture
def learned_dynamics(request):
    return MODELS[request.node.name.removeprefix("test_")]
"""
HEAD = "import pytest\nfrom comparisons import cart_queries\n\nQUERIES = cart_queries()\n\n"
GATE = """
@pytest.mark.cpg_opcc({arguments})
def test_{model}(cpg_opcc):
    {body}
"""
NO_MODEL = """
from pytest_cpg.plugin import learned_dynamics


@pytest.mark.cpg_opcc(queries=QUERIES)
def test_none(cpg_opcc): ...
"""
NAME = "test_carts.py::test_good"
TRIVIAL = ("constant", "frozen", "random", "copies", "stateful")


@pytest.fixture
def carts(repository, monkeypatch):
    """Runs gates on ensembles of carts, one for each that is named."""
    repository.makeini("[pytest]\naddopts = -p no:hypothesispytest --strict-markers\n")
    repository.makeconftest(CONFTEST)
    # Of fewer resamples a session is done sooner.
    monkeypatch.setattr(kind, "_RESAMPLES", 200)

    def run(*options, models=("good",), queries="QUERIES", more="", body="pass", head=HEAD):
        arguments = f"queries={queries}{more}"
        gates = [GATE.format(arguments=arguments, model=model, body=body) for model in models]
        repository.makepyfile(test_carts=head + "".join(gates))
        return repository.runpytest(*options)

    run.pytester, run.path = repository, repository.path
    return run


def sections(result):
    """Return the lines of each failing section, by its test."""
    text = re.sub(r"\x1b\[[\d;]*m", "", result.stdout.str())
    text = re.split(r"(?m)^(?:-+ )?cpg:", text.partition("= FAILURES =")[2])[0]
    parts = re.split(r"^_+ test_(\w+) _+$", text, flags=re.MULTILINE)[1:]
    return {
        name: lines.strip().splitlines()
        for name, lines in zip(parts[::2], parts[1::2], strict=True)
    }


def widest(result):
    """Return the columns of the longest line of ours in what went wrong, tracebacks left out."""
    text = result.stdout.str().partition("= ERRORS =")[2].partition("= short test summary")[0]
    return max(len(line) for line in text.splitlines() if "/" not in line and line[:1] != "E")


def test_each_model_gets_its_word_and_every_report_shows_it(carts, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    files = ("--cpg-json=o.json", "--cpg-md=o.md", "--cpg-html=o.html", "--junit-xml=o.xml")
    result = carts(*files, models=("good", "unsure", "wrong", "over"))
    assert result.parseoutcomes() == {"passed": 1, "inconclusive": 1, "failed": 2}
    result.stdout.fnmatch_lines(
        [
            "*cpg: 4 gates, 2 failed, 1 inconclusive*",
            " 240 queries",
            " * wrong trivial AUROC *sure",
            " KNOWS ITS LIMITS (1): *",
            " . test_good * 19 * 78 * 94 %",
            " INCONCLUSIVE (1): *",
            " [?] test_unsure *",
            " UNINFORMED (1): *",
            " F test_wrong *",
            " OVERCONFIDENT (1): *",
            " F test_over *",
        ]
    )
    assert "::error file=test_carts.py,line=" in result.stdout.str()
    gates = json.loads((carts.path / "o.json").read_text())["gates"]
    (comparison,) = gates[2]["comparisons"]
    assert (comparison["kind"], comparison["label"]) == ("cpg_opcc", "UNINFORMED")
    assert len(comparison["result"]["answers"]) == 240
    (case,) = (
        one
        for one in ElementTree.parse(carts.path / "o.xml").iter("testcase")  # noqa: S314  # ours
        if one.get("name") == "test_wrong"
    )
    numbers = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert numbers["cpg_verdict"] == "UNINFORMED"
    assert float(numbers["cpg_loss"]) > float(numbers["cpg_frozen_loss"])
    page = (carts.path / "o.html").read_text()
    for title in ("Risk over coverage", "by confidence"):
        assert title in page
    assert "UNINFORMED" in (carts.path / "o.md").read_text()


@pytest.mark.parametrize("how", [("-q", "--color=yes"), ("-v", "-n", "2")], ids=str)
def test_a_failing_section_says_what_is_wrong_and_what_to_do(carts, how):
    result = carts(*how, models=("wrong", "over"))
    result.assert_outcomes(failed=2)
    found = sections(result)
    assert all(len(lines) <= 40 and max(map(len, lines)) <= 80 for lines in found.values())
    for name, wanted in {
        "wrong": (
            r"UNINFORMED: the model is wrong on \d+ of 240 queries, the best answer without",
            r"one on 79\.|\d+ wrong, .*\. Accepted here: INCONCLUSIVE or better\.",
            r"  loss .*█.* < 0\.329 +no$",
            r"  surest 50 % .* <=0\.050 +no$",
            r"  horizon  loss at 10: 0.* 30: 0",
            r"  mistake  #\d+ true .*; imagined .*; sure ",
            r"  Why      The model's answers are no better than what a world pays in which",
            r"  Rerun    pytest .*test_carts.py::test_wrong",
        ),
        "over": (r"OVERCONFIDENT: the model is wrong on ", r"  Why      The model's confidence"),
    }.items():
        lines = iter(found[name])
        assert all(any(re.match(one, line) for line in lines) for one in wanted), found[name]


def test_no_trivial_answerer_passes_whatever_a_test_accepts_as_unsure(carts):
    result = carts(models=TRIVIAL, more=', max_verdict="inconclusive"')
    result.assert_outcomes(failed=len(TRIVIAL))
    result.stdout.re_match_lines(
        [
            r" (OVERCONFIDENT|UNINFORMED) \(1\): ",
            r" F test_random ",
            r" BROKEN \(4\): ",
            r" F test_constant ",
            r" F test_frozen ",
            r" F test_copies ",
            r" F test_stateful ",
        ]
    )
    said = flat(result)
    assert "members that never disagree are always sure" in said
    assert "With its sides swapped" in said
    assert "Nothing moves in the model" in said


def test_its_result_can_be_asserted_on_and_recorded_steps_are_checked(carts):
    body = (
        "assert cpg_opcc.loss.high < 0.2 and cpg_opcc.auroc.low > 0.8\n"
        "    assert cpg_opcc.coverage_at_risk.estimate > 0.9\n"
        "    assert len(cpg_opcc.answers) == len(cpg_opcc) == 240\n"
        "    assert [one.horizon for one in cpg_opcc.grades.by_horizon] == [10, 20, 30]\n"
        "    assert cpg_opcc.one_step.learned < cpg_opcc.one_step.frozen\n"
    )
    steps = (
        "from comparisons import cart_steps\n\n"
        "@pytest.fixture(scope='module')\ndef training_data():\n    return cart_steps()\n\n"
    )
    result = carts(models=("good", "frozen"), body=body, head=HEAD + steps)
    result.assert_outcomes(passed=1, failed=1)
    section = " ".join(sections(result)["frozen"])
    assert "BROKEN: the model is wrong on " in section
    assert "One step is predicted no better than by leaving" in section
    carts("--cpg-html=o.html", models=("frozen",), head=HEAD + steps)
    page = " ".join((carts.path / "o.html").read_text().split())
    # The first screen: what follows from it is no answer to "why".
    assert re.search(r">Why<(?:(?!One step|Nothing moves).)*One step is predicted no better", page)
    # A share of wrong answers has no sign.
    assert re.search(r"A loss of 0\.\d\d \[0\.", page)


def test_a_rule_for_the_end_of_episodes_holds_for_any_model_and_any_queries(carts):
    rule = "lambda observations: observations[:, 0] > 5"
    same = carts(more=f", terminated={rule}", body="assert cpg_opcc.wrong_count == 19")
    same.assert_outcomes(passed=1)
    # Where an episode ends at once, only the first step counts.
    early = carts(
        more=", terminated=lambda observations: observations[:, 0] > -100", models=("good",)
    )
    early.assert_outcomes(errors=1)
    assert "starts where terminated() says that its episode is over" in flat(early)
    short = "lambda observations: np.abs(observations[:, 1]) > 2 * np.abs(SPEEDS).max()"
    head = "import numpy as np\n" + HEAD
    head += "SPEEDS = np.r_[QUERIES.observations_a[:, 1], QUERIES.observations_b[:, 1]]\n"
    passing = carts(more=f", terminated={short}", head=head, body="assert cpg_opcc.wrong_count")
    passing.assert_outcomes(passed=1)


def test_what_a_test_does_to_its_result_is_in_no_report(carts):
    body = (
        "cpg_opcc.answers[:] = cpg_opcc.labels\n    cpg_opcc.grades.intervals.clear()\n"
        "    cpg_opcc.confidences[:] = 1"
    )
    result = carts("--cpg-update-baseline", body=body)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([" KNOWS ITS LIMITS (1): *", " . test_good * 19 * 78 * 94 %"])
    carts("--cpg-drift=fail").assert_outcomes(passed=1)


def test_what_is_open_says_how_many_queries_would_decide(carts):
    result = carts(models=("unsure",), more=', max_verdict="knows its limits"')
    result.assert_outcomes(failed=1)
    assert re.search(r"About \d+00 queries in place of 240 would decide", flat(result))


def test_each_mistake_in_a_marker_is_told_with_what_to_write_instead(carts):
    policies = [TanhNetwork(weights=[[[1.0, number]]], biases=[[0.0]]) for number in range(4)]
    falling = replace(cart_queries(), environment="hopper", policies=policies)
    falling.save(carts.path / "falling.npz")
    told = {
        'queries=""': "queries: need the path of an .npz, or PolicyQueries, got ''",
        'queries="maze-umaze"': "there is no file 'maze-umaze'. Give the path of an .npz that",
        'queries="falling.npz"': "falling.npz is about hopper, whose episodes end where it falls",
        "queries=5": "queries: need the path of an .npz, or PolicyQueries, got 5",
        'queries="missing.npz"': ": test_good: there is no file of queries missing.npz",
        "queries=cart_queries(100)": "cart has 100 queries, and *too wide to judge a model",
        "queries=cart_queries(500).take(cart_queries(500).labels)": "side b is better in all 2",
        "queries=QUERIES, min_queries=90": "min_queries= was left out. Ask at least 200 queries",
        "queries=QUERIES, level=0.9": "level= was left out. Write confidence=0.95",
        "queries=QUERIES, min_aurok=0.7": "no argument 'min_aurok'. Did you mean 'min_auroc'?",
        'queries=QUERIES, confidence_method="ev"': "confidence_method= was left out. Leave it out:",
        'queries=QUERIES, confidence="ev"': "confidence: need a number between 0 and 1 (both ",
        'queries=QUERIES, perturbation="x"': "the marker has no argument 'perturbation'",
        'queries=QUERIES, min_auroc="0.6"': "need a number, got '0.6'. Write min_auroc=0.6.",
        "queries=QUERIES)\n@pytest.mark.cpg_opcc(queries=QUERIES": "two cpg_opcc markers above "
        "this test both say queries, and a test is one gate",
        "queries=QUERIES, max_loss=0.99": "max_loss=0.99 is kept by every model: one whose 240",
        "queries=QUERIES, max_risk=0.98": "max_risk=0.98 is kept by every model: one whose 120",
        "queries=QUERIES, max_risk=5": "max_risk: need a number between 0 and 1",
        'queries=QUERIES, max_verdict="broken"': "no verdict named 'broken'",
        "min_auroc=0.7": "the marker names no queries. Write @pytest.mark.cpg_opcc(queries=",
    }
    modules = {
        f"test_{number}": HEAD + GATE.format(arguments=arguments, model="good", body="pass")
        for number, arguments in enumerate(told)
    }
    carts.pytester.makepyfile(**modules)
    result = carts.pytester.runpytest("--co")
    result.assert_outcomes(errors=len(told))
    assert widest(result) <= 80
    said = flat(result)
    for message in told.values():
        assert re.search(".*".join(map(re.escape, message.split("*"))), said), message


def test_a_model_that_cannot_be_asked_is_an_error_that_names_member_query_and_step(carts):
    carts("--co", models=("callable", "alone", "nan", "crash"))
    carts.pytester.makepyfile(test_none=HEAD + NO_MODEL)
    result = carts.pytester.runpytest()
    result.assert_outcomes(errors=5)
    assert widest(result) <= 80
    said = flat(result)
    for message in (
        r"return my_model # several in one: members = E, and step or rollout",
        r"neither step nor rollout of several members",
        r"has 1 member, and confidence is how far",
        r"member 2 predicted nan as number 0 of the next observation, in query \d+, side [ab], at",
        r"at imagined step \d+ of query \d+, side [ab], and of \d+ more",
    ):
        assert re.search(message, said), message


def test_it_is_planned_with_what_its_last_run_cost_and_compared_with_its_baseline(carts):
    carts("--cpg-plan").stdout.fnmatch_lines(
        [" gate * queries *steps * loss *+- * time", " test_good * 240 * 0.25[?] * [?]"]
    )
    carts("--cpg-update-baseline").assert_outcomes(passed=1)
    carts("--cpg-plan").stdout.fnmatch_lines([" test_good * 240 * 0.08 * s"])
    kept = carts.path / ".pytest_cache/v/cpg/costs.1"
    kept.write_text(json.dumps({name: {"members": 3} for name in json.loads(kept.read_text())}))
    carts("--cpg-plan").stdout.fnmatch_lines([" test_good * 240 * 0.08 *[?]"])
    result = carts("--cpg-drift=fail")
    result.assert_outcomes(passed=1)
    assert "baseline:" not in result.stdout.str()
    conftest = carts.path / "conftest.py"
    text = conftest.read_text()
    conftest.write_text(text.replace("drift=-0.4", "drift=0.5"))
    result = carts("--cpg-drift=fail")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "REGRESSED: the model is wrong on *",
            "Since it was accepted: 19 -> 53 of 240 wrong, loss +0.142*",
            "*AUROC -0.1*",
        ]
    )
    conftest.write_text(text.replace("drift=-0.4", "drift=0.0"))
    carts().stdout.fnmatch_lines(
        [" . test_good * 19 * 0 * IMPROVED", " Since it was accepted: improved"]
    )
    result = carts("--cpg-drift=fail", queries="cart_queries(seed=1)")
    result.stdout.fnmatch_lines(["*INCOMPARABLE*", "*other queries*"])
    file = carts.path / ".cpg" / "baseline.json"
    file.write_text(re.sub(r'"wrong": "[01]', '"wrong": "2', file.read_text()))
    result = carts("--cpg-drift=fail")
    assert result.ret != 0
    assert "need a 0 or 1 for each answer" in result.stdout.str() + result.stderr.str()


def test_it_is_one_of_holms_family(carts):
    result = carts("--cpg-correction=holm", "-o", "cpg_family_size=2", models=("wrong",))
    result.stdout.fnmatch_lines(["*97.5% CI*", "*family_size=2*"])


MORTAL = """
import os
from pathlib import Path


class Mortal(Carts):
    def step(self, observations, actions):
        flag = Path({flag!r})
        if os.getpid() != {process} and self.steps == 9 and not flag.exists():
            flag.touch()
            os._exit(1)
        return super().step(observations, actions)
"""


@pytest.mark.usefixtures("own_hashes")
def test_answers_spread_over_processes_are_the_same_even_if_one_is_killed(carts):
    def comparisons(*options):
        result = carts(*options, "--cpg-json=o.json", models=("good", "mortal"))
        result.assert_outcomes(passed=2)
        for gate in json.loads((carts.path / "o.json").read_text())["gates"]:
            (comparison,) = gate["comparisons"]
            yield {**comparison["result"], "seconds": 0}

    flag = carts.path / "killed"
    module = MORTAL.format(flag=str(flag), process=os.getpid())
    carts.pytester.makepyfile(mortal=f"from comparisons import Carts\n{module}")
    carts.pytester.makeconftest(
        CONFTEST.replace("MODELS = {", 'from mortal import Mortal\nMODELS = {"mortal": Mortal(),')
    )
    carts.pytester.syspathinsert()
    alone = [*comparisons()]
    assert not flag.exists()
    assert [*comparisons("--cpg-workers=2")] == alone
    assert flag.exists()


def test_an_option_without_meaning_here_is_refused_by_name(carts):
    result = carts("--cpg-quick")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*--cpg-quick: a gate marked cpg_opcc has no *"])


def test_options_of_episodes_are_said_to_decide_nothing_and_other_fixtures_which_to_take(carts):
    other = "@pytest.mark.cpg_opcc(queries=QUERIES)\ndef test_other(benchmark_runner): ..."
    result = carts("--cpg-episodes=100", head=f"{HEAD}{other}\n\n")
    said = flat(result)
    assert "makes one measurement. Take the fixture cpg_opcc" in said
    assert "--cpg-episodes was given, and no gate marked cpg_opcc has such an option" in said


def test_nothing_that_shows_or_runs_gates_knows_it_by_name():
    package = Path(__file__).parents[2] / "pytest_cpg"
    for room in ("plugin", "render", "report"):
        for module in (package / room).rglob("*"):
            if module.suffix in (".py", ".html", ".json"):
                text = module.read_text(encoding="utf-8")
                assert not re.search("opcc|policy_comparison", text, re.IGNORECASE), module
