"""Comparisons: the statistics are right, the tables are of the results: `pytest checks.py`."""

import json
import re
from collections import Counter
from itertools import combinations

import compare
import numpy as np
import pytest
from plans import CALM, Machine, led_to
from scipy.stats import spearmanr

KEPT = {
    name: json.loads((compare.RESULTS / f"{name}.json").read_text())
    for name in ("plans", "new", "web")
}


def test_correlations_are_scipys_also_where_ranks_are_tied():
    first, second = np.random.default_rng(0).integers(4, size=(2, 30, 20)).astype(float)
    expected = [spearmanr(a, b).statistic for a, b in zip(first, second, strict=True)]
    assert compare.spearman(first, second) == pytest.approx(expected)
    assert compare.spearman(first, np.ones(20)) == pytest.approx(0)


def test_plans_are_drawn_again_within_their_tasks():
    groups = [np.array([0, 2]), np.array([1, 3, 4])]
    drawn = compare.resampled(groups, rng=np.random.default_rng(0))
    assert {tuple(sorted(set(row[:2]) | set(row[2:]))) for row in drawn} > {(0, 1), (0, 1, 2, 3, 4)}
    assert np.isin(drawn[:, :2], groups[0]).all()
    assert np.isin(drawn[:, 2:], groups[1]).all()


def test_likelihood_counts_pairs_of_verbs_in_other_plans():
    others = [("find A B", "save"), ("find C D", "type 1", "save")]
    # begin find: 2 of 2; find save: 1 of 2; save end: 2 of 2; of find, type, save and end.
    expected = np.log([3 / 6, 2 / 6, 3 / 6]).sum()
    assert compare.likelihood(("find E F", "save"), others) == pytest.approx(expected)


def test_the_fewest_steps_may_be_fewer_than_those_of_gold():
    known, _ = compare.families()
    fewest = {task.name: compare.fewest(task) for task in known}
    assert fewest["recount lamps"] == 3
    assert fewest["a room with a view"] == len(("open", "fill", "fill", "fill", "next", "confirm"))


def test_tables_are_what_results_give():
    made = compare.tables(KEPT["plans"]["plans"], KEPT["plans"]["counts"], KEPT["web"])
    assert made == (compare.RESULTS / "plans.md").read_text()
    new = (compare.RESULTS / "new.md").read_text()
    assert "\n".join(compare.correlations(KEPT["new"])) == new.rstrip("\n")


def right(rows, method):
    """Return the share of pairs of a task's plans that a score puts in the order of robustness."""
    tasks = {}
    for one in rows:
        known = tasks.setdefault((one["family"], one["task"]), [])
        known.append((one["robustness"], one[method]))
    told = [
        0.5 if x == y else float((a > b) == (x > y))
        for plans in tasks.values()
        for (a, x), (b, y) in combinations(plans, 2)
        if a != b
    ]
    return f"{100 * np.mean(told):.0f} %"


def test_the_page_shows_what_the_tables_do():
    page = (compare.RESULTS.parents[3] / "docs" / "agent-plans.md").read_text()
    tables = [(compare.RESULTS / f"{name}.md").read_text() for name in ("plans", "new")]
    number, share = r"(-?\d\.[^|]*)", r"(\d+ %)"
    cells = r" \| ".join(["([^|]*)", number, share, number, share])
    rows = re.findall(rf"^\| {cells} \|$", page, re.MULTILINE)
    assert len(rows) == 6
    for score, *found in rows:
        for table, kept, within, pairs in zip(
            tables, (KEPT["plans"]["plans"], KEPT["new"]), found[::2], found[1::2], strict=True
        ):
            assert re.search(
                rf"^\| {score} \| [^|]* \| {re.escape(within)} \|", table, re.MULTILINE
            )
            assert right(kept, score) == pairs


def test_what_tasks_and_plans_differ_by_add_up_to_the_correlation_over_all_plans():
    table = compare.Table(KEPT["plans"]["plans"])
    for method in ("outcome of one real run", "CFSim K=24"):
        expected = spearmanr(table.column["robustness"], table.column[method]).statistic
        assert sum(table.parts(method)) == pytest.approx(expected)
    # Nothing is left between tasks once each has the same mean, and nothing within of equal plans.
    for name in ("robustness", "CFSim K=24"):
        table.column[name] = np.tile([1.0, 2.0, 3.0, 4.0], 40)
    assert table.parts("CFSim K=24") == pytest.approx((0, 1))
    for name in ("robustness", "CFSim K=24"):
        table.column[name] = np.repeat(np.arange(40.0), 4)
    assert table.parts("CFSim K=24") == pytest.approx((1, 0))


def test_plans_that_work_are_those_that_succeed_where_nothing_fails():
    rows = [one for one in KEPT["plans"]["plans"] if one["outcome where nothing fails"]]
    assert len(rows) == 122
    robust, scores = ([one[key] for one in rows] for key in ("robustness", "CFSim K=64"))
    found = compare.Table(KEPT["plans"]["plans"]).of_working("CFSim K=64")
    assert found.startswith(f"{spearmanr(robust, scores).statistic:.2f} (")


@pytest.mark.parametrize(
    ("new", "results", "count"),
    [(False, KEPT["plans"]["plans"], 160), (True, KEPT["new"], 288)],
)
def test_results_are_of_these_tasks(new, results, count):
    known, rates = compare.families(new=new)
    rows = {(row["task"], row["plan"]): row for row in results}
    assert len(rows) == count
    for task in known[::4]:
        for name, plan in task.plans.items():
            row = rows[task.name, name]
            found = compare.scored(task, plan, rates[task.family])
            assert row["CFSim K=24"] == pytest.approx(found.score)
            stressed = led_to(plan, Machine(task), compare.STRESS).success
            assert row["robustness"] == pytest.approx(stressed)


@pytest.mark.parametrize("other", ["outcome of one real run", "trace likelihood per step"])
@pytest.mark.parametrize("results", [KEPT["plans"]["plans"], KEPT["new"]], ids=["first", "new"])
def test_within_a_task_scores_go_with_robustness_more_than(results, other):
    table = compare.Table(results)
    _, low, high = map(float, re.findall(r"-?\d\.\d+", table.within("CFSim K=24", other)))
    assert 0 < low < high


def test_of_an_address_and_a_name_the_more_robust_one_scores_higher():
    known, rates = compare.families()
    pairs = Counter()
    for task in known:
        for edit in (edit for edit in task.others if re.fullmatch(r"twin \d+", edit)):
            both, machine = (task.gold, task.others[edit]), Machine(task)
            robust = [led_to(one, machine, compare.STRESS).success for one in both]
            outcomes = [led_to(one, machine, CALM).success for one in both]
            if outcomes != [1, 1] or robust[0] == pytest.approx(robust[1]):
                continue
            scores = [compare.scored(task, one, rates[task.family], k=64).score for one in both]
            assert np.argmax(robust) == np.argmax(scores), (task.name, edit)
            pairs[task.family] += 1
    assert pairs == {"office": 14, "web": 9}


def test_a_second_address_hides_the_first():
    # No single edit of a plan with two makes it any more robust.
    known, rates = compare.families()
    task = next(task for task in known if task.name == "swap a shift")
    by_name, by_address = (
        compare.scored(task, plan, rates["office"], k=128)
        for plan in (task.gold, task.others["twin 0 2"])
    )
    assert by_name.value > by_address.value + 0.05
    assert by_name.score == pytest.approx(by_address.score, abs=0.01)


def test_scores_go_less_with_robustness_where_the_model_is_wrong():
    known, rates = compare.families()
    ((right,), (wrong,)) = compare.swept(known[:22], rates, errors=(0, 0.8), seeds=1)
    assert wrong < right - 0.2
