"""Errors: what is raised for the user to mend, by what is to be mended."""

from __future__ import annotations


class CpgError(Exception):
    """A problem that the user can mend; the message says how."""


class ComponentError(CpgError):
    """A task, planner or world model that is unknown, not installed or not usable together."""


class TaskError(CpgError):
    """A task that cannot go on: a diverged simulator, or no start that is not solved already."""


class WorldModelError(CpgError):
    """A world model that broke its contract: shape, dtype, NaN, or no reaction to the action."""


class IncompleteError(CpgError):
    """A comparison whose time ran out: there is no verdict, and its gate fails."""
