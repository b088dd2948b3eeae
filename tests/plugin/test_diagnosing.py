"""Diagnoses of gates, as a user sees them."""

import numpy as np
import pytest

GATE = """
import numpy as np
import pytest

@pytest.fixture(scope="session")
def training_data():
    return "data.npy"

@pytest.mark.cpg(task="track", model="one_way")
def test_bad(cpg):
    pass

@pytest.mark.cpg(task="track", model="right")
def test_good(cpg):
    pass
"""


@pytest.fixture
def repository(repository):
    """The miniature, diagnosed as whole as a user's gates are."""
    conftest = repository.path / "conftest.py"
    text = conftest.read_text(encoding="utf-8").replace("_DECISIONS = 3", "_DECISIONS = 10")
    conftest.write_text(text, encoding="utf-8")
    return repository


def test_a_model_bottleneck_says_why_and_reports_hold_it(repository):
    repository.makepyfile(GATE)
    np.save(repository.path / "data.npy", np.linspace(-9, 9, 500)[:, None])
    result = repository.runpytest("-v", "--cpg-json=r.json", "--cpg-md=c.md", "--cpg-html=p.html")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "  cpg: diagnosis * decisions, * s (ONE-STEP ERROR)",
            "  Why      ONE-STEP ERROR: *",
            "  Do       Compare the one-step loss on held-out data *",
            "  Why the gap is there: ONE-STEP ERROR (* decisions of 5 episodes, * s)",
            "    regret *",
        ]
    )
    report = repository.json("r.json")
    bad, good = (gate["comparisons"][0]["result"]["diagnosis"] for gate in report["gates"])
    assert (bad["cause"], good) == ("ONE-STEP ERROR", None)
    for name in ("c.md", "p.html"):
        assert "ONE-STEP ERROR" in repository.text(name)
    assert "How far plans go from the training data" in repository.text("p.html")


CHANGE = """
import pytest

@pytest.fixture
def learned_dynamics():
    model = lambda o, a: a
    return lambda o, a: {returned}

@pytest.mark.cpg(task="track")
def test_change(cpg):
    pass
"""


def test_a_model_that_returns_the_change_is_told_so_and_passes_as_advised(repository):
    repository.makepyfile(CHANGE.format(returned="model(o, a)"))
    result = repository.runpytest("--cpg-json=r.json", "--cpg-md=c.md", "--cpg-html=p.html")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  Why      RETURNS THE CHANGE: `o + model(o, a)` fits * true steps more than*",
            "  Do       *Return `o + model(o, a)`*",
        ]
    )
    report = repository.json("r.json")
    misreading = report["gates"][0]["comparisons"][0]["result"]["diagnosis"]["misreading"]
    assert misreading["name"] == "RETURNS THE CHANGE"
    for name in ("c.md", "p.html"):
        text = repository.text(name)
        assert "RETURNS THE CHANGE" in text
        assert "the gate wants the next observation" in text
    repository.makepyfile(CHANGE.format(returned="o + model(o, a)"))
    repository.runpytest().assert_outcomes(passed=1)


@pytest.mark.parametrize(("asked", "found"), [("never", [False, False]), ("always", [True, True])])
def test_what_is_diagnosed_can_be_chosen(repository, asked, found):
    repository.makepyfile(GATE)
    repository.runpytest(f"--cpg-diagnose={asked}", "--cpg-json=r.json")
    report = repository.json("r.json")
    results = [gate["comparisons"][0]["result"] for gate in report["gates"]]
    assert [result["diagnosis"] is not None for result in results] == found


def test_a_planner_bottleneck_says_whether_more_search_would_help(repository):
    repository.makepyfile("""
        import pytest

        @pytest.mark.cpg(task="unreachable", model="right")
        def test_gate(cpg):
            pass
    """)
    result = repository.runpytest("-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  cpg: wider    0 of 5 starts solved, *",
            "  Note     no cause named: More search is not shown to help: 4 x search *",
            "  Why the gap is there: no cause named (* s)",
        ]
    )
    result.stdout.no_fnmatch_line("*cpg: diagnosis*")
