"""Notes: what a reader must know before trusting a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.design import Design
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import BoundModel

# Chance this near to the oracle leaves little of the oracle's success to planning.
_CHANCE_SHARE = 0.5


def notes_on(
    design: Design,
    models: Mapping[str, BoundModel],
    chance_verdict: Verdict | None,
    oracle: Arm,
    chance: Arm,
) -> list[str]:
    """Return one clause for each doubt about what was measured."""
    notes = []
    if models["oracle"].swapped:
        notes.append("the oracle arm was run with a surrogate, not with the task's true dynamics")
    if design.planner.horizon > design.task.budget:
        notes.append(
            f"plans look {design.planner.horizon} steps ahead, and an episode has only "
            f"{design.task.budget}"
        )
    if oracle.perturbed is not None and not oracle.perturbed.any():
        notes.append(
            f"the perturbation took effect in none of the oracle's {oracle.episodes} episodes: "
            f"nothing was judged but the undisturbed task"
        )
    if design.starts == "fixed":
        notes.append(
            'starts="fixed": every episode begins in one state, so the gap is about that state '
            "and not about the task"
        )
    # Where chance is not told from the oracle, the gate is blind and says so itself.
    is_told_apart = chance_verdict is Verdict.MODEL_BOTTLENECK
    if is_told_apart and chance.success_rate >= _CHANCE_SHARE * oracle.success_rate > 0:
        notes.append(
            f"random actions succeed in {chance.success_count}/{chance.episodes} episodes: "
            f"success on this task is weak evidence of planning"
        )
    notes += _on_gradients(design, models)
    notes += _on_policy(design, models["learned"])
    extra = [part for part in models["learned"].swapped if part != "dynamics"]
    if extra:
        notes.append(
            f"the model also gives {', '.join(extra)}: the gap is not about dynamics alone"
        )
    if models["learned"].rates_plans_alone:
        notes.append(
            "the model rates plans and no true states: how much of the gap its rating loses is not "
            "known"
        )
    return [*notes, *models["learned"].notes]


def begins_from_policy(design: Design, learned: BoundModel) -> bool:
    """Say whether plans of the learned arm begin from the model's policy."""
    is_asked = learned.planner is None and _policy_plans(design) > 0
    return is_asked and learned.policy_plans is not None


def _policy_plans(design: Design) -> int:
    return int(getattr(design.planner, "policy_plans", 0))


def _on_policy(design: Design, learned: BoundModel) -> list[str]:
    """Say which arms a planner that begins from a policy has one in."""
    count = _policy_plans(design)
    if not count or learned.planner is not None:
        return []
    if not begins_from_policy(design, learned):
        return [
            f"the planner takes {count} plans from a model's policy, and this model has none: they "
            f"are drawn like the others"
        ]
    return [
        "the model's policy proposes plans in the learned arm; the oracle arm knows no model, and "
        "draws them like the others"
    ]


def _on_gradients(design: Design, models: Mapping[str, BoundModel]) -> list[str]:
    """Say so where one arm's plans follow exact gradients and the other's do not."""
    if getattr(design.planner, "gradients", None) != "auto":
        return []
    ways = {
        name: "finite differences" if models[name].plan_gradient is None else "torch"
        for name in ("oracle", "learned")
    }
    if ways["oracle"] == ways["learned"]:
        return []
    return [
        f"plans follow gradients by {ways['oracle']} in the oracle arm and by {ways['learned']} "
        f'in the learned arm; GradientMPC(gradients="finite-differences") treats both alike'
    ]


def differences_of(oracle: Arm, learned: Arm) -> list[str]:
    """Return what an A/A check finds wrong: episodes that one model ended in two ways."""
    shared = slice(learned.episodes)
    is_other = (
        (oracle.successes[shared] != learned.successes)
        | (oracle.steps[shared] != learned.steps)
        | (oracle.returns[shared] != learned.returns)
    )
    if not is_other.any():
        return []
    first = int(learned.indices[is_other][0])
    return [
        f"the true dynamics ended {is_other.sum()} of {learned.episodes} episodes otherwise when "
        f"they were run again, episode {first} first: task or planner keep a state, or draw from "
        f"elsewhere than their streams"
    ]
