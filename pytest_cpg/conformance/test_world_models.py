"""What every world model must do once it is bound to a task: predictions that are its own row's."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.conformance.rows import (
    HORIZON,
    ROWS,
    Arrays,
    check_same,
    plans_of,
    starts_of,
    without_writing,
)
from pytest_cpg.contracts import Task
from pytest_cpg.episodes.probe import Responses
from pytest_cpg.world_models import bind, inference


def predicted(model: Any, task: Task, rows: list[int]) -> tuple[Arrays, Arrays, Arrays]:
    """Return latents [B, Z], imagined latents [B, H, Z] and their scores [B, H] of some rows."""
    states, plans = starts_of(task), plans_of(task)
    with inference(model):
        bound = bind(model, task, probe_states=states, probe_actions=plans[:, 0])
        with without_writing(states, plans):
            latents = bound.encode(states[rows])
            imagined = bound.rollout(latents, plans[rows])
            return latents, imagined, bound.score(imagined)


def test_a_model_follows_the_contract(conformance_model: Any, conformance_task: Task) -> None:
    latents, imagined, scores = predicted(conformance_model, conformance_task, list(range(ROWS)))
    assert imagined.shape == (ROWS, HORIZON, latents.shape[1])
    assert scores.shape == (ROWS, HORIZON)
    assert np.isfinite(imagined).all()
    assert np.isfinite(scores).all()


def test_a_prediction_does_not_depend_on_the_batch(
    conformance_model: Any, conformance_task: Task
) -> None:
    rows = list(range(ROWS))
    together = predicted(conformance_model, conformance_task, rows)
    backwards = predicted(conformance_model, conformance_task, rows[::-1])
    alone = [predicted(conformance_model, conformance_task, [row]) for row in rows]
    cure = "A prediction must depend on its own row alone: normalise by constants, not by a batch."
    for part, (what, whole) in enumerate(
        zip(("encode", "rollout", "score"), together, strict=True)
    ):
        check_same(f"{what}, in another order", backwards[part][::-1], whole, cure=cure)
        ones = np.concatenate([parts[part] for parts in alone])
        check_same(f"{what}, alone and among others", ones, whole, cure=cure)


def test_predictions_react_to_the_actions(conformance_model: Any, conformance_task: Task) -> None:
    states, plans = starts_of(conformance_task), plans_of(conformance_task)
    with inference(conformance_model):
        bound = bind(
            conformance_model, conformance_task, probe_states=states, probe_actions=plans[:, 0]
        )
        responses = Responses(bound, conformance_task)
        assert responses.differ(states, bound.encode(states)) or not responses.differ_truly, (
            "different actions from the same states gave identical predictions"
        )


__all__ = [name for name in dir() if name.startswith("test_")]
