"""The gate as a user meets it: verdict, failure section, summary, exit code."""

import contextlib
import os
import re
import shlex
import sys

import pytest
from conftest import CONFTEST
from ways import mostly_alone

GATE = """
    import pytest

    @pytest.mark.cpg(task={task!r}, model={model!r}{more})
    def test_gate(cpg):
        pass
"""


def gate(task="track", model="right", more=""):
    return GATE.format(task=task, model=model, more=more)


GATES = """
import pytest

@pytest.fixture
def my_model():
    return lambda observations, actions: observations - actions

@pytest.mark.cpg(task="track", model="right", max_verdict="MODEL AS GOOD AS ORACLE")
def test_good(cpg):
    from pytest_cpg import GateResult

    again = GateResult.from_json(cpg.to_json())
    assert again.to_json() == cpg.to_json()
    assert again.verdict is cpg.verdict
    assert (again.learned.steps == cpg.learned.steps).all()

@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(cpg): ...

@pytest.mark.cpg(task="unreachable", model="right")
def test_unreachable(cpg): ...

@pytest.mark.cpg(task="unreachable", model="right", max_verdict="planner bottleneck")
def test_accepted(cpg): ...

@pytest.mark.cpg(task="track", model="right", min_oracle=0.9, budget=2)
def test_weak_oracle(cpg): ...

@pytest.mark.cpg(task="track", model="right")
def test_more(cpg):
    assert cpg.learned.success_rate == 1.0
    assert cpg.oracle.episodes == 20
    assert cpg.verdict == "MODEL AS GOOD AS ORACLE"
    assert cpg.gap == 0
    assert cpg.learned.steps.mean() < 3, "too slow"

@pytest.mark.cpg(task="track", max_verdict="INCONCLUSIVE")
def test_explicit(benchmark_runner, oracle_dynamics, my_model):
    result = benchmark_runner.compare(oracle=oracle_dynamics, learned=my_model)
    assert result.verdict == "MODEL BOTTLENECK"
    print("the body has ended")

@pytest.mark.cpg(task="track")
def test_two(benchmark_runner):
    benchmark_runner.compare(learned=lambda o, a: o - a)
    benchmark_runner.compare(learned=lambda o, a: o + a)

@pytest.mark.cpg(task="track", episodes=9)
class TestNearest:
    @pytest.mark.cpg(model="right", seed=4)
    def test_nearest(self, cpg):
        assert (cpg.oracle.episodes, cpg.seed, cpg.design.task) == (9, 4, "track")

@pytest.mark.cpg(task="track", model="right", metric="return", episodes=12)
def test_returns(cpg): ...

@pytest.mark.xfail(strict=True)
@pytest.mark.cpg(task="track", model="mirrored")
def test_expected(cpg): ...

@pytest.mark.xfail(raises=AssertionError, strict=True)
@pytest.mark.cpg(task="track", model="mirrored")
def test_expected_of_the_body(cpg):
    assert cpg.learned.success_count

@pytest.mark.xfail
@pytest.mark.cpg(task="track", model="right", episodes=5)
def test_unexpected(cpg): ...

@pytest.mark.skip(reason="no simulator here")
@pytest.mark.cpg(task="track", model="right")
def test_skipped(cpg): ...
"""
OWN_MODEL = """
import pytest

@pytest.fixture(scope="session")
def learned_dynamics():
    return lambda observations, actions: observations + actions

@pytest.mark.cpg(task="track")
def test_own(cpg):
    assert cpg.learned.success_rate == 1
"""
SUBTESTS = """
import pytest

@pytest.mark.cpg(task="track", model="right")
def test_subtest_before(subtests, benchmark_runner, learned_dynamics):
    with subtests.test("before"):
        pass
    benchmark_runner.compare(learned=learned_dynamics)

@pytest.mark.cpg(task="track", model="right")
def test_subtest_after(subtests, cpg):
    with subtests.test("after"):
        assert 0
"""


@pytest.fixture(scope="module")
def ran(recorded):
    """A verbose session of gates that pass, fail and are expected to fail."""
    files = {"test_gates.py": GATES, "test_own.py": OWN_MODEL, "test_subtests.py": SUBTESTS}
    return recorded(files, "-v", "--color=no", "--junit-xml=out.xml", COLUMNS="80")


def test_each_gate_ends_as_its_marker_and_its_body_say(ran):
    marks = {
        "PASSED": ". good own",
        "FAILED": "F bad more explicit two",
        "a blind gate, which fails": "B unreachable weak_oracle",
        "a gate that decides nothing, and passes": "? accepted nearest returns unexpected",
        "XFAIL": "x expected expected_of_the_body",
        "SKIPPED": "s skipped",
    }
    for mark, *tests in map(str.split, marks.values()):
        for test in tests:
            ran.result.stdout.re_match_lines([rf" {re.escape(mark)} test_{test}\b.*"])
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    ran.result.assert_outcomes(passed=3, failed=8, skipped=1, xfailed=2, xpassed=1)
    ran.result.stdout.no_fnmatch_line("*Traceback*")


def test_a_bad_model_fails_with_a_section_that_can_be_acted_on(ran):
    ran.section("test_bad").fnmatch_lines(
        [
            "MODEL BOTTLENECK: the model solves 0 of 20 starts, the true dynamics all 20.",
            "Gap 1.00 [[]0.79, 1.00[]]. Accepted here: INCONCLUSIVE or better.",
            f"  oracle   20/20  {'█' * 40}  1.00 [[]0.84, 1.00]",
            f"  learned   0/20  {' ' * 40}  0.00 [[]0.00, 0.16]",
            "  chance *",
            "  starts   XXXXXXXXXX XXXXXXXXXX",
            "           X lost by the model: 20",
            "  Do       *",
            "  Replay   pytest --cpg-replay=.cpg/lost/????????.json",
            "  Rerun    pytest test_gates.py::test_bad",
            '  Accept   set max_verdict="MODEL BOTTLENECK" in the marker',
            "  Facts",
            "  gap *1.00 [[]*, 1.00[]]  (Agresti-Caffo 95%; paired [[]*",
            "  same starts *both solve 0, lost by the model 20, only the model solves 0,",
            "  share lost *1.25 of what oracle solves beyond chance",
            "  lost *starts 0 1 2 *",
            "  planner *RandomShooting(candidates=50, horizon=15, ties='earliest')",
            "  model gives *dynamics (mirrored)",
        ]
    )


def test_every_line_of_a_failure_fits_eighty_columns(ran):
    for test in ("test_bad", "test_unreachable"):
        assert max(map(len, ran.section(test).lines)) <= 80


@pytest.mark.parametrize(
    ("test", "lines"),
    [
        (
            "test_unreachable",
            [
                "BLIND: even with the true dynamics the planner solves only 0 of 20 starts.",
                "Label PLANNER BOTTLENECK, gap 0.00 *",
                "*The gate is at fault, not the model*",
                "*The score leads into dead ends*",
                "*farther ahead (horizon)*",
            ],
        ),
        ("test_weak_oracle", ["BLIND: the oracle solves 0/20, a rate *", "Label PLANNER *"]),
        ("test_more", ["E *too slow*"]),
        ("test_explicit", ["MODEL BOTTLENECK: *"]),
    ],
)
def test_a_failing_gate_says_what_is_at_fault(ran, test, lines):
    ran.section(test).fnmatch_lines(lines)


def test_the_summary_lists_every_comparison_below_its_verdict(ran):
    ran.result.stdout.fnmatch_lines(
        [
            " SKIPPED (1): *",
            " s test_skipped*",
            " MODEL AS GOOD AS ORACLE (*",
            " F test_more *",
            "     the test failed by itself: *too slow*",
            " . test_two #2 *",
            " MODEL BOTTLENECK (*): *",
            " F test_two *",
            " x test_expected *",
        ]
    )
    ran.result.stdout.fnmatch_lines(["*the body has ended*"])


def test_junit_carries_the_numbers_and_the_first_line(ran):
    xml = (ran.folder / "out.xml").read_text()
    assert '<property name="cpg_verdict" value="MODEL BOTTLENECK"' in xml
    assert '<property name="cpg_gap" value="1.0"' in xml
    assert f'message="{LOST_ALL}"' in xml


def test_a_verbose_log_has_one_line_per_arm(ran):
    for solved in ("20 of 20 starts solved", "12 starts"):
        ran.result.stdout.fnmatch_lines(
            [
                f"  cpg: oracle   {solved}, ?.? s",
                f"  cpg: learned  {solved}, ?.? s",
                "  cpg: chance   * starts*, ?.? s",
            ],
            consecutive=True,
        )


def test_a_subtest_does_not_stand_for_its_gate(ran):
    if "fixture 'subtests' not found" in ran.result.stdout.str():
        pytest.skip("this pytest has no subtests")
    expected = [" F test_subtest_after *", "*by itself: contains 1 failed subtest"]
    ran.result.stdout.fnmatch_lines(expected)
    ran.result.stdout.fnmatch_lines([" . test_subtest_before *"])


def test_what_was_lost_since_the_accepted_result_is_drawn_wherever_it_is_shown(
    repository, monkeypatch
):
    repository.makepyfile(test_gates=gate(model="right"))
    repository.runpytest("--cpg-update-baseline")
    repository.makepyfile(test_gates=gate(model="mirrored"))
    monkeypatch.setenv("COLUMNS", "120")
    wide = repository.runpytest("-n", "1", "--color=yes", "--cpg-drift=fail").stdout.str()
    lost = "\x1b[31m\x1b[1mXXXXXXXXXX\x1b[0m"
    for line in (
        "\x1b[31m\x1b[1mMODEL BOTTLENECK:\x1b[0m\x1b[1m the model solves 0 of 20 starts, the true",
        f"  learned   0/20  \x1b[31m\x1b[2m{'░' * 80}\x1b[0m  0.00 \x1b[2m[0.00, 0.16]",
        f"  starts   {lost} {lost}",
        "\x1b[1m  Rerun    \x1b[0m\x1b[36mpytest test_gates.py::test_gate --cpg-drift=fail\x1b[0m",
        'max_verdict="MODEL BOTTLENECK"; then on main: \x1b[36mpytest --cpg-update-baseline\x1b[0m',
    ):
        assert line in wide
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    plain = repository.runpytest_subprocess("--cpg-drift=fail").stdout
    plain.fnmatch_lines(
        [
            "Since *: 20 -> 0 of 20, lost 20 starts, gained 0 *",
            f"  oracle   20/20  {'#' * 40}  1.00 *",
            f"  learned   0/20  {'-' * 40}  0.00 *",
            "  starts   XXXXXXXXXX XXXXXXXXXX",
            "           X lost since *: 20",
            '  Accept   set max_verdict="MODEL BOTTLENECK"; then on main:',
            "           pytest --cpg-update-baseline",
        ]
    )


def test_a_gate_is_run_again_by_what_decides_it_alone(repository, monkeypatch):
    repository.makepyfile(test_gates=gate(model="mirrored"))
    monkeypatch.setenv("PYTEST_CPG_MD", "out.md")
    monkeypatch.setenv("PYTEST_CPG_EPISODES", "30")
    options = ("--cpg-json=out.json", "--cpg-require=1", "--cpg-diagnose=never")
    result = repository.runpytest(*options, "--cpg-confidence=0.9", "--cpg-drift=off")
    typed = re.search(r"  Rerun +pytest (.*?)\n  A", result.stdout.str(), re.DOTALL)[1]
    options = shlex.split(typed.replace("\\\n", ""))[1:]
    assert sorted(options) == ["--cpg-confidence=0.9", "--cpg-drift=off", "--cpg-episodes=30"]
    repository.makepyfile(test_gates=gate(model="diverging"))
    again = repository.runpytest("--cpg-quick")
    again.stdout.fnmatch_lines(["           pytest *::test_gate --cpg-quick"])


def test_commands_name_the_project_that_was_typed(repository, monkeypatch):
    repository.makepyfile(
        test_gates=gate(model="mirrored")
        + gate(more=", episodes=5").replace("test_gate", "test_open")
    )
    folder = repository.mkdir("folder of mine")
    monkeypatch.chdir(folder)
    (repository.path / "ci.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest\n")
    project = ("--rootdir=..", "-c", "../ci.ini", "-o", "cpg_episodes=25")
    result = repository.runpytest(*project, "..", "-n", "1", "--color=no")
    found = re.findall(r"(?:(Replay|Rerun) |  ) +(pytest (?:.*\\\n)*.*)", result.stdout.str())
    typed = {name: shlex.split(command.replace("\\\n", "")) for name, command in found}
    assert set(typed) == {"Replay", "Rerun", ""}
    options = ["--config-file=../ci.ini", "--rootdir=..", "--override-ini=cpg_episodes=25"]
    for words in typed.values():
        assert words[:4] == ["pytest", *options]
    again = repository.runpytest(*typed["Replay"][1:])
    again.stdout.fnmatch_lines([" replay of 25 episodes, no verdict: track,*"])
    repository.runpytest(*typed["Rerun"][1:]).assert_outcomes(failed=1)
    repository.runpytest(*typed[""][1:]).assert_outcomes(passed=1)


def test_an_inconclusive_gate_passes_and_no_line_says_that_it_simply_passed(repository):
    repository.makepyfile(test_gates=gate(more=", episodes=5"))
    result = repository.runpytest("--color=yes")
    assert (result.ret, result.parseoutcomes()) == (0, {"inconclusive": 1})
    assert "\x1b[33m?\x1b[0m" in result.stdout.str()
    assert re.search(r"\x1b\[33m=+ .*1 inconclusive", result.stdout.str())
    plain = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout.str()).splitlines()
    begin = plain.index(f"{' cpg: 1 gate inconclusive ':-^80}")
    assert plain[begin + 1 : begin + 3] == [
        " test_gate: the model solves 5 of 5 starts, the true dynamics all 5 (gap 0.00",
        " [-0.37, 0.37]). It passes, because INCONCLUSIVE is accepted here.",
    ]
    assert "     pytest test_gates.py::test_gate --cpg-episodes=50 --cpg-seed=1" in plain
    printing = gate(more=", episodes=5").replace("pass", "print('said by the test')")
    repository.makepyfile(test_gates=printing)
    shown = repository.runpytest("-v", "-rP").stdout
    shown.fnmatch_lines(["INCONCLUSIVE*", "* INCONCLUSIVE *", "said by the test"])


@pytest.mark.parametrize(
    ("arguments", "environment", "marker", "expected"),
    [
        ([], {}, "", 20),
        ([], {}, ", episodes=11", 11),
        ([], {"PYTEST_CPG_EPISODES": "12"}, ", episodes=11", 12),
        (["--cpg-episodes=13"], {"PYTEST_CPG_EPISODES": "12"}, ", episodes=11", 13),
    ],
    ids=["ini", "marker over ini", "environment over marker", "command line over all"],
)
def test_a_setting_comes_from_the_nearest_place(
    repository, monkeypatch, arguments, environment, marker, expected
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    repository.makepyfile(
        gate(more=marker).replace("pass", f"assert cpg.oracle.episodes == {expected}")
    )
    repository.runpytest(*arguments).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("arguments", "sections"), [((), 1), (("-vv",), 1), (("-n", "2"), 1), (("--tb=line",), 0)]
)
def test_ci_shows_a_failing_section_once(repository, monkeypatch, arguments, sections):
    monkeypatch.setenv("CI", "true")
    repository.makepyfile(test_gates="\n" + gate(model="mirrored"))
    result = repository.runpytest(*arguments)
    assert result.stdout.str().count("  Rerun ") == sections
    summed_up = [line for line in result.outlines if line.startswith("FAILED test_")]
    assert len(summed_up) == 1
    assert summed_up[0].endswith(f" - {LOST_ALL}")
    if not sections:
        result.stdout.fnmatch_lines([f"*test_gates.py:[0-9]*: {LOST_ALL}"])
        result.stdout.no_fnmatch_line("*pytest_cpg*.py:*")


def test_no_summary_hides_the_table_and_keeps_the_failure(repository):
    repository.makepyfile(gate(model="mirrored"))
    result = repository.runpytest("--no-summary")
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*cpg: 1 gate*")


def test_quiet_lists_only_what_needs_attention(repository):
    repository.makepyfile(test_a=gate(), test_b=gate(model="mirrored"))
    result = repository.runpytest("-q")
    result.stdout.fnmatch_lines([" F *MODEL BOTTLENECK"])
    result.stdout.no_fnmatch_line(" . *")
    result.stdout.fnmatch_lines(["MODEL BOTTLENECK: *"])


def test_an_arm_that_takes_long_says_so_once_a_minute_however_quiet_the_log_is(repository):
    repository.makepyfile(
        """
        import time
        import types
        import pytest
        import pytest_cpg.render.progress as progress

        now = time.monotonic()
        clock = types.SimpleNamespace(monotonic=lambda: now)

        def slow(observations, actions):
            global now
            now += 1.0
            return observations - actions

        @pytest.mark.cpg(task="track", id="mine")
        def test_gate(benchmark_runner, monkeypatch):
            monkeypatch.setattr(progress, "time", clock)
            benchmark_runner.compare(learned=slow)
        """
    )
    result = repository.runpytest("-q")
    said = [line for line in result.outlines if line.startswith("  cpg:")]
    assert said[0] == "  cpg: mine"
    arms = [line for line in said[1:] if "scoring plans" not in line]
    expected = r"  cpg: learned  step \d+/\d+, \d+ of 20 starts solved, about \d+ (s|min) left"
    assert arms
    assert all(re.fullmatch(expected, line) for line in arms)


@pytest.mark.usefixtures("own_hashes")
def test_the_summary_is_the_same_under_xdist(repository):
    repository.makepyfile(
        test_a=gate(), test_b=gate(model="mirrored"), test_c=gate(more=", episodes=5")
    )
    alone = repository.runpytest("-p", "no:xdist", "-p", "no:randomly")
    spread = repository.runpytest("-n", "2")
    assert spread.parseoutcomes() == {"failed": 1, "passed": 1, "inconclusive": 1}

    def table(result):
        begin = next(i for i, line in enumerate(result.outlines) if "- cpg: 3 gates" in line)
        return result.outlines[begin : begin + 9]

    assert sorted(table(spread)) == sorted(table(alone))
    assert spread.ret == 1


def test_an_accepted_comparison_is_not_shown_as_the_failed_one(repository):
    repository.makepyfile(
        """
        import pytest

        @pytest.mark.cpg(task="track")
        def test_two(benchmark_runner):
            benchmark_runner.compare(learned=lambda o, a: o + a)
            benchmark_runner.compare(learned=lambda o, a: o + a)
            assert 0
        """
    )
    result = repository.runpytest("-q")
    result.stdout.fnmatch_lines([" F test_two *", " F test_two #2 *"])


@mostly_alone
def test_setting_up_only_is_no_way_past_a_gate(repository, monkeypatch, workers):
    monkeypatch.setenv("CI", "true")
    conftest = repository.text("conftest.py")
    repository.makeconftest(conftest.replace("return observations - actions", "raise SystemExit"))
    repository.makepyfile(gate(model="mirrored"))
    result = repository.runpytest("--setup-only", *workers)
    assert result.ret == 1
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["--setup-only would run the arms of this gate, and judge nothing. *"]
    )
    # Nothing is run by a plan.
    assert repository.runpytest("--setup-plan", *workers).ret == 0


@pytest.fixture
def on_terminal(repository, monkeypatch):
    """Return what a session writes to a terminal of 80 columns, told as much as of a long one."""
    pty = pytest.importorskip("pty")

    def run(*options, more="", **variables):
        paced = "\n\nfrom pytest_cpg.render import progress\nprogress.SECONDS_BETWEEN = 0\n"
        repository.makeconftest(f"{CONFTEST}{paced}{more}")
        for name, value in {"TERM": "xterm", "COLUMNS": "80", **variables}.items():
            monkeypatch.setenv(name, value)
        ours, theirs = pty.openpty()
        with os.fdopen(theirs, "wb") as terminal:
            command = [sys.executable, "-mpytest", *options]
            session = repository.popen(command, stdout=terminal, stderr=terminal)
        shown = b""
        with contextlib.suppress(OSError):  # how Linux says that the other side is closed
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        assert session.wait() == 0, shown.decode()
        return shown.decode()

    return run


def test_a_terminal_shows_live_progress_and_gets_its_line_back(repository, on_terminal):
    repository.makepyfile(test_x=gate())
    text = on_terminal("--color=yes")
    live = text.replace("\x1b[2m", "").replace("\x1b[22m", "")
    assert "\x1b7  starting: checks of the model" in live
    for arm, (on, off) in {
        "oracle": ("\x1b[32m", "\x1b[39m"),
        "learned": ("", ""),
        "chance": ("", ""),
    }.items():
        shown = rf"\x1b7  {arm:9s} {on}[ █▏▎▍▌▋▊▉]{{10}} {off}step \d+/\d+, \d+ solved"
        assert re.search(shown.replace("[3", r"\[3"), live), arm
    assert "\x1b[K" in text.rpartition("\x1b8")[2], "the line is wiped at the end"
    assert "\x1b" not in on_terminal(TERM="dumb")


SLOW = """

import time


def slow(observations, actions):
    time.sleep(0.02)
    return right(observations, actions)
"""

FULL = """

import sys


def refuse_the_first(text, write=sys.__stdout__.write):
    if "\\x1b7" in text:
        sys.__stdout__.write = write
        raise BlockingIOError(11, "write could not complete without blocking", 0)
    return write(text)


sys.__stdout__.write = refuse_the_first
"""


def test_a_terminal_that_cannot_show_the_line_decides_no_verdict(repository, on_terminal):
    repository.makepyfile(
        test_x="""
        import pytest
        from conftest import right, slow

        @pytest.mark.parametrize("number", [1, 2])
        @pytest.mark.cpg(task="track")
        def test_gate(benchmark_runner, number):
            benchmark_runner.rank({"größer": slow, "right": right})
        """
    )
    text = on_terminal(more=SLOW + FULL, PYTHONIOENCODING="ascii")
    assert "2 measured" in text
    assert re.search(r"\x1b7 .*gr\?\?er", text), "shown as far as it can be"


LOST_ALL = "MODEL BOTTLENECK: the model solves 0 of 20 starts, the true dynamics all 20"
FAILING = """
import unittest

import pytest


pytestmark = pytest.mark.cpg(task="track", model="mirrored", max_verdict={verdict!r})


def test_gate(cpg):
    assert cpg.learned.success_rate > 2, "mine"


class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def take(self, cpg):
        self.result = cpg

    def test_case(self):
        self.assertGreater(self.result.learned.success_rate, 2)


@pytest.fixture
def broken(cpg):
    raise RuntimeError("mine")


def test_setup(broken): ...
"""


@pytest.mark.parametrize(
    ("options", "verdict", "against", "between"),
    [
        ((), "INCONCLUSIVE", "INCONCLUSIVE or better", ", too:"),
        (
            ("-n", "1"),
            "MODEL BOTTLENECK",
            "MODEL BOTTLENECK or better",
            ":",
        ),
        (
            ("--tb=native", "--show-capture=no"),
            "MODEL BOTTLENECK",
            "MODEL BOTTLENECK or better",
            ":",
        ),
    ],
)
def test_a_test_that_fails_by_itself_shows_its_gate_first(
    repository, options, verdict, against, between
):
    repository.makepyfile(test_gates=FAILING.format(verdict=verdict))
    result = repository.runpytest(*options, "--junit-xml=out.xml")
    result.assert_outcomes(failed=2, errors=1)
    for error in ("AssertionError: mine", "*Error: 0.0 not greater than 2", "RuntimeError: mine"):
        own = f"The test's own {'code' if 'Runtime' in error else 'assertion'} failed"
        section = [
            *([f"{own}: *. The gate itself passed."] if between == ":" else []),
            "MODEL BOTTLENECK: the model solves 0 of 20 starts, the true dynamics all 20.",
            f"Gap *. Accepted here: {against}.",
            "  learned *",
            "  Replay   pytest *",
            "  Rerun    pytest *",
            f"{own}{between}",
            f"*{error}",
        ]
        result.stdout.fnmatch_lines(section)
    assert len(list((repository.path / ".cpg" / "lost").glob("*.json"))) == 3
    assert repository.text("out.xml").count("cpg_verdict") == 3
    if "--tb=native" not in options:
        first = LOST_ALL[:30] if between == ", too:" else "AssertionError: mine"
        result.stdout.fnmatch_lines([f"FAILED test_gates.py::test_gate - {first}*"])
        result.stdout.no_fnmatch_line("*where*GateResult(*")
