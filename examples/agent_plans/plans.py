"""Plans: what agents may do in a task, and the environment that their plans are scored in."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tomllib import loads
from typing import Any, Protocol
from zlib import crc32

from pytest_cpg.gates.plan_quality import Edits

# Of each step; a task done right is worth 1.
STEP_COST = 0.01
TABLE = Path(__file__).with_name("tasks.toml")
LOOKING_UP = ("find", "at", "pick", "search", "click", "open")


class World(Protocol):
    """The state machine of a task: states are hashable, an impossible action changes nothing."""

    def start(self, *, changed: bool) -> Any:
        """Return the first state; addresses lead elsewhere where the layout has changed."""

    def after(self, state: Any, action: str) -> Any:
        """Return the next state."""

    def facts(self, state: Any) -> Any:
        """Return what is saved, sent or booked, alike in each layout."""

    def twin(self, action: str) -> str | None:
        """Return the address of what an action looks up by name, or the other way round."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How often a step is lost, by its verb, and how often the layout has changed."""

    lost: dict[str, float] = field(default_factory=dict)
    others: float = 0.0
    changed: float = 0.0

    def loss(self, action: str) -> float:
        return self.lost.get(verb(action), self.others)


CALM = Rates()


@dataclass(frozen=True, eq=False)
class Task:
    """A task: the gold plan says what is to be reached; others are made from it by edits."""

    name: str
    family: str
    world: World
    gold: tuple[str, ...]
    # By the text of the edit.
    others: dict[str, tuple[str, ...]]
    # Parts of the gold plan that can stand in any order.
    parts: tuple[slice, ...]

    @property
    def plans(self) -> dict[str, tuple[str, ...]]:
        return {"gold": self.gold, **self.others}

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """What the plans do, by name and by address."""
        known = dict.fromkeys(action for plan in self.plans.values() for action in plan)
        twins = filter(None, map(self.world.twin, known))
        return tuple(dict.fromkeys([*known, *twins]))

    def edits(self, *, likely: bool = False) -> Edits:
        """Look up something else, by name or address; or do something else. Swap parts of gold.

        Of likely edits, half look the same up in another way where there is one.
        """
        pairs = [(a, b) for at, a in enumerate(self.parts) for b in self.parts[at + 1 :]]

        def substitutes(plan: tuple[Any, ...], at: int) -> list[str]:
            found = [one for one in self.actions if looks_up(one) == looks_up(plan[at])]
            twin = self.world.twin(plan[at]) if likely else None
            return found + [twin] * len(found) if twin else found

        return Edits(substitutes=substitutes, swaps=lambda plan: pairs if plan == self.gold else ())

    @cached_property
    def goal(self) -> Any:
        """What the gold plan leads to where nothing fails."""
        state = self.world.start(changed=False)
        for action in self.gold:
            state = self.world.after(state, action)
        return self.world.facts(state)


def looks_up(action: str) -> bool:
    return verb(action) in LOOKING_UP


def verb(action: str) -> str:
    return action.split()[0]


def edited(world: World, plan: tuple[str, ...], edit: str) -> tuple[str, ...]:
    """Return a plan after one edit of the table of tasks; the number counts steps from 0.

    ``twin 0 2``: look up by address what was by name, and the other way; ``drop 3``; ``again 3``:
    do it twice; ``swap 1 4``: exchange two steps; ``do 2 find Rug Qty``: put a step before;
    ``not 2 find Rug Qty``: replace it.
    """
    kind, first, *rest = edit.split()
    at, steps = int(first), list(plan)
    if kind == "twin":
        for place in (at, *map(int, rest)):
            steps[place] = world.twin(steps[place])
    elif kind == "drop":
        del steps[at]
    elif kind == "again":
        steps.insert(at, steps[at])
    elif kind == "swap":
        other = int(rest[0])
        steps[at], steps[other] = steps[other], steps[at]
    elif kind == "do":
        steps.insert(at, " ".join(rest))
    elif kind == "not":
        steps[at] = " ".join(rest)
    else:
        raise ValueError(f"unknown edit {edit!r}")
    if None in steps:
        raise ValueError(f"{edit!r} of {plan}: no twin")
    return tuple(steps)


def tasks(family: str, worlds: dict[str, World], table: Path = TABLE) -> list[Task]:
    """Return the tasks of a family; in gold plans, brackets hold parts of any order."""
    rows = loads(table.read_text())
    found = []
    for row in rows[family]:
        steps: list[str] = []
        parts, opened = [], 0
        for piece in row["gold"].replace("[", ";[;").replace("]", ";];").split(";"):
            if piece.strip() == "[":
                opened = len(steps)
            elif piece.strip() == "]":
                parts.append(slice(opened, len(steps)))
            elif piece.strip():
                steps.append(piece.strip())
        world, gold = worlds[row["world"]], tuple(steps)
        others = {}
        for text in row["others"]:
            others[text] = gold
            for edit in text.split(";"):
                others[text] = edited(world, others[text], edit)
        found.append(Task(row["name"], family, world, gold, others, tuple(parts)))
    return found


class Machine:
    """The states of a task that were met, numbered, and in which of them it is done right.

    With an error, so large a share of transitions does what another action of the task would.
    """

    def __init__(self, task: Task, *, error: float = 0.0, seed: int = 0) -> None:
        self._task, self._error, self._seed = task, error, seed
        self._numbers: dict[Any, int] = {}
        self.states: list[Any] = []
        self._next: dict[tuple[int, str], int] = {}
        self.done: list[bool] = []

    def start(self, *, changed: bool) -> int:
        return self._number(self._task.world.start(changed=changed))

    def after(self, at: int, action: str) -> int:
        if (at, action) not in self._next:
            self._next[at, action] = self._number(self.next(self.states[at], action))
        return self._next[at, action]

    def next(self, state: Any, action: str) -> Any:
        """Return the state that follows a state."""
        if self._error:
            draw = crc32(f"{self._seed} {state} {action}".encode())
            if draw < self._error * 2**32:
                action = self._task.actions[draw % len(self._task.actions)]
        return self._task.world.after(state, action)

    def _number(self, state: Any) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self.states)
            self.states.append(state)
            self.done.append(self._task.world.facts(state) == self._task.goal)
        return self._numbers[state]


class Model:
    """The environment that plans are scored in: all states a plan may have led to, at once.

    Rewards are what the probability of success gains, less the cost of a step: their sum is exact,
    and one rollout is enough.
    """

    def __init__(self, machine: Machine, rates: Rates) -> None:
        self._machine, self._rates = machine, rates
        self.states: dict[int, float] = {}

    def reset(self, *, seed: int = 0) -> None:
        shares = {True: self._rates.changed, False: 1 - self._rates.changed}
        self.states = {
            self._machine.start(changed=changed): share
            for changed, share in shares.items()
            if share
        }

    def step(self, action: str) -> tuple[None, float, bool, bool, dict[str, Any]]:
        lost, before = self._rates.loss(action), self.success
        after: dict[int, float] = defaultdict(float)
        for at, share in self.states.items():
            after[self._machine.after(at, action)] += share * (1 - lost)
            if lost:
                after[at] += share * lost
        self.states = after
        return None, self.success - before - STEP_COST, False, False, {}

    def clone(self) -> "Model":
        copy = Model(self._machine, self._rates)
        copy.states = dict(self.states)
        return copy

    @property
    def success(self) -> float:
        """The probability that all is as wanted, and nothing else has changed."""
        return sum(share for at, share in self.states.items() if self._machine.done[at])


def led_to(plan: tuple[str, ...], machine: Machine, rates: Rates = CALM) -> Model:
    """Return where a plan leads from the start."""
    model = Model(machine, rates)
    model.reset()
    for action in plan:
        model.step(action)
    return model
