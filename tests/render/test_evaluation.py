"""A gate without pytest: in a training loop, a notebook, a sweep."""

import copy
import json
import math
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from html import unescape
from types import MappingProxyType

import numpy as np
import pytest
from comparisons import Carts, cart_queries
from sessions import untimed
from track import Track

import pytest_cpg
from pytest_cpg import GateResult, evaluate
from pytest_cpg.contracts import ComponentError, CpgError, IncompleteError
from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes import kept_run
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.gates.arguments import REQUIRED, Argument, between, name
from pytest_cpg.gates.card import Card, Ruling, Severity, Table

ASKED = {"planner": "beam", "episodes": 20}


def right(observations, actions):
    return observations + actions


def mirrored(observations, actions):
    return observations - actions


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def episodes(monkeypatch):
    """Count the episodes that are run in this process, by their arm."""
    counts, advance = Counter(), ArmRun.advance
    # On a slow machine their first plans would be made again beside.
    monkeypatch.setattr(kept_run, "_QUICK", math.inf)

    def counting(self, until):
        before = self._done
        arm = advance(self, until)
        counts[arm.name] += max(0, until - before)
        return arm

    monkeypatch.setattr(ArmRun, "advance", counting)
    return counts


def test_checkpoints_share_one_oracle_arm(episodes, folder):
    for step in range(5):
        slip = 1.0 + step / 2

        def model(observations, actions, slip=slip):
            return observations + slip * actions

        found = evaluate("maze", model, planner="beam", episodes=5, diagnose="never")
        assert found.oracle.episodes == 5
    assert episodes["learned"] == 5 * 5
    # Two are run again each time, to show that what is stored still holds.
    assert episodes["oracle"] == episodes["chance"] == 5 + 4 * 2
    for ignored in (".pytest_cache", ".pytest_cache/d/cpg-arms"):
        assert (folder / ignored / ".gitignore").read_text().endswith("*\n")
    episodes.clear()
    evaluate("maze", right, planner="beam", episodes=5, cache=None, diagnose="never")
    assert episodes["oracle"] == 5, "nothing is kept"


def test_what_ctrl_c_leaves_is_there_for_the_next_call(episodes):
    def interrupted(observations, actions):
        if episodes["oracle"]:
            raise KeyboardInterrupt
        return observations + actions

    with pytest.raises(KeyboardInterrupt):
        evaluate("maze", interrupted, **ASKED)
    episodes.clear()
    again = evaluate("maze", right, **ASKED, diagnose="never")
    assert episodes["oracle"] == 2
    alone = evaluate("maze", right, **ASKED, diagnose="never", cache=None)
    assert untimed(encode(again.result)) == untimed(encode(alone.result))


def test_a_folder_that_cannot_be_written_costs_only_the_memory(folder):
    (folder / ".pytest_cache").write_text("no folder", encoding="utf-8")
    assert evaluate("maze", right, **ASKED, diagnose="never").label == "MODEL BOTTLENECK"


def test_a_result_has_what_the_gates_own_result_has():
    found = evaluate(Track(), right, episodes=20, margin=0.4)
    assert isinstance(found.result, GateResult)
    assert found.gap == found.result.gap == 0.0
    assert (found.label, found.passes, found.reason) == ("MODEL AS GOOD AS ORACLE", True, None)
    assert found.learned.successes.tolist() == [True] * 20
    assert GateResult.from_json(found.to_json()).verdict is found.verdict
    with pytest.raises(AttributeError, match="gapp"):
        _ = found.gapp
    copied = pickle.loads(pickle.dumps(found.result))  # noqa: S301 - our own
    assert copied.to_json() == found.to_json()


def test_it_goes_through_a_process_and_a_copy():
    for found in (
        evaluate(Track(), mirrored, episodes=20, diagnose="never"),
        evaluate("maze", right, kind=Farthest(), begin=3.0, limit=3.5),
    ):
        for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):  # noqa: S301 - our own
            assert str(other) == str(found)
            assert other.metrics() == found.metrics()
            assert type(other.kind) is type(found.kind)


def test_what_a_result_has_is_listed():
    found = evaluate(Track(), right, episodes=20, margin=0.4)
    assert {"verdict", "gap", "to_json", "metrics"} <= set(dir(found))


def test_numbers_of_numpy_are_numbers():
    found = evaluate(
        Track(), right, episodes=np.int64(20), margin=np.float32(0.4), seed=np.uint8(3)
    )
    assert (found.learned.episodes, found.result.seed) == (20, 3)
    assert json.loads(found.to_json())


def test_it_is_printed_as_a_failing_test_prints_it():
    found = evaluate(Track(), mirrored, episodes=20, diagnose="never")
    subject, *lines = str(found).splitlines()
    assert subject == "track, planning gap"
    assert (
        lines[0] == "MODEL BOTTLENECK: the model solves 0 of 20 starts, the true dynamics all 20."
    )
    assert lines[1].endswith("Accepted here: INCONCLUSIVE or better.")
    assert any(line.split()[:2] == ["learned", "0/20"] for line in lines)
    assert max(map(len, lines)) <= 80
    assert "pytest" not in str(found), "there is no test to run again"
    assert lines[-1] == '  Accept   set max_verdict="MODEL BOTTLENECK"', "there is no marker"
    assert repr(found) == f"Evaluation(track: {lines[0]})"


def test_numbers_go_to_a_tracker_as_they_are(folder):
    found = evaluate(Track(), mirrored, episodes=20, diagnose="never")
    numbers = found.metrics()
    assert {type(value) for value in numbers.values()} == {float}
    assert numbers["cpg/gap"] == found.gap == 1.0
    assert (numbers["cpg/severity"], numbers["cpg/passes"]) == (Severity.BAD, 0.0)
    assert numbers["cpg/learned_rate"] == found.learned.success_rate
    assert json.loads(json.dumps(numbers)) == numbers
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(folder / "runs") as writer:
        for label, number in numbers.items():
            writer.add_scalar(label, number, 3)
    assert list((folder / "runs").iterdir())


def test_every_kind_of_gate_is_evaluated_in_the_same_way():
    plans = evaluate(Track(), mirrored, kind="cpg_plan_quality", episodes=20)
    assert plans.metrics()["cpg_plan_quality/passes"] == 0.0
    assert plans.label in plans.kind.labels
    answers = evaluate(cart_queries(), Carts(drift=-0.4), kind="cpg_opcc")
    assert answers.metrics()["cpg_opcc/severity"] == Severity.GOOD
    assert answers.passes
    assert str(answers).splitlines()[1].startswith(answers.label)


class Farthest:
    """A kind of a user, with a fixture of its own."""

    marker = fixture = "farthest"
    help = "gate on how far a model goes."
    fixtures = ("begin",)
    arguments = (
        Argument("task", name, REQUIRED),
        Argument("limit", between(0, 100), REQUIRED),
    )
    labels = MappingProxyType({"NEAR": Severity.GOOD, "FAR": Severity.BAD})
    result = dict[str, float]

    def parse(self, asked):
        return asked

    def measure(self, spec, model, run):
        run.progress("walking", 0, 1)
        return {"far": float(model(run.given["begin"], 1.0)), "limit": spec.values["limit"]}

    def judge(self, result, max_verdict):
        label = "FAR" if result["far"] > result["limit"] else "NEAR"
        return Ruling(label=label, severity=self.labels[label])

    def card(self, result, max_verdict, *, model=""):
        table = Table(name="", columns=(), rows=())
        # A number of its own does not take the place of what every kind says.
        said = {**result, "passes": 7.0}
        return Card(sentence=f"{result['far']:g} m", size="", cells={}, table=table, numbers=said)


def test_a_kind_of_ones_own_is_given_what_its_fixtures_would_give():
    found = evaluate("maze", right, kind=Farthest(), begin=3.0, limit=3.5)
    assert found.metrics() == {
        "farthest/severity": 3.0,
        "farthest/passes": 0.0,
        "farthest/far": 4.0,
        "farthest/limit": 3.5,
    }
    with pytest.raises(ValueError, match=r"names no begin, .* Write evaluate\(\.\.\., begin="):
        evaluate("maze", right, kind=Farthest(), limit=3.5)
    usage = r"names no limit. Write evaluate\(task, model, kind='farthest', limit=\.\.\.\)"
    with pytest.raises(ValueError, match=usage):
        evaluate("maze", right, kind=Farthest(), begin=3.0)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"planer": "beam"}, "evaluate() has no argument 'planer'. Did you mean 'planner'?"),
        ({"episodes": "20"}, "episodes: need a number, got '20'. Write episodes=20."),
        ({"diagnose": "nver"}, "diagnose: need one of auto, always, never, got 'nver'"),
        ({"episodes": np.float64(5)}, "episodes: need a whole number of at least 1, got "),
        ({"kind": None}, "kind: need a kind of gate, got None. Known: cpg, cpg_counterfactual, "),
        ({"kind": 42}, "kind: need a kind of gate, got 42. Known: cpg, cpg_counterfactual, "),
        ({"kind": "cpg_op"}, "no kind of gate 'cpg_op'. Did you mean 'cpg_opcc'?"),
        ({"executor": 3}, "executor: need None or a concurrent.futures.Executor, got 3. Write "),
        ({"cache": 42}, "cache: need a folder or None, got 42. Write cache=None for none."),
        ({"episodes": 2}, "Write episodes=50 (3 is the least that can fail)."),
        ({"oracle_episodes": 90}, "oracle_episodes"),
        ({"task": "maze"}, "takes task as its first argument. Leave task= out."),
        ({"drift": "fail"}, "evaluate() has no argument 'drift'. Known: "),
        (
            {"planer": "cem", "horizon": -1},
            "Did you mean 'planner'?\nhorizon: need a whole number of at least 1, got -1",
        ),
        ({"group": "a"}, "evaluate() has no argument 'group'. Known: "),
        ({"id": "a"}, "evaluate() has no argument 'id'. "),
        ({"max_verdict": "good-as-orcle"}, "no verdict named 'good-as-orcle'."),
    ],
)
def test_what_cannot_be_asked_is_refused_as_in_a_marker(asked, said):
    with pytest.raises((ValueError, ComponentError)) as caught:
        evaluate("maze", right, **asked)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: evaluate(lambda o, a: o + a, "track"), r"first: evaluate\('track', model, \.\.\."),
        (lambda: evaluate(task="maze"), r"needs model\. Write evaluate\(task, model, \.\.\.\)"),
        (
            lambda: evaluate(model=right, kind="cpg_opcc"),
            r"needs queries\. Write evaluate\(",
        ),
        # All that is wrong in one call is named.
        (
            lambda: evaluate("maze", right, planner="CEM", max_verdict="good-as-orcle"),
            r"no planner named 'CEM'\. Did you mean 'cem'\?\nno verdict",
        ),
        (lambda: evaluate("maze", right, planer="cem", epsiodes=5), r"'planer'.*\n.*'epsiodes'"),
        (lambda: evaluate("maz", right), "Did you mean 'maze'"),
        (lambda: evaluate("mase", right, planner="preset"), "Did you mean 'maze'"),
        (lambda: evaluate("maze", "run/final.pt"), r"there is no model file 'run/final\.pt'"),
        (lambda: evaluate("maze", lambda o, a: o[:, :1], **ASKED), "shape"),
    ],
)
def test_a_call_that_cannot_be_is_told_what_to_write(call, said):
    with pytest.raises((ValueError, CpgError), match=said) as caught:
        call()
    assert "pytest was started" not in str(caught.value), "a script was"


def test_the_first_argument_may_be_given_by_the_name_that_it_has_in_the_marker():
    named = evaluate(task="maze", model=right, planner="beam", episodes=5)
    assert named.gap == evaluate("maze", right, planner="beam", episodes=5).gap


def test_a_model_may_be_named_and_the_oracle_is_the_check_of_the_gate_itself():
    found = evaluate(Track(), "oracle", episodes=20)
    assert found.ruling.check == "A/A check"
    assert found.gap == 0.0


def test_a_model_that_takes_too_long_is_broken_off():
    with pytest.raises(IncompleteError, match=r"INCOMPLETE after .* \(timeout=0.01\)"):
        evaluate("maze", right, **ASKED, timeout=0.01)


def test_it_loads_no_pytest_and_says_nothing_off_a_terminal(tmp_path):
    program = (
        "import sys\n"
        "import pytest_cpg\n"
        "model = lambda observations, actions: observations + actions\n"
        "asked = dict(planner='beam', episodes=6, margin=0.9, diagnose='never')\n"
        "pytest_cpg.evaluate('maze', model, **asked)\n"
        "sys.stderr.write('shown:')\n"
        "pytest_cpg.evaluate('maze', model, **asked, progress=True)\n"
        "assert 'pytest' not in sys.modules\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == ""
    quiet, _, shown = run.stderr.partition("shown:")
    assert quiet == ""
    assert re.search(r"oracle +#+ ", shown)


def test_it_is_a_public_name_that_nothing_loads_before_it_is_asked_for():
    assert "evaluate" in pytest_cpg.__all__
    program = "import sys, pytest_cpg; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_notebook_shows_the_gates_part_of_the_page(monkeypatch):
    pytest.importorskip("jinja2")
    found = evaluate(Track(), mirrored, episodes=20)
    shown = found._repr_html_()
    frame = re.fullmatch('<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', shown)
    page = unescape(frame[1])
    text = re.sub(r"<style>.*?</style>|<[^>]+>", "", page, flags=re.DOTALL)
    for part in ("MODEL BOTTLENECK", "solves 0 of 20 starts", found.card.cause.name):
        assert part in text, part
    assert "<svg" in page, "its figures"
    assert "pytest" not in text, "there is no test to run again"
    good = evaluate(Track(), right, episodes=20, margin=0.4)
    assert "MODEL AS GOOD AS ORACLE" in unescape(good._repr_html_())
    assert "<b>track, planning gap</b>" in unescape(good._repr_html_())
    # Without the extra a notebook shows the text.
    monkeypatch.delitem(sys.modules, "pytest_cpg.render.html_page")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert good._repr_html_() is None
