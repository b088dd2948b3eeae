"""Dead ends: failed starts of the oracle arm that end in a minimum of the score itself.

Behind a wall a straight distance to the goal cannot be lowered, however widely a planner searches;
and where nothing is rewarded on the way, minus the reward is one number everywhere. Then the score
is at fault, and neither planner nor model.
"""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray, Task
from pytest_cpg.contracts.streams import Purpose, Stream
from pytest_cpg.contracts.task import score_states
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.decisions import evenly
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.gates.planning_gap.result import DeadEnds

# Failed starts that are looked at, and the fewest that are worth it, also as a share of all.
_MOST, _FEWEST, _SHARE = 5, 3, 0.1
# Plans that are tried from where an episode came nearest; every other one holds its first action.
_PLANS = 64
# As shares of the way from the start to there: what is no nearer, and what is still there.
_NEARER, _STAYED = 0.01, 0.1


def dead_ends(design: Design, starts: Starts, oracle: Arm) -> DeadEnds | None:
    """Return how many failed starts of the oracle arm are in dead ends; None where few fail.

    An episode is in one if it is in its last quarter where it came nearest to its goal, and none of
    64 random plans from there, as long as those of the planner, comes nearer. They are flat where
    all steps of all of them have one score.
    """
    failed = np.flatnonzero(~oracle.successes)
    if len(failed) < max(_FEWEST, _SHARE * oracle.episodes) or not oracle.actions:
        return None
    rows = evenly(failed, _MOST)
    ways = [(starts.states[row], oracle.actions[row], int(oracle.indices[row])) for row in rows]
    if all(_is_flat(design.task, start, actions) for start, actions, _ in ways):
        return DeadEnds(len(ways), len(ways), is_flat=True)
    return DeadEnds(sum(_is_dead_end(design, *way) for way in ways), len(ways))


def _is_flat(task: Task, start: FloatArray, actions: FloatArray) -> bool:
    """Say whether every step of an episode has the score of its start."""
    scores = _scores(
        task, np.concatenate([start[None], task.rollout(start[None], actions[None])[0]])
    )
    return bool((scores == scores[0]).all())


def _is_dead_end(design: Design, start: FloatArray, actions: FloatArray, episode: int) -> bool:
    task, horizon = design.task, int(design.planner.horizon)
    passed = _scores(task, task.rollout(start[None], actions[None]))[0]
    begun, nearest = float(_scores(task, start[None])[0]), float(passed.min())
    way = begun - nearest
    last = passed[-max(1, len(passed) // 4) :]
    if not way > 0 or last.min() > nearest + _STAYED * way:
        return False
    state = start[None]
    for action in actions[: int(passed.argmin()) + 1]:
        state = task.step(state, action[None])
    rng = Stream.DIAGNOSIS.of(design.seed, Purpose.DEAD_ENDS, episode)
    plans = task.actions.sample([rng], (_PLANS, horizon))[0]
    plans[::2] = plans[::2, :1]
    reached = _scores(task, task.rollout(np.repeat(state, _PLANS, axis=0), plans))
    return bool(reached.min() >= nearest - _NEARER * way)


def _scores(task: Task, states: FloatArray) -> FloatArray:
    """Rate states [..., S]; what has diverged is farthest."""
    return np.nan_to_num(score_states(task, states), nan=np.inf)
