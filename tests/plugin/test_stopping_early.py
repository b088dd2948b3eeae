"""Gates that stop early, judge by other intervals and margins, and plan, as a user meets them."""

import json

import pytest
from sessions import flat
from ways import mostly_alone

from pytest_cpg.stats.methods import METHODS


def gates(repository, **tests):
    """Write one gate per keyword: its model, and what its marker says more."""
    text = ["import pytest"]
    for name, (model, more) in tests.items():
        text.append(
            f"""
@pytest.mark.cpg(task="track", model={model!r}{more})
def test_{name}(cpg):
    pass
"""
        )
    repository.makepyfile(test_gates="\n".join(text))


def rows(result):
    return [line for line in result.outlines if line[:3] in (" F ", " . ", " ? ", " E ")]


@mostly_alone
def test_a_sequential_gate_stops_as_soon_as_its_verdict_is_settled(repository, workers):
    gates(repository, bad=("mirrored", ""), good=("right", ""))
    result = repository.runpytest("--cpg-stop=sequential", "--cpg-max-episodes=50", "-v", *workers)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "MODEL BOTTLENECK: the model solves 0 of 10 starts, *",
            "  Rerun * *::test_bad --cpg-*",
            "  gap *1.00 [[]0.*, 1.00[]]  (Bonett-Price, sequential 95%;",
            "  * Agresti-Caffo *, blind to the looks)",
            "  looks *at 10: z 5.22, boundary 3.17; 80 % of 50 saved",
            " MODEL AS GOOD AS ORACLE (1): *",
            " . test_good *50",
            " MODEL BOTTLENECK (1): *",
            " F test_bad *10",
        ]
    )


def test_an_episode_ends_the_same_whether_the_gate_could_stop_or_not(repository, tmp_path):
    files = []
    for stop in ("fixed", "sequential"):
        gates(repository, one=("right", ""))
        repository.makeconftest(
            (repository.path / "conftest.py").read_text(encoding="utf-8")
            + f"""
import json, pathlib
def pytest_runtest_logreport(report):
    for judgement in json.loads(getattr(report, "pytest_cpg_judgements", "[]")):
        pathlib.Path({str(tmp_path)!r}, {stop!r}).write_text(json.dumps(judgement["result"]))
"""
        )
        repository.runpytest(f"--cpg-stop={stop}", "--cpg-max-episodes=20").assert_outcomes(
            passed=1
        )
        files.append(json.loads((tmp_path / stop).read_text()))
    arms = [(one["oracle"]["steps"], one["learned"]["steps"], one["start_seeds"]) for one in files]
    assert arms[0] == arms[1]


def test_a_margin_asks_for_proof_and_what_is_not_proven_fails(repository):
    gates(
        repository,
        proven=("right", ", margin=0.3"),
        unproven=("right", ", margin=0.05"),
        accepted=("right", ', margin=0.05, max_verdict="INCONCLUSIVE"'),
    )
    result = repository.runpytest("-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "INCONCLUSIVE: the model solves 20 of 20 starts, the true dynamics all 20.",
            "  Why      margin=0.05 asks for proof that the model loses less than that, *",
            "  Do       Run * starts of another seed. *",
            "  judged by *the interval, which contains 0 and the margin 0.05",
            " . test_proven *",
        ]
    )


def test_a_gate_can_be_judged_by_returns(repository):
    gates(
        repository,
        bad=("mirrored", ', metric="return"'),
        good=("right", ', metric="return", margin=5.0'),
    )
    result = repository.runpytest("-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "MODEL BOTTLENECK: the model earns 0 a start, the true dynamics *",
            "  * [[]*, *[]]  in mean return (Student, paired 95%)",
            "  returns  *mean: oracle *, learned 0, chance *",
            " MODEL AS GOOD AS ORACLE (1): the model loses less than the margin",
            " . test_good *",
        ]
    )


def test_the_interval_that_judges_is_named(repository):
    gates(repository, bad=("mirrored", ', interval="bonett-price"'))
    result = repository.runpytest("-v")
    result.stdout.fnmatch_lines(
        [
            "  gap *1.00 [[]*, *[]]  (Bonett-Price 95%;",
            "  * Agresti-Caffo [[]*, *[]])",
        ]
    )


def test_a_margin_is_judged_by_an_interval_that_holds_it(repository):
    # Equal arms of 19 starts: Agresti and Caffo's interval ends at 0.13, Tango's at 0.18.
    gates(
        repository,
        open=("right", ", margin=0.15, episodes=19"),
        chosen=("right", ', margin=0.15, episodes=19, interval="agresti-caffo"'),
    )
    result = repository.runpytest("-v")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "  Rerun    pytest *::test_open --cpg-episodes=* --cpg-seed=1",
            "  gap *0.00 [[]-0.18, 0.18[]]  (Tango, exact 95%;",
            "  power *smallest drop this gate could flag from 19/19: 0.*",
            " . test_chosen *[[]-0.13, 0.13[]]",
        ]
    )


@pytest.mark.parametrize(
    ("more", "drop"),
    [
        (", episodes=50", "0.14"),
        (', episodes=50, interval="tango"', "0.11"),
        (", episodes=50, margin=0.2", "0.20"),
        (', episodes=50, margin=0.2, max_verdict="INCONCLUSIVE"', "0.20"),
        (', stop="sequential", max_episodes=50', "0.16"),
    ],
)
def test_a_gate_that_passes_says_which_drops_it_could_not_have_seen(repository, more, drop):
    gates(repository, good=("right", more))
    result = repository.runpytest()
    assert f" A drop below {drop} may pass; larger ones fail 4 times in 5." in result.outlines
    quick = repository.runpytest("--cpg-quick")
    assert not any("may pass" in line for line in quick.outlines)


def test_a_margin_is_planned_with_the_interval_that_holds_it(repository):
    gates(repository, plain=("right", ""), open=("right", ", margin=0.15"))
    result = repository.runpytest("--cpg-plan")
    plain, held = (line.split() for line in result.outlines if line.startswith(" test_"))
    assert plain != held


def test_a_plan_says_what_gates_could_find_and_runs_nothing(repository):
    gates(repository, bad=("mirrored", ""), quick=("raising", ', stop="sequential"'))
    result = repository.runpytest("--cpg-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*- cpg: forecast of 2 gates, nothing run -*",
            " gate *starts oracle  finds paired  n@0.1  n@0.2  n@0.3   time",
            " test_bad *20  0.50? * 392     94     39      ?",
            " test_quick * <=150  0.50?   0.17   0.14 *",
            " [?]: not run here yet; assumed to be 0.50, where drops are hardest to find",
        ]
    )
    assert all(len(line) <= 80 for line in result.outlines if line.startswith(" "))
    repository.runpytest("-k", "bad")
    again = repository.runpytest("--cpg-plan", "-k", "bad")
    again.stdout.re_match_lines([r" test_bad +20   1\.00 .* [01] s"])


def test_a_plan_gives_no_fixed_size_to_a_gate_that_may_stop_early(repository):
    gates(repository, early=("right", ', stop="sequential"'), whole=("right", ""))
    result = repository.runpytest("--cpg-plan")
    result.stdout.re_match_lines(
        [
            r" test_early +<=150  0\.50\? +0\.\d\d +0\.\d\d +- +- +- +\?",
            r" test_whole +20  0\.50\? +0\.\d\d +0\.\d\d +\d+ +\d+ +\d+ +\?",
        ]
    )


def test_a_plan_needs_no_workers(repository):
    gates(repository, bad=("mirrored", ""))
    result = repository.runpytest("--cpg-plan", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cpg-plan runs nothing, and needs no workers: add -n 0*"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cpg-stop=sequential", "--cpg-max-episodes=9"), "need at least 10 episodes"),
        (("--cpg-stop=sequential", "--cpg-episodes=50"), "Write --cpg-max-episodes=50."),
        (
            ("--cpg-correction=holm", "-o", "cpg_family_size=20", "--cpg-episodes=9"),
            "a paired gate of 9 starts can never fail at confidence 0.9975",
        ),
        (("--cpg-stop=sequential", "--cpg-max-episodes=1001"), "too long to calibrate"),
        (("--cpg-correction=holm",), "Set cpg_family_size in the ini file"),
    ],
)
def test_a_combination_that_cannot_be_is_refused_with_what_to_type(repository, options, message):
    gates(repository, one=("right", ""))
    result = repository.runpytest(*options)
    result.assert_outcomes(errors=1)
    assert message in flat(result)


@pytest.mark.parametrize(
    ("options", "more", "episodes"),
    [
        (("--cpg-episodes=25",), ', stop="sequential", max_episodes=50', 50),
        (("--cpg-stop=sequential",), ', max_episodes=50, interval="tango"', 50),
    ],
)
def test_what_a_session_asks_of_all_gates_need_not_fit_each(repository, options, more, episodes):
    gates(repository, one=("right", more))
    result = repository.runpytest(*options)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [f" {episodes} starts", " MODEL AS GOOD AS ORACLE (1): *", " . test_one *"]
    )


@pytest.mark.parametrize(
    ("option", "more", "why"),
    [
        ("--cpg-episodes=20", ', stop="sequential", max_episodes=50', "every gate may stop early"),
        ("--cpg-max-episodes=30", "", "no gate may stop early; --cpg-stop makes them"),
    ],
)
def test_an_option_that_decided_nothing_is_named(repository, option, more, why):
    gates(repository, one=("right", more))
    result = repository.runpytest(option)
    name = option.partition("=")[0]
    assert f"{name} was given, and {why}" in flat(result)
    assert "was given, and" not in repository.runpytest("--cpg-seed=1").stdout.str()


def test_an_unknown_method_lists_what_there_is(repository):
    gates(repository, one=("right", ', interval="newcombe-paired"'))
    known = ", ".join(("auto", *METHODS))
    shown = flat(repository.runpytest())
    assert f"interval: need one of {known}, got 'newcombe-paired'" in shown


def test_a_sequential_gate_that_can_never_fail_is_refused(repository):
    gates(repository, bad=("mirrored", ""))
    result = repository.runpytest(
        "--cpg-stop=sequential", "--cpg-max-episodes=12", "--cpg-confidence=0.9999"
    )
    result.assert_outcomes(errors=1)
    assert "a gate of 12 episodes can never fail" in flat(result)


def test_what_was_measured_counts_however_the_test_is_skipped(repository):
    repository.makepyfile(
        """
import unittest

import pytest


@pytest.mark.cpg(task="track", model="mirrored")
def test_gate(cpg):
    raise unittest.SkipTest("too late")
"""
    )
    repository.runpytest().assert_outcomes(failed=1)


def test_a_fixture_that_skips_after_the_arms_ran_hides_no_verdict(repository):
    repository.makepyfile(
        """
import pytest


@pytest.fixture
def late(cpg):
    pytest.skip("too late")


@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(cpg, late): ...


@pytest.mark.cpg(task="track", model="right")
def test_good(cpg, late): ...
"""
    )
    result = repository.runpytest()
    result.assert_outcomes(errors=1, skipped=1)
    result.stdout.fnmatch_lines(
        [" MODEL AS GOOD AS *", " s test_good *", " MODEL BOTTLENECK *", " E test_bad *"]
    )
