"""Sweep: the arms of a gate under several settings of one thing, measured and not judged."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real

from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates.notation import ends, with_ends
from pytest_cpg.stats import Interval

_WIDTH = 80
# A success rate that is this near to the best one is as good.
_TOLERANCE = 0.05
_COSTS = f"{'imagined':>10s}{'ms':>9s}{'cpu ms':>9s}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepRow:
    """What was measured under one setting.

    Attributes
    ----------
    setting : str
        A perturbation's name, ``"none"``, or a number of steps.
    success : mapping
        Wilson interval of the success rate, by arm: ``"oracle"``, ``"learned"``, ``"chance"``, and
        ``"rescored"`` where the model has a score of its own.
    gap : Interval
        Of the oracle's minus the learned success rate, in [-1, 1].
    arms : mapping
        What was run, by arm, with its cost per decision and its `Arm.recovery`. Rows of a sweep
        over budgets share one run, of the longest budget there is.
    """

    setting: str
    success: Mapping[str, Interval]
    gap: Interval
    arms: Mapping[str, Arm]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """The three arms under several settings, on the same starts.

    ``sweep[setting]`` is a setting's row.

    Attributes
    ----------
    over : "perturbation", "horizon" or "budget"
        What is another in each row.
    task, planner : str
        The task's name, and the planner with all its settings but the horizon of a row.
    perturbation : str
        What goes wrong in all rows; empty for nothing.
    """

    over: str
    rows: tuple[SweepRow, ...]
    task: str
    planner: str
    perturbation: str = ""

    def __getitem__(self, setting: object) -> SweepRow:
        name = name_of(setting)
        for row in self.rows:
            if row.setting == name:
                return row
        raise KeyError(f"{name}; the sweep has {', '.join(row.setting for row in self.rows)}")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    @property
    def line(self) -> str:
        """Everything that is asserted on mostly, in one line for the summary."""
        parts = [
            f"{row.setting}: "
            + ", ".join(f"{name} {interval.estimate:.2f}" for name, interval in row.success.items())
            + f", gap {row.gap.estimate:+.2f} [{row.gap.low:+.2f},{row.gap.high:+.2f}]"
            for row in self.rows
        ]
        return f"sweep over {self.over}: {'; '.join([*parts, *self._conclusions()])}"

    def effective_horizon(self, arm: str, *, tolerance: float = _TOLERANCE) -> int | None:
        """Return the smallest horizon of the sweep whose success rate is as good as the best.

        Plans that look farther ahead gain no more than the tolerance over it. None where no episode
        succeeded. Raises ValueError when the sweep is not over horizons, or there is no such arm or
        tolerance.

        Parameters
        ----------
        tolerance : float
            How far below the best rate is as good, in [0, 1].
        """
        if self.over != "horizon":
            raise ValueError(
                f"this sweep is over {self.over}. Write sweep(learned=..., horizons=[5, 10, 15])."
            )
        arms = list(self.rows[0].success)
        if arm not in arms:
            raise ValueError(f"no arm is named {arm!r}. {did_you_mean(str(arm), arms)}")
        is_number = isinstance(tolerance, Real) and not isinstance(tolerance, bool)
        if not is_number or not 0 <= tolerance <= 1:
            raise ValueError(f"tolerance: need a number from 0 to 1, got {tolerance!r}")
        rates = {int(row.setting): row.success[arm].estimate for row in self.rows}
        best = max(rates.values())
        # Rates of a few episodes differ by whole shares of them: rounding must not decide.
        good = (at for at, rate in rates.items() if rate >= best - tolerance - 1e-9)
        return min(good) if best else None

    def _conclusions(self) -> list[str]:
        if self.over != "horizon":
            return []
        found = ", ".join(f"{arm} {self.effective_horizon(arm)}" for arm in ("oracle", "learned"))
        return [f"effective horizon (smallest within {_TOLERANCE:g} of the best rate): {found}"]

    def _lines(self) -> Iterator[str]:
        first = next(iter(self.rows[0].arms.values()))
        under = f", under {self.perturbation}" if self.perturbation else ""
        yield f"sweep over {self.over}: {self.task}{under}"
        yield from textwrap.wrap(self.planner, _WIDTH, break_on_hyphens=False)
        # All rows of a sweep over budgets are one run.
        is_one_run = self.over == "budget"
        level = f"{100 * first.level:.4g}% CI"
        header = f"{'':10s}{'success':>9s}  rate {level:13s}"
        yield header.rstrip() if is_one_run else f"{header}{'recovered':>9s}{_COSTS}"
        for row in self.rows:
            yield row.setting
            for name, arm in row.arms.items():
                lead = f"  {name:8s}{_success(row.success[name], arm.episodes)}"
                yield lead if is_one_run else f"{lead}{_recovered(arm):>9s}{_cost(arm)}"
            yield f"  {'gap':17s}{with_ends(row.gap, '+.2f')}"
        if is_one_run:
            yield f"{'':10s}{_COSTS}"
            yield from (f"  {name:8s}{_cost(arm)}" for name, arm in self.rows[0].arms.items())
        yield "imagined, ms and cpu ms: model steps, wall and processor time of one decision"
        yield from self._conclusions()


def name_of(setting: object) -> str:
    """Return what a setting is called in its row."""
    return "none" if setting is None else str(getattr(setting, "name", setting))


def _success(rate: Interval, episodes: int) -> str:
    count = f"{round(rate.estimate * episodes)}/{episodes}"
    return f"{count:>9s} {rate.estimate:5.2f} {ends(rate)}"


def _recovered(arm: Arm) -> str:
    return "" if arm.recovery is None else f"{arm.recovery.estimate:.2f}"


def _cost(arm: Arm) -> str:
    return f"{arm.rollout_steps:10.0f}{arm.latency_ms.median:9.3g}{arm.cpu_ms.median:9.3g}"
