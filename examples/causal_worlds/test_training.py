"""Training on a few steps: what it writes is read, and it goes on where it was stopped."""

import pytest
import torch
import train
from losses import STAGES
from networks import KINDS
from safetensors.torch import load_file

import pytest_cpg

ROWS = [(kind, loss) for kind in KINDS for loss in STAGES if (kind, loss) != ("vae", "contrastive")]


@pytest.fixture
def models(monkeypatch, tmp_path):
    """A folder of models that learn from next to nothing."""
    values = {"EPISODES": 20, "CHECKED": 5, "STEPS": 10, "REWARD_EPOCHS": 1, "MODELS": tmp_path}
    for name, value in values.items():
        monkeypatch.setattr(train, name, value)
    train.transitions.cache_clear()
    yield tmp_path
    train.transitions.cache_clear()


@pytest.mark.parametrize(("kind", "loss"), ROWS)
def test_each_kind_is_trained_by_each_loss_of_the_tables(models, kind, loss):
    for world in ("blocks:3", "chemistry:chain3-dynamic"):
        recipe = train.Recipe(world, kind, loss=loss, epochs=1)
        assert list(train.train(recipe)) == list(STAGES[loss])
        assert not list(models.glob("*.pt"))


def test_a_gate_reads_weights_and_side_file(models):
    (path,) = train.train(train.Recipe("blocks:3", "gnn", epochs=1)).values()
    gate = pytest_cpg.evaluate(
        "blocks:3,k=1,look=grid",
        path,
        planner="greedy",
        episodes=10,
        diagnose="never",
        cache=None,
        max_verdict="BAD",
    )
    assert gate.oracle.success_rate == 1
    assert gate.rescored is not None


def test_a_training_that_was_stopped_goes_on_to_the_same_weights(models, monkeypatch):
    recipe = train.Recipe("blocks:3", "modular", epochs=3)
    (path,) = train.train(recipe).values()
    whole = load_file(path)
    path.unlink()
    saved, seen = torch.save, []

    def save(state, at):
        saved(state, at)
        seen.append(state["epoch"])
        if seen == [1]:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(KeyboardInterrupt):
        train.train(recipe)
    train.train(recipe)
    assert seen[:3] == [1, 2, 3]
    for name, weights in load_file(path).items():
        assert torch.equal(weights, whole[name]), name
