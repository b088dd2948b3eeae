"""Gates on plans of the puck, without pytest."""

from types import MappingProxyType

import faulty_models as puck

from pytest_cpg.episodes.arms import Execution
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.kind import Run, TaskChoice
from pytest_cpg.gates.plan_quality.kind import PlanQuality
from pytest_cpg.gates.plan_quality.measure import Spec, measure_plans
from pytest_cpg.gates.plan_quality.result import Criteria
from pytest_cpg.planners import CEM
from pytest_cpg.world_models import OracleDynamics

KIND = PlanQuality()
label_of, ruling_of, alarm_of = KIND.label, KIND.judge, KIND.alarm
criteria_of, card_of, compare = KIND.criteria, KIND.card, KIND.compare
FEW = CEM(horizon=8, samples=24, elites=6, iterations=2)


class Plainly:
    """A run whose watcher keeps what it is told."""

    execution, stage, seconds = Execution(), Run.stage, 1.0

    def __init__(self, task):
        self._task, self.told = task, []
        self.given = MappingProxyType({"oracle_dynamics": OracleDynamics(task)})

    def task(self, choice):
        return self._task

    def progress(self, what, done, total, *more):
        self.told.append((what, done, total))


def scored(model, *, seed=0, episodes=10, planner=FEW, task=None, run=None, **criteria):
    """Return the result of a gate on this model; further options are of its criteria."""
    task = task or puck.Puck()
    spec = Spec(
        task=TaskChoice(name=task.name, make=lambda: task),
        design=lambda built: Design(task=built, planner=planner, episodes=episodes, seed=seed),
        criteria=Criteria(**criteria),
    )
    return measure_plans(spec, model, run or Plainly(task))
