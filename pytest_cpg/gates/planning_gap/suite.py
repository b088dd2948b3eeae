"""Suite: the planning gap over all tasks of a session, judged once their gates have reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby
from types import MappingProxyType
from typing import Any

from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates.arguments import REQUIRED, Argument, between, of_option
from pytest_cpg.gates.card import AA_CHECK, SMOKE_TEST, Effect, Row, Severity, Table, Trend
from pytest_cpg.gates.criteria import CriteriaKind, Findings
from pytest_cpg.gates.criterion import Criterion, Words
from pytest_cpg.gates.kind import Asked, Compared, named
from pytest_cpg.gates.notation import ends, fitted_names, percentage, with_ends
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.ruling import blindness
from pytest_cpg.stats import Sampled, Verdict
from pytest_cpg.stats.suites import Stratum, suite_gap

_MOST_COLUMNS = 24
_SHARPEN = "Set a smaller max_gap, or gate tasks of which random actions solve fewer starts."


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One gate of a suite: success rates of its arms, of ``episodes`` each at the same starts."""

    gate: str
    task: str
    starts: str
    design: str
    episodes: int
    oracle: float
    learned: float
    chance: float

    @classmethod
    def of(cls, member: Compared) -> Member:
        """Return what a suite needs of a gate's result."""
        result: GateResult = member.result
        design = result.design
        return cls(
            gate=member.name,
            task=design.task,
            starts=f"{_body(design.task)}, {design.starts}, seed {result.seed}",
            design=f"{design.short_hash} of {result.learned.episodes}",
            episodes=result.learned.episodes,
            oracle=result.oracle.success_rate,
            learned=result.learned.success_rate,
            chance=result.chance.success_rate,
        )


@dataclass(frozen=True, kw_only=True)
class SuiteFindings(Findings):
    """What is asked of a suite, and what its gates found; none, as long as it is open."""

    max_gap: float
    wanted: tuple[str, ...] | None = None
    members: tuple[Member, ...] = ()


def _names(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    are_ids = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not are_ids or not names or not all(names):
        raise ValueError(
            f'need ids of gates, as ["reach", "swing*"], or no gates= for all, got {value!r}'
        )
    return tuple(names)


class Suite(CriteriaKind[SuiteFindings]):
    """The kind `cpg_suite`."""

    marker = "cpg_suite"
    help = "the mean planning gap over all cpg gates of the session, once these have reported."
    example = "max_gap=0.1"
    judges = "cpg"
    result = SuiteFindings
    labels: Mapping[str, Severity] = MappingProxyType(
        {
            "WITHIN LIMIT": Severity.GOOD,
            "UNCLEAR": Severity.UNSURE,
            "ABOVE LIMIT": Severity.BAD,
            "NOT JUDGED": Severity.BROKEN,
        }
    )
    words: Mapping[str, Words] = MappingProxyType(
        {
            "ABOVE LIMIT": Words(
                "the suite loses more than it may",
                "Over all its tasks the model loses more starts than the limit allows.",
                "Begin with the task that loses most: its own gate says why.",
            ),
            "NOT JUDGED": Words(
                "a gate of the suite cannot be counted",
                advice="Run the gates that are named, or correct what ended them.",
            ),
        }
    )

    @property
    def arguments(self) -> Sequence[Argument]:
        """What the marker takes."""
        return (
            Argument("max_gap", between(0, 1), REQUIRED, help="the largest accepted mean gap"),
            Argument("gates", _names, help="ids of the gates it is about; all cpg gates"),
            of_option("confidence"),
        )

    def opened(self, spec: Asked) -> SuiteFindings:
        """Return what is asked, before any gate has reported."""
        return SuiteFindings(
            criteria=(),
            size="",
            conditions=self.said(spec, but=("confidence", "max_gap")),
            check=SMOKE_TEST if spec.is_smoke else "",
            level=spec.shared(spec.values["confidence"]),
            max_gap=spec.values["max_gap"],
            wanted=spec.values["gates"],
        )

    def completed(
        self, result: SuiteFindings, compared: Sequence[Compared], unjudged: Mapping[str, str]
    ) -> SuiteFindings:
        """Return what is asked with what the gates of the session found.

        Raises ComponentError where there is nothing to judge.
        """
        ids = [*{**dict.fromkeys(member.gate for member in compared), **unjudged}]
        for wanted in result.wanted or ():
            if not any(_is_meant(gate, wanted) for gate in ids):
                raise ComponentError(
                    f"no cpg gate is called {wanted!r}. {did_you_mean(wanted, ids)}"
                )
        chosen = [member for member in compared if _is_chosen(member.gate, result.wanted)]
        lacking = {gate: why for gate, why in unjudged.items() if _is_chosen(gate, result.wanted)}
        is_aa = bool(chosen) and all(member.result.is_aa for member in chosen)
        if not (result.check or is_aa):
            lacking |= {member.name: why for member in chosen if (why := _flaw(member.result))}
        members = tuple(Member.of(member) for member in chosen if member.name not in lacking)
        texts = named([f"{gate} ({why})" for gate, why in lacking.items()])
        if not members:
            if not lacking:
                raise ComponentError(
                    "a suite needs gates to judge, and none ran. Run it with the tests that are "
                    "marked cpg."
                )
            raise ComponentError(
                f"a suite needs gates to judge, and none can be counted: {texts}. It is judged by "
                f"all of them or not at all: run each of them, and correct what is named here."
            )
        gap = _gap(members, "learned")
        ignorant = _gap(members, "chance").p_above(result.max_gap)
        blind = (
            f"random actions would have passed this suite, so it judges no model (chance gap "
            f"{_gap(members, 'chance').estimate:.2f}, limit {result.max_gap:g})"
        )
        count = len(lacking) + len(members)
        fault = (
            f"{len(lacking)} of {count} gates of the suite cannot be counted, and it is judged by "
            f"all or not at all: {texts}"
        )
        return replace(
            result,
            criteria=(Criterion.of("gap", gap, level=result.level, at_most=result.max_gap),),
            size=_counted(members),
            members=members,
            blind=blind * (ignorant > (1 - result.level) / 2),
            faults=(fault,) * bool(lacking),
            check=result.check or (AA_CHECK if is_aa else ""),
            conditions={
                **result.conditions,
                "gates": ", ".join(member.gate for member in members),
                "designs": ", ".join(member.design for member in members),
            },
        )

    def blindness(self, result: Any) -> Any:
        """Return why a result says nothing of the model, and what to do."""
        blind = super().blindness(result)
        return blind and blind._replace(advice=_SHARPEN)

    def shown(self, result: Any, model: str) -> dict[str, Any]:
        """Return the gap of the suite, and of each gate in it."""
        (criterion,) = result.criteria
        gap, episodes = criterion.found, sum(member.episodes for member in result.members)
        gates = tuple(member.gate for member in result.members)
        names = fitted_names(gates, _MOST_COLUMNS, shares=False).of
        rows = []
        for member in result.members:
            interval = _gap((member,), "learned").interval(result.level)
            name = names[member.gate]
            # The end of a long name tells it from others.
            name = name if len(name) <= _MOST_COLUMNS else f"...{name[3 - _MOST_COLUMNS :]}"
            rows.append(_row(name, interval, member.oracle, member.learned, member.episodes))
        oracle, learned = (
            sum(getattr(member, arm) * member.episodes for member in result.members) / episodes
            for arm in ("oracle", "learned")
        )
        text = with_ends(gap, "+.2f")
        return {
            **super().shown(result, model),
            "sentence": f"gap {text} over {_counted(result.members)}, at most "
            f"{result.max_gap:g} accepted, n={episodes}",
            "cells": {
                "gap": f"{gap.estimate:+.2f}",
                "CI": ends(gap, "+.2f"),
                "limit": f"{result.max_gap:g}",
            },
            "table": Table(
                name="gate",
                columns=("gap", f"{percentage(result.level)} CI", "oracle", "learned", "n"),
                rows=(*rows, _row("suite", gap, oracle, learned, episodes)),
                axis=(-1.0, 1.0),
            ),
            "effect": Effect(found=gap, unit="of starts", margin=result.max_gap),
            "design": ", ".join(map(" ".join, result.conditions.items())),
            "trends": (Trend(name="Suite gap", text=text, bound=gap),),
        }


def _body(task: str) -> str:
    """Return what moves in a task: those of one body begin alike with one seed.

    The control suite draws the body's state before all that tells its tasks apart, and formulas
    draw as it does; their states have other columns, so that digests of them differ.

    >>> _body("dmc:ball_in_cup-catch"), _body("ball-in-cup-catch"), _body("maze (within=0.2)")
    ('ball', 'ball', 'maze')
    """
    return re.split("[-_ (,]", task.removeprefix("dmc:"), maxsplit=1)[0]


def _is_meant(gate: str, wanted: str) -> bool:
    """Say whether a gate's id, its test, or the test of all parameters is called so."""
    test = gate.rpartition("::")[2]
    names = (gate, test, test.partition("[")[0])
    return wanted in names or any(fnmatchcase(name, wanted) for name in names)


def _counted(members: Sequence[Member]) -> str:
    return f"{len(members)} gate{'s'[: len(members) != 1]}"


def _is_chosen(gate: str, wanted: Iterable[str] | None) -> bool:
    return not wanted or any(_is_meant(gate, name) for name in wanted)


def _flaw(result: GateResult) -> str:
    """Return why a gate cannot be counted: no part of the mean, or one that waters it down."""
    if result.is_aa or result.is_smoke:
        return "judged no model"
    if result.design.metric != "success":
        return "compares returns"
    if result.stop != "fixed":
        return "stops early, by what it finds"
    is_blind = result.is_oracle_too_weak or result.verdict is Verdict.PLANNER_BOTTLENECK
    if is_blind or blindness(result, Verdict.INCONCLUSIVE):
        return "is blind"
    return "has a broken model" if result.faults else ""


def _gap(members: Sequence[Member], arm: str) -> Sampled:
    """Return the gap of an arm over gates: those that share their starts are one stratum."""
    total, strata = sum(member.episodes for member in members), []
    for _, group in groupby(sorted(members, key=_starts), key=_starts):
        gates = [*group]
        episodes = sum(gate.episodes for gate in gates)
        oracle, other = (
            sum(getattr(gate, name) * gate.episodes for gate in gates) / episodes
            for name in ("oracle", arm)
        )
        fewest = min(gate.episodes for gate in gates)
        strata.append(Stratum(oracle, other, fewest, episodes / total))
    return suite_gap(strata)


def _starts(member: Member) -> str:
    return member.starts


def _row(name: str, gap: Any, oracle: float, learned: float, episodes: int) -> Row:
    cells = (f"{gap.estimate:+.2f}", ends(gap, "+.2f"), f"{oracle:.2f}", f"{learned:.2f}")
    return Row(name=name, cells=(*cells, f"{episodes}"), bound=gap)
