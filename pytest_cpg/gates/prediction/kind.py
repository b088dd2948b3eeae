"""Kind: what gates on predictions share, which is what is asked, and what a model imagines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

import numpy as np

from pytest_cpg.contracts import (
    ComponentError,
    FloatArray,
    IntArray,
    Task,
    WorldModelError,
)
from pytest_cpg.contracts.errors import CURE
from pytest_cpg.gates.arguments import Argument, as_given, task_or_name, whole
from pytest_cpg.gates.at_most import AtMost
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.gates.prediction.logs import Logs, read_logs
from pytest_cpg.gates.rows import Questions
from pytest_cpg.world_models.binding.bound import BoundModel

World: TypeAlias = Task | Logs

# Random steps that lead to a state at most, and recorded steps that a model is checked with.
_STEPS, _PROBES = 30, 8

HORIZON = Argument("horizon", whole(1, 1000), 1, help="steps until predictions are compared")
TRANSITIONS = Argument("transitions", as_given, help="recorded steps, in place of a simulator")


def visited(task: Task, seed: int, count: int) -> FloatArray:
    """Return states [count, S], each after another number of random steps from a start."""
    rng = np.random.default_rng([seed, 1])
    states = task.reset(rng.integers(2**31, size=count))
    until = rng.integers(_STEPS, size=count)
    streams = [np.random.default_rng([seed, row, 2]) for row in range(count)]
    for step in range(until.max(initial=0)):
        after = task.step(states, task.actions.sample(streams, ()))
        states = np.where((step < until)[:, None], after, states)
    return states


def stretches(
    world: World, values: Mapping[str, Any], *, count: int = 0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return states [N, S], actions [N, H, A] in a row, and the states [N, S] these lead to.

    They are random ones of a task, ``count`` of them, or recorded ones.
    """
    horizon, seed = values["horizon"], values["seed"]
    if isinstance(world, Logs):
        steps, rows = world.transitions, world.drawn(horizon, seed=seed)
        begun, last = rows[:, 0], rows[:, -1]
        return steps.observations[begun], steps.actions[rows], steps.next_observations[last]
    states = visited(world, seed, count)
    streams = [np.random.default_rng([seed, row, 5]) for row in range(count)]
    plans = world.actions.sample(streams, (horizon,))
    return states, plans, world.rollout(states, plans)[:, -1]


def imagined(
    model: BoundModel, states: FloatArray, plans: FloatArray, numbers: IntArray
) -> FloatArray:
    """Return what a model predicts of plans [B, J, H, A]: observations, or latents, [B, J, O].

    What it draws comes from the state's number [B], and is the same for all plans from there.
    Raises WorldModelError, with the plan, for a prediction that is no number.
    """
    count, tries, horizon = plans.shape[:3]
    noise = None
    if size := model.noise_size:
        drawn = [np.random.default_rng(n).standard_normal((horizon, size)) for n in numbers]
        noise = np.repeat(drawn, tries, axis=0)
    begun = np.repeat(model.encode(states), tries, axis=0)
    reached = model.rollout(begun, plans.reshape(-1, *plans.shape[2:]), noise)[:, -1]
    see = model.observe or model.described
    shown = see(reached)
    lost = np.flatnonzero(~np.isfinite(shown).all(axis=1))
    if lost.size and not model.may_diverge:
        row = lost[0]
        broken = shown[row][~np.isfinite(shown[row])][0]
        actions = plans.reshape(-1, *plans.shape[2:])[row].tolist()
        before = np.array2string(see(begun[row : row + 1])[0], precision=4, threshold=8)
        raise WorldModelError(
            f"the model predicts {broken} after the actions {actions} from {before}. {CURE}"
        )
    return np.asarray(shown.reshape(count, tries, -1))


class PredictionKind(AtMost):
    """A kind that asks of states of a task, or of recorded steps."""

    example = 'task="reacher-easy", limit=0.2'

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the marker takes; transitions may stand in for a task."""
        about = "the name of a task, or a Task; not needed beside transitions"
        task = Argument("task", task_or_name, help=about)
        return (task, *super().arguments[1:], HORIZON, TRANSITIONS)

    def parse(self, asked: Asked) -> Asked:
        """Return what is asked, with the transitions as they are read."""
        values = asked.values
        if values["transitions"] is None:
            if values["task"] is None:
                raise ValueError(
                    'the marker names neither a task nor transitions. Write task="reacher-easy", '
                    'or transitions="logged.npz".'
                )
            return asked
        if values.get("stratum", "all") != "all":
            raise ValueError(
                f"stratum={values['stratum']!r}: no step of a log is known to be in a stratum. "
                f"Leave it out, or leave out transitions."
            )
        try:
            logs = read_logs(values["transitions"])
        except ValueError as error:
            raise ValueError(f"transitions: {error}.") from None
        return replace(asked, values={**values, "transitions": logs})

    def world(self, spec: Asked, run: Run) -> Task:
        """Return the task, or recorded steps, which stand in for one."""
        logs = spec.values["transitions"]
        if logs is None:
            return super().world(spec, run)
        if spec.task is not None:
            task = run.task(spec.task)
            sizes = (task.observation_size, task.actions.size)
            own = (logs.observation_size, logs.actions.size)
            if sizes != own:
                raise ComponentError(
                    f"transitions: {logs.name} has observations and actions of {own[0]} and "
                    f"{own[1]} numbers, and task {task.name!r} has {sizes[0]} and {sizes[1]}. "
                    f"Leave out the task, or give transitions of it."
                )
        return cast(Task, logs)

    def asked(self, spec: Asked, run: Run) -> Questions:
        """Return what a model is asked; of recorded steps with the episodes that they are of."""
        asked = super().asked(spec, run)
        if not isinstance(asked.task, Logs):
            return asked
        steps = asked.task.transitions
        begun = asked.task.drawn(spec.values["horizon"], seed=spec.values["seed"])[:, 0]
        few = begun[:_PROBES]
        probe = steps.observations[few], steps.actions[few]
        return asked._replace(clusters=asked.task.episodes[begun], probe=probe)

    def counted(self, spec: Asked, errors: FloatArray) -> str:
        """Return of how much a number is."""
        return f"{len(errors)} {'states' if spec.values['transitions'] is None else 'steps'}"
