"""First screen: what failed, by how much, since when, why and what to do, before anything else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pytest_cpg.gates.card import Command
from pytest_cpg.gates.drift import revision
from pytest_cpg.gates.notation import percentage
from pytest_cpg.render.figures import Plot
from pytest_cpg.render.page import Followed, Page, Tone, commands_of, reasons_of, tone_of
from pytest_cpg.render.words import effect_text, regression
from pytest_cpg.report.session import FAILING, WORDS, Comparison, Gate, Row, Session

_MOST_NAMED = 5
# What is said of the gates beside the worst one, by how they ended.
_OTHERS = {FAILING: "Also failing", ("xfailed",): "As expected", ("inconclusive",): "In doubt"}


class Answer(NamedTuple):
    """An answer: its name, its first words, the rest, and gates that it names."""

    name: str
    strong: str = ""
    text: str = ""
    gates: tuple[Gate, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstScreen:
    """What a page begins with.

    Attributes
    ----------
    tally : tuple of (tone, str)
        How many gates ended how.
    headline, cause : str
        What failed, and why in a word; the latter may be empty.
    plot : Plot or None
        The worst gate over several sessions.
    """

    tally: tuple[tuple[Tone, str], ...]
    headline: str
    cause: str
    tone: Tone
    answers: tuple[Answer, ...]
    plot: Plot | None
    command: Command | None


def first_screen(page: Page) -> FirstScreen:
    """Return what answers the first questions about a session."""
    worst = next(iter(page.loud), None)
    row = None if worst is None else worst.worst
    shown = row if isinstance(row, Comparison) else None
    is_failing = worst is not None and worst.state in FAILING
    cause = shown.card.cause if shown is not None else None
    followed = page.followed.get(shown.name) if shown is not None else None
    return FirstScreen(
        tally=tuple(_tally(page.session)),
        headline=_headline(page, row),
        cause=cause.name if cause is not None and is_failing and cause.advice else "",
        tone=tone_of(worst) if worst is not None and is_failing else _tone(page.session.outcome),
        answers=tuple(_answers(page, worst, shown)),
        plot=followed.plot if followed is not None else None,
        command=next(iter(commands_of(shown)), None) if shown is not None else None,
    )


def _tone(outcome: str) -> Tone:
    return "good" if outcome == "passed" else "bad"


def _tally(session: Session) -> Iterator[tuple[Tone, str]]:
    states = session.states
    failing, size = sum(states[state] for state in FAILING), len(session.gates)
    if failing:
        yield "bad", f"{failing} of {size} gate{'s'[: size != 1]} fail{'s'[: failing == 1]}"
    if states["xfailed"]:
        yield "unsure", f"{states['xfailed']} failed as expected"
    if states["inconclusive"]:
        yield "unsure", f"{states['inconclusive']} in doubt"
    if states["passed"]:
        yield "good", f"{states['passed']} pass{'es' * (states['passed'] == 1)}"
    for state in ("measured", "skipped"):
        if states[state]:
            yield "none", f"{states[state]} {state}"


def _headline(page: Page, row: Row | None) -> str:
    """Return what failed and by how much; where nothing did, how the session ended."""
    ended, check = page.session.outcome, min(filter(None, page.session.checks), default="")
    if check:
        return f"{check[:1].upper()}{check[1:]} {ended}: no verdicts"
    if row is not None and row.fails:
        name = page.title(row.name)
        if row.card is None:
            return f"{name}: {row.why(is_brief=True) or WORDS[row.state]}"
        subject = f"{row.card.subject} ({name})" if row.card.subject else name
        return f"{subject}: {regression(row.drift) or row.card.sentence}"
    if ended != "passed":
        return f"Session {ended}" if ended in ("failed", "interrupted") else ended.capitalize()
    states = page.session.states
    doubt, expected, passed = (states[one] for one in ("inconclusive", "xfailed", "passed"))
    counts = [f"{doubt} {'is' if doubt == 1 else 'are'} in doubt"] if doubt else []
    counts += [f"{expected} fail{'s'[: expected == 1]} as expected"] if expected else []
    if counts:
        return f"No gate fails, {' and '.join(counts)}"
    if measured := states["measured"]:
        size = len(page.gates)
        return f"{measured} of {size} gate{'s'[: size != 1]} measured, not judged"
    return f"{passed} gate{'s'[: passed != 1]} pass{'es' * (passed == 1)}"


def _answers(page: Page, worst: Gate | None, shown: Comparison | None) -> Iterator[Answer]:
    session, loud = page.session, page.loud
    if shown is not None:
        yield from _of_comparison(page, shown)
    for states, name in _OTHERS.items():
        others = [
            gate for gate in loud if gate.state in states and (shown is None or gate != worst)
        ]
        if others:
            more = max(0, len(others) - _MOST_NAMED)
            yield Answer(name, gates=tuple(others[:_MOST_NAMED]), more=more)
    if not loud and page.gates:
        drops = [row.card.drop for row in page.rows if row.card.drop is not None]
        if drops:
            yield Answer("How sure", text=_power(min(drops), max(drops)))
    beside = [finding.text for finding in session.findings if finding.fails]
    # A gate that fails has an exit code of its own.
    if not any(gate.state in FAILING for gate in loud):
        beside = [*session.end.besides_gates, *beside]
    for text in beside:
        yield Answer("Session", text=text)
    for finding in session.findings:
        if finding.warns:
            yield Answer("To know", text=finding.text)


def _of_comparison(page: Page, one: Comparison) -> Iterator[Answer]:
    """Yield what a reader asks of the worst comparison."""
    card, drift = one.card, one.judgement.drift
    if card.effect is not None:
        sure = f"In brackets, its {percentage(card.effect.found.level)} interval."
        # What the headline does not say of a gate that was compared.
        sentence = f"{card.sentence[:1].upper()}{card.sentence[1:]}. " * (regression(drift) != "")
        yield Answer(
            "How much",
            f"A loss of {effect_text(card.effect)} {card.effect.unit}.",
            f"{sentence}{sure}",
        )
    before = _before(page.followed.get(one.name))
    why, advice = reasons_of(one)
    if drift is not None:
        yield Answer("Since when", text=f"{drift.sentence}.{f' {before}' if before else ''}")
    elif before:
        yield Answer("Since when", text=before)
    if why:
        strong, stop, rest = why[0].partition(". ")
        yield Answer("Why", f"{strong}{stop.strip()}", rest)
    if advice:
        yield Answer("What to do", text=advice[0])


def _before(followed: Followed | None) -> str:
    """Return what the last session before found; empty where none had the same design."""
    earlier = () if followed is None else followed.points[:-1]
    before = next((point for point in reversed(earlier) if not point.is_other_design), None)
    if before is None:
        return ""
    trend = before.found.trends[0]
    commit = f", {revision(before.commit)}" * bool(before.commit)
    return f"The session before{commit}: {trend.name} {trend.text}."


def _power(least: float, most: float) -> str:
    drop = f"{least:.2f}" if round(least, 2) == round(most, 2) else f"{least:.2f} to {most:.2f}"
    return f"A loss of {drop} would have failed these gates 4 times in 5."
