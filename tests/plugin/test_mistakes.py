"""Every mistake gets a message that says what to type instead, and never a green run."""

import pytest
from sessions import flat

MARKED = """
import pytest

@pytest.mark.cpg({marker})
def test_gate(cpg):
    pass
"""

MARKER_MISTAKES = {
    'task="acrobot-swngup"': "Did you mean 'acrobot-swingup'?",
    'task="track", planner="random-shoting"': "Did you mean 'random-shooting'?",
    'task="track", planner="CEM"': "Did you mean 'cem'?",
    'task="track", model="mirored"': "Did you mean 'mirrored'?",
    'task="track", max_verdict="INCONCLUSIV"': "Did you mean 'INCONCLUSIVE'?",
    'task="track", max_verdict=3': "3",
    'task="track", epsiodes=5': "Did you mean 'episodes'?",
    '"track"': "keyword arguments only, got 'track'",
    "": 'the marker names no task. Write @pytest.mark.cpg(task="reacher-easy", planner="preset")',
    'task=type("E", (), {"action_space": 1})()': 'Write task="gym:ID", with the id under which',
    'task=type("T", (), {"actions": 1})()': "which lacks budget, control_period, name,",
    "task=7": "need the name of a task or a Task, got 7",
    'task="track", planner=7': "need the name of a planner or a Planner, got 7",
    'task="track", planner=__import__("pytest_cpg.planners").planners.CEM': "Write CEM().",
    'task="track", planner=type("P", (), {"horizon": 3})()': "which lacks name, plan",
    'task="track", model=print': "need the name of a registered world model, got <built-in",
    'task="track", model=""': "need the name of a registered world model, got ''; or",
    'task="track", episodes=10**21': "episodes: need a whole number of at most 1000000, got 1000",
    'task="track", episodes=0': "episodes: need a whole number of at least 1, got 0",
    'task="track", episodes=True': "episodes: need a whole number of at least 1, got True",
    'task="track", episodes=2': "Write episodes=50 (3 is the least that can fail).",
    'task="track", episodes="50"': "episodes: need a number, got '50'. Write episodes=50.",
    'task="track")\n@pytest.mark.cpg(task="maze"': "two cpg markers above this test both say",
    'task="track", seed=-1': "seed: need a whole number of at least 0, got -1",
    'task="gym:ogbench:visual-cube-single-v0"': 'task="gym:ogbench:cube-single-v0".',
    'task="track", confidence="disagrement"': 'planner=CEM(confidence="disagreement")',
    'task="track", confidence=95': "between 0 and 1 (both excluded), got 95. Write 0.95",
    'task="track", tolerance=0.6': "tolerance: need a number between 0 and 0.5",
    'task="track", starts="same"': "need one of sampled, fixed, got 'same'",
    'task="track", horizon=0': "horizon: need a whole number of at least 1, got 0",
    'task="track", horizon=10**30': "horizon: need a whole number of at most 10000, got 1000",
    'task="track", budget="long"': "budget: need a whole number of at least 1, got 'long'",
    'task="track", actions="boxes"': "actions: need one of levels, box, got 'boxes'",
    'task="maze", goal=2': "goal: task 'maze' does not know it. Leave it out",
    'task="maze", action_repeat=2': "action_repeat= was left out. Give the task itself: ",
    'task="track", min_oracle=2': "min_oracle: need a number between 0 and 1",
    'task="track", id=3': "id: need a name, got 3",
    'task="track", stop="sequential", episodes=30': "Write max_episodes=30.",
    'task="track", stop="sequential", interval="tango"': "has an interval of its own",
    'task="track", stop="fixed", max_episodes=30': 'Use episodes=30, or add stop="sequential"',
    'task="track", id="walker::v2"': "id: need a name without '::'",
    'task="track", id="g #2"': "that does not end in ' #2', got 'g #2'",
    'task="track", margin=0': "margin: need a number above 0, got 0",
    'task="track", margin="0.1"': "margin: need a number, got '0.1'. Write margin=0.1.",
    'task="track", margin=10': "between 0 and 1 (both excluded), got 10.0. Write 0.1",
    'task="track", metric="return", margin=-5': "margin: need a number above 0, got -5",
    'task="track", metric="return", stop="sequential"': "has no such rule",
    'task="track", metric="return", interval="tango"': "Leave interval= out",
    'task="track", metric="returns"': "metric: need one of success, return",
    'task="track", interval="wald"': "interval: need one of auto, agresti-caffo",
    'task="track", stop="early"': "stop: need one of fixed, sequential",
    'task="track", group=3': "group: need a name, got 3",
}


@pytest.fixture(scope="module")
def collected(recorded):
    """A session that collects a file with each of them."""
    markers = enumerate(MARKER_MISTAKES)
    files = {f"test_{number}.py": MARKED.format(marker=marker) for number, marker in markers}
    return recorded(files, "--co")


@pytest.mark.parametrize(
    ("number", "message"), [*enumerate(MARKER_MISTAKES.values())], ids=MARKER_MISTAKES
)
def test_a_bad_marker_is_refused_with_its_line(collected, number, message):
    said = collected.section(f"test_{number}.py")
    assert f"test_{number}.py:4: test_gate: " in flat(said)
    assert message in flat(said)
    assert max(map(len, said.lines)) <= 80


def test_bad_markers_are_errors_without_frames(collected):
    collected.result.assert_outcomes(errors=len(MARKER_MISTAKES))
    assert "INTERNALERROR" not in flat(collected.result)
    assert "Traceback" not in flat(collected.result)


@pytest.mark.parametrize("how", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_bad_marker_fails_the_session(repository, how):
    repository.makepyfile(MARKED.format(marker='task="trak"'))
    result = repository.runpytest(*how)
    assert result.ret not in (0, 5)
    result.assert_outcomes(errors=1)
    assert "test_gate: no task named 'trak'. Did you mean 'track'?" in flat(result)
    assert "INTERNALERROR" not in flat(result)


def test_all_mistakes_of_a_file_are_said_at_once_with_their_lines(repository):
    repository.makepyfile(
        test_a="""
        import pytest

        @pytest.mark.cpg(task="trak")
        def test_first(cpg): ...

        @pytest.mark.cpg(task="track", model="right")
        def test_good(cpg): ...

        @pytest.mark.cpg(task="track", planer="cem")
        def test_second(cpg): ...
        """,
        test_b="""
        import pytest

        pytestmark = pytest.mark.cpg_plan_qualty(task="track")

        def test_third(): ...

        @pytest.mark.Cpg_Opcc(queries="mine.npz", seed=1)
        def test_fourth(): ...

        @pytest.mark.cgp(task="track", model="right")
        def test_fifth(): ...

        @pytest.mark.CPG(task="track", id="mine")
        def test_sixth(): ...
        """,
        # Markers of others, near by name: one is registered, and others say nothing of a gate.
        test_c="""
        import pytest

        @pytest.mark.cpgs(task="track")
        @pytest.mark.cpu(timeout=3)
        @pytest.mark.cpu(task="track")
        @pytest.mark.vpg(task="HalfCheetah")
        @pytest.mark.cfg(task="track")
        @pytest.mark.pg(task="track")
        @pytest.mark.gcp(task="track", zone=3)
        @pytest.mark.cpg_opc(timeout=3)
        def test_other(): ...
        """,
    )
    repository.add("tox.ini", "\nmarkers = cpgs(task): mine\n")
    result = repository.runpytest("-W", "ignore")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=2)
    said = flat(result)
    assert "test_a.py:3: test_first: no task named 'trak'. Did you mean 'track'?" in said
    assert "test_a.py:9: test_second: the marker has no argument 'planer'. Did you mean 'p" in said
    unknown = "nobody knows the marker {!r}, so this test is no gate. Did you mean {!r}?"
    for place, name, meant in (
        ("test_b.py:5: test_third", "cpg_plan_qualty", "cpg_plan_quality"),
        ("test_b.py:7: test_fourth", "Cpg_Opcc", "cpg_opcc"),
        ("test_b.py:10: test_fifth", "cgp", "cpg"),
        ("test_b.py:13: test_sixth", "CPG", "cpg"),
    ):
        assert f"{place}: {unknown.format(name, meant)}" in said


def test_all_that_is_wrong_in_one_marker_is_named(repository):
    repository.makepyfile(
        """
        import pytest

        @pytest.mark.cpg(task="trak", planner="CEM", max_verdict="INCONCLUSIV", model="mirored")
        def test_components(cpg): ...

        @pytest.mark.cpg(task="track", planer="cem", epsiodes=5, seed=-1, horizon="5")
        def test_arguments(cpg): ...
        """
    )
    result = repository.runpytest()
    result.assert_outcomes(errors=1)
    said = flat(result)
    assert (
        "test_components: no task named 'trak'. Did you mean 'track'? "
        "no planner named 'CEM'. Did you mean 'cem'? "
        "no verdict named 'INCONCLUSIV'. Did you mean 'INCONCLUSIVE'? "
        "no world model named 'mirored'. Did you mean 'mirrored'?"
    ) in said
    assert (
        "test_arguments: the marker has no argument 'planer'. Did you mean 'planner'? "
        "the marker has no argument 'epsiodes'. Did you mean 'episodes'? "
    ) in said
    assert "seed: need a whole number of at least 0, got -1" in said
    assert "horizon: need a number, got '5'. Write horizon=5." in said


def test_options_that_do_not_exist_are_all_named_wherever_they_are_set(repository, monkeypatch):
    repository.makepyfile(MARKED.format(marker='task="track", model="right"'))

    def refused(*typed):
        result = repository.runpytest(*typed)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        return result.stderr.str()

    said = refused("--cpg-episods=20", "--cpg-planm", "--cpg-task=maze")
    assert "ERROR: --cpg-episods names no option. Did you mean '--cpg-" in said
    assert "ERROR: --cpg-planm names no option. Did you mean '--cpg-plan" in said
    assert "ERROR: --cpg-task names no option. pytest --help lists them; a gate" in said
    # Near no name, and in the help of one.
    said = refused("--cpg-markdown=comment.md", "--cpg-page")
    assert "ERROR: --cpg-markdown names no option. Did you mean '--cpg-md'?" in said
    assert "ERROR: --cpg-page names no option. Did you mean '--cpg-html'?" in said
    assert "got 'sequentail'. Did you mean 'sequential'?" in refused("--cpg-stop=sequentail")
    # Whoever brings an option of that name may have it.
    option = "def pytest_addoption(parser):\n    parser.addoption('--cpg-checkpoint')"
    repository.add("conftest.py", option)
    assert repository.runpytest("--cpg-checkpoint", "b.pt").ret == pytest.ExitCode.OK
    assert "--cpg-episods names" in refused("--cpg-checkpoint=b.pt", "--cpg-episods=20")
    repository.makeini("[pytest]\ncpg_episods = 5\ncpg_quick = 1\n")
    said = refused()
    assert "tox.ini names no option. Did you mean 'cpg_episodes'?" in said
    assert "tox.ini has no effect. Type --cpg-quick." in said
    for hidden in (("-W", "ignore"), ("-p", "no:warnings", "-n", "2")):
        result = repository.runpytest(*hidden)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "ini names no option. Did you mean 'cpg_episodes'?" in result.stderr.str()
        assert "worker" not in result.stdout.str()
    repository.makeini("[pytest]")
    monkeypatch.setenv("PYTEST_CPG_EPISODE", "5")
    monkeypatch.setenv("PYTEST_CPG_DRIFFT", "fail")
    said = refused()
    for meant in ("EPISODES", "DRIFT"):
        assert f"names no option. Did you mean 'PYTEST_CPG_{meant}'?" in said


@pytest.mark.parametrize(
    ("ini", "environment", "options", "message"),
    [
        ("", {}, ["--cpg-episodes=0"], "need a whole number of at least 1, got '0'"),
        ("", {}, ["--cpg-confidence=1"], "need a number between 0 and 1 (both excluded), got '1'"),
        ("", {}, ["--cpg-model="], "need the name of a registered world model, got ''; or"),
        ("cpg_episodes = lots", {}, [], "is 'lots'. Give a number: episodes per arm"),
        ("", {"PYTEST_CPG_SEED": "one"}, [], "PYTEST_CPG_SEED: need a whole number of at least 0"),
        *(
            ("", {}, [f"--cpg-timeout={value}"], f"0 for no limit, got '{value}'")
            for value in ("soon", "-1", "inf", "1e308", "nan")
        ),
    ],
)
def test_a_bad_value_is_a_usage_error_that_names_its_place(
    repository, monkeypatch, ini, environment, options, message
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    repository.makeini(f"[pytest]\n{ini}\n")
    result = repository.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_a_baseline_in_a_loop_of_links_is_no_missing_file(repository):
    for one, other in (("a", "b"), ("b", "a")):
        (repository.path / one).symlink_to(repository.path / other)
    result = repository.runpytest("--cpg-baseline=a")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*/a is a link to no file. Correct the path*"])


def test_a_number_in_a_toml_configuration_is_read(repository):
    (repository.path / "tox.ini").unlink()
    (repository.path / "pytest.toml").write_text("[pytest]\ncpg_episodes = 11\n")
    marked = MARKED.format(marker='task="track", model="right"')
    repository.makepyfile(marked.replace("pass", "assert cpg.oracle.episodes == 11"))
    repository.runpytest().assert_outcomes(passed=1)


TASK_MISTAKES = {
    "budget = property(lambda self: None, lambda self, _: None)": "task 'track': budget: need a "
    "whole number of at least 1, got None",
    "actions = [[-1.0], [1.0]]": "actions: need FiniteActions or BoxActions, got [[-1.0], [1.0]]",
    "versions = None": "task 'track': versions: need a dict, package to version, got None",
    "reset = lambda self, seeds: Track.reset(self, seeds)[:3]": "track: reset returned float64 of "
    "shape [3, 1]. Return one state for each seed, [N, S].",
    "reset = lambda self, seeds: np.random.uniform(3, 6, (len(seeds), 1))": "track: reset gave "
    "other states for the same seeds. Draw each from its own np.random.default_rng(seed)",
    "step = lambda self, states, actions: None": "track: step returned None. Return states of the "
    "size of reset's, [B, 1].",
    "rollout = lambda *given: Track.rollout(*given)[:, -1]": "track: rollout returned float64 of "
    "shape [2, 1]. Return one state for each action, [B, H, S].",
    "observe = lambda self, states: states[..., 0]": "track: observe returned float64 of shape [2]",
    "score = lambda self, observations: abs(observations)": "track: score returned float64 of "
    "shape [2, 1]. Return one number for each row, [B].",
    "reward = lambda self, states, actions: 'none'": "track: reward returned 'none'. Return one "
    "number for each row, [B].",
    # numpy would take these for the answer of every episode, and for the indices of two.
    "success = lambda *given: Track.success(*given).all()": "track: success returned np.False_. "
    "Return one bool for each row, [B].",
    "success = lambda *given: Track.success(*given).astype(int)": "track: success returned int64 "
    "of shape [2]. Return one bool for each row, [B].",
}


HELPER = """
import numpy as np

WEIGHTS = np.ones((9, 2))

def model(observations, actions):
    return into(np.concatenate([observations, actions], -1))

def into(both):
    return np.einsum("...i,ij->...j", both, WEIGHTS)
"""
GATES = """
import unittest

import helper
import numpy as np
import pytest
from conftest import Track, mirrored, right

@pytest.mark.cpg(task="track")
def test_no_gate(): ...

def test_no_marker(cpg): ...

class TestGate:
    @pytest.mark.cpg(task="track")
    def test_no_self(cpg): ...

class GateTest(unittest.TestCase):
    @pytest.mark.cpg(task="track")
    def test_case(self): ...

    @pytest.mark.cpg(task="track")
    def test_argument(self, cpg): ...

class TestScope:
    @pytest.fixture(scope="class")
    def learned_dynamics(self, oracle_dynamics): ...

    @pytest.mark.cpg(task="track")
    def test_scope(self, cpg): ...

class TestModel:
    @pytest.fixture
    def learned_dynamics(self):
        return lambda o: o

    @pytest.mark.cpg(task="track")
    def test_inputs(self, cpg): ...

class TestMisspelt:
    @pytest.fixture
    def learned_dynamic(self):
        return right

    @pytest.mark.cpg(task="track")
    def test_fixture(self, cpg): ...

class TestWeights:
    @pytest.fixture
    def learned_dynamics(self):
        return helper.model

    @pytest.mark.cpg(task="maze")
    def test_narrow(self, cpg): ...

@pytest.mark.cpg(task="track", model="raising")
def test_raising(cpg): ...

@pytest.mark.cpg(task="track", model="deaf", max_verdict="MODEL BOTTLENECK")
def test_deaf(cpg): ...

@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.cpg(task="track", model="right", id="mine")
def test_parameters(cpg, seed): ...

@pytest.mark.parametrize("n", [
    pytest.param(1, marks=pytest.mark.cpg(task="track", model="right")),
    pytest.param(2, marks=pytest.mark.cpg(task="trak", model="right")),
])
def test_of_parameter(n, cpg): ...

@pytest.mark.cpg(task="track")
def test_swapped(benchmark_runner, oracle_dynamics):
    benchmark_runner.compare(oracle=mirrored, learned=oracle_dynamics)

@pytest.mark.cpg(task="track")
def test_itself(benchmark_runner):
    benchmark_runner.compare(oracle=mirrored, learned=mirrored)

@pytest.mark.cpg(task="track", model="mirrored", budget=8, min_oracle=0.99,
                 max_verdict="MODEL BOTTLENECK")
def test_weak_oracle(cpg): ...

@pytest.mark.cpg(task="track", model="mirrored")
def test_skipped_later(cpg):
    pytest.skip("later")

@pytest.mark.cpg(task="track", model="right")
def test_skipped_before(benchmark_runner):
    pytest.skip("no model yet")

@pytest.mark.cpg(task="track", model="mirrored")
def test_another_model(benchmark_runner):
    benchmark_runner.compare(learned=right)

class Tiring:
    strength = 1.0

    def __call__(self, observations, actions):
        if observations.max() > 12:
            self.strength = 0.9
        return observations + self.strength * actions

@pytest.mark.cpg(task="track")
def test_tiring(benchmark_runner):
    benchmark_runner.compare(learned=Tiring())

class Typed(Track):
    control_period = np.float32(0.1)
    versions = {"odd": np.int64(3)}

@pytest.mark.cpg(task=Typed(budget=np.int64(30)), model="right")
def test_numbers_of_numpy(cpg):
    assert '"odd": "3"' in cpg.to_json()

class Endless(Track):
    control_period = float("nan")

@pytest.mark.cpg(task=Endless(), model="right")
def test_no_number(cpg): ...
"""
ODD = """

class Odd{number}(Track):
    {line}

@pytest.mark.cpg(task=Odd{number}(), model="right")
def test_odd_{number}(cpg): ...
"""
CLASH = MARKED.format(marker='task="track", model="right", id="x"')
NESTED = """
import pytest
from pytest_cpg.planners import RandomShooting

def pytest_cpg_planners():
    return {"mine": RandomShooting}

@pytest.fixture
def learned_dynamic(): ...
"""
BELOW = """
import pytest

@pytest.mark.cpg(task="track", model="right", planner="mine")
def test_below(cpg): ...

@pytest.mark.cpg(task="track")
def test_misspelt_below(cpg): ...
"""


@pytest.fixture(scope="module")
def ran(recorded):
    """A session of gates, most of which are written wrongly."""
    odd = (ODD.format(number=number, line=line) for number, line in enumerate(TASK_MISTAKES))
    files = {
        "helper.py": HELPER,
        "test_gates.py": GATES + "".join(odd),
        "test_nested/__init__.py": "",
        "test_nested/conftest.py": NESTED,
        "test_nested/test_below.py": BELOW,
    }
    return recorded(files)


def test_gates_that_are_written_wrongly_leave_the_others_to_run(ran):
    ran.result.assert_outcomes(passed=5, skipped=1, failed=11, errors=9 + len(TASK_MISTAKES))
    assert "INTERNALERROR" not in ran.result.stdout.str()
    assert "During handling" not in ran.result.stdout.str()


@pytest.mark.parametrize(
    ("test", "lines"),
    [
        ("test_no_gate", ["this test is marked cpg but ran no gate. Take the `cpg`*"]),
        (
            "test_no_marker",
            ['*@pytest.mark.cpg(task="reacher-easy", planner="preset") above it.'],
        ),
        (
            "TestGate.test_no_self",
            [
                "TestGate.test_no_self takes 'cpg' where Python passes self, so no gate ran.",
                "  Write def test_no_self(self, cpg):",
            ],
        ),
        (
            "GateTest.test_case",
            [
                "GateTest.test_case is a method of a unittest.TestCase, which takes no fixtures,*",
                "  Write a function:  def test_case(cpg): ...",
            ],
        ),
        ("GateTest.test_argument", ["*is a method of a unittest.TestCase, which takes no*"]),
        (
            "TestScope.test_scope",
            ["learned_dynamics has scope 'class', and oracle_dynamics lives for one test."],
        ),
        (
            "TestModel.test_inputs",
            ["  Return lambda o, a: net(np.concatenate([[]o, a[]], -1))"],
        ),
        ("TestMisspelt.test_fixture", ["*there is a fixture 'learned_dynamic'. Did you mean *"]),
        ("test_misspelt_below", ["*there is a fixture 'learned_dynamic'. Did you mean *"]),
        (
            "test_raising",
            [
                '*raise RuntimeError("my own bug")',
                "E *pytest-cpg: raised by rollout in the learned arm, episode * at step *",
            ],
        ),
        ("test_deaf", ["  Why      The learned dynamics ignores the action: *"]),
        ("test_of_parameter[2]", ["*test_of_parameter[[]2[]]: no task named 'trak'. Did you mean"]),
        ("test_swapped", ["*Write compare(oracle=oracle_dynamics, learned=my_model).*"]),
        ("test_itself", ["both arms were given the same model, *. Leave oracle="]),
        (
            "test_weak_oracle",
            [
                "BLIND: the oracle solves 12/20, a rate of at most 0.*, and min_oracle asks for",
                "Label PLANNER BOTTLENECK, gap *",
            ],
        ),
        ("test_skipped_later", ["MODEL BOTTLENECK: *"]),
        ("test_another_model", ["the marker names model='mirrored', and this test judged*"]),
        ("test_tiring", ["the learned model answers otherwise than before its arm*"]),
    ],
)
def test_a_gate_that_is_written_wrongly_says_what_to_write(ran, test, lines):
    ran.section(test).fnmatch_lines(lines)


@pytest.mark.parametrize(
    ("number", "said"), [*enumerate(TASK_MISTAKES.values())], ids=TASK_MISTAKES
)
def test_a_task_that_breaks_its_contract_is_named_with_what_to_return(ran, number, said):
    assert said in flat(ran.section(f"test_odd_{number}"))
    assert "hidden" not in flat(ran.section(f"test_odd_{number}"))


def test_a_model_that_raises_shows_its_own_frames_alone(ran):
    shown = flat(ran.section("test_raising"))
    assert "BOTTLENECK" not in shown
    assert "pytest_cpg/" not in shown


def test_a_model_that_takes_no_such_arrays_shows_its_own_lines_alone(ran):
    ran.section("TestWeights.test_narrow").fnmatch_lines(
        [
            "'model' is not usable: ValueError: *",
            "It is called as dynamics(observations, actions). Take float arrays *",
            '  File "*helper.py", line 7, in model',
            '  File "*helper.py", line 10, in into',
        ]
    )
    assert "site-packages" not in flat(ran.section("TestWeights.test_narrow"))
    assert "direct cause" not in flat(ran.section("TestWeights.test_narrow"))


def test_the_summary_says_what_is_wrong_and_names_a_gate_by_its_id(ran):
    ran.result.stdout.fnmatch_lines_random(
        [
            " . mine[[]1[]] *",
            " . mine[[]2[]] *",
            " . test_below *",
            " . test_numbers_of_numpy *",
        ]
    )


def test_a_missing_model_shows_the_fixture_to_write(repository):
    repository.makepyfile(MARKED.format(marker='task="track"'))
    result = repository.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "    @pytest.fixture",
            "    def learned_dynamics():",
            "        return my_model *",
            " E test_gate this gate has no learned world model",
        ]
    )


@pytest.mark.parametrize("arguments", [[], ["-n2"]], ids=["alone", "-n2"])
def test_two_gates_of_one_id_are_refused(repository, arguments):
    repository.makepyfile(test_a=CLASH, test_b=CLASH)
    result = repository.runpytest(*arguments)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["two gates have the id 'x'*", " E x *two gates have the id *"])
    assert "INTERNALERROR" not in result.stdout.str()


def test_an_interrupted_session_says_what_was_running(repository):
    repository.makepyfile(
        """
        import pytest

        def impatient(observations, actions):
            if observations.min() < -3.5:
                raise KeyboardInterrupt
            return observations + actions

        @pytest.mark.cpg(task="track", model="right")
        def test_first(cpg):
            pass

        @pytest.mark.cpg(task="track")
        def test_second(benchmark_runner):
            benchmark_runner.compare(learned=impatient)

        @pytest.mark.cpg(task="track", model="right")
        def test_third(cpg):
            pass
        """
    )
    result = repository.runpytest_inprocess(no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        [
            "*- cpg: 3 gates, 2 not reported, 1 passed -*",
            " . test_first *",
            " ! test_second *interrupted in *",
            " ! test_third *did not report",
            " 1 of 3 gates reported",
        ]
    )


def test_an_interruption_after_the_arms_is_told_from_one_within(repository):
    repository.makepyfile(
        """
        import pytest

        @pytest.mark.cpg(task="track", model="right")
        def test_gate(cpg):
            raise KeyboardInterrupt
        """
    )
    result = repository.runpytest_inprocess(no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([" ! test_gate *interrupted after it had measured"])


def test_a_slow_scalar_model_warns_once_with_its_cost(repository):
    repository.makeini("[pytest]\ncpg_episodes = 20\nfilterwarnings = default\n")
    repository.makepyfile(
        """
        import pytest

        def scalar(observation, action):
            assert observation.ndim == 1
            return [observation[0] + action[0]]

        @pytest.mark.cpg(task="track")
        def test_gate(benchmark_runner):
            benchmark_runner.compare(learned=scalar)
        """
    )
    result = repository.runpytest()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*LoopFallbackWarning: the learned dynamics takes one row at a time: * us per model step*"]
    )


def test_a_missing_extra_is_one_clean_message(repository, monkeypatch):
    repository.makepyfile(
        """
        import sys

        import pytest

        sys.modules["dm_control"] = sys.modules["mujoco"] = None

        @pytest.mark.cpg(task="reacher-easy")
        def test_gate(cpg):
            pass
        """
    )
    result = repository.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    text = result.stdout.str()
    assert 'pip install "pytest-cpg[control]"' in text
    assert "Traceback" not in text
    assert "During handling" not in text
    assert "tasks/suite.py" not in text
