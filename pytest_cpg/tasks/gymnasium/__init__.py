"""Gymnasium: environments of users and of the registry.

The only room that imports gymnasium, and not before a task is made.
"""

from pytest_cpg.tasks.gymnasium.task import gym_task

__all__ = ["gym_task"]
