"""Gates that stop early, judge by other intervals and margins, and plan, as a user meets them."""

import pytest
from sessions import flat
from ways import mostly_alone

from pytest_cpg.stats.paired import METHODS

GATE = """
@pytest.mark.cpg(task="track", model={model!r}{more})
def test_{name}(cpg):
    pass
"""


def text_of(**tests):
    """Return one gate per keyword: its model, and what its marker says more."""
    parts = [
        GATE.format(name=name, model=model, more=more) for name, (model, more) in tests.items()
    ]
    return "\n".join(["import pytest", *parts])


def gates(repository, **tests):
    repository.makepyfile(test_gates=text_of(**tests))


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


def test_an_episode_ends_the_same_whether_the_gate_could_stop_or_not(repository):
    gates(repository, one=("right", ""))
    arms = []
    for stop in ("fixed", "sequential"):
        options = (f"--cpg-stop={stop}", "--cpg-max-episodes=20", f"--cpg-json={stop}.json")
        repository.runpytest(*options).assert_outcomes(passed=1)
        report = repository.json(f"{stop}.json")
        found = report["gates"][0]["comparisons"][0]["result"]
        arms.append((found["oracle"]["steps"], found["learned"]["steps"], found["start_seeds"]))
    assert arms[0] == arms[1]


# Model, what the marker says more, and lines that are shown where the gate fails.
FAILING = {
    "unproven": (
        "right",
        ", margin=0.05",
        [
            "INCONCLUSIVE: the model solves 20 of 20 starts, the true dynamics all 20.",
            "  Why      margin=0.05 asks for proof that the model loses less than that, *",
            "  Do       Run * starts of another seed. *",
            "  judged by *the interval, which contains 0 and the margin 0.05",
        ],
    ),
    "returns": (
        "mirrored",
        ', metric="return"',
        [
            "MODEL BOTTLENECK: the model earns 0 a start, the true dynamics *",
            "  * [[]*, *[]]  in mean return (Student, paired 95%)",
            "  returns  *mean: oracle *, learned 0, chance *",
        ],
    ),
    "named": (
        "mirrored",
        ', interval="bonett-price"',
        ["  gap *1.00 [[]*, *[]]  (Bonett-Price 95%;", "  * Agresti-Caffo [[]*, *[]])"],
    ),
    # Equal arms of 19 starts: Agresti and Caffo's interval ends at 0.13, Tango's at 0.18.
    "open": (
        "right",
        ", margin=0.15, episodes=19",
        [
            "  Rerun    pytest *::test_open --cpg-episodes=* --cpg-seed=1",
            "  gap *0.00 [[]-0.18, 0.18[]]  (Tango, exact 95%;",
            "  power *smallest drop this gate could flag from 19/19: 0.*",
        ],
    ),
}
# And the line of the summary where it passes.
PASSING = {
    "proven": ("right", ", margin=0.3", " . test_proven *"),
    "accepted": ("right", ', margin=0.05, max_verdict="INCONCLUSIVE"', " [?] test_accepted *"),
    "good_returns": ("right", ', metric="return", margin=5.0', " . test_good_returns *"),
    "chosen": (
        "right",
        ', margin=0.15, episodes=19, interval="agresti-caffo"',
        " . test_chosen *[[]-0.13, 0.13[]]*",
    ),
}


@pytest.fixture(scope="module")
def judged(recorded):
    text = text_of(**{name: row[:2] for name, row in {**FAILING, **PASSING}.items()})
    return recorded({"test_gates.py": text}, "-v", COLUMNS="80")


@pytest.mark.parametrize("name", FAILING)
def test_a_gate_is_judged_by_its_margin_metric_and_interval_and_says_which(judged, name):
    judged.section(f"test_{name}").fnmatch_lines(FAILING[name][2])


def test_what_is_proven_or_accepted_passes(judged):
    judged.result.assert_outcomes(failed=len(FAILING), passed=len(PASSING) - 1)
    assert judged.result.parseoutcomes()["inconclusive"] == 1
    judged.result.stdout.fnmatch_lines_random([row[2] for row in PASSING.values()])
    judged.result.stdout.fnmatch_lines(
        [" MODEL AS GOOD AS ORACLE (3): the model loses less than the margin"]
    )


def test_a_gate_that_passes_says_which_drops_it_could_not_have_seen(repository):
    text = text_of(
        plain=("right", ", episodes=50"),
        tango=("right", ', episodes=50, interval="tango"'),
        early=("right", ', stop="sequential", max_episodes=50'),
        margin=("right", ", episodes=50, margin=0.2"),
        accepted=("right", ', episodes=50, margin=0.2, max_verdict="INCONCLUSIVE"'),
    )
    repository.makepyfile(test_gates=text)
    said = "may pass; larger ones fail 4 times in 5."
    result = repository.runpytest("-v")
    result.stdout.fnmatch_lines(
        [
            *(" . test_plain *", f"     A drop below 0.14 {said}"),
            *(" . test_tango *", f"     A drop below 0.11 {said}"),
            *(" . test_early *", f"     A drop below 0.16 {said}"),
            f" 2 gates: A drop below 0.20 {said}",
        ]
    )


def test_a_plan_says_what_gates_could_find_and_runs_nothing(repository):
    gates(
        repository,
        bad=("mirrored", ""),
        quick=("raising", ', stop="sequential"'),
        held=("right", ", margin=0.15"),
    )
    result = repository.runpytest("--cpg-plan")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*- cpg: forecast of 3 gates, nothing run -*",
            " gate *starts oracle *finds paired *+- n@0.1 n@0.2 n@0.3 *time",
            " test_bad *20 *0.50? * 392 *94 *39 *?",
            # It may stop early, and has no fixed size.
            " test_quick * <=150 *0.50? *0.17 *0.14 *- *- *- *- *?",
            " [?]: not run here yet; assumed to be 0.50, where drops are hardest to find",
        ]
    )
    rows = [line for line in result.outlines if line.startswith(" ")]
    assert all(len(line) <= 80 for line in rows)
    plain, held = (
        next(line.split()[1:] for line in rows if line.startswith(f" test_{name}"))
        for name in ("bad", "held")
    )
    assert plain != held, "a margin is planned with the interval that holds it"
    repository.runpytest("-k", "bad")
    again = repository.runpytest("--cpg-plan", "-k", "bad")
    again.stdout.re_match_lines([r" test_bad +20   1\.00 .* [01] s"])
    apart = repository.runpytest("--cpg-plan", "-n", "2")
    assert apart.ret == pytest.ExitCode.USAGE_ERROR
    assert "--cpg-plan runs nothing, and needs no workers: add -n 0" in flat(apart)


KNOWN = ", ".join(("auto", *METHODS))


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        (("--cpg-stop=sequential", "--cpg-max-episodes=9"), "", "need at least 10 episodes"),
        (("--cpg-stop=sequential", "--cpg-episodes=50"), "", "Write --cpg-max-episodes=50."),
        (
            ("--cpg-correction=holm", "-o", "cpg_family_size=20", "--cpg-episodes=9"),
            "",
            "a paired gate of 9 starts can never fail at confidence 0.9975",
        ),
        (("--cpg-stop=sequential", "--cpg-max-episodes=1001"), "", "too long to calibrate"),
        (("--cpg-correction=holm",), "", "Set cpg_family_size in the ini file"),
        (
            ("--cpg-stop=sequential", "--cpg-max-episodes=12", "--cpg-confidence=0.9999"),
            "",
            "a gate of 12 episodes can never fail",
        ),
        (
            (),
            ', interval="newcombe-paired"',
            f"interval: need one of {KNOWN}, got 'newcombe-paired'",
        ),
    ],
)
def test_a_combination_that_cannot_be_is_refused_with_what_to_type(
    repository, options, more, message
):
    gates(repository, one=("right", more))
    result = repository.runpytest(*options)
    result.assert_outcomes(errors=1)
    assert message in flat(result)


@pytest.mark.parametrize(
    ("option", "more", "said"),
    [
        ("--cpg-episodes=25", ', stop="sequential", max_episodes=50', "every gate may stop early"),
        ("--cpg-max-episodes=30", "", "no gate may stop early; --cpg-stop makes them"),
        ("--cpg-stop=sequential", ', max_episodes=50, interval="tango"', ""),
        ("--cpg-seed=1", "", ""),
    ],
)
def test_what_a_session_asks_of_all_gates_need_not_fit_each_and_is_named(
    repository, option, more, said
):
    gates(repository, one=("right", more))
    result = repository.runpytest(option)
    result.assert_outcomes(passed=1)
    episodes = 50 if "max_episodes" in more else 20
    result.stdout.fnmatch_lines(
        [f" {episodes} starts", " MODEL AS GOOD AS ORACLE (1): *", " . test_one *"]
    )
    told = f"{option.partition('=')[0]} was given, and {said}"
    assert told in flat(result) if said else "was given, and" not in flat(result)


def test_what_was_measured_counts_however_the_test_is_skipped(repository):
    repository.makepyfile(
        """
import unittest

import pytest


@pytest.fixture
def late(cpg):
    pytest.skip("too late")


@pytest.mark.cpg(task="track", model="mirrored")
def test_body(cpg):
    raise unittest.SkipTest("too late")


@pytest.mark.cpg(task="track", model="mirrored")
def test_bad(cpg, late): ...


@pytest.mark.cpg(task="track", model="right")
def test_good(cpg, late): ...
"""
    )
    result = repository.runpytest()
    result.assert_outcomes(failed=1, errors=1, skipped=1)
    result.stdout.fnmatch_lines([" MODEL AS GOOD AS *", " s test_good *", " MODEL BOTTLENECK *"])
    result.stdout.fnmatch_lines_random([" E test_bad *", " F test_body *"])
