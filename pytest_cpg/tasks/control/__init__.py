"""Control: tasks of the DeepMind Control suite.

The only room that imports dm_control, and MuJoCo to simulate with; neither before a task is made.
"""

from pytest_cpg.tasks.control.task import dmc

__all__ = ["dmc"]
