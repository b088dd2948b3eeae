"""Names that hold what a terminal, a browser or a workflow's log would obey, in every output."""

import re
import unicodedata

import pytest

HOSTILE = r"""
import numpy as np
import pytest
from conftest import Track, mirrored, raising

BAD = "\x1b]0;title\x07 \x1b[2J \x00 \u202emlab\u202c \r\n::error file=a.py::pwned ##[error]pwned "
BAD += "x" * 40 + " ::set-output name=a::b " * 4


class Named(Track):
    name = f"track {BAD}"
    versions = {f"engine {BAD}": f"1.0 {BAD}"}


class Planner:
    def __init__(self):
        from pytest_cpg.planners import PLANNERS
        self.inner = PLANNERS["random-shooting"]()
        # From Python 3.12 on a protocol is not met by what __getattr__ gives.
        self.name, self.horizon = self.inner.name, self.inner.horizon

    def __repr__(self):
        return f"Planner({BAD})"

    def __getattr__(self, name):
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def plan(self, *given, **named):
        return self.inner.plan(*given, **named)


def failing(observations, actions):
    raise RuntimeError(BAD)


BAD_NAME = BAD.replace("::", ":")
GIVEN = {"task": Named(), "group": BAD, "id": BAD_NAME}


@pytest.mark.cpg(**GIVEN)
def test_gap(benchmark_runner):
    benchmark_runner.compare(learned=mirrored)


@pytest.mark.cpg(task=Named(), planner=Planner())
def test_planner(benchmark_runner):
    benchmark_runner.compare(learned=mirrored)


@pytest.mark.cpg(task=Named(), group=BAD)
# Test names are printed by pytest itself, which shows controls, and knows of no logs.
@pytest.mark.parametrize("_", [1], ids=[BAD.replace("##[", "")])
def test_error(benchmark_runner, _):
    benchmark_runner.compare(learned=failing)


@pytest.mark.cpg(task=Named())
def test_ranking(benchmark_runner):
    benchmark_runner.rank({BAD: mirrored, f"other {BAD}": mirrored})
"""
OWN_COMMANDS = re.compile(r"::error (file|title)=[^\n]*")


def seen(text):
    """Return the signs in a text that something could obey, and its lines of commands."""
    signs = {s for s in text if unicodedata.category(s) in ("Cc", "Cf") and s not in "\n\t\u200b"}
    lines = [
        line
        for line in text.splitlines()
        if (line.strip().startswith("::") or "##[" in line) and not OWN_COMMANDS.match(line)
    ]
    return signs, lines


@pytest.mark.parametrize("where", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_nothing_that_is_named_is_obeyed_by_terminal_page_or_log(repository, monkeypatch, where):
    pytest.importorskip("jinja2")
    repository.makepyfile(HOSTILE)
    summary = repository.path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    files = {name: repository.path / f"report.{name}" for name in ("json", "md", "html")}
    options = [f"--cpg-{name}={path}" for name, path in files.items()]
    units = repository.path / "units.xml"
    result = repository.runpytest("-v", *options, f"--junit-xml={units}", *where)
    result.assert_outcomes(failed=3)
    assert result.parseoutcomes()["measured"] == 1
    output = result.stdout.str() + result.stderr.str()
    assert "pwned" in output
    assert seen(output) == (set(), [])
    assert output.count("  Rerun  ") == 2
    for path in (*files.values(), summary, units):
        text = path.read_text(encoding="utf-8")
        assert "pwned" in text
        assert seen(text)[0] == set(), path


@pytest.mark.parametrize("option", ["--cpg-plan", "--cpg-quick"])
def test_a_plan_and_a_smoke_test_show_names_as_well(repository, option):
    repository.makepyfile(HOSTILE)
    result = repository.runpytest(option)
    output = result.stdout.str() + result.stderr.str()
    assert seen(output) == (set(), [])


def test_a_mistake_in_a_marker_shows_what_was_written(repository):
    repository.makepyfile(
        r"""
        import pytest

        @pytest.mark.cpg(task="a\n::error::\x1b \u202e")
        def test_gate(cpg): ...
        """
    )
    result = repository.runpytest()
    result.assert_outcomes(errors=1)
    assert seen(result.stdout.str()) == (set(), [])
