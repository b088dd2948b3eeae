"""HTML page: the gates of a session in one file that asks nothing of any network.

Its text comes from the template beside this module, its style and script from the two files beside
that; the page's own security policy allows these two by their digest and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from pytest_cpg.contracts.errors import needs_extra
from pytest_cpg.gates.card import Command
from pytest_cpg.gates.drift import revision
from pytest_cpg.gates.notation import duration, found_drop, percentage, visible
from pytest_cpg.render import axis, figures, page
from pytest_cpg.render.figures import Plot, course_plot
from pytest_cpg.render.page import Followed, Page, Tone, commands_of, reasons_of, tone_of
from pytest_cpg.render.words import (
    alike,
    effect_text,
    judged,
    named_with,
    regression,
    verdict_of,
    with_arrows,
)
from pytest_cpg.report.session import FAILING, WORDS, Comparison, Gate, Row, Session, gist

with needs_extra("html", "jinja2", "markupsafe", what="the HTML page needs jinja2"):
    import jinja2
    from markupsafe import Markup

_IN_ONE_PIECE = re.compile(r"(?<=\d) (?=%)|(?<=\bp) (?=[<=] )|(?<=\bp [<=]) ")
# Nobody reads more of a list, and each line costs the page some bytes.
_MOST_LINES = 40
_MOST_NAMED = 5
# What is said of the gates beside the worst one, by how they ended.
_OTHERS = {FAILING: "Also failing", ("xfailed",): "As expected", ("inconclusive",): "In doubt"}


def report(session: Session, **_: str) -> str:
    """Return the page of a session; the same session gives the same page."""
    return visible(_template().render(_given(Page(session))).lstrip())


def comparison_page(session: Session) -> str:
    """Return a session's only comparison as it stands on a page, for a notebook."""
    macros: Any = _template().make_module(_given(Page(session)))
    (gate,) = session.gates
    (row,) = gate.comparisons
    label = verdict_of(row.judgement.ruling)
    chip = macros.chip(tone_of(row), label)
    subject = escape(", ".join(filter(None, (row.card.subject, row.card.kind))))
    heading = f"<p><b>{subject}</b> {chip}</p>"
    body = f"{macros.signs()}{heading}{macros.comparison(row, gate)}"
    return visible(
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{escape(label)}</title>'
        f"<style>{_source('html_page.css')}</style><main>{body}</main></html>"
    )


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_with_arrows,
    )
    environment.filters["words"] = lambda text: _with_arrows(text).split(" ")
    return environment.from_string(_source("html_page.html.jinja"))


def _with_arrows(value: Any) -> Any:
    """Write "50 -> 11" with an arrow, and no break in "85 %" or "p < 0.001"; markup stays."""
    if type(value) is not str:
        return value
    return _IN_ONE_PIECE.sub("\N{NO-BREAK SPACE}", with_arrows(value))


def _source(name: str) -> str:
    return (files("pytest_cpg.render") / name).read_text(encoding="utf-8")


def _given(drawn: Page) -> dict[str, Any]:
    """Return what the template uses by name."""
    rows, history = drawn.rows, drawn.session.history
    effects = [row.card.effect for row in rows if row.card.effect is not None]
    # Which columns a table of gates has, and what its heading explains.
    has = {
        "drift": any(row.drift is not None for row in rows),
        "history": bool(drawn.followed),
        "cause": any(row.card.cause is not None for row in rows),
        "shares": any(effect.is_share for effect in effects),
        "own": not all(effect.is_share for effect in effects),
        "margin": any(effect.margin is not None for effect in effects),
    }
    texts = {
        name: _source(f"html_page.{end}") for name, end in (("style", "css"), ("script", "js"))
    }
    return {
        "session": drawn.session,
        # A report tells no time; the history does.
        "date": "".join(last.date for last in history.sessions[-1:])[:16].replace("T", " "),
        "page": drawn,
        "first": first_screen(drawn),
        "has": has,
        # Verdict, gate and loss stand in every table.
        "columns": 3 + has["drift"] + has["history"] + has["cause"],
        "words": WORDS,
        "most_lines": _MOST_LINES,
        "revision_of": revision,
        **{each.__name__: each for each in (duration, gist, verdict_of, judged, effect_text)},
        # Functions and sizes of these.
        "draws": page,
        "axes": axis,
        "figures": figures,
        # Our own files, which hold no markup.
        **{name: Markup(text) for name, text in texts.items()},  # noqa: S704
        # By which a security policy calls these texts.
        **{f"{name}_digest": _digest(text) for name, text in texts.items()},
    }


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


class Answer(NamedTuple):
    """An answer: its name, its first words, the rest, and gates that it names."""

    name: str
    strong: str = ""
    text: str = ""
    gates: tuple[Gate, ...] = ()
    more: int = 0


class FirstScreen(NamedTuple):
    """What a page begins with; the plot is of the worst gate over several sessions."""

    tally: list[tuple[Tone, str]]
    headline: str
    cause: str
    tone: Tone
    answers: list[Answer]
    plot: Plot | None
    command: Command | None


def first_screen(page: Page) -> FirstScreen:
    """Return what failed, by how much, since when, why and what to do, before anything else."""
    worst = next(iter(page.loud), None)
    row = None if worst is None else worst.worst
    shown = row if isinstance(row, Comparison) else None
    is_failing = worst is not None and worst.state in FAILING
    cause = shown.card.cause if shown else None
    followed = page.followed.get(shown.name) if shown else None
    passed: Tone = "good" if page.session.outcome == "passed" else "bad"
    return FirstScreen(
        tally=list(_tally(page.session)),
        headline=_headline(page, row),
        cause=cause.name if cause is not None and is_failing and cause.advice else "",
        tone=tone_of(worst) if worst is not None and is_failing else passed,
        answers=list(_answers(page, worst, shown)),
        plot=course_plot(followed.course) if followed else None,
        command=next(iter(commands_of(shown)), None) if shown else None,
    )


def _tally(session: Session) -> Iterator[tuple[Tone, str]]:
    states = session.states
    failing, size = sum(states[state] for state in FAILING), len(session.gates)
    if failing:
        yield "bad", f"{failing} of {size} gate{'s'[: size != 1]} fail{'s'[: failing == 1]}"
    tones: dict[str, tuple[Tone, str]] = {
        "xfailed": ("unsure", "failed as expected"),
        "inconclusive": ("unsure", "in doubt"),
        "passed": ("good", f"pass{'es' * (states['passed'] == 1)}"),
        "measured": ("none", "measured"),
        "skipped": ("none", "skipped"),
    }
    yield from ((tone, f"{states[at]} {word}") for at, (tone, word) in tones.items() if states[at])


def _headline(page: Page, row: Row | None) -> str:
    """Return what failed and by how much; where nothing did, how the session ended."""
    ended, check = page.session.outcome, min(filter(None, page.session.checks), default="")
    if check:
        return f"{check[:1].upper()}{check[1:]} {ended}: no verdicts"
    if row is not None and row.fails:
        name = page.names[row.name]
        failing = (other for gate in page.loud for other in gate.rows if other.fails)
        (group,) = (
            group for group in alike(failing) if row.name in {other.name for other in group}
        )
        count = len({other.gate for other in group})
        many = f"{count} gates fail alike, the worst " * (count > 1)
        if row.card is None:
            return f"{many}{name}: {row.why(is_brief=True) or WORDS[row.state]}"
        return f"{many}{named_with(row, name)}: {regression(row.drift) or row.card.sentence}"
    if ended != "passed":
        return f"Session {ended}" if ended in ("failed", "interrupted") else ended.capitalize()
    states = page.session.states
    doubt, expected, passed = (states[at] for at in ("inconclusive", "xfailed", "passed"))
    counts = [f"{doubt} {'is' if doubt == 1 else 'are'} in doubt"] if doubt else []
    counts += [f"{expected} fail{'s'[: expected == 1]} as expected"] if expected else []
    if counts:
        # What is answered below is of this gate.
        first = ""
        if row is not None and row.state == "inconclusive":
            name = named_with(row, page.names[row.name])
            first = f": {name}" if doubt + expected == 1 else f", {name} first"
        return f"No gate fails, {' and '.join(counts)}{first}"
    if measured := states["measured"]:
        size = len(page.gates)
        return f"{measured} of {size} gate{'s'[: size != 1]} measured, not judged"
    return f"{passed} gate{'s'[: passed != 1]} pass{'es' * (passed == 1)}"


def _answers(page: Page, worst: Gate | None, shown: Comparison | None) -> Iterator[Answer]:
    session, loud = page.session, page.loud
    if shown is not None:
        yield from _of_comparison(page, shown)
    # The headline is of the worst gate.
    beside = loud if shown is None and not (worst and worst.worst.fails) else loud[1:]
    for states, name in _OTHERS.items():
        others = [gate for gate in beside if gate.state in states]
        if others:
            more = max(0, len(others) - _MOST_NAMED)
            yield Answer(name, gates=tuple(others[:_MOST_NAMED]), more=more)
    drops = [row.card.drop for row in page.rows if row.card.drop is not None]
    if drops and not loud:
        least, most = found_drop(min(drops)), found_drop(max(drops))
        drop = least if least == most else f"{least} to {most}"
        text = f"A loss of {drop} would have failed these gates 4 times in 5."
        yield Answer("How sure", text=text)
    of_session = [finding.text for finding in session.findings if finding.fails]
    # A gate that fails has an exit code of its own.
    if not any(gate.state in FAILING for gate in loud):
        of_session = [*session.end.besides_gates, *of_session]
    yield from (Answer("Session", text=text) for text in of_session)
    yield from (Answer("To know", text=note.text) for note in session.findings if note.warns)


def _of_comparison(page: Page, row: Comparison) -> Iterator[Answer]:
    """Yield what a reader asks of the worst comparison."""
    card, effect, drift = row.card, row.card.effect, row.drift
    if effect is not None:
        # What the headline does not say of a gate that was compared.
        sentence = f"{card.sentence[:1].upper()}{card.sentence[1:]}. " * bool(regression(drift))
        yield Answer(
            "How much",
            f"A loss of {effect_text(effect)} {effect.unit}.",
            f"{sentence}In brackets, its {percentage(effect.found.level)} interval.",
        )
    since = [f"{drift.sentence}."] if drift else []
    since += _before(page.followed.get(row.name))
    why, advice = reasons_of(row)
    if since:
        yield Answer("Since when", text=" ".join(since))
    if why:
        strong, stop, rest = why[0].partition(". ")
        yield Answer("Why", f"{strong}{stop.strip()}", rest)
    if advice:
        yield Answer("What to do", text=advice[0])


def _before(followed: Followed | None) -> Iterator[str]:
    """Yield what the last session before of the same design found."""
    earlier = followed.points[:-1] if followed else ()
    for point in [point for point in earlier if not point.is_other_design][-1:]:
        trend, commit = point.found.trends[0], f", {revision(point.commit)}" * bool(point.commit)
        yield f"The session before{commit}: {trend.name} {trend.text}."
