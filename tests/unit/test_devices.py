import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import bind
from pytest_cpg.world_models.tensors import rollout_there
from pytest_cpg.world_models.tiling import TILE, TILE_ELSEWHERE, tile_of, tiled


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, observations, actions):
        return observations + self.linear(torch.cat([observations, actions], dim=-1))


def test_a_model_on_another_device_is_called_with_a_whole_round_at_once():
    assert tile_of(Residual()) == TILE
    assert tile_of(Residual().to("meta")) == TILE_ELSEWHERE
    assert tile_of(len) == TILE
    sizes = []
    tiled(lambda rows: sizes.append(len(rows)) or rows, rows=7)(np.zeros((10, 1)))
    assert sizes == [7, 7]


def test_a_rollout_that_stays_on_its_device_gives_the_same_bits_as_one_step_by_step():
    task, model = maze(), Residual()
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    states = task.reset(np.arange(8))
    bound = bind(model, task, probe_states=states, probe_actions=actions)
    plans = np.stack([actions, actions[::-1]], axis=1)
    with torch.inference_mode():
        there = tiled(rollout_there(model, otherwise=len))(task.observe(states), plans)
    assert np.array_equal(there, bound.rollout(bound.encode(states), plans))
    assert rollout_there(len, otherwise=max) is max


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a graphics processor")
def test_predictions_on_a_graphics_processor_are_those_of_the_processor():
    task = maze()
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    states = task.reset(np.arange(8))
    plans = np.stack([actions, actions[::-1]], axis=1)
    found = [
        bind(model, task, probe_states=states, probe_actions=actions).rollout(
            task.observe(states), plans
        )
        for model in (Residual(), Residual().to("cuda"))
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-5)
