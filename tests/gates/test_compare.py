from dataclasses import replace

import pytest
from fakes import drift_since, first, result_of
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.planning_gap.records import BaselineGate, compare

COMMIT = "3f2c1e9abcde"
SOLVED = first(50, 50)


def accepted(learned, oracle=SOLVED, **more):
    return BaselineGate.of(now(learned, oracle, **more))


def now(learned, oracle=SOLVED, **more):
    return result_of(oracle[: len(learned)], learned, **more)


def flipped(outcomes, *episodes):
    return [not one if i in episodes else one for i, one in enumerate(outcomes)]


def compared(result, gate, **more):
    comparison = compare(gate, replace(result, **more))
    assert decode(Drift, encode(comparison)) == comparison
    return comparison


def test_a_gate_without_an_accepted_result_is_new():
    comparison = compared(now(first(44, 50)), None)
    assert comparison.label is Label.NEW
    assert comparison.text == "nothing accepted yet (--cpg-update-baseline accepts this)"
    assert (comparison.was, comparison.now) == ("", "44/50")


def test_starts_lost_beyond_chance_are_a_regression():
    before = first(44, 50)
    comparison = compared(now(flipped(before, *range(8), 47)), accepted(before))
    assert comparison.label is Label.REGRESSED
    assert comparison.text == ("44 -> 37 of 50, lost 8 starts, gained 1 (p = 0.039)")
    assert (comparison.lost, comparison.gained) == (8, 1)
    assert comparison.p_value == pytest.approx(20 / 512)
    assert comparison.worse == tuple(range(8))
    assert (comparison.was, comparison.now, comparison.cell) == ("44/50", "37/50", "0.88")
    assert comparison.then == {"learned": 0.88}
    assert comparison.sentence == f"Since it was accepted: {comparison.text}: REGRESSED"
    assert (comparison.differs, comparison.interval) == ((), None)


@pytest.mark.parametrize(
    ("before", "turned", "label", "said"),
    [
        (37, (0, *range(40, 48)), Label.IMPROVED, "lost 1 start, gained 8 (p = 0.039)"),
        (44, (), Label.UNCHANGED, "44 -> 44 of 50, no start lost or gained"),
        (44, (0, 49), Label.UNRESOLVED, "lost 1 start, gained 1 (p = 1)"),
        (44, range(5), Label.UNRESOLVED, "lost 5 starts, gained 0 (p = 0.062)"),
    ],
)
def test_starts_lost_and_gained_are_told_with_what_chance_explains(before, turned, label, said):
    then = first(before, 50)
    comparison = compared(now(flipped(then, *turned)), accepted(then))
    assert comparison.label is label
    assert comparison.text.endswith(said)
    assert comparison.is_news is (label is not Label.UNCHANGED)


def test_the_level_decides_what_chance_explains():
    then = first(44, 50)
    five_lost = now(flipped(then, *range(5)))
    assert compared(five_lost, accepted(then), level=0.9).label is Label.REGRESSED


def test_starts_are_compared_although_the_numbers_of_episodes_differ():
    before = first(40, 50)
    comparison = compared(now(flipped(before, *range(8))[:30]), accepted(before))
    assert comparison.label is Label.REGRESSED
    assert (comparison.lost, comparison.gained) == (8, 0)
    assert comparison.differs == ("episodes 50 -> 30",)
    longer = compared(now(flipped(before, *range(8))), accepted(before[:30]))
    assert (longer.lost, longer.gained) == (8, 0)
    assert longer.text.endswith("(p = 0.0078); episodes 30 -> 50")


def test_what_else_changed_is_shown_beside_starts_that_did_not():
    before, longer = first(44, 50), result_of(first(90, 90), SOLVED).oracle
    for after, differs in (
        (
            replace(now(before, level=0.9), oracle=longer),
            ("oracle episodes 50 -> 90", "level 0.95 -> 0.9"),
        ),
        (now(before, flipped(SOLVED, 3, 4)), ("oracle arm changed on 2 starts",)),
    ):
        comparison = compared(after, accepted(before))
        assert comparison.label is Label.UNCHANGED
        assert comparison.differs == differs
        assert comparison.is_news


AMD = {"processor": "EPYC 9", "kernels": {"numpy": "X86_V4", "torch": "AVX512"}}
INTEL = {"processor": "Xeon 8", "kernels": {"numpy": "X86_V3", "torch": "AVX2"}}
CROSSED = (
    "accepted on EPYC 9 (numpy X86_V4, torch AVX512), run on Xeon 8 (numpy X86_V3, torch AVX2)"
)


def on(where, result):
    return replace(result, **where)


def accepted_on(where, learned):
    return BaselineGate.of(on(where, now(learned)))


@pytest.mark.parametrize(
    ("today", "said", "is_news"),
    [
        (
            now(flipped(first(44, 50), 0), flipped(SOLVED, 3, 4)),
            f"(p = 1); {CROSSED}: 2 oracle starts moved",
            True,
        ),
        (now(first(44, 50)), f"lost or gained; {CROSSED}: 0 oracle starts moved", False),
        # Other seeds have no common start to move.
        (now(first(44, 50), seed=5), f"seed 4 -> 5, {CROSSED}", True),
    ],
)
def test_another_processor_is_told_with_the_oracle_starts_that_moved(today, said, is_news):
    comparison = compared(on(INTEL, today), accepted_on(AMD, first(44, 50)))
    assert comparison.text.endswith(said)
    assert comparison.is_news is is_news


def test_other_kernels_of_one_processor_are_told_by_the_libraries_that_both_loaded():
    def told(kernel):
        today = on({**AMD, "kernels": {"numpy": kernel}}, now(first(44, 50)))
        return compared(today, accepted_on(AMD, first(44, 50))).text

    said = "accepted on EPYC 9 (numpy X86_V4), run on EPYC 9 (numpy X86_V3): 0 oracle"
    assert said in told("X86_V3")
    assert "accepted on" not in told("X86_V4")


def test_a_baseline_from_before_processors_were_recorded_says_nothing_of_them():
    nowhere = {"processor": "", "kernels": {}}
    old = accepted_on(nowhere, first(44, 50))
    values = encode(old)
    assert not {"processor", "kernels"} & set(values)
    assert BaselineGate.read(values, commit=COMMIT) == old
    assert "accepted on" not in compared(on(INTEL, now(first(44, 50))), old).text


def test_other_seeds_compare_the_rates_of_independent_arms():
    comparison = compared(now(first(30, 50), seed=5), accepted(first(44, 50)))
    assert comparison.label is Label.REGRESSED
    assert comparison.text == (
        "44 -> 30 of 50 other starts, a drop of 0.28 [0.11, 0.43]; seed 4 -> 5"
    )
    assert (comparison.lost, comparison.gained, comparison.p_value) == (None, None, None)
    assert comparison.interval.method == "Agresti-Caffo 2000"


@pytest.mark.parametrize(
    ("then", "today", "label"),
    [
        ((30, 50), (44, 50), Label.IMPROVED),
        ((44, 50), (43, 50), Label.UNRESOLVED),
        ((44, 50), (44, 50), Label.UNCHANGED),
        ((40, 50), (20, 25), Label.UNCHANGED),
        ((40, 50), (10, 50), Label.REGRESSED),
    ],
)
def test_other_seeds_have_every_label_that_a_difference_can_have(then, today, label):
    comparison = compared(now(first(*today), seed=5), accepted(first(*then)))
    assert comparison.label is label
    assert comparison.is_news
    assert "seed 4 -> 5" in comparison.differs


@pytest.mark.parametrize(
    ("more", "design", "differs"),
    [
        (
            {},
            {"versions": {"track": "2"}, "budget": 400},
            ("budget 500 -> 400", "track 1 -> 2"),
        ),
        ({"seed": 8}, {"horizon": 3}, ("horizon 15 -> 3", "seed 4 -> 8")),
        ({"metric": "return"}, {}, ("metric success -> return",)),
    ],
)
def test_another_design_is_never_compared_and_says_what_differs(more, design, differs):
    result = now(first(10, 50), **more)
    after = replace(result, design=replace(result.design, **design))
    comparison = compared(after, accepted(first(44, 50)))
    assert comparison.label is Label.INCOMPARABLE
    assert comparison.differs == differs
    assert (comparison.lost, comparison.p_value, comparison.interval) == (None, None, None)
    if not more:
        assert comparison.text == f"44 of 50 under another design; {', '.join(differs)}"


def returns_of(values, **more):
    """Return a result judged by returns, whose learned arm had these."""
    result = result_of([1] * len(values), [0] * len(values), metric="return", **more)
    return replace(result, learned=replace(result.learned, returns=values))


@pytest.mark.parametrize(
    ("today", "label"),
    [
        ([310.0, 420.0, 390.0, 505.0], Label.UNCHANGED),
        ([250.0, 400.0, 310.0, 415.0], Label.REGRESSED),
        ([360.0, 480.0, 430.0, 560.0], Label.IMPROVED),
        ([300.0, 430.0, 400.0, 490.0], Label.UNRESOLVED),
        ([310.0, 420.0, 505.0, 390.0], Label.UNRESOLVED),
    ],
)
def test_a_gate_judged_by_returns_is_compared_by_returns(today, label):
    before = BaselineGate.of(returns_of([310.0, 420.0, 390.0, 505.0]))
    comparison = compared(returns_of(today), before)
    assert comparison.label is label
    assert comparison.interval.method == "Student 1908, paired"


def test_the_drop_in_returns_is_told_on_the_common_starts():
    before = BaselineGate.of(returns_of([310.0, 420.0, 390.0, 505.0, 77.0]))
    assert compared(returns_of([250.0, 400.0, 310.0, 415.0]), before).text == (
        "mean return 340.4 -> 343.8, on common starts a drop of 62.5 [13.2, 112]; episodes 5 -> 4"
    )


def test_returns_without_two_common_starts_cannot_be_compared():
    before = BaselineGate.of(returns_of([310.0, 420.0]))
    other_seed = compared(returns_of([310.0, 420.0], seed=5), before)
    assert other_seed.label is Label.INCOMPARABLE
    assert other_seed.text == (
        "mean return 365, and returns are compared on two or more common starts; seed 4 -> 5"
    )
    single = replace(before, oracle="1", learned="0", learned_returns=(310.0,))
    assert compared(returns_of([310.0, 420.0]), single).label is Label.INCOMPARABLE


def test_only_a_regression_and_what_cannot_be_compared_fail():
    fails = {label for label in Label if Drift(label=label, text="").fails}
    assert fails == {Label.REGRESSED, Label.INCOMPARABLE}


def test_only_what_is_as_it_was_in_all_respects_is_no_news():
    for label in set(Label) - {Label.UNCHANGED}:
        assert Drift(label=label, text="").is_news


def test_a_commit_is_shortened_and_keeps_that_the_tree_was_dirty():
    for commit, shown in [
        ("", "it was accepted"),
        (COMMIT, "3f2c1e9"),
        (f"{COMMIT}-dirty", "3f2c1e9-dirty"),
    ]:
        comparison = drift_since(commit, now(first(44, 50)), now(first(44, 50)))
        assert comparison.sentence == f"Since {shown}: 44 -> 44 of 50, no start lost or gained"


@given(
    pairs=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=50),
    level=st.floats(0.5, 0.999),
    seed=st.sampled_from([4, 5]),
)
def test_going_back_mirrors_the_comparison(pairs, level, seed):
    then, today = (list(outcomes) for outcomes in zip(*pairs, strict=True))
    there = compared(now(today, seed=seed), accepted(then), level=level)
    back = compared(now(then), accepted(today, seed=seed), level=level)
    mirrored = {Label.REGRESSED: Label.IMPROVED, Label.IMPROVED: Label.REGRESSED}
    assert back.label is mirrored.get(there.label, there.label)
    assert (back.lost, back.gained, back.p_value) == (there.gained, there.lost, there.p_value)
