"""Policies that see the step, or draw: told and drawn for alike in truth and in imagination."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from queries import returns_of, simulated
from test_generate_queries import Track, generated

from pytest_cpg.contracts import CpgError
from pytest_cpg.gates.policy_comparison.answers import imagined_returns
from pytest_cpg.planners.policies import FunctionPolicy, NoiseMixture, actions_of, check_policy
from pytest_cpg.world_models import bind_ensemble


@dataclass(frozen=True)
class Seen(Track):
    """The track with its speed in view, so that a model of what is seen can be exact."""

    observation_size: int = 2

    def observe(self, states):
        return states.copy()


TASK = Seen()
HOME = FunctionPolicy(lambda seen: np.clip(-seen[:, :1], -1, 1))
# Home for three steps, and away after them.
TURNING = FunctionPolicy(
    lambda seen, step, noise: np.clip(seen[:, :1] * (-1 if step < 3 else 1), -1, 1), noise_size=0
)
DRAWING = FunctionPolicy(
    lambda seen, step, noise: np.clip(noise - seen[:, :1], -1, 1), noise_size=1
)


class Exact:
    """Two members that are the task."""

    members = 2

    def step(self, observations, actions):
        after = TASK.step(observations.astype(float), actions.astype(float))
        return after, TASK.reward(after, None)


@pytest.fixture(scope="module")
def queries():
    return generated(TASK, (HOME, TURNING, DRAWING), horizons=(8,))


def imagined(queries):
    ensemble = bind_ensemble(
        Exact(), observations=queries.observations_a[:4], actions=queries.actions_a[:4]
    )
    return imagined_returns(ensemble, queries, progress=lambda *_: None)


def test_an_exact_model_earns_what_policies_that_see_steps_and_draw_earned(queries):
    used = {*queries.policy_a, *queries.policy_b}
    assert used == {0, 1, 2}
    returns = imagined(queries)
    for side in "ab":
        true = getattr(queries, f"returns_{side}")
        np.testing.assert_allclose(getattr(returns, side), [true, true], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(simulated(queries, TASK), returns_of(queries))


def test_a_row_draws_the_same_alone_and_in_any_batch(queries):
    rows = np.flatnonzero((queries.policy_a == 2) | (queries.policy_b == 2))[:3]
    together, alone = imagined(queries), imagined(queries.take(rows))
    np.testing.assert_array_equal(alone.a, together.a[:, rows])
    np.testing.assert_array_equal(alone.b, together.b[:, rows])


def test_noise_is_normal_and_another_at_each_step_and_start():
    draws = FunctionPolicy(lambda seen, step, noise: noise, noise_size=2)
    starts = np.linspace(-1, 1, 500)[:, None]
    noise = np.stack([actions_of(draws, starts, step=step, starts=starts) for step in range(3)])
    assert len(np.unique(noise)) == noise.size
    assert abs(noise.mean()) < 0.1
    assert noise.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("size", [-1, 1.5, True, "two"])
def test_a_noise_size_that_is_no_count_is_refused(size):
    policy = replace(DRAWING, noise_size=size)
    with pytest.raises(ValueError, match="write how many numbers act"):
        check_policy(policy, "policies[0]")


def test_a_policy_that_draws_by_itself_is_told_where_noise_comes_from():
    rng = np.random.default_rng(0)
    own = FunctionPolicy(lambda seen: rng.uniform(-1, 1, (len(seen), 1)))
    with pytest.raises(CpgError, match="Draw from the noise that a policy with noise_size is"):
        generated(TASK, (HOME, own))


def test_noise_that_a_mixture_cannot_pass_on_is_refused():
    with pytest.raises(ValueError, match="has a noise_size, and what is mixed sees no step"):
        NoiseMixture(policy=DRAWING, actions=TASK.actions, share=0.5, seed=0)
