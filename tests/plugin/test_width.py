"""Nothing that the plugin prints is wider than the terminal, and no name is cut."""

LONG = "cartpole-swingup-icem-h30-drop-next-5-steps-of-a-name-that-goes-on-and-on-for-ever"
NAMES = [
    *(f"reacher-{planner}-h{h}" for planner in ("cem", "icem", "mppi") for h in range(10, 18)),
    LONG,
]
GATES = f"""
import pytest
from conftest import deaf, mirrored, one_way, raising, right

NAMES = {NAMES!r}
MODELS = [right, right, right, one_way, mirrored, deaf, lambda o, a: o * float("nan"), right]


@pytest.fixture
def learned_dynamics(name):
    return MODELS[NAMES.index(name) % len(MODELS)]


@pytest.mark.cpg(task="track", episodes=10)
@pytest.mark.parametrize("name", NAMES)
def test_planning_gap(cpg, name):
    pass
"""
# What pytest says itself, and how wide.
OF_PYTEST = ("platform", "rootdir", "plugins", "FAILED", "ERROR", "test_gates.py")


def wide(text):
    """Return lines of the plugin beyond 80 columns that could have been broken."""
    return [
        line
        for line in text.splitlines()
        if len(line) > 80
        and not line.startswith(OF_PYTEST)
        # A name, alone or with its mark; a command that has one.
        and not any(len(word) > 60 for word in line.split())
    ]


def test_25_gates_fit_80_columns_however_they_are_shown(repository, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    repository.makepyfile(test_gates=GATES)
    shown = {
        "-v": repository.runpytest("-v", "--cpg-json=r.json").stdout.str(),
        # All models, and the long name.
        "--cpg-quick": repository.runpytest("--cpg-quick", "--tb=no", "-k", "icem").stdout.str(),
        "--cpg-plan": repository.runpytest("--cpg-plan").stdout.str(),
    }
    from pytest_cpg.render.command import main

    capsys.readouterr()
    for how in ("-q", ""):
        assert main(["show", "r.json", *filter(None, [how])]) == 0
        shown[how] = capsys.readouterr().out
    for how, text in shown.items():
        assert wide(text) == [], how
    assert [name for name in NAMES if f" [{name}]" not in shown[""]] == []
    assert "cpg: 25 gates, " in shown["-q"]
    assert "cpg: forecast of 25 gates, nothing run" in shown["--cpg-plan"]
    assert "cpg: quick run, " in shown["--cpg-quick"]
