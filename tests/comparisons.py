"""A cart on a spring, ensembles that are more or less wrong about it, and true queries of it."""

import numpy as np

from pytest_cpg.contracts import BoxActions
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.gates.kind import Run
from pytest_cpg.gates.policy_comparison.kind import PolicyComparison
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.gates.policy_comparison.result import ComparisonResult, Criteria, grade
from pytest_cpg.stats import GradedAnswers
from pytest_cpg.world_models.transitions import Transitions

KIND = PolicyComparison()


def running(training_data=None, execution=None):
    """Return what a measurement is made with that nobody watches."""
    return Run(
        given={"training_data": training_data},
        execution=execution or Execution(),
        task=None,
        progress=lambda *_: None,
    )


label_of, ruling_of, alarm_of = KIND.label, KIND.judge, KIND.alarm
criteria_of, card_of = KIND.criteria, KIND.card
SPACE = BoxActions(-np.ones(1), np.ones(1))
PERIOD, GOAL = 0.2, 1.0
USUAL = Criteria(
    confidence="pci",
    min_auroc=0.6,
    max_risk=0.05,
    min_coverage=0.5,
    max_loss=None,
    resamples=200,
    level=0.95,
    family_size=1,
    seed=0,
)


class Steer:
    """Pushes the cart towards a place of its own."""

    def __init__(self, target, gain):
        self.target, self.gain = target, gain

    def act(self, observations):
        off = self.target - observations[:, :1] - 0.5 * observations[:, 1:]
        return np.tanh(self.gain * off)


POLICIES = (Steer(1.0, 2.0), Steer(0.6, 1.0), Steer(1.5, 1.0), Steer(0.0, 0.5))


def moved(observations, actions, *, push=1.0, drift=0.0):
    place, speed = observations[..., :1], observations[..., 1:]
    speed = 0.95 * speed + PERIOD * (push * actions - 0.5 * place + drift)
    return np.concatenate([place + PERIOD * speed, speed], axis=-1)


def paid(observations):
    return -np.abs(observations[..., 0] - GOAL)


class Carts:
    """An ensemble of carts, each pushed and drawn a little differently."""

    def __init__(
        self, members=6, *, noise=0.02, push=1.0, drift=0.0, seed=0, crash=None, lost=None
    ):
        self.members, self.crash, self.lost, self.steps = members, crash, lost, 0
        draw = np.random.default_rng(seed).standard_normal((2, members, 1, 1))
        self.push, self.drift = push + noise * draw[0], drift + noise * draw[1]

    def step(self, observations, actions):
        after = moved(observations, actions, push=self.push, drift=self.drift)
        # The few rows that a model is checked with do not count.
        self.steps += observations.shape[1] > 4
        if self.steps == self.crash:
            raise RuntimeError("my own bug")
        if self.steps == self.lost:
            after[2, 1] = np.nan
        return after, paid(after)


class Frozen:
    """An ensemble in which nothing moves."""

    members = 3

    def step(self, observations, actions):
        goals = GOAL + 0.1 * np.arange(self.members)[:, None]
        return observations, -np.abs(observations[..., 0] - goals)


class Constant:
    """An ensemble to which everything is worth the same."""

    members = 3

    def step(self, observations, actions):
        return observations, np.ones(observations.shape[:2])


class Random:
    """An ensemble whose returns have to do with nothing."""

    members = 3

    def step(self, observations, actions):
        after = moved(observations, actions)
        mixed = 1e4 * after.sum(axis=-1) * np.arange(1, 1 + self.members)[:, None]
        return after, np.sin(mixed)


class Stateful:
    """An ensemble whose returns depend on what was asked before."""

    members, asked = 3, 0

    def rollout(self, observations, act, horizon):
        self.asked += horizon > 2
        rows = np.arange(observations.shape[1])[:, None]
        rewards = np.sin(7.0 * self.asked + rows) + act(0, observations)
        after = np.repeat(observations[:, :, None], horizon, axis=2)
        return np.repeat(rewards, horizon, axis=2), after, np.zeros((*after.shape[:3],), bool)


def cart_steps(count=200):
    """Return recorded steps of the cart."""
    rng = np.random.default_rng(7)
    before, actions = rng.uniform(-1.5, 1.5, size=(count, 2)), rng.uniform(-1, 1, size=(count, 1))
    return Transitions(
        observations=before, actions=actions, next_observations=moved(before, actions)
    )


def cart_queries(count=240, *, seed=0, horizons=(10, 20, 30), discount=1.0):
    """Return queries whose returns are the cart's own."""
    rng = np.random.default_rng(seed)
    sides = {}
    horizon = rng.choice(horizons, size=count)
    pairs = np.array([rng.permutation(len(POLICIES))[:2] for _ in range(count)])
    for column, side in enumerate("ab"):
        starts = rng.uniform(-1.5, 1.5, size=(count, 2))
        first = rng.uniform(-1, 1, size=(count, 1))
        returns = true_returns(starts, first, pairs[:, column], horizon, discount)
        sides |= {
            f"observations_{side}": starts,
            f"actions_{side}": first,
            f"policy_{side}": pairs[:, column],
            f"returns_{side}": returns,
        }
    return PolicyQueries(
        environment="cart",
        policies=POLICIES,
        horizons=horizon,
        discount=discount,
        action_space=SPACE,
        **sides,
    )


def true_returns(starts, first, policies, horizons, discount):
    state, returns = starts, np.zeros(len(starts))
    for step in range(horizons.max()):
        actions = first if step == 0 else np.empty_like(first)
        for number, policy in enumerate(POLICIES if step else ()):
            own = policies == number
            actions[own] = policy.act(state[own])
        state = moved(state, actions)
        returns += np.where(step < horizons, discount**step * paid(state), 0.0)
    return returns


def graded_table(wrong, confidences, *, labels=None, trivial=None):
    """Return a result of nothing but a table of answers."""
    wrong = np.asarray(wrong)
    labels = np.arange(len(wrong)) % 2 == 0 if labels is None else labels
    trivial = labels if trivial is None else trivial
    given = GradedAnswers(wrong=wrong, confidences=confidences)
    count = np.arange(len(wrong))
    return ComparisonResult(
        design=None,
        criteria=USUAL,
        answers=labels ^ wrong,
        labels=labels,
        confidences=np.asarray(confidences),
        imagined_a=count,
        imagined_b=count,
        returns_a=count,
        returns_b=count + 1,
        horizons=count * 0 + 10,
        groups=count,
        grades=grade(given, USUAL, trivial=(trivial,), horizons=count * 0 + 10),
        constant_loss=float(trivial.mean()),
        constant_answer=False,
        frozen_loss=1.0,
    )
