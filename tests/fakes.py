"""Finished arms and results without running anything, for tests of what comes after."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np

from pytest_cpg.episodes.arm import Arm, Latency, start_digests
from pytest_cpg.episodes.design import Design, Starts
from pytest_cpg.gates import GATES
from pytest_cpg.gates.kept import KeptResult, drift_of
from pytest_cpg.gates.kind import max_verdict_of
from pytest_cpg.gates.planning_gap.measure import gate_result
from pytest_cpg.gates.planning_gap.stopping import Criteria, weigh_arm
from pytest_cpg.machine.provenance import Provenance
from pytest_cpg.planners import RandomShooting
from pytest_cpg.report.ledger import Judgement

PROVENANCE = Provenance(
    revision="3f2c1e9abcde",
    dirty=True,
    python="3.11.7",
    platform="Linux-x86_64",
    processor="Turbo 5",
    processors=2,
    kernels={"numpy": "X86_V3", "torch": "AVX2"},
    packages={"pytest-cpg": "0.1.0", "numpy": "2.4.6"},
)


def arm(name, outcomes, returns=None, perturbed=None):
    return Arm(
        name=name,
        successes=np.array(outcomes, dtype=bool),
        steps=np.full(len(outcomes), 100),
        indices=np.arange(len(outcomes)),
        returns=np.asarray(outcomes if returns is None else returns, dtype=float),
        level=0.95,
        decisions=len(outcomes),
        rollout_steps=750.0,
        latency_ms=Latency(1.0, 2.0),
        cpu_ms=Latency(1.0, 2.0),
        compute=403.7,
        latency_interval=(0.9, 1.1),
        seconds=1.0,
        perturbed=perturbed,
    )


def first(successes, episodes):
    return [i < successes for i in range(episodes)]


def design_and_criteria(values):
    """Return both from one mapping of their fields."""
    names = {field.name for field in fields(Criteria)}
    judged = {name: value for name, value in values.items() if name in names}
    run = {name: value for name, value in values.items() if name not in names}
    return Design(**run), Criteria(**judged)


def result_of(
    oracle,
    learned,
    chance=None,
    *,
    ignores_action=False,
    swapped=("dynamics",),
    plan_gradient=None,
    **more,
):
    episodes = len(oracle)
    task = SimpleNamespace(name="track", budget=500, control_period=0.01, versions={"track": "1"})
    design, criteria = design_and_criteria(
        {"task": task, "planner": RandomShooting(), "episodes": episodes, "seed": 4, **more}
    )
    starts = Starts(
        episodes=np.arange(episodes),
        states=np.zeros((episodes, 1)),
        seeds=np.arange(episodes) + 7,
        skipped=2,
    )
    model = SimpleNamespace(
        swapped=swapped,
        ignores_action=ignores_action,
        plan_gradient=plan_gradient,
        rates_plans_alone=False,
        notes=(),
    )
    oracle_model = SimpleNamespace(swapped=(), ignores_action=False, plan_gradient=None)
    # Every episode but the first.
    is_perturbed = design.perturbation is not None
    perturbed = np.arange(episodes) > 0 if is_perturbed else None
    outcomes = {"oracle": oracle, "learned": learned, "chance": chance or first(0, episodes)}
    arms = {name: arm(name, done, perturbed=perturbed) for name, done in outcomes.items()}
    return gate_result(
        design,
        criteria,
        {"oracle": oracle_model, "learned": model},
        starts,
        **arms,
        weighed={
            name: weigh_arm(design, criteria, 0, arms, name) for name in ("learned", "chance")
        },
    )


def stored_of(episodes, *, first=0, confidences=None, name="oracle", rng=0):
    rng = np.random.default_rng(rng)
    return replace(
        arm(name, rng.integers(2, size=episodes), returns=rng.normal(size=episodes)),
        indices=np.arange(first, first + episodes),
        confidences=confidences,
        plans=rng.integers(1, 9, size=episodes),
        model_steps=rng.integers(0, 10**6, size=episodes),
        starts=start_digests(rng.normal(size=(episodes, 3))),
    )


def judged(result, reason=None, drift=None, *, max_verdict="INCONCLUSIVE", **more):
    """Return what a result means for a test."""
    kind = GATES["cpg"]
    limit = max_verdict_of(max_verdict, kind.labels)
    ruling = kind.judge(result, limit)
    return Judgement(
        kind=kind,
        result=result,
        ruling=ruling,
        max_verdict=limit,
        reason=reason,
        drift=drift,
        **more,
    )


def drift_since(commit, then, now):
    """Return how a planning gap stands beside one that was accepted at a commit."""
    kind = GATES["cpg"]
    return drift_of(kind, KeptResult.of("g", kind, kind.entry(then), commit=commit), now)
