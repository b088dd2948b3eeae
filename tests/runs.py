"""Runs of arms, for tests that need no whole design."""

from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design


def run_of(name, task, planner, model, starts, **more):
    """Return a run; further options are of `ArmRun` or of its design."""
    observers = {key: more.pop(key) for key in ("progress", "on_step", "on_plan") if key in more}
    design = Design(task=task, planner=planner, episodes=len(starts.episodes), **more)
    return ArmRun(name, design, model, starts, **observers)


def arm_of(name, task, planner, model, starts, **more):
    """Run every episode to its end, and return the arm."""
    return run_of(name, task, planner, model, starts, **more).advance(len(starts.episodes))
