"""Which conventions are told of models that have them, and of models that have none."""

from collections import Counter

import numpy as np
import pytest
from misreadings import conventions, misreading_in

from pytest_cpg.tasks import TASKS

SEEDS = range(3)
NAMES = ("pendulum-swingup", "cartpole-swingup", "reacher-easy")
TRANSITIONS = 2000
SAID = ("right", "another", "nothing")


def states_of(name, observations):
    """Return simulator states [B, S] that look like these observations [B, O], at rest but so."""
    o, zero = observations.T, np.zeros(len(observations))
    if name == "pendulum-swingup":
        columns = [zero, np.arctan2(o[1], o[0]), o[2], zero]
    elif name == "cartpole-swingup":
        columns = [zero, o[0], np.arctan2(o[2], o[1]), o[3], o[4], zero, zero]
    else:
        x = o[2] + 0.12 * (np.cos(o[0]) + np.cos(o[0] + o[1]))
        y = o[3] + 0.12 * (np.sin(o[0]) + np.sin(o[0] + o[1]))
        columns = [zero, o[0], o[1], o[4], o[5], zero, zero, x, y]
    return np.stack(columns, axis=1)


def exact(task):
    """Return the true dynamics of a task as a function of observations."""
    return lambda observations, actions: task.observe(
        task.step(states_of(task.name, observations), actions)
    )


def trained(task, seed, count=TRANSITIONS, **options):
    """Return an MLP as a function of arrays."""
    import torch

    from pytest_cpg.world_models import collect_transitions, train_mlp

    model = train_mlp(collect_transitions(task, count=count, seed=seed), seed=seed, **options)

    def step(observations, actions):
        both = (np.ascontiguousarray(part) for part in (observations, actions))
        given = (torch.tensor(part, dtype=torch.float32) for part in both)
        with torch.no_grad():
            return model(*given).double().numpy()

    return step


def others(task, step, seed):
    """Return models without a convention of their own, most of them bad."""
    true, size = exact(task), task.observation_size
    physics = {
        f"{what} times {factor:g}": exact(task.with_physics(**{what: factor}))
        for what, factor in (("gravity", 0.4), ("gravity", 2.0), ("friction", 0.0), ("mass", 1.1))
    }
    return {
        "exact": true,
        "MLP of 2000 transitions": step,
        "MLP of 200 transitions": trained(task, seed, 200),
        "MLP after 5 epochs": trained(task, seed, epochs=5),
        "plain MLP after 1 epoch": trained(task, seed, 200, variant="plain", epochs=1),
        **physics,
        "blind to actions": lambda o, a: true(o, 0 * a),
        "actions at 0.9": lambda o, a: true(o, 0.9 * a),
        "noise of 0.05": lambda o, a: true(o, a) + 0.05 * np.sin(1e4 * o),
        "no change": lambda o, a: o.copy(),
        "zeros": lambda o, a: np.zeros_like(o),
        "a constant": lambda o, a: np.tile(np.linspace(-1, 1, size), (len(o), 1)),
    }


def told(task, seed):
    """Yield what a model is made of, its convention or name, and whether that is told."""
    step = trained(task, seed)
    for base, dynamics in (("exact", exact(task)), ("MLP", step)):
        for convention, (model, right, _) in conventions(dynamics, task, seed).items():
            named = misreading_in(task, model, seed=seed)
            said = "nothing" if named is None else "right" if named.name == right else "another"
            yield base, convention, said
    for other, model in others(task, step, seed).items():
        named = misreading_in(task, model, seed=seed)
        yield "", other, "nothing" if named is None else "another"


def write(page, counts):
    """Write how often a base and convention, or a model without one, were told of something."""
    conventions = dict.fromkeys(name for base, name, _ in counts if base)
    innocent = dict.fromkeys(name for base, name, _ in counts if not base)
    page.table(
        "Diagnosis: conventions told of models that are misread",
        ("convention", "exact: told", "another", "nothing", "MLP: told", "another", "nothing"),
        [
            (name, *(counts[base, name, said] for base in ("exact", "MLP") for said in SAID))
            for name in conventions
        ],
        note=(
            f"{', '.join(NAMES)}, seeds {SEEDS[0]} to {SEEDS[-1]} each, at 64 states that up to 30 "
            f"random actions lead to. The convention is put around the exact dynamics, and around "
            f"an MLP of {TRANSITIONS} random transitions, which is off by much of what an action "
            f"does. An action has two numbers in reacher-easy alone."
        ),
    )
    page.table(
        "Diagnosis: conventions told of models that have none",
        ("model", "told", "nothing"),
        [(name, counts["", name, "another"], counts["", name, "nothing"]) for name in innocent],
        note="The same tasks, seeds and states.",
    )


@pytest.mark.slow
def test_conventions_are_told_and_nothing_else_is_called_one(statistics_page):
    pytest.importorskip("torch")
    counts = Counter(
        found for name in NAMES for seed in SEEDS for found in told(TASKS[name](), seed)
    )
    write(statistics_page, counts)
    assert not [found for found in counts.elements() if found[2] == "another"]
