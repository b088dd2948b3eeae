import numpy as np
import pytest

from pytest_cpg.contracts import BoxActions
from pytest_cpg.planners import GradientMPC, score_plans
from pytest_cpg.planners.gradient import finite_differences

torch = pytest.importorskip("torch")

from pytest_cpg.world_models import bind, inference  # torch is not always there

BOX = BoxActions(np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
STATES = np.random.default_rng(0).normal(size=(40, 3))
PLANS = np.random.default_rng(1).uniform(-0.9, 0.9, (40, 5, 2))
WEIGHTS = np.random.default_rng(2).random((40, 5))
MIX = np.random.default_rng(3).normal(size=(5, 3)) / 3


class Swirl:
    """A nonlinear world of three numbers, near its goal where they are small."""

    name, budget, control_period, observation_size, versions = "swirl", 20, 0.1, 3, {}
    actions = BOX

    def step(self, states, actions):
        return states + np.tanh(np.concatenate([states, actions], 1) @ MIX)

    def rollout(self, states, actions):
        reached = []
        for t in range(actions.shape[1]):
            states = self.step(states, actions[:, t])
            reached.append(states)
        return np.stack(reached, 1)

    def observe(self, states):
        return states

    def score(self, observations):
        return np.sqrt(0.1 + (observations**2).sum(axis=-1))


def learned(observations, actions):
    mix = torch.tensor(MIX, dtype=observations.dtype)
    return observations + torch.tanh(torch.cat([observations, actions], -1) @ mix)


class Latent:
    """The same world in latents of its own, twice the observations, rated in several ways."""

    discount = 0.9

    def __init__(self, **heads):
        vars(self).update(heads)

    def encode(self, observations):
        return 2 * observations

    def rollout(self, latents, actions):
        reached = []
        for action in actions.unbind(1):
            latents = 2 * learned(latents / 2, action)
            reached.append(latents)
        return torch.stack(reached, 1)


def callable_and_more(observations, actions):
    return learned(observations, actions)


# Asked for, in place of the task's: its slopes are others.
callable_and_more.score = lambda latents: (latents**2).sum(-1)

MODELS = {
    "callable": lambda: learned,
    "callable with a score": lambda: callable_and_more,
    "score": lambda: Latent(score=lambda z: z.abs().sum(-1)),
    "decode": lambda: Latent(decode=lambda z: z / 2),
    "reward": lambda: Latent(reward=lambda z, a: -(z**2).sum(-1) - (a**2).sum(-1)),
    "value": lambda: Latent(
        reward=lambda z, a, after: -(after**2).sum(-1), terminal_value=lambda z: -z.abs().sum(-1)
    ),
}


def bound(model):
    return bind(model, Swirl(), probe_states=STATES[:8], probe_actions=PLANS[:8, 0])


@pytest.mark.parametrize("kind", MODELS)
def test_the_gradient_through_torch_is_that_of_finite_differences(kind):
    model = MODELS[kind]()
    world = bound(model)
    with inference(model):
        latents = world.encode(STATES)
        exact = world.plan_gradient(latents, PLANS, WEIGHTS)
        near = finite_differences(world, latents, PLANS[:, None], WEIGHTS[:, None], step=1e-2)
    assert exact == pytest.approx(near[:, 0], rel=0.02, abs=0.01)


def test_a_row_has_the_same_gradient_alone_and_in_any_place():
    world = bound(learned)
    together = world.plan_gradient(STATES, PLANS, WEIGHTS)
    for rows in ([7], [39, 7, 3], list(range(39, -1, -1))):
        found = world.plan_gradient(STATES[rows], PLANS[rows], WEIGHTS[rows])
        assert np.array_equal(found, together[rows])


@pytest.mark.parametrize(
    "model",
    [
        Swirl().step,
        lambda o, a: learned(o, a).detach(),
        lambda o, a: torch.from_numpy(Swirl().step(np.asarray(o), np.asarray(a))),
    ],
    ids=["numpy", "detached", "through numpy"],
)
def test_what_torch_cannot_differentiate_has_no_gradient(model):
    assert bound(model).plan_gradient is None


def test_planning_by_torch_and_by_finite_differences_comes_to_the_same():
    world, scores = bound(learned), []
    for gradients in ("auto", "finite-differences"):
        planner = GradientMPC(gradients=gradients, horizon=5)
        rngs = [np.random.default_rng(row) for row in range(40)]
        plans = planner.plan(world, STATES, rngs, np.full(40, 20))
        scores.append(score_plans(world, STATES, plans.actions[:, None]).sum(axis=-1))
    # In single precision the two may take a plan over different sides of a hill.
    assert np.isclose(scores[0], scores[1], rtol=0.01).mean() > 0.9
