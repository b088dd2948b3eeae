"""Plan quality as a kind of gate, loaded with the first one that is collected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from math import inf, sqrt
from types import MappingProxyType

import numpy as np

from pytest_cpg.contracts import FloatArray, Task
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates import BUILT_IN
from pytest_cpg.gates.arguments import (
    OF_EPISODES,
    REQUIRED,
    Argument,
    as_given,
    between,
    of_option,
    task_or_name,
)
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.choices import has_goal, task_and_planner
from pytest_cpg.gates.criteria import Cost, CriteriaKind
from pytest_cpg.gates.criterion import Blindness, Criterion, Standing
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import Asked
from pytest_cpg.gates.plan_quality.card import WORDS, shown
from pytest_cpg.gates.plan_quality.measure import Spec, measure_plans
from pytest_cpg.gates.plan_quality.result import (
    AGREEING,
    FEWEST_EPISODES,
    PERFECT,
    Criteria,
    KeptPlans,
    PlanQualityResult,
    Scores,
)
from pytest_cpg.gates.presets import completed
from pytest_cpg.stats import Interval
from pytest_cpg.stats.intervals import student_critical_value
from pytest_cpg.stats.returns import mean_p_value, paired_mean_interval
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE
from pytest_cpg.world_models import AA_MODEL

MOST_EXPLOITATION = 0.5
"""Of a limit: models that know nothing have more, see docs/plan-quality.md."""
_SEARCH = "Search wider, look further ahead (horizon=), or give more steps (budget=)."
# Of an episode's exploitation, where nothing is known: episodes of constructed faults have less.
_ASSUMED_DEVIATION = 0.2


class PlanQuality(CriteriaKind[PlanQualityResult]):
    """Whether plans that a learned model likes are as good in truth."""

    marker = "cpg_plan_quality"
    fixtures = BUILT_IN[marker].fixtures
    help = "gate this test on whether plans that a learned world model likes are as good in truth."
    example = 'task="reacher-easy", planner="preset"'
    arguments = (
        Argument("task", task_or_name, REQUIRED, help="the name of a task, or a Task"),
        Argument("planner", as_given, "random-shooting", help="the name of a planner, or one"),
        Argument(
            "max_exploitation", between(0, 1), 0.1, help="score in the model beyond that in truth"
        ),
        of_option("episodes"),
        of_option("seed"),
        of_option("confidence"),
        *OF_EPISODES,
    )
    labels = MappingProxyType({label: words.severity for label, words in WORDS.items()})
    words = WORDS
    result, entry_type = PlanQualityResult, KeptPlans
    measure = staticmethod(measure_plans)
    shown = shown
    entry = staticmethod(KeptPlans.of)

    def parse(self, asked: Asked) -> Spec:
        """Return what a test asks for.

        Raises ValueError or ComponentError, naming the value and what to type instead.
        """
        values = completed(dict(asked.values))
        task, planner = task_and_planner(values, asked.components)
        episodes = FEWEST_EPISODES if asked.is_smoke else values["episodes"]
        criteria = Criteria(
            max_exploitation=values["max_exploitation"],
            level=asked.shared(values["confidence"]),
            family_size=asked.family_size,
            has_goal=has_goal(values),
            is_aa=values["model"] == AA_MODEL,
            is_smoke=asked.is_smoke,
        )
        if not asked.is_smoke:
            _check_can_fail(asked, criteria)
        shared = partial(
            Design,
            planner=planner,
            episodes=episodes,
            seed=values["seed"],
            starts=values["starts"],
            level=values["confidence"],
        )
        return Spec(task=task, design=lambda built: shared(task=built), criteria=criteria)

    def criteria(self, result: PlanQualityResult) -> list[Criterion]:
        """Return what is asked of a result; nothing where nothing is known."""
        worlds, chance = result.worlds.differences.values, result.chance.differences.values
        exploitation, above = result.exploitation, result.above_chance
        if exploitation is None or result.score is None or above is None:
            return []
        most = result.criteria.max_exploitation
        # Few episodes that are alike meet nothing, as others may differ from all of them.
        are_enough = result.episodes_known >= FEWEST_EPISODES_TO_CALL_ALIKE
        return [
            Criterion(
                title="exploitation",
                bound=most,
                needed=f"<={most:.2f}",
                found=exploitation,
                standing=Standing.of(
                    is_met=are_enough and exploitation.high <= most,
                    is_missed=exploitation.low > most,
                ),
                label="EXPLOITED",
                p_value=mean_p_value(worlds, limit=most, unseen=AGREEING),
            ),
            Criterion(
                title="above chance",
                bound=0.0,
                needed="> 0",
                found=above,
                standing=Standing.of(
                    is_met=are_enough and above.low > 0, is_missed=above.high <= 0
                ),
                label="POOR PLANS",
                p_value=mean_p_value(-chance, limit=0.0, unseen=-PERFECT),
            ),
        ]

    def label(self, result: PlanQualityResult) -> str:
        """Return the gate's word for a result."""
        if not result.faults and result.is_flat:
            return "FLAT"
        # What is missed first is exploitation, which tells why plans are poor.
        label = super().label(result)
        return "UNCLEAR" if label == "NOT EXPLOITED" and result.criteria.is_aa else label

    def blindness(self, result: PlanQualityResult) -> Blindness | None:
        """Return why a result says nothing of the model; None where it does, and where it fails.

        Of plans that lead nowhere, of random plans, or of a model that knows nothing it would have
        said the same.
        """
        if result.faults:
            return None
        if result.is_flat:
            return Blindness(
                f"changing one action of a plan changes what it is worth in only "
                f"{result.episodes_known} of {result.episodes} episodes, so plans cannot be "
                f"compared",
                "Rate plans by something that every step changes, such as a distance to the goal, "
                "or look further ahead (horizon=).",
            )
        if self.labels[self.label(result)] >= Severity.BLIND:
            return None
        criteria, random, above = result.criteria, result.chance.second, result.above_chance
        if above is not None and above.low <= 0:
            few = result.episodes < FEWEST_EPISODES_TO_CALL_ALIKE
            return Blindness(
                f"random plans would have passed: they score {random.mean():.2f} in truth, and "
                f"chosen ones {result.chance.first.mean():.2f} at the same decisions",
                f"Run at least {FEWEST_EPISODES_TO_CALL_ALIKE} episodes." if few else _SEARCH,
            )
        if not result.solved and criteria.has_goal:
            return Blindness(
                f"the plans solve 0 of {result.episodes} starts: that their neighbours are no "
                f"better does not make them good",
                f"Judge the same model by pytest.mark.cpg. Where the true dynamics solve as "
                f"little: {_SEARCH[:1].lower()}{_SEARCH[1:]}",
            )
        ignorant = 1 - random
        p_value = mean_p_value(ignorant, limit=criteria.max_exploitation, unseen=AGREEING)
        if p_value < (1 - criteria.level) / 2:
            return None
        return Blindness(
            f"a model that knows nothing would have passed: its plans are worth what random ones "
            f"are, {random.mean():.2f} in truth, so that it is exploited by {ignorant.mean():.2f}, "
            f"and the limit is {criteria.max_exploitation:g}",
            "Write a smaller max_exploitation, such as 0.1, or run more episodes.",
        )

    def changed(self, then: KeptPlans, now: KeptPlans, result: PlanQualityResult) -> Drift | None:
        """Compare exploitation, and the score in truth, on common episodes.

        Fewer than 10 of them are UNRESOLVED.
        """
        level = 1 - (1 - result.criteria.level) / 2
        # What is worse is above 0: more exploitation, and less of a score.
        pairs = [
            _common(then.exploitation, now.exploitation),
            _common(now.truth, then.truth),
        ]
        fewest = min(len(old) for old, _ in pairs)
        if fewest < FEWEST_EPISODES:
            return None
        more, less = (paired_mean_interval(new, old, level=level) for old, new in pairs)
        is_same = all(np.array_equal(*pair) for pair in pairs)
        low, high = max(more.low, less.low), min(more.high, less.high)
        too_few = ""
        if fewest < FEWEST_EPISODES_TO_CALL_ALIKE:
            low, high, too_few = -inf, inf, f" (below {FEWEST_EPISODES_TO_CALL_ALIKE}, too few)"
        return Drift(
            label=Label.of(low, high, is_same=is_same),
            text=f"{self.from_to(then, now)}, on common episodes{too_few} {_told(more)}, score in "
            f"truth {_told(less, sign=-1)}",
            then={"exploitation": float(then.exploitation.values.mean())},
            interval=more,
        )

    def differences(self, then: KeptPlans, now: KeptPlans) -> Iterator[str]:
        """Yield what is not as it was in the accepted run, and not the model."""
        yield from then.design.changes(now.design)
        for name in ("seed", "k", "neighbours"):
            before, after = getattr(then, name), getattr(now, name)
            if before != after:
                yield f"{name} {before} -> {after}"

    def followed(self, entry: KeptPlans) -> str:
        """Return the mean exploitation, as a table has it."""
        return f"{entry.exploitation.values.mean():.2f}" if len(entry.worlds) else "-"

    def from_to(self, then: KeptPlans, now: KeptPlans) -> str:
        """Return how the mean exploitation changed."""
        return f"exploitation {self.followed(then)} -> {self.followed(now)}"

    def cost(self, result: PlanQualityResult) -> Cost:
        """Return what an episode took."""
        return Cost(seconds=result.seconds / result.episodes)

    def amount(self, spec: Spec, task: Task) -> int:
        """Return the episodes of a gate."""
        return spec.design(task).episodes

    def expected(
        self, spec: Spec, task: Task, accepted: KeptPlans | None
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return how sure the exploitation will be."""
        episodes, criteria = self.amount(spec, task), spec.criteria
        is_known = accepted is not None and len(accepted.worlds) >= FEWEST_EPISODES
        deviation = _ASSUMED_DEVIATION
        if accepted is not None and is_known:
            deviation = float(accepted.exploitation.values.std(ddof=1))
        half = student_critical_value(criteria.level, freedom=episodes - 1) * deviation
        cells = {
            "episodes": str(episodes),
            "neighbours": f"{criteria.k} {criteria.neighbours}",
            "exploitation": f"<={criteria.max_exploitation:.2f}",
            "+-": f"{half / sqrt(episodes):.3f}{'?' * (not is_known)}",
        }
        return cells, (
            "+-: half of Student's interval of the exploitation; few episodes may have a wider one",
            *([] if is_known else ["? deviation assumed: nothing was accepted yet"]),
        )


def _check_can_fail(asked: Asked, criteria: Criteria) -> None:
    """Refuse a limit that no model misses, and episodes whose worst scores would not miss it."""
    episodes, most = asked.values["episodes"], criteria.max_exploitation
    if most > MOST_EXPLOITATION:
        raise ValueError(
            f"max_exploitation={most:g} is a limit that hardly any model misses: random plans "
            f"score 0.1 to 0.5 in truth, so that a model that knows nothing has an exploitation of "
            f"0.5 to 0.9. Write max_exploitation=0.1, and at most {MOST_EXPLOITATION:g}."
        )
    # The lower end of `mean_interval` where each has 1, as an episode of 0 may be unseen.
    tail = (1 - criteria.level) / 2
    fewest = next(few for few in count(FEWEST_EPISODES) if tail ** (1 / few) > most)
    if episodes < fewest:
        raise ValueError(
            f"a gate of {episodes} episode{'s'[: episodes != 1]} can never miss max_exploitation="
            f"{most:g} at confidence {criteria.level:.10g}, whatever the model does. Write "
            f"{asked.written('episodes', max(50, fewest))} ({fewest} is the least that can)."
        )


def _common(then: Scores, now: Scores) -> tuple[FloatArray, FloatArray]:
    """Return the values of common episodes, in one order."""
    _, old, new = np.intersect1d(then.episodes, now.episodes, return_indices=True)
    return then.values[old], now.values[new]


def _told(found: Interval, *, sign: int = 1) -> str:
    # What is added makes a negative zero a zero.
    low, high = sorted((sign * found.low + 0.0, sign * found.high + 0.0))
    return f"{sign * found.estimate + 0.0:+.2f} [{low:+.2f}, {high:+.2f}]"
