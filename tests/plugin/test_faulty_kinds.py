"""A kind of gate that is written wrongly: one clean sentence, and the other gates are shown."""

import json
import math
import re

import pytest
from sessions import flat

from pytest_cpg.contracts import CpgError, KindError
from pytest_cpg.gates.answer import ask, ask_at_end
from pytest_cpg.gates.arguments import Argument, name, of_option
from pytest_cpg.gates.card import Card, Row, Ruling, Severity, Table
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.kind import Alarm, ForecastLine
from pytest_cpg.gates.planning_gap.kind import PlanningGap
from pytest_cpg.gates.policy_comparison.kind import PolicyComparison
from pytest_cpg.plugin.contributed import check_kind
from pytest_cpg.plugin.options import OPTIONS

KINDS = '''
from dataclasses import dataclass

import pytest

from pytest_cpg.contracts import CpgError
from pytest_cpg.gates.arguments import REQUIRED, Argument, name, of_option
from pytest_cpg.gates.card import Card, Row, Ruling, Severity, Table
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import Finding
from pytest_cpg.gates.kind import MaxVerdict, Alarm, ForecastLine


@dataclass(frozen=True)
class Found:
    error: float


class Yours:
    """A kind as it should be."""

    marker = fixture = "yours"
    help = "gate this test on an error."
    arguments = (Argument("task", name, "track"), of_option("seed"))
    labels = {"NEAR": Severity.GOOD, "UNSURE": Severity.UNSURE, "FAR": Severity.BAD}
    result = Found
    has_smoke_test = True

    def parse(self, asked):
        return asked

    def measure(self, spec, model, run):
        return Found(error=0.25)

    def judge(self, result, accepted):
        return Ruling(label="FAR", severity=Severity.BAD)

    def card(self, result, accepted, *, model=""):
        rows = (Row(name=model or "learned", cells=("0.25",)),)
        return Card(
            sentence="error 0.25",
            size="n=1",
            cells={"error": "0.25"},
            table=Table(name="model", columns=("error",), rows=rows),
        )

    def entry(self, result):
        return {"error": result.error}

    def compare(self, accepted, result):
        label = Label.NEW if accepted is None else Label.UNCHANGED
        return Drift(label=label, text="as it was")

    def forecast(self, spec, task, *, cost, accepted):
        return ForecastLine(cells={"limit": "0.1"})

    def alarm(self, result):
        return Alarm(p_value=lambda: 0.5, rate=0.025, is_settled=False)


class Mine(Yours):
    marker = fixture = "mine"
%s


def pytest_cpg_gates():
    return {"yours": Yours(), "mine": Mine()}


@pytest.fixture
def learned_dynamics():
    return right
'''
TESTS = """
import pytest


@pytest.mark.yours(max_verdict="bad")
def test_yours(yours):
    pass


@pytest.mark.mine(max_verdict="bad")
def test_mine(mine):
    pass
"""
NAMED = "the kind of gate 'mine': "


@pytest.fixture
def faulty(repository):
    """Runs a gate of a kind as it should be, and one of a kind with these members in its place."""
    track = repository.text("conftest.py")
    repository.makepyfile(test_two_kinds=TESTS)

    def run(members, *options):
        lines = "".join(f"\n    {line}" for line in members.splitlines())
        repository.makeconftest(track + KINDS % lines)
        result = repository.runpytest(*options)
        text = result.stdout.str() + result.stderr.str()
        assert "INTERNALERROR" not in text
        return result, " ".join(text.split())

    run.path, run.again = repository.path, repository.runpytest
    return run


def test_a_kind_as_it_should_be_passes_what_its_marker_accepts(faulty):
    faulty("pass")[0].assert_outcomes(passed=2)


def kind(**members):
    """Return a kind as it should be, but for these members."""
    written = {"__name__": "conftest", "right": None}
    exec(KINDS % "    pass", written)  # noqa: S102  # our own
    return type("Mine", (written["Mine"],), members)()


def refused(member, answer):
    """Return what is said of a member that gives this answer, or that calls it."""
    calls = answer if callable(answer) else lambda: answer
    with pytest.raises(KindError) as caught:
        ask(kind(**{member: lambda *_: calls()}), member)
    return str(caught.value)


def skips():
    pytest.skip("no")


def exits():
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("member", "answer", "said"),
    [
        ("alarm", lambda: 1 / 0, "raised ZeroDivisionError: division by zero (test_faulty_kinds."),
        ("alarm", exits, "raised SystemExit: 0 (test_faulty_kinds.py:"),
        ("alarm", skips, "raised Skipped: no (test_faulty_kinds.py:"),
        ("alarm", None, "returned None, and has to return an Alarm: a function p_value, and a"),
        (
            "alarm",
            Alarm(0.5, 0.025, is_settled=False),
            "returned Alarm(p_value=0.5, rate=0.02",
        ),
        ("alarm", Alarm(len, 2, is_settled=False), "returned Alarm(p_value=<built-in"),
        ("together", "worse", "returned 'worse', and has to return a list of Finding."),
        ("without_effect", ["seed"], "returned ['seed'], and has to return a dict from options to"),
        ("cost", 3, "returned 3, and has to return a dict of finite numbers and texts."),
        ("entry", [0.25], "returned [0.25], and has to return a dict or a dataclass, of finite nu"),
        ("entry", {"error": math.nan}, "returned {'error': nan}"),
        ("forecast", {"limit": "0.1"}, "returned {'limit': '0.1'}, and has to return a ForecastL"),
        ("forecast", ForecastLine(cells={"limit": 0.1}), "cells.limit is 0.1, and has to be text"),
        ("judge", "FAR", "returned 'FAR', and has to return a Ruling."),
        (
            "judge",
            Ruling(label="FAR", severity=Severity.BAD, reason=3),
            "reason is 3, and has to be text",
        ),
        ("compare", None, "returned None, and has to return a Drift."),
        (
            "compare",
            Drift(label="WORSE", text="worse"),
            "label is 'WORSE', and has to be one of 'NEW', 'MISSING'",
        ),
    ],
)
def test_an_answer_that_is_none_is_named_with_what_has_to_be_returned(member, answer, said):
    text = refused(member, answer)
    assert text.startswith(f"the kind of gate 'mine': {member}() ")
    assert said in text


@pytest.mark.parametrize(
    ("p_value", "said"),
    [
        (lambda: 1 / 0, "raised ZeroDivisionError"),
        (lambda: None, "returned None, and has to return a number from 0 to 1."),
    ],
)
def test_a_p_value_that_is_none_is_named_when_it_is_asked_for(p_value, said):
    alarm = ask(kind(alarm=lambda _: Alarm(p_value, 0.025, is_settled=False)), "alarm")
    with pytest.raises(KindError, match=r"'mine': alarm\(\).p_value\(\) ") as caught:
        alarm.p_value()
    assert said in str(caught.value)


def test_a_kind_that_renames_itself_is_named():
    def parse(self):
        self.marker = "other"

    with pytest.raises(KindError, match=r"parse\(\) changed its marker to 'other'. Leave it"):
        ask(kind(parse=parse), "parse")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"cells": (0.25,)}, "table.rows[0].cells[0] is 0.25, and has to be text"),
        ({"cells": ("1", "2")}, "the row 'm' has 2 cells, and its table the columns e"),
        ({"axis": (0.5, 0.5)}, "the axis of the table 'model' goes from 0.5 to 0.5"),
        ({"notes": "Train on."}, "notes is 'Train on.', and has to be a list"),
        ({"numbers": {"e": math.nan}}, "numbers.e is nan, and has to be a finite number"),
        ({"table": None}, "table is None, and has to be an object"),
    ],
)
def test_a_card_that_nobody_could_show_is_named(more, said):
    def card():
        row = Row(name="m", cells=more.pop("cells", ("1",)))
        table = Table(name="model", columns=("e",), rows=(row,), axis=more.pop("axis", (0.0, 1.0)))
        return Card(sentence="error", size="n=1", **{"cells": {}, "table": table, **more})

    assert said in refused("card", card)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ("def judge(self, *_): return 1 / 0", "judge() raised ZeroDivisionError: division by zero"),
        ("def judge(self, *_): pytest.skip('none')", "judge() raised Skipped: none (conftest.py:"),
        (
            "def judge(self, *_):\n    __import__('time').sleep(40)",
            "judge() was broken off (conftest.py:",
        ),
        (
            "def card(self, *_, **named):\n    __import__('time').sleep(40)",
            "card() was broken off (conftest.py:",
        ),
        (
            "def card(self, result, accepted, *, model): return super().card(result, accepted)",
            "card() raised TypeError: ",
        ),
        ("def compare(self, *_): return None", "compare() returned None, and has to return a Dri"),
    ],
    ids=["judge", "skip", "slow judge", "slow card", "card", "compare"],
)
def test_what_a_kind_does_wrong_when_it_judges_fails_its_test_alone(faulty, members, said):
    faulty("pass", "--cpg-update-baseline")
    result, text = faulty(members, "--cpg-json=o.json", "--cpg-timeout=1")
    result.assert_outcomes(passed=1, errors=1)
    assert said in text
    assert "answer.py" not in text


def test_a_fault_at_the_end_is_a_finding_that_fails_the_session_once():
    found = []
    for _ in range(2):
        assert ask_at_end(found, kind(cost=lambda *_: 1 / 0), "cost") is None
    (fault,) = found
    assert fault.fails
    refusing = CpgError("no p-value of this")
    ask_at_end(found, kind(alarm=lambda *_: (_ for _ in ()).throw(refusing)), "alarm")
    assert found[1].text == "no p-value of this"


AT_THE_END = """
def alarm(self, result): return 1 / 0
def together(self, compared, groups): return 1 / 0
def without_effect(self, results): return 1 / 0
def cost(self, result): return 1 / 0
""".strip()
ACCEPTS = ("--cpg-update-baseline",)


@pytest.mark.parametrize(
    ("members", "options", "faults"),
    [
        (AT_THE_END, (), ("alarm", "together", "without_effect", "cost")),
        (
            "def alarm(self, result): return Alarm(lambda: 1 / 0, 0.025, is_settled=False)",
            ("--cpg-correction=holm", "-o", "cpg_family_size=2"),
            ("alarm",),
        ),
        ("def entry(self, result): return [0.25]", ACCEPTS, ("entry",)),
        ("def unprovable(self, accepted): return 1 / 0", ACCEPTS, ("unprovable",)),
    ],
    ids=["together", "p-value", "entry", "unprovable"],
)
def test_what_a_kind_does_wrong_at_the_end_fails_the_session_in_a_sentence(
    faulty, members, options, faults
):
    result, text = faulty(members, *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=2)
    for member in faults:
        assert f"{NAMED}{member}()" in text
    assert "Traceback" not in text
    result.stdout.fnmatch_lines(["* error", " FAR (?)", " . test_yours  0.25"])


def test_an_entry_that_no_baseline_can_hold_is_not_written_and_others_are(faulty):
    faulty("def entry(self, result): return [0.25]", "--cpg-update-baseline")
    _, kept = json.loads((faulty.path / ".cpg" / "baseline.json").read_text())
    assert list(kept) == ["test_two_kinds.py::test_yours"]
    faulty("pass", "--cpg-drift=warn")[0].assert_outcomes(passed=2)


def test_a_forecast_that_is_none_fails_the_plan_and_leaves_the_others_in_it(faulty):
    result, text = faulty("def forecast(self, *given, **named): return 1 / 0", "--cpg-plan")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert NAMED + "forecast() raised ZeroDivisionErr" in text
    assert "Traceback" not in text
    result.stdout.fnmatch_lines([" gate * limit", " test_yours * 0.1"])


@pytest.mark.parametrize("line", ["type(self).marker = 'other'", "raise SystemExit(0)"])
def test_what_a_card_does_where_its_test_is_reported_fails_the_session(faulty, line):
    lines = ("calls = 0", "def card(self, *given, **named):", "    self.calls += 1")
    last = "    return super().card(*given, **named)"
    members = "\n".join([*lines, f"    if self.calls > 2: {line}", last])
    result, text = faulty(members, "--cpg-update-baseline")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"{NAMED}card() " in text


def test_what_parse_leaves_of_its_arguments_is_its_own_affair(faulty):
    emptied = "def parse(self, asked):\n    asked.values.clear()\n    return asked"
    faulty(emptied)[0].assert_outcomes(passed=2)


def test_a_bug_in_parse_is_a_collection_error_with_its_own_lines(faulty):
    result, text = faulty("def parse(self, asked): return asked.values['limt']")
    result.assert_outcomes(errors=1)
    assert NAMED + "parse() raised KeyError: 'limt' (conftest.py:" in text
    result.stdout.fnmatch_lines(["*conftest.py*line *in parse", "*return asked.values*"])
    assert "_hooks.py" not in text
    assert "answer.py" not in text


def test_a_card_of_what_the_kind_keeps_in_itself_fails_where_that_is_not(faulty):
    """Under xdist the controller shows what a worker has measured."""
    members = """
def measure(self, spec, model, run):
    self.seen = model
    return super().measure(spec, model, run)

def card(self, result, accepted, *, model=""):
    self.seen
    return super().card(result, accepted, model=model)
""".strip()
    result, text = faulty(members, "-n", "2", "--cpg-json=o.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert NAMED + "card() raised AttributeError: 'Mine' object has no attribute 'seen'" in text
    result.stdout.fnmatch_lines(["* error", " FAR (?)", " . test_yours  0.25"])
    assert len(json.loads((faulty.path / "o.json").read_text())["gates"]) == 2


def test_a_kind_that_only_a_worker_has_read_fails_the_session_in_a_sentence(faulty):
    result, _ = faulty("pass", "--co")
    tests = faulty.path / "checks" / "deep"
    tests.mkdir(parents=True)
    for file in ("conftest.py", "test_two_kinds.py"):
        (faulty.path / file).rename(tests / file)
    result = faulty.again("-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = flat(result)
    assert "the kind of gate 'yours' is not known where the session ends. Contribute it" in text
    assert "INTERNALERROR" not in text


@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        ("arguments", 3, "arguments is 3. Write a tuple: arguments = (Argument(...),)"),
        ("arguments", ("task",), "arguments is ('task',). Write a tuple: arguments = (Argument"),
        (
            "arguments",
            (Argument("id", name),),
            "two arguments are called id, or all kinds have it. Rename yours",
        ),
        (
            "arguments",
            (of_option("sede"),),
            "there is no option 'sede'. Did you mean 'seed'?",
        ),
        ("arguments", (Argument("n", 3),), "the parser of n is 3. Write a function of the value"),
        ("arguments", (Argument("a b", name),), "an argument is called 'a b'. Write a name"),
        ("fixtures", "tracker", "fixtures is 'tracker'. Write a tuple of names"),
        ("fixtures", None, "fixtures is None. Write a tuple of names"),
        ("fixtures", ("request",), "fixtures names request, which is given already."),
        ("labels", ["NEAR"], "labels is ['NEAR']. Write a dict from labels, best first"),
        ("labels", {"NEAR": 0}, "labels is {'NEAR': 0}. Write a dict from labels, best first"),
        ("labels", {1: Severity.BAD}, "labels is {1: <Severity.BAD: 3>}. Write a dict from"),
        ("options", 3, "options is 3. Write a tuple: options = (Option(...),)."),
        ("result", None, "result is None. Write the class of results."),
        ("help", None, "help is None. Write a line of text."),
        ("fixture", "my gate", "fixture is 'my gate'. Write a name as of a variable."),
        ("judge", None, "judge is None. Write a method."),
    ],
)
def test_a_member_of_the_wrong_type_is_refused_when_the_kind_is_loaded(member, value, said):
    with pytest.raises(pytest.UsageError) as caught:
        check_kind("mine", kind(**{member: value}), {}, {option.name for option in OPTIONS})
    assert str(caught.value).startswith(NAMED + said)


def test_a_kind_with_a_wrong_member_is_a_usage_error(faulty):
    result, text = faulty("arguments = 3", "--co")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert NAMED + "arguments is 3. Write a tuple" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("kind", [PlanningGap(), PolicyComparison()], ids=["cpg", "cpg_opcc"])
def test_the_kinds_of_ours_have_nothing_wrong(kind):
    options = {one.name for one in (*OPTIONS, *getattr(kind, "options", ()))}
    check_kind(kind.marker, kind, {}, options)


IN_A_CLASS = """
class Plugin:
    pytest_cpg_tasks = {'sharp': None}
def pytest_configure(config):
    config.pluginmanager.register(Plugin())
"""
FACTORIES = "names to factories"
TABLES = {
    "gates": "markers to kinds of gate",
    **dict.fromkeys(("tasks", "planners", "world_models"), FACTORIES),
}


@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        (
            "def pytest_cpg_gates():\n    return 1 / 0",
            "a pytest_cpg_gates hook raised ZeroDivisionError: division by zero (conf*return 1 / 0",
        ),
        (
            "def pytest_cpg_gates():\n    return []",
            "a pytest_cpg_gates hook returned []. Return a dict from markers to kinds",
        ),
        *(
            (
                f"pytest_cpg_{name} = {{'sharp': None}}",
                f"pytest_cpg_{name} is {{'sharp': None}}. Write a function that returns a dict "
                f"from {what}.",
            )
            for name, what in TABLES.items()
        ),
        (IN_A_CLASS, "pytest_cpg_tasks is {'sharp': None}. Write a function"),
    ],
    ids=["raises", "list", *TABLES, "class"],
)
def test_what_is_no_hook_or_contributes_nothing_is_refused_though_pytest_sees_none(
    repository, conftest, said
):
    repository.makeconftest(conftest)
    repository.makepyfile("import pytest\n@pytest.mark.sharp\ndef test_sharp(): pass\n")
    result = repository.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert re.search(re.escape(said).replace(r"\*", ".*"), flat(result))
    assert "Traceback" not in result.stderr.str()


def test_a_plugin_that_answers_to_every_name_contributes_nothing(repository):
    repository.makeconftest(
        "from unittest.mock import MagicMock\n"
        "class Plugin:\n    def __getattr__(self, name):\n        return name\n"
        "def pytest_cpg_gates():\n    return {}\n"
        "def pytest_configure(config):\n    for plugin in (MagicMock(), Plugin()):\n"
        "        config.pluginmanager.register(plugin)\n"
    )
    repository.makepyfile("def test_plain(): pass\n")
    repository.runpytest().assert_outcomes(passed=1)


def test_a_hook_of_a_folder_that_raises_is_a_collection_error(repository):
    folder = repository.mkdir("checks") / "deep"
    folder.mkdir()
    (folder / "conftest.py").write_text("def pytest_cpg_gates():\n    return 1 / 0\n")
    (folder / "test_plain.py").write_text("def test_plain(): pass\n")
    result = repository.runpytest()
    result.assert_outcomes(errors=1)
    text = result.stdout.str()
    assert "a pytest_cpg_gates hook raised ZeroDivisionError" in text
    assert "pluggy" not in text.partition("collected")[2]


def test_a_parser_that_raises_anything_is_a_collection_error_with_its_lines(faulty):
    faulty('arguments = (Argument("task", lambda task: task.lower(), "track"),)')
    (faulty.path / "test_two_kinds.py").write_text(TESTS.replace("mine(max", "mine(task=3, max"))
    result = faulty.again()
    result.assert_outcomes(errors=1)
    text = flat(result)
    assert "the parser of task, given 3, raised AttributeError: 'int' object has" in text
    assert "marker.py" not in text


def test_a_misspelt_marker_of_a_kind_that_needs_nothing_has_to_say_something_of_it(faulty):
    (faulty.path / "test_near.py").write_text(
        "import pytest\n\n@pytest.mark.your(timeout=3)\ndef test_other(): ...\n\n"
        "@pytest.mark.yuors(seed=3)\ndef test_near(): ...\n"
    )
    result, text = faulty("pass", "--co", "-W", "ignore")
    result.assert_outcomes(errors=1)
    assert "test_near.py:6: test_near: nobody knows the marker 'yuors'" in text
    assert "the marker 'your'" not in text


def test_a_smoke_test_of_a_kind_that_gives_a_verdict_all_the_same_fails(faulty):
    result, text = faulty("pass", "--cpg-quick")
    result.assert_outcomes(errors=2)
    assert "--cpg-quick: a gate marked mine gave a verdict, and a smoke test has none." in text
    near = "label='FAR', severity=Severity.BAD, reason='far', check='smoke test'"
    result, _ = faulty(f"def judge(self, *_): return Ruling({near})", "--cpg-quick", "-k", "mine")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["*cpg: quick run, 1 of 1 gates ran*"])


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "fixture"])
def test_the_true_dynamics_are_no_model_that_a_kind_may_judge(faulty, is_named):
    options = ["--cpg-model=oracle"] * is_named
    if not is_named:
        (faulty.path / "test_two_kinds.py").write_text(f"{TESTS}{ORACLE}", encoding="utf-8")
    judges = "def judge(self, *_): return Ruling(label='NEAR', severity=Severity.GOOD{})"
    result, text = faulty(judges.format(""), *options)
    result.assert_outcomes(errors=2)
    assert "a gate marked mine was given the true dynamics, and gave a verdict on no l" in text
    result, _ = faulty(judges.format(", check='A/A check'"), *options, "-k", "mine")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["*cpg A/A check: 1 gate passed*"])


ORACLE = """

@pytest.fixture
def learned_dynamics(oracle_dynamics):
    return oracle_dynamics
"""


def test_a_comparison_says_no_more_than_its_kind_has_weighed(faulty):
    worse = "def compare(self, *_): return Drift(label=Label.REGRESSED, text='0.2 to 0.25')"
    faulty("pass", "--cpg-update-baseline")
    result, text = faulty(worse, "--cpg-drift=fail", "-k", "mine", "--cpg-md=o.md")
    result.assert_outcomes(failed=1, deselected=1)
    assert "The model does worse than the accepted one." in text
    assert "by more than chance" not in text
    assert "Accept on main: pytest --cpg-update-baseline" in text
    assert "Rerun pytest test_two_kinds.py::test_mine" in text
    comment = (faulty.path / "o.md").read_text(encoding="utf-8")
    assert "pytest test_two_kinds.py::test_mine" in comment
    assert "with this seed" not in comment


def test_a_repetition_is_refused_with_what_was_judged_before_the_test_failed_by_itself(faulty):
    pytest.importorskip("pytest_rerunfailures")
    (faulty.path / "test_two_kinds.py").write_text(TESTS.replace("pass", "assert 0, 'my own'"))
    result, text = faulty("pass", "--reruns", "1", "-k", "mine")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "FAR: error 0.25." in text
    assert "The test's own assertion failed: AssertionError: my own assert 0" in text
    assert "This was attempt 1, and it counts" in text
    assert "did not end with a judged gate" not in text


def test_a_card_that_is_there_a_few_times_costs_no_session(faulty, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    members = """
calls = 0

def card(self, result, accepted, *, model=""):
    self.calls += 1
    assert self.calls <= 2, "no more"
    return super().card(result, accepted, model=model)
""".strip()
    (faulty.path / "test_two_kinds.py").write_text(TESTS.replace('mine(max_verdict="bad")', "mine"))
    result, text = faulty(members, "--cpg-json=o.json", "--cpg-md=o.md", "--cpg-html=o.html")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert NAMED + "card() raised AssertionError: no more" in text
    assert "INTERNALERROR" not in text
    result.stdout.fnmatch_lines([" FAR (?)", "* test_yours *"])
