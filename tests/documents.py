"""JSON documents of sessions that never ran, for tests of what shows them."""

from dataclasses import replace

import numpy as np
from fakes import judged, result_of

from pytest_cpg.contracts.codec import encode
from pytest_cpg.gates.card import comparison_name


def measured(oracle, learned, episodes=50, *, seed=0, chance=0.04, **more):
    """Return a result with these success rates, nearly, and steps that differ."""
    rng = np.random.default_rng(seed)
    luck, other = rng.random((2, episodes))
    shared = np.where(rng.random(episodes) < 0.7, luck, other)
    result = result_of(
        list(luck < oracle), list(shared < learned), list(rng.random(episodes) < chance), **more
    )
    arms = {
        name: _with_steps(getattr(result, name), rng) for name in ("oracle", "learned", "chance")
    }
    return replace(result, **arms)


def _with_steps(arm, rng):
    steps = np.where(arm.successes, rng.integers(5, 500, arm.episodes), 500)
    return replace(arm, steps=steps, returns=500.0 - steps)


def comparison(name, result, *, reason=None, drift=None, attempt=1):
    found = judged(result, reason)
    return {
        "name": name,
        "kind": "cpg",
        "label": found.ruling.label,
        "severity": found.ruling.severity.name.lower(),
        "reason": reason,
        "max_verdict": "INCONCLUSIVE",
        "attempt": attempt,
        "drift": None if drift is None else encode(drift),
        "strip": None,
        "commands": [],
        "result": encode(result),
    }


def gate(gate_id, *results, outcome="passed", detail="", earlier=(), measurements=(), **more):
    comparisons = [
        comparison(comparison_name(gate_id, place), result, **more)
        for place, result in enumerate(results, 1)
    ]
    return {
        "id": gate_id,
        "outcome": outcome,
        "detail": detail,
        "earlier": list(earlier),
        "comparisons": comparisons,
        "measurements": list(measurements),
    }


def session(
    *gates, findings=(), deselected=(), exit_code=0, failed_tests=0, uncollected=(), **provenance
):
    findings = [{"text": text, "fails": fails} for text, fails in findings]
    return {
        "schema": 1,
        "generator": {"name": "pytest-cpg", "version": "0.1.0"},
        "provenance": {
            "revision": "3f2c1e9a0b44556677889900112233445566aabb",
            "dirty": False,
            "python": "3.11.9",
            "platform": "Linux-6.1-x86_64",
            "packages": {"numpy": "2.4.6"},
            "processor": "Turbo 5",
            "processors": 2,
            "kernels": {"numpy": "X86_V3", "torch": "AVX2"},
            **provenance,
        },
        "session": {
            # Renderers work it out again.
            "outcome": "failed" if exit_code else "passed",
            "exit_code": exit_code,
            "failed_tests": failed_tests,
            "uncollected": dict(uncollected),
        },
        "gates": list(gates),
        "deselected": list(deselected),
        "findings": findings,
    }


def large(gates=200, episodes=150):
    """Return a session of many gates, a third of which lose."""
    return session(
        *(
            gate(
                f"tests/models/test_world_models.py::test_gate[task-{number}-cem-h12]",
                measured(
                    0.95, 0.93 - 0.6 * (number % 3 == 0) * (number / gates), episodes, seed=number
                ),
                outcome="passed" if number % 3 else "failed",
                reason=None if number % 3 else "the verdict is worse than INCONCLUSIVE",
            )
            for number in range(gates)
        )
    )
