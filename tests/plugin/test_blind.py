"""Blind gates, which acting at random would pass: whatever the learned arm did, they fail."""

import json
import re
from fnmatch import fnmatch

import pytest
from sessions import flat

# One step through one of two doors, or none. The planner takes the right door, a mirrored model
# the left one. Each door is open on a share of the starts, and chance takes each a third of times.
DOORS = """
import numpy as np

from pytest_cpg.contracts import FiniteActions


class Doors:
    name = "doors"
    observation_size = 2
    control_period = 0.1
    budget = 1
    versions = {}

    def __init__(self, right, left, actions=(-1.0, 0.0, 1.0)):
        self.right, self.left = right, left
        self.actions = FiniteActions(np.array(actions)[:, None])

    def reset(self, seeds):
        return np.array([[np.random.default_rng(s).uniform(), 0.0] for s in seeds])

    def step(self, states, actions):
        return np.concatenate([states[:, :1], actions], axis=1)

    def rollout(self, states, actions):
        places = np.broadcast_to(states[:, None, :1], actions.shape)
        return np.concatenate([places, actions], axis=2)

    def observe(self, states):
        return states

    def score(self, observations):
        return -observations[..., 1]

    def success(self, states, actions):
        is_open = np.where(states[..., 1] > 0, self.right, self.left)
        return (np.abs(states[..., 1]) == 1) & (states[..., 0] < is_open)

    def reward(self, states, actions):
        return 10.0 * self.success(states, actions) + states[..., 0]


def pytest_cpg_tasks():
    shares = {
        "closed": (0.0, 0.0),
        "left-ajar": (0.0, 0.157),
        "left-half-open": (0.0, 0.5),
        "left-open": (0.0, 1.0),
        "right-ajar": (0.15, 0.0),
        "right-quarter-open": (0.25, 0.0),
        "both-half-open": (0.5, 0.5),
        "both-open": (1.0, 1.0),
        "right-open": (1.0, 0.0),
        "beside-walls": (0.6, 1.0, (-1.0, -0.5, 0.0, 0.5, 1.0)),
    }
    return {name: lambda both=both: Doors(*both) for name, both in shares.items()}


def right(observations, actions):
    return np.concatenate([observations[:, :1], actions], axis=1)


def mirrored(observations, actions):
    return np.concatenate([observations[:, :1], -actions], axis=1)


def idle(observations, actions):
    return np.concatenate([observations[:, :1], 1.0 - 2.0 * np.abs(actions)], axis=1)


def pytest_cpg_world_models():
    return {model.__name__: lambda task, model=model: model for model in (right, mirrored, idle)}
"""


GATE = """
import pytest

@pytest.mark.cpg(
    task="{task}", model="{model}", planner="random-shooting", horizon=1, episodes={episodes}{more}
)
def test_{name}(cpg):
    pass
"""


def gate(task, model, more="", *, name="gate", episodes=50):
    return GATE.format(task=task, model=model, more=more, name=name, episodes=episodes)


@pytest.fixture
def doors(repository):
    repository.makeconftest(DOORS)
    return repository


PROOF = ', max_verdict="MODEL AS GOOD AS ORACLE"'
EARLY = ', stop="sequential", max_episodes=100'
RETURN = ', metric="return"'
SAID = "random actions would have passed this gate"


# Task, model, more of the marker, and what the gate says.
BLIND = [
    ("left-ajar", "mirrored", "", "INCONCLUSIVE", "-0.08"),
    ("left-half-open", "mirrored", "", "LEARNED OUTPERFORMS ORACLE", "-0.46"),
    ("left-half-open", "mirrored", PROOF, "LEARNED OUTPERFORMS ORACLE", "-0.46"),
    ("right-ajar", "mirrored", "", "INCONCLUSIVE", "0.06"),
    ("right-ajar", "mirrored", ", interval='tango'", "INCONCLUSIVE", "0.06"),
    ("left-open", "mirrored", ", margin=0.1", "LEARNED OUTPERFORMS ORACLE", "-1.00"),
    ("left-open", "mirrored", EARLY, "LEARNED OUTPERFORMS ORACLE", "-1.00"),
    ("left-open", "mirrored", EARLY + ", margin=0.1", "LEARNED OUTPERFORMS ORACLE", ""),
    ("right-ajar", "right", EARLY, "INCONCLUSIVE", "0.00"),
    ("left-ajar", "mirrored", RETURN, "LEARNED OUTPERFORMS ORACLE", "-0.8"),
    ("right-ajar", "mirrored", RETURN, "INCONCLUSIVE", "0.6"),
    ("left-open", "mirrored", RETURN + PROOF, "LEARNED OUTPERFORMS ORACLE", "-10"),
    ("closed", "right", RETURN, "INCONCLUSIVE", "0"),
    ("closed", "right", RETURN + ", margin=2.0", "MODEL AS GOOD AS ORACLE", ""),
]


# And those that are not blind, by their names.
SEEING = {
    "proof": gate("both-half-open", "right", ', margin=0.2, interval="tango"', name="proof"),
    "idle": gate("both-half-open", "idle", name="idle", episodes=10),
    "open": gate("right-open", "right", name="open"),
    "early": gate("beside-walls", "mirrored", EARLY, name="early"),
    "same": gate("right-open", "right", RETURN, name="same"),
    "within": gate("right-open", "right", f"{RETURN}, margin=1.0", name="within"),
}


@pytest.fixture(scope="module")
def ran(recorded):
    """A verbose session of all of them that writes every report."""
    blind = {f"test_{i:02}": gate(*row, name=f"{i:02}") for i, (*row, _, _) in enumerate(BLIND)}
    seeing = {f"test_{name}": text for name, text in SEEING.items()}
    files = {f"{name}.py": text for name, text in {**blind, **seeing}.items()}
    options = [f"--cpg-{name}=report.{name}" for name in ("json", "md", "html")]
    options += ["-v", "--color=no", "--junit-xml=report.xml"]
    return recorded({**files, "conftest.py": DOORS}, *options, GITHUB_ACTIONS="true", COLUMNS="80")


@pytest.mark.parametrize("number", range(len(BLIND)))
def test_gates_that_acting_at_random_would_pass_fail(ran, number):
    *_, label, gap = BLIND[number]
    text = flat(ran.section(f"test_{number:02}"))
    found = f"BLIND: {SAID}, so it judges no model (*). Label {label}, gap {gap}*Random actions *"
    assert fnmatch(text, f"{found} Do *")
    assert "more episode" not in text.partition("Rerun pytest")[0]


def test_gates_that_see_end_as_they_would_and_show_what_chance_did(ran):
    ran.result.assert_outcomes(failed=len(BLIND) + 1, passed=4)
    assert ran.result.parseoutcomes()["inconclusive"] == 1
    ran.result.stdout.fnmatch_lines_random(
        [
            " . test_proof *",
            " . test_open *",
            "*chance solved 15/50*",
            " . test_within *",
            " [?] test_same *",
        ]
    )


def test_a_model_that_is_worse_than_chance_is_a_bottleneck_and_no_word_of_blindness(ran):
    section = ran.section("test_idle")
    section.fnmatch_lines(["MODEL BOTTLENECK: the model solves *", "Gap 0.50 *"])
    assert SAID not in flat(section)


def result_in(ran, name):
    report = json.loads((ran.folder / "report.json").read_text("utf-8"))
    (found,) = (one for one in report["gates"] if one["id"].endswith(f"::test_{name}"))
    return found["comparisons"][0]["result"]


def test_a_gate_that_stops_early_goes_on_with_chance_until_that_is_settled(ran):
    """The model has won long before chance has lost: only then is the gate known to see."""
    assert "oracle and chance ran" in flat(ran.result)
    measured = result_in(ran, "early")
    sizes = {name: len(measured[name]["successes"]) for name in ("oracle", "learned", "chance")}
    assert sizes["oracle"] == sizes["learned"] < sizes["chance"] <= 100
    assert measured["chance_verdict"] == "MODEL BOTTLENECK"
    # The gap is about the starts that its interval is about.
    assert measured["interval"]["low"] <= measured["gap"] <= measured["interval"]["high"]


def test_every_report_of_a_blind_gate_says_so(ran):
    ran.result.stdout.fnmatch_lines([f"::error *title=BLIND%3A *{SAID[1:]}*"])
    for ending in ("json", "md", "html", "xml"):
        assert SAID[1:] in (ran.folder / f"report.{ending}").read_text("utf-8"), ending
    assert result_in(ran, "01")["chance_verdict"] == "LEARNED OUTPERFORMS ORACLE"


def test_a_strong_oracle_is_told_how_many_episodes_tell_it_from_chance(doors):
    """Here the size is what blinds the gate, and more of the same is what mends it."""
    doors.makepyfile(gate("both-half-open", "right", episodes=10))
    result = doors.runpytest()
    result.assert_outcomes(failed=1)
    assert "Or make it larger: at these rates about" in flat(result)
    size = re.search(r"--cpg-episodes=(\d+) --cpg-seed=1\.", flat(result))[1]
    again = doors.runpytest(f"--cpg-episodes={size}", "--cpg-seed=1")
    assert again.parseoutcomes() == {"inconclusive": 1}


def test_whoever_accepts_planner_bottlenecks_accepts_blind_gates_and_is_told(doors):
    doors.makepyfile(gate("left-ajar", "mirrored", ', max_verdict="PLANNER BOTTLENECK"'))
    result = doors.runpytest("--cpg-md=report.md", "--cpg-html=page.html")
    assert result.parseoutcomes() == {"inconclusive": 1}
    assert f"blind gate: {SAID}, so it judges no model (chance " in flat(result)
    assert "| BLIND |" in doors.text("report.md")
    page = doors.text("page.html")
    assert SAID.capitalize() in page
    assert "To accept a gate" not in page


def test_only_who_does_not_accept_planner_bottlenecks_is_told_how_to(doors):
    doors.makepyfile(gate("closed", "right"))
    result = doors.runpytest("--cpg-html=page.html")
    result.assert_outcomes(failed=1)
    assert "The gate is at fault" in doors.text("page.html")
    assert "To accept a gate" in doors.text("page.html")


def test_a_gate_that_went_on_with_chance_is_run_again_by_the_command_it_prints(doors):
    lines = gate("beside-walls", "mirrored", EARLY).replace("pass\n", "assert cpg.gap > 0\n")
    doors.makepyfile(test_gates=lines)
    result = doors.runpytest("--cpg-json=report.json")
    result.assert_outcomes(failed=1)
    (command,) = re.findall(r"  Rerun +pytest (.*)", result.stdout.str())
    again = doors.runpytest(*command.split())
    again.assert_outcomes(failed=1)
    assert "oracle and chance ran" in flat(again)


def test_arms_that_earn_the_same_are_told_how_to_prove_it(doors):
    doors.makepyfile(gate("right-open", "right", RETURN))
    result = doors.runpytest()
    result.stdout.fnmatch_lines([" test_gate: the model earns *"])
    said = "The mean returns are equal, so there is no gap to find; margin= (such as"
    assert said in flat(result)
    assert "tell them apart" not in flat(result)
