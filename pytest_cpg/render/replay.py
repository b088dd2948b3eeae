"""Replay: what happened in each episode, and the worst promises of the learned model."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.episodes.replay import EpisodeTrace, Replay
from pytest_cpg.gates.notation import for_log, perturbation_name, place
from pytest_cpg.render.line import wrapped

_MOST_PLANS = 3
_LABEL_WIDTH = 11
# Numbers stand right and texts left.
_COLUMNS = {
    "episode": ">",
    "oracle": "<",
    "learned": "<",
    "rounds": ">",
    "optimism": ">",
    "worst round": "<",
}
_OPTIMISM = (
    "optimism: predicted minus actual score at the step where a plan promises most, mean over the "
    "learned arm's rounds. Lower scores are nearer to the goal: below 0 the model promised to come "
    "nearer than its plans do."
)
_OWN_SCORE = (
    "The learned arm's scores along a plan are the model's own, of what it predicts and of the "
    "true states as it encodes them; they are not in the task's units. One with rates_states = "
    "False cannot rate true states: the task does, and the two are not comparable."
)
_WHOLE_COST = (
    "The model has a cost of whole plans alone: predicted is the cost of the plan, at each of its "
    "steps, and actual what the task says of the true states. The two are not comparable, so "
    "optimism tells the rounds apart and no more."
)
_NOW = (
    "now: otherwise than when the episode was lost; the model, its weights or the code changed "
    "since."
)


def replay_lines(replay: Replay, *, width: int) -> list[str]:
    """Return the table of all episodes and the worst plans; it takes 71 columns or so."""
    table = _table(replay, width)
    notes = [_OPTIMISM]
    if replay.has_own_score:
        notes.append(_WHOLE_COST if replay.has_whole_costs else _OWN_SCORE)
    if any(not oracle.success or learned.success for oracle, learned in replay.traces.values()):
        notes.append(_NOW)
    lines = [*wrapped(_header(replay), width, " "), *table]
    for note in notes:
        lines += wrapped(note, width, " ")
    traces = replay.traces
    worst = sorted(traces, key=lambda episode: -abs(traces[episode].worst_optimism))[:_MOST_PLANS]
    for episode in sorted(worst):
        lines += ["", *_plan_lines(replay, episode, width)]
    return list(map(for_log, lines))


def _header(replay: Replay) -> str:
    count, design = len(replay.traces), replay.design
    names = perturbation_name(design.perturbation)
    perturbed = f", perturbation {names}" if names else ""
    return (
        f"replay of {count} episode{'s'[: count != 1]}, no verdict: {design.task}, "
        f"{design.planner}, seed {replay.seed}, starts {design.starts}, at most {design.budget} "
        f"steps of {design.control_period:g} s{perturbed}"
    )


def _table(replay: Replay, width: int) -> list[str]:
    """Return a line for each episode below the headings; seconds stand there only if they fit."""
    for period in (replay.design.control_period, None):
        rows = [tuple(_COLUMNS), *(_cells(replay, episode, period) for episode in replay.traces)]
        spaces = [max(map(len, column)) for column in zip(*rows, strict=True)]
        if sum(spaces) + 2 * len(spaces) <= width:
            break
    return [
        "".join(
            f"  {cell:{side}{space}s}"
            for cell, side, space in zip(row, _COLUMNS.values(), spaces, strict=True)
        ).rstrip()
        for row in rows
    ]


def _cells(replay: Replay, episode: int, period: float | None) -> tuple[str, ...]:
    oracle, learned = traces = replay.traces[episode]
    number = traces.worst_round
    return (
        str(episode),
        _solved(oracle, period) if oracle.success else "now not solved",
        f"now {_solved(learned, period)}" if learned.success else "not solved",
        str(len(learned.at)),
        f"{learned.optimism.mean():+.3g}",
        f"{number + 1}, at step {learned.at[number]}",
    )


def _solved(trace: EpisodeTrace, period: float | None) -> str:
    """Return when an episode was solved, in steps and, with a period, in seconds."""
    seconds = "" if period is None else f" ({trace.steps * period:.4g} s)"
    return f"solved at {trace.steps}{seconds}"


def _plan_lines(replay: Replay, episode: int, width: int) -> list[str]:
    """Return the scores along the worst plan of an episode, and how both arms ended."""
    oracle, learned = traces = replay.traces[episode]
    design, number = replay.design, traces.worst_round
    promised, at = int(learned.promised[number]), int(learned.at[number])
    scores = (learned.predicted[number], learned.actual[number])
    predicted, actual = (f"{score[promised - 1]:.3g}" for score in scores)
    goal = f" Its goal is {place(oracle.goal)}." if oracle.goal.size else ""
    text = (
        f"episode {episode}, round {number + 1} at step {at} "
        f"({at * design.control_period:.4g} s): the plan promises {predicted} at its step "
        f"{promised} and comes to {actual}; {learned.lengths[number]} of {design.horizon} steps "
        f"executed. The episode ends at score {learned.scores[-1]:.3g}, with the oracle at "
        f"{oracle.scores[-1]:.3g}.{goal}"
    )
    return [*wrapped(text, width, " "), *_score_rows(*scores, promised, width)]


def _score_rows(predicted: FloatArray, actual: FloatArray, promised: int, width: int) -> list[str]:
    """Return scores [H] along a plan, at as many of its steps as fit, ``promised`` among them."""
    texts = [[f"{score:.3g}" for score in scores] for scores in (predicted, actual)]
    space = 2 + max(len(text) for row in texts for text in row)
    room = max(2, (width - _LABEL_WIDTH) // space)
    steps = np.arange(1, len(predicted) + 1)
    if len(steps) > room:
        # The first step, the last and others evenly between them.
        spread = np.linspace(1, len(steps), room - 1).round().astype(int)
        steps = np.unique([*spread, promised])
    rows = {
        "step": [str(step) for step in steps],
        "predicted": [texts[0][step - 1] for step in steps],
        "actual": [texts[1][step - 1] for step in steps],
    }
    return [
        f"  {name:{_LABEL_WIDTH - 2}s}" + "".join(f"{cell:>{space}s}" for cell in cells)
        for name, cells in rows.items()
    ]
