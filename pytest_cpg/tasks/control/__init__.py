"""Control: tasks of the DeepMind Control suite.

The only room that imports dm_control, and MuJoCo to simulate with; neither before a task is made.
"""

from collections.abc import Callable

from pytest_cpg.contracts import FloatArray, Task
from pytest_cpg.tasks.control.formulas import TITLES, titled
from pytest_cpg.tasks.control.suite import suite_parts
from pytest_cpg.tasks.control.task import control_task, suite_task
from pytest_cpg.tasks.options import BUDGET, TaskOptions

__all__ = ["dmc"]


def dmc(
    name: str,
    *,
    budget: int = BUDGET,
    action_repeat: int = 1,
    actions: str = "box",
    threshold: float | None = None,
    least_return: float | None = None,
    score: Callable[[FloatArray], FloatArray] | None = None,
    threads: int | None = None,
) -> Task:
    """Return a task of the DeepMind Control suite by its name there: ``"cheetah-run"``.

    Raises ComponentError when there is no such task, or dm_control is not installed.

    Parameters
    ----------
    actions : str
        ``"box"``, or ``"levels"`` where there are formulas of ours.
    threshold : float, optional
        A control step with at least this reward counts as success, by default 0.6.
    score : callable, optional
        Rates observations [..., O], lower is better, for a task without formulas of ours.
    """
    domain, task = suite_parts(name)
    title, full = titled(domain, task), f"dmc:{domain}-{task}"
    options = TaskOptions(
        budget=budget,
        actions=actions,
        action_repeat=action_repeat,
        threshold=threshold,
        least_return=least_return,
    )
    if title in TITLES and score is None:
        return control_task(title, name=full, threads=threads, **options.given)
    return suite_task(domain, task, threads=threads, score_of=score, **options.given)
