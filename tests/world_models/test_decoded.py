import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from official_weights import dreamer, tdmpc2

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.tasks.grids import maze
from pytest_cpg.tasks.pixel_task import seen_as_pixels
from pytest_cpg.world_models import Decoded, bind, collect_transitions, fit_decoder
from pytest_cpg.world_models.checkpoints import readers
from pytest_cpg.world_models.checkpoints.dreamer import DreamerV3
from pytest_cpg.world_models.checkpoints.tdmpc2 import TDMPC2

pytestmark = pytest.mark.trains

SETTINGS = {"obs_keys": "position", "action_repeat": 1, "simnorm_dim": 8, "discount": 0.99}


def bound(model, task):
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    return bind(model, task, probe_states=task.reset(np.arange(8)), probe_actions=actions)


def test_tdmpc2_plans_with_its_own_reward_and_value_or_with_decoded_observations():
    task = maze()
    model = TDMPC2.of(tdmpc2(observation=2, action=2, bins=11), **SETTINGS).for_task(task)
    assert bound(model, task).swapped == ("dynamics", "reward", "value")
    seen = np.random.default_rng(0).uniform(0, 5, size=(500, 2))
    decoded = Decoded(model, fit_decoder(model, seen, seed=0, hidden=64, steps=300))
    # Of the mean alone it is 1.25.
    assert np.abs(decoded.decode(decoded.encode(seen)) - seen).mean() < 0.6
    first, again = (fit_decoder(model, seen, seed=1, hidden=8, steps=3) for _ in range(2))
    assert all(map(torch.equal, first.parameters(), again.parameters()))
    assert bound(decoded, task).swapped == ("dynamics", "decoder")


def test_a_decoder_reads_latents_of_double_precision():
    model = TDMPC2.of(tdmpc2(observation=2, action=2, bins=11), **SETTINGS).double()
    seen = np.random.default_rng(0).uniform(0, 5, size=(50, 2))
    decoded = Decoded(model, fit_decoder(model, seen, seed=0, hidden=8, steps=3))
    assert decoded.decode(decoded.encode(seen)).shape == (50, 2)


def test_a_recurrent_model_keeps_its_memory_when_its_observations_are_decoded():
    model = DreamerV3.of(dreamer()[0], action_repeat=1, discount=0.99)
    decoded = Decoded(model)
    latents, actions, seen = model.encode(torch.rand(2, 6)), torch.rand(2, 1), torch.rand(2, 6)
    assert torch.equal(decoded.update(latents, actions, seen), model.update(latents, actions, seen))
    assert torch.equal(decoded.decode(latents), model.decode(latents))
    assert not hasattr(decoded, "reward")


def test_what_a_model_of_pictures_sees_is_read_by_a_network_whose_error_is_told(tmp_path):
    pytest.importorskip("PIL")
    torch.save(tdmpc2(channels=8, bins=11, action=2), tmp_path / "model.pt")
    task = seen_as_pixels("maze", size=64, stack=3)
    settings = {name: value for name, value in SETTINGS.items() if name != "obs_keys"}
    model = readers.load(tmp_path / "model.pt", task, rate_by="observations", **settings)
    found = bound(model, task)
    assert found.swapped == ("dynamics", "decoder")
    (note,) = found.notes
    left = int(re.fullmatch(r"plans are rated by .* it leaves (\d+) % of the .*", note)[1])
    # Convolutions with random weights tell some of where the agent is.
    assert 20 < left < 90
    drawn = collect_transitions(task, count=1000, seed=0, with_frames=True)
    frames, places = drawn.frames[9::10], drawn.observations[9::10]
    off = np.asarray(model.decode(model.encode(frames))) - places
    assert left == round(100 * (off**2 / places.var(axis=0, ddof=1)).mean())


def test_what_rates_a_checkpoints_plans_is_chosen_beside_it(tmp_path):
    torch.save(tdmpc2(observation=2, action=2, bins=11), tmp_path / "model.pt")
    with pytest.raises(WorldModelError, match="fits one on observations of a task"):
        readers.load(tmp_path / "model.pt", rate_by="observations", **SETTINGS)
    with pytest.raises(WorldModelError, match='need "reward" or "observations", got 3'):
        readers.load(tmp_path / "model.pt", rate_by=3)
