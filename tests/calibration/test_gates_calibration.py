"""False alarms of whole gates: arms of known rates, run through the code that users run."""

import numpy as np
import pytest
from fakes import design_and_criteria

from pytest_cpg.contracts import FiniteActions
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.stopping import gap_p_value_of
from pytest_cpg.planners import RandomShooting
from pytest_cpg.stats import Verdict
from pytest_cpg.stats.power import gap_power
from pytest_cpg.stats.sequential import operating_characteristics, wang_tsiatis_boundary
from pytest_cpg.stats.verdicts import holm
from pytest_cpg.world_models import OracleDynamics

pytestmark = pytest.mark.slow

GATES = 10_000
FAMILY = 10


class Coin:
    """A start that each arm solves or not, by lots drawn with the start; one step decides.

    A state holds the start's lots: the oracle's and the model's arm solve it when theirs is below
    the rate. Where the lots are shared, both do or both do not.
    """

    name = "coin"
    observation_size = 3
    control_period = 1.0
    versions = {"coin": "1"}  # noqa: RUF012
    budget = 1
    actions = FiniteActions(np.array([[0.0], [1.0], [2.0]]))

    def __init__(self, rate, share):
        self.rate, self.share = rate, share

    def reset(self, seeds):
        lots = np.stack([np.random.default_rng(seed).random(3) for seed in seeds])
        shared = lots[:, 2] < self.share
        lots[shared, 1] = lots[shared, 0]
        return np.concatenate([lots[:, :2], np.zeros((len(lots), 1))], axis=1)

    def step(self, states, actions):
        after = np.array(states)
        after[:, 2] = actions[:, 0]
        return after

    def rollout(self, states, actions):
        return np.repeat(states[:, None], actions.shape[1], axis=1) + np.concatenate(
            [np.zeros((*actions.shape[:2], 2)), actions], axis=2
        )

    def observe(self, states):
        return states

    def score(self, observations):
        return np.abs(observations[..., 2] - 1.0)

    def reward(self, states, actions):
        arm = states[:, 2].astype(int)
        lots = np.take_along_axis(states[:, :2], np.clip(arm - 1, 0, 1)[:, None], axis=1)[:, 0]
        return ((arm > 0) & (lots < self.rate)).astype(float)

    def success(self, states, actions):
        return self.reward(states, actions) > 0


class ModelArm:
    """A model that always takes action 2, by which the second lot decides."""

    def encode(self, observations):
        return observations

    def rollout(self, latents, actions):
        return np.repeat(latents[:, None], actions.shape[1], axis=1) + np.concatenate(
            [np.zeros((*actions.shape[:2], 2)), actions], axis=2
        )

    def score(self, latents):
        return np.abs(latents[..., 2] - 2.0)


def null_gates(rate, share, *, count=GATES, **options):
    task = Coin(rate, share)
    # So many candidates hold all three actions, but for one plan in 10**11.
    planner = RandomShooting(candidates=64, horizon=1)
    for seed in range(count):
        design, criteria = design_and_criteria(
            {"task": task, "planner": planner, "episodes": 50, "seed": seed, **options}
        )
        yield measure_gap(design, criteria, oracle=OracleDynamics(task), learned=ModelArm())


def alarms(results):
    return sum(result.verdict is Verdict.MODEL_BOTTLENECK for result in results)


def test_the_coin_is_what_it_says():
    results = list(null_gates(0.5, 0.5, count=40))
    oracle = np.concatenate([result.oracle.successes for result in results])
    learned = np.concatenate([result.learned.successes for result in results])
    assert np.corrcoef(oracle, learned)[0, 1] == pytest.approx(0.5, abs=0.08)
    assert oracle.mean() == pytest.approx(0.5, abs=0.06)


CASES = {
    "fixed": {},
    "sequential": {"stop": "sequential"},
    "fixed, Holm": {"family_size": FAMILY, "interval": "tango"},
    "sequential, Holm": {"family_size": FAMILY, "stop": "sequential"},
}


def exact_error(name):
    """Return what the enumeration says of one gate, or of a family of independent ones."""
    level = 1 - 0.05 / FAMILY if "Holm" in name else 0.95
    if "sequential" in name:
        boundary = wang_tsiatis_boundary(50, level=level)
        one = operating_characteristics(boundary, oracle_only=0.25, learned_only=0.25).above
    else:
        method = "tango" if "Holm" in name else "agresti-caffo"
        one = gap_power(0.5, 0.5, episodes=50, method=method, level=level)
    return 1 - (1 - one) ** FAMILY if "Holm" in name else one


def test_null_gates_cry_wolf_as_often_as_they_say(statistics_page):
    rows = []
    for name, options in CASES.items():
        results = list(null_gates(0.5, 0.0, **options))
        if "family_size" in options:
            trials = GATES // FAMILY
            count = sum(
                bool(_rejected(results[first : first + FAMILY]))
                for first in range(0, GATES, FAMILY)
            )
            what = f"{trials} families of {FAMILY}"
        else:
            trials, count, what = GATES, alarms(results), f"{GATES} gates"
        error, exact = count / trials, exact_error(name)
        noise = np.sqrt(exact * (1 - exact) / trials)
        rows.append(
            [
                name,
                what,
                f"{100 * error:.2f} %",
                f"{100 * exact:.2f} % +- {100 * noise:.2f} %",
                f"{np.mean([result.learned.episodes for result in results]):.1f}",
            ]
        )
        assert abs(error - exact) <= 3 * noise
    statistics_page.table(
        "Simulated gates without a gap",
        ["stop", "simulated", "false alarms", "enumerated", "episodes per arm"],
        rows,
        note=(
            "Whole gates, through the code that users run: independent arms that solve each start "
            "with chance 0.5, at most 50 episodes; nominal 2.5 %. A family counts once, whatever "
            "it rejects. At rates of 0.5 the Agresti-Caffo interval of a fixed gate errs most."
        ),
    )


def _rejected(family):
    """Return what a family rejects: by the gates' own verdicts, and by Holm's later steps."""
    own = [result for result in family if result.verdict is Verdict.MODEL_BOTTLENECK]
    p_values = {str(number): gap_p_value_of(result) for number, result in enumerate(family)}
    later = holm(p_values, alpha=0.025, family_size=FAMILY)
    assert len(later) >= len(own)
    return later
