"""Recipes and families: what several gates say together."""

from dataclasses import replace

import pytest
from fakes import first, judged, result_of

from pytest_cpg import Verdict
from pytest_cpg.gates.planning_gap.ruling import differences, judge_recipe
from pytest_cpg.report.ledger import Entry, Ledger
from pytest_cpg.report.together import together
from pytest_cpg.stats.rankings import cluster_interval

SOLVED = first(20, 20)


def members(*learned, oracle=SOLVED, **more):
    return [result_of(oracle, outcomes, group="a", **more) for outcomes in learned]


def ledger_of(results, *, absent=(), outcome="passed", max_verdict="INCONCLUSIVE", **more):
    """Return a ledger in which these gates reported, and the absent ones of recipe "a" did not."""
    ledger, gates = Ledger(), [str(number) for number in range(len(results))]
    ledger.expect([*gates, *absent])
    ledger.groups.update(dict.fromkeys(absent, "a"))
    for gate, result in zip(gates, results, strict=True):
        ledger.groups[gate] = result.group
        judgement = judged(result, max_verdict=max_verdict, **more)
        ledger.note(gate, Entry(outcome=outcome, judgements=(judgement,)))
    return ledger


def said(ledger, *, is_corrected=False, family_size=0):
    found = together(ledger, is_corrected=is_corrected, family_size=family_size)
    return {one.text: one.fails for one in found}


def recipe_line(ledger):
    ((text, fails),) = ((t, f) for t, f in said(ledger).items() if t.startswith("recipe "))
    return text, fails


def test_a_recipe_has_the_interval_of_its_checkpoints_as_clusters():
    verdict, interval = judge_recipe(members(first(10, 20), first(14, 20)))
    assert interval == cluster_interval([(20, 20)] * 2, [(10, 20), (14, 20)])
    assert verdict is Verdict.INCONCLUSIVE


def test_seeds_of_their_own_are_starts_of_their_own():
    own = [result_of(SOLVED, first(10, 20), seed=seed) for seed in range(3)]
    (_, wide), (_, narrow) = judge_recipe(members(*[first(10, 20)] * 3)), judge_recipe(own)
    assert narrow.low > wide.low


@pytest.mark.parametrize(
    ("learned", "oracle", "more", "verdict"),
    [
        ([first(1, 20)] * 6, SOLVED, {}, Verdict.MODEL_BOTTLENECK),
        ([SOLVED] * 4, first(1, 20), {}, Verdict.LEARNED_OUTPERFORMS_ORACLE),
        ([SOLVED, first(19, 20)], SOLVED, {}, Verdict.MODEL_AS_GOOD_AS_ORACLE),
        ([first(0, 20)] * 2, first(1, 20), {}, Verdict.PLANNER_BOTTLENECK),
        ([first(10, 20), first(0, 20)], SOLVED, {}, Verdict.INCONCLUSIVE),
        # The gap is surely above 0, and surely allowed.
        (
            [first(150, 200)] * 6,
            first(180, 200),
            {"margin": 0.4},
            Verdict.MODEL_AS_GOOD_AS_ORACLE,
        ),
        ([first(120, 200)] * 6, first(180, 200), {"margin": 0.2}, Verdict.MODEL_BOTTLENECK),
        ([SOLVED] * 2, SOLVED, {"margin": 0.05}, Verdict.INCONCLUSIVE),
    ],
)
def test_a_recipe_is_judged_by_the_rules_of_its_gates(learned, oracle, more, verdict):
    assert judge_recipe(members(*learned, oracle=oracle, **more))[0] is verdict


def test_a_recipe_of_returns_is_judged_by_returns():
    _, of_rates = judge_recipe(members(*[first(k, 40) for k in (2, 3, 4)], oracle=first(36, 40)))
    returns = members(
        *[first(k, 40) for k in (2, 3, 4)], oracle=first(36, 40), metric="return", margin=0.1
    )
    verdict, interval = judge_recipe(returns)
    assert interval.estimate == pytest.approx(of_rates.estimate)
    assert interval != of_rates
    assert verdict is Verdict.MODEL_BOTTLENECK
    text, fails = recipe_line(ledger_of(returns))
    assert "in mean return over 3 checkpoints" in text
    assert "0.05 against 0.9, 0.075 against 0.9" in text
    assert fails


def test_gates_of_different_quantities_are_no_recipe():
    plain, proven = *members(SOLVED), *members(SOLVED, margin=0.1)
    assert differences([plain, proven]) == ["margin None -> 0.1"]
    assert differences([plain, *members(first(9, 20), seed=9)]) == []
    unlike = [plain, proven, *members(SOLVED, metric="return")]
    text, fails = recipe_line(ledger_of(unlike))
    assert "(margin None -> 0.1; metric success -> return)" in text
    assert fails


def test_a_recipe_is_judged_by_all_its_checkpoints_or_not_at_all():
    whole = ledger_of(members(*[first(1, 20)] * 6))
    assert recipe_line(whole)[1]
    partial = ledger_of(members(*[first(1, 20)] * 6), absent=["skipped"])
    text, fails = recipe_line(partial)
    assert text.startswith("recipe a: INCONCLUSIVE, 6 of 7 checkpoints reported")
    assert not fails


def test_a_checkpoint_that_is_expected_to_fail_takes_its_recipe_along():
    text, fails = recipe_line(ledger_of(members(*[first(1, 20)] * 6), outcome="xfailed"))
    assert "worse than INCONCLUSIVE, as expected" in text
    assert not fails


def test_a_recipe_that_fails_without_them_is_no_fault_of_expected_failures():
    ledger = ledger_of(members(*[first(1, 20)] * 7))
    ledger.note("0", Entry(outcome="failed"))
    ledger.entries["0"] = replace(ledger.entries["0"], outcome="xfailed")
    text, fails = recipe_line(ledger)
    assert "as expected" not in text
    assert fails


def test_a_recipe_that_is_not_settled_informs_whatever_its_gates_have_proven():
    proven = members(*[first(100, 100)] * 2, oracle=first(100, 100), margin=0.1)
    assert {member.verdict for member in proven} == {Verdict.MODEL_AS_GOOD_AS_ORACLE}
    text, fails = recipe_line(ledger_of(proven, max_verdict="MODEL AS GOOD AS ORACLE"))
    assert text.startswith("recipe a: INCONCLUSIVE")
    assert not fails


def test_a_recipe_may_accept_what_its_gates_accept():
    text, fails = recipe_line(
        ledger_of(members(*[first(1, 20)] * 6), max_verdict="MODEL BOTTLENECK")
    )
    assert "worse than" not in text
    assert not fails


def test_all_that_may_fail_by_chance_is_counted():
    two = members(SOLVED, SOLVED)
    ledger = ledger_of(two, drift_fails=True)
    # Two gates, their drift, and their recipe: 1 - 0.975**5.
    assert any(
        "one of 2 gates and 2 drift tests and 1 recipe would still fail in about 12 %" in text
        for text in said(ledger)
    )
    corrected = said(ledger, is_corrected=True, family_size=2)
    assert any("which leaves out 2 drift tests and 1 recipe" in text for text in corrected)


@pytest.mark.parametrize(("able", "expected"), [(2, "2 gates"), (1, None)])
def test_a_gate_that_accepts_every_verdict_has_no_false_alarm(able, expected):
    ledger = Ledger()
    for number in range(able + 2):
        accepts = "INCONCLUSIVE" if number < able else "MODEL BOTTLENECK"
        entry = judged(result_of(SOLVED, SOLVED), max_verdict=accepts)
        ledger.note(str(number), Entry(outcome="passed", judgements=(entry,)))
    lines = [text for text in said(ledger) if "would still fail" in text]
    # 1 - 0.975**2.
    wanted = f"at least one of {expected} would still fail in about 4.9 % of runs"
    assert [wanted in line for line in lines] == [True] * bool(expected)


def test_a_test_with_two_comparisons_counts_twice_in_its_family():
    ledger = Ledger()
    ledger.expect(["one", "two"])
    good = judged(result_of(SOLVED, SOLVED))
    ledger.note("one", Entry(outcome="passed", judgements=(good, good)))
    text = f"cpg_family_size is 2, and there are 3 gates: {JUDGED}"
    assert said(ledger, is_corrected=True, family_size=2) == {text: True}
    (line,) = said(ledger, is_corrected=True, family_size=3)
    assert "3 gates of the project would still fail in about 2.5 % of runs, by Holm" in line


JUDGED = "each was judged as if the others were fewer. Set cpg_family_size = 3"


def family_of_two():
    """Return a gate that is flagged at half the error rate, and one that is only at the whole."""
    clear, close = (result_of(SOLVED, first(k, 20), family_size=2) for k in (1, 15))
    assert (clear.verdict, close.verdict) == (Verdict.MODEL_BOTTLENECK, Verdict.INCONCLUSIVE)
    return clear, close


def test_holm_takes_its_later_steps_only_once_every_gate_is_known():
    ledger = ledger_of(family_of_two())
    assert list(said(ledger, is_corrected=True, family_size=2).values()) == [False, True]
    ledger.expect(["third"])
    assert list(said(ledger, is_corrected=True, family_size=3).values()) == [False]
    # As many comparisons as the family has gates, and not those of its gates.
    entry = ledger.entries["1"]
    ledger.note("1", Entry(outcome="failed", judgements=entry.judgements * 2))
    assert list(said(ledger, is_corrected=True, family_size=3).values()) == [True]


def test_a_gate_keeps_the_share_of_the_error_that_its_own_level_leaves_it():
    clear, close = (
        result_of(SOLVED, first(k, 20), family_size=2, level=level)
        for k, level in ((1, 0.95), (15, 0.999))
    )
    ledger = ledger_of((clear, close))
    assert list(said(ledger, is_corrected=True, family_size=2).values()) == [False]
    # Of a test at 0.95 and one at 0.999.
    (line,) = said(ledger)
    assert "one of 2 gates would still fail in about 2.5 % of runs" in line


def test_later_steps_of_holm_fail_no_test_that_is_expected_to_fail():
    ledger = ledger_of(family_of_two(), outcome="xfailed")
    assert list(said(ledger, is_corrected=True, family_size=2).values()) == [False, False]
