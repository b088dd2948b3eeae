"""Web flows in a real Chromium do what the state machine says: `pytest web_checks.py`."""

import compare
import pytest
import web
from plans import verb

TASKS, NEW = compare.web_tasks(), compare.web_tasks(new=True)
# Those of the training executions are small.
HELD_OUT = 10_000
pytestmark = pytest.mark.skipif(web.BROWSER is None, reason="needs chromium")


@pytest.fixture(scope="module")
def shop():
    with web.browsing() as opened:
        yield opened


def test_there_are_18_flows_and_36_new_ones_of_four_plans_each():
    assert len({task.name for task in (*TASKS, *NEW)}) == 18 + 36
    assert all(len(set(task.plans.values())) == 4 for task in (*TASKS, *NEW))


def test_gold_plans_book_what_they_should_as_modelled_in_every_kind_of_step(shop):
    seen = set()
    for task in TASKS:
        # From which page to which, by what.
        state, kinds = task.world.start(changed=False), set()
        for action in task.gold:
            before, state = state, task.world.after(state, action)
            kinds.add((before.page.split()[0], verb(action), state.page.split()[0]))
        if kinds <= seen:
            continue
        seen |= kinds
        steps = web.executed(shop, task.gold)
        assert web.agreement(steps) == (len(task.gold), len(task.gold)), task.name
        booked = task.world.facts(steps[-1].after)
        assert booked == task.goal, task.name
        assert len(booked) == task.gold.count("confirm")


def test_other_plans_where_steps_get_lost_are_as_modelled_in_nine_of_ten_steps(shop):
    steps = []
    for number, task in enumerate(TASKS[::2]):
        plan = list(task.others.values())[number % 3]
        steps += web.executed(shop, plan, seed=HELD_OUT + number)
    agreed, count = web.agreement(steps)
    assert 0.9 < agreed / count < 1


def test_what_gets_lost_leaves_the_page_as_it_was(shop):
    shop.begin(lost={}, changed=True, seed=0)
    for action in ("search Blue", "book"):
        shop.step(action)
    before = shop.state()
    shop.loses(dict.fromkeys(web.LOST, 1.0), seed=0)
    for action in ("fill name Ada", "next", "search Opera", "open /rooms/2"):
        shop.step(action)
        assert shop.state() == before, action


def test_rates_are_those_of_the_executions_they_were_calibrated_on():
    home = web.Shop().start(changed=False)
    right, wrong = (web.shown(home, item) for item in ("Blue", "Garden"))
    opened = [web.Step(home, "open /rooms/1", after) for after in (right, right, wrong, home)]
    nothing_to_lose = web.Step(home, "confirm", home)
    found = web.calibrated([*opened, nothing_to_lose])
    assert found.lost == {"open": 1.5 / 5}
    assert found.changed == 1.5 / 4
