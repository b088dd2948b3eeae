"""Office tasks: real files do what the state machines say, and faults are reckoned exactly."""

from itertools import product
from mailbox import Maildir

import numpy as np
import pytest
from plans import CALM, Machine, Model, Rates, edited, led_to, tasks

from pytest_cpg.gates.plan_quality import score

pytest.importorskip("openpyxl")

import office
from openpyxl import load_workbook

TASKS = tasks("office", office.WORLDS)
BY_NAME = {task.name: task for task in TASKS}
STRESS = Rates(others=0.1, changed=0.3)


def test_there_are_22_tasks_of_four_plans_each():
    assert len(BY_NAME) == 22
    assert all(len(set(task.plans.values())) == 4 for task in TASKS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_step_on_real_files_is_as_modelled(task, tmp_path):
    for number, plan in enumerate(task.plans.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        # One plan of each task meets another layout.
        changed = number == TASKS.index(task) % 4
        real = office.opened(task.world, folder, changed=changed)
        states = [real.state()]
        assert states == [task.world.start(changed=changed)]
        for action in plan:
            real.step(action)
            states.append(real.state())
            assert states[-1] == task.world.after(states[-2], action), action


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_gold_plans_succeed_and_are_worth_more_than_some_neighbour(task):
    environment = Model(Machine(task), CALM)
    found = score(task.gold, environment, edits=task.edits(), seed=0)
    assert found.value == pytest.approx(1 - 0.01 * len(task.gold))
    assert found.neighbours.min() < found.value


def test_real_files_are_left_as_the_task_says(tmp_path):
    stock = office.opened(office.WORLDS["stock"], tmp_path, changed=False)
    for action in BY_NAME["sell out and restock"].gold:
        stock.step(action)
    sheet = load_workbook(tmp_path / "book.xlsx").active
    assert {row[0].value: row[1].value for row in sheet.iter_rows(min_row=2)} == {
        "Lamp": 8, "Desk": 3, "Chair": 11, "Rug": 15,
    }  # fmt: skip
    team = office.opened(office.WORLDS["team"], tmp_path, changed=True)
    for action in BY_NAME["answer and file"].gold:
        team.step(action)
    folders = {name: Maildir(tmp_path / "mail" / f".{name}") for name in ("Legal", "Sent")}
    subjects = {name: [mail["Subject"] for mail in box] for name, box in folders.items()}
    assert subjects == {"Legal": ["Contract draft"], "Sent": ["Re: Contract draft"]}


def test_real_files_under_faults_succeed_as_often_as_reckoned(tmp_path):
    rng = np.random.default_rng(0)
    successes, expected = 0, []
    for number, task in enumerate([*TASKS, *TASKS]):
        folder = tmp_path / str(number)
        folder.mkdir()
        real = office.opened(task.world, folder, changed=rng.random() < STRESS.changed)
        for action in task.gold:
            if rng.random() >= STRESS.others:
                real.step(action)
        successes += task.world.facts(real.state()) == task.goal
        expected.append(led_to(task.gold, Machine(task), STRESS).success)
    spread = sum(share * (1 - share) for share in expected) ** 0.5
    assert abs(successes - sum(expected)) < 3 * spread


def test_probabilities_are_those_of_all_ways_to_fail():
    task = BY_NAME["sell out and restock"]
    expected = 0.0
    for changed, *lost in product((False, True), repeat=1 + len(task.gold)):
        state, share = task.world.start(changed=changed), 0.3 if changed else 0.7
        for action, gone in zip(task.gold, lost, strict=True):
            share *= 0.1 if gone else 0.9
            state = state if gone else task.world.after(state, action)
        expected += share * (task.world.facts(state) == task.goal)
    assert led_to(task.gold, Machine(task), STRESS).success == pytest.approx(expected)


def test_a_wrong_model_is_wrong_in_the_stated_share_of_steps():
    task = BY_NAME["old orders"]
    true, wrong = Machine(task), Machine(task, error=0.3)
    model = Model(true, STRESS)
    model.reset()
    different = steps = 0
    for action in (*task.gold, *task.others["swap 1 3"]):
        for state in [true.states[at] for at in model.states]:
            for tried in task.actions:
                steps += 1
                different += wrong.next(state, tried) != true.next(state, tried)
        model.step(action)
    # Another action may do the same.
    assert 0.2 < different / steps <= 0.33


def test_edits_say_which_one_is_unknown():
    task = BY_NAME["file an invoice"]
    with pytest.raises(ValueError, match="unknown edit 'tvin 0'"):
        edited(task.world, task.gold, "tvin 0")
