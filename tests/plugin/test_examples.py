"""The examples do what the README says.

`make wheel` and `make demo` run two of them in processes of their own, as a user would.
"""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

needs_torch = pytest.mark.usefixtures("torch_and_control")


def needs_client(package):
    """Skip a test whose package is not installed; fail it in `make clients`, which installs it."""
    if not find_spec(package):
        assert "CLIENTS" not in os.environ, f"make clients installed no {package}"
        pytest.skip(f"needs {package}: make clients")


@pytest.fixture
def example(forking, monkeypatch):
    """Copies an example and runs it."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "CI"):
        monkeypatch.delenv(name, raising=False)

    def run(name, *arguments, apart=False):
        forking.copy_example(name)
        session = forking.runpytest_subprocess if apart else forking.runpytest
        return session("-p", "no:hypothesispytest", *arguments)

    return run


def test_the_maze_gates_its_models_with_numpy_alone(example):
    result = example("maze")
    result.assert_outcomes(passed=2, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*cpg: 3 gates, 1 failed as expected, 2 passed*",
            " MODEL BOTTLENECK (1): *",
            " x test_free_space_model_is_caught *",
        ]
    )


def test_a_planner_of_ones_own_is_used_by_name(example):
    example("custom_planner").assert_outcomes(passed=1, xfailed=1)


def test_a_kind_of_gate_of_ones_own_stands_beside_ours(example):
    result = example("custom_gate")
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [" ACCURATE (1)", " . *the_next_step_is_nearly_right*", " MODEL B* (1): *", " x *plans_*"],
    )


def test_stretches_of_recorded_episodes_are_compared_and_wrong_models_fail(example):
    result = example("policy_comparison", "-v")
    result.assert_outcomes(passed=1, xfailed=2)
    result.stdout.fnmatch_lines([" KNOWS ITS LIMITS (1): *", " . test_next_observations *"])
    wrong = re.search(r" x test_it_answers_no_better\S*\s+(\d+)\s+(\d+) ", result.stdout.str())
    # Its answers are worse than a trivial one's, whatever a guard finds.
    assert int(wrong[1]) > 1.5 * int(wrong[2])


@needs_torch
@pytest.mark.trains
def test_a_network_of_ogbenchs_point_maze_is_a_gate(example):
    needs_client("ogbench")
    result = example("field", "--cpg-quick", "test_pointmaze.py", apart=True)
    result.assert_outcomes(passed=1, xpassed=1)


@pytest.mark.parametrize("name", ["antmaze", "cube", "scene", "puzzle"])
def test_a_visual_id_of_ogbench_is_a_gate_and_draws_what_its_model_is_asked_about(
    example, monkeypatch, name
):
    needs_client("ogbench")
    monkeypatch.setenv("MUJOCO_GL", os.environ.get("MUJOCO_GL", "osmesa"))
    quick = ("-v", "-k", f"visual-{name}", "--cpg-diagnose=never", "--cpg-json=report.json")
    result = example("field", "test_visual.py", *quick, apart=True)
    result.assert_outcomes(xfailed=1)
    report = json.loads(Path("report.json").read_text(encoding="utf-8"))
    (comparison,) = report["gates"][0]["comparisons"]
    assert comparison["label"] == "MODEL BOTTLENECK"
    # At most every 5 of 20 steps of 4 starts; goals were drawn as the model was tried.
    drawn = re.search(r"learned +\d of 4 starts solved, (\d+) frames", result.stdout.str())
    assert 4 < int(drawn[1]) <= 16


@needs_torch
@pytest.mark.trains
def test_a_lewm_is_gated_with_its_own_solver_in_its_own_rooms(example, monkeypatch):
    needs_client("stable_worldmodel")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    only = ("-k", "read_as_places", "--cpg-quick", "-p", "cpu_torchvision")
    example("field", "test_two_room.py", *only, apart=True).assert_outcomes(passed=1)


@needs_torch
def test_a_lewm_sees_pictures_of_goals(example, monkeypatch):
    needs_client("stable_worldmodel")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    # It draws by numpy and torch: no OpenGL.
    result = example("field", "test_two_room_pictures.py", "-p", "cpu_torchvision", apart=True)
    result.assert_outcomes(passed=1, xfailed=1)


def test_gates_on_environments_are_skipped_without_their_packages(example, monkeypatch):
    for package in ("ogbench", "stable_worldmodel"):
        monkeypatch.setitem(sys.modules, package, None)
    example("field").assert_outcomes(skipped=4)


@needs_torch
@pytest.mark.trains
def test_the_model_of_the_cartpole_is_caught_where_its_plans_leave_its_data(example):
    # make demo asks for the verdicts of all four gates, and not for their causes.
    result = example("dmc_gates", "-k", "cartpole", "--cpg-episodes=6")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["MODEL BOTTLENECK: *", "  Why      COVERAGE*"])


@needs_torch
@pytest.mark.trains
def test_an_early_model_that_sees_pixels_is_caught(example):
    from pytest_cpg.contracts import ComponentError
    from pytest_cpg.tasks.pixel_task import seen_as_pixels

    try:
        seen_as_pixels("reacher-easy").versions  # noqa: B018 - begins the renderer
    except ComponentError as error:
        pytest.skip(str(error))
    result = example("pixels", "-k", "early", "--cpg-episodes=20")
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines([" MODEL BOTTLENECK (1): *"])


@needs_torch
@pytest.mark.trains
def test_a_model_of_a_few_random_actions_is_exploited_and_one_of_visited_states_is_not(example):
    result = example("plan_quality", "-k", "cartpole")
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [" NOT EXPLOITED (1): *", " . [[]visited[]] *", " EXPLOITED (1): *", " x [[]random[]] *"]
    )


@needs_torch
@pytest.mark.trains
@pytest.mark.slow
def test_the_same_is_told_of_acrobots_models(example):
    result = example("plan_quality", "-k", "acrobot")
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [" NOT EXPLOITED (1): *", " . [[]visited[]] *", " EXPLOITED (1): *", " x [[]random[]] *"]
    )


@needs_torch
@pytest.mark.trains
def test_the_recipe_of_the_control_models_makes_what_the_gates_load(example, pytester, monkeypatch):
    pytester.copy_example("dmc_gates")
    monkeypatch.syspath_prepend(pytester.path)
    train = import_module("train")
    shipped = {path.name: path.read_bytes() for path in train.MODELS.iterdir()}
    monkeypatch.setitem(train.DATA, "reacher-easy", {"count": 1_000, "policy": "held-3"})
    train.main(dict.fromkeys(train.DATA, 1))
    made = {path.name: path.read_bytes() for path in train.MODELS.iterdir()}
    assert made.keys() == shipped.keys()
    assert all(made[name] != shipped[name] for name in made)
    # It is run; what its test asks of a model is asked of the whole gate.
    result = pytester.runpytest("-k", "reacher", "--cpg-quick")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*cpg: quick run, 1 of 1 gates ran*"])


@needs_torch
def test_the_ladder_has_three_checkpoints_on_every_rung(example):
    result = example("improving_model", "--co", "-q", "test_ladder.py", "long_acrobot.py")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*test_reacher_low_rung?100-11?",
            "*test_cartpole_high_rung?2000-13?",
            "*test_acrobot_high_rung?97000-13?",
            "*18 tests*",
        ]
    )


@needs_torch
@pytest.mark.trains
def test_the_ladder_has_a_smoke_test_which_judges_no_rung(example, monkeypatch):
    models = import_module("pytest_cpg.world_models")
    train = models.train_mlp
    short = {"steps": 50}
    monkeypatch.setattr(models, "train_mlp", lambda data, **more: train(data, **more | short))
    result = example("improving_model", "--cpg-quick", "-k", "cartpole and 11")
    result.assert_outcomes(passed=1, xpassed=1)
    result.stdout.fnmatch_lines(["*cpg: quick run, 2 of 2 gates ran*"])


@needs_torch
@pytest.mark.trains
@pytest.mark.slow
def test_the_loop_buys_transitions_where_the_gate_says_and_asks_again(tmp_path):
    """Every cause is taken for one whose advice is to go where promises were broken."""
    code = "import closed_loop as c; from unittest.mock import MagicMock as Mock; "
    code += "c.LARGEST = 61; c.LOCAL = Mock(__contains__=lambda *_: True); c.main()"
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2] / "examples" / "improving_model",
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    lines = made.stdout.splitlines()
    assert lines[1] == "60 transitions: MODEL BOTTLENECK, 0 of 20 solved"
    assert re.fullmatch(r"  cause .+: 60 more, a mixture from where plans broke .*", lines[2])
    assert lines[3].startswith("120 transitions: ")


@needs_torch
def test_the_experiments_have_a_gate_for_every_published_cell(example):
    # Some of its modules are called like tests of ours, which this process has imported.
    result = example("experiments", "--co", "-q", apart=True)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*drop-next-1*", "*131 tests*"])


@needs_torch
@pytest.mark.trains
@pytest.mark.slow
def test_the_ladder_climbs_from_model_bottleneck_to_as_good_as_the_oracle(example):
    result = example("improving_model")
    result.assert_outcomes(passed=6, xfailed=6)
    for seed in (11, 12, 13):
        for low, high in (("100", "100000"), ("60", "2000")):
            result.stdout.fnmatch_lines([" MODEL BOTTLENECK (*", f" x *[[]{low}-{seed}] *"])
            result.stdout.fnmatch_lines([" MODEL AS GOOD AS ORACLE (*", f" . *[[]{high}-{seed}] *"])


def test_a_suite_of_three_tasks_is_judged_from_end_to_end(example):
    arguments = ("-n", "2", "--cpg-json=r.json", "--cpg-md=r.md", "--cpg-html=r.html")
    result = example("suite", *arguments)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([" WITHIN LIMIT (1)", " . test_rooms *+0.00 *"])
    for name in ("r.json", "r.md", "r.html"):
        assert "WITHIN LIMIT" in Path(name).read_text(encoding="utf-8")
    again = example("suite", "--cpg-model=free-space", "--cpg-resume")
    assert again.ret == 1
    again.stdout.fnmatch_lines(
        ["ABOVE LIMIT: gap +0.* over 3 gates, at most 0.1 accepted, n=150.", "  suite *"]
    )
    history = Path(".cpg/history").read_text(encoding="utf-8")
    assert history.count("Suite gap") == 2
