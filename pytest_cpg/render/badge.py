"""Badge: how a session's gates ended, as a small SVG for a README."""

from __future__ import annotations

from html import escape

from pytest_cpg.report.session import FAILING, Session

_LABEL = "planning gates"
# Of white letters on each, the contrast is at least 4.5.
_COLOURS = {"pass": "#1a7f37", "fail": "#b35900", "open": "#6e7781"}
# Pixels: of a letter on average, of the space around a text, and of the badge.
_LETTER, _SPACE, _HEIGHT = 6.0, 6, 20


def badge(session: Session) -> str:
    """Return an SVG that says how many gates pass; the same session gives the same text."""
    text, colour = _message(session)
    left, right = (round(_LETTER * len(words)) + 2 * _SPACE for words in (_LABEL, text))
    parts = (
        f'<rect x="{x}" width="{wide}" height="{_HEIGHT}" fill="{fill}"/>'
        f'<text x="{x + wide / 2:g}" y="14" textLength="{wide - 2 * _SPACE}">{escape(words)}</text>'
        for x, wide, fill, words in ((0, left, "#424a53", _LABEL), (left, right, colour, text))
    )
    name = escape(f"{_LABEL}: {text}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" '
        f'role="img" aria-label="{name}"><title>{name}</title>'
        f'<clipPath id="round"><rect width="{left + right}" height="{_HEIGHT}" rx="3"/></clipPath>'
        f'<g clip-path="url(#round)" fill="#fff" text-anchor="middle" font-size="11" '
        f'font-family="Verdana,DejaVu Sans,sans-serif">{"".join(parts)}</g></svg>'
    )


def _message(session: Session) -> tuple[str, str]:
    """Return what the badge says, and its colour."""
    states, count = session.states, len(session.gates)
    checks = session.checks - {""}
    if checks:
        return f"no verdict: {' and '.join(sorted(checks))}", _COLOURS["open"]
    failing = sum(states[state] for state in FAILING)
    if failing:
        return f"{failing} of {count} fail", _COLOURS["fail"]
    if session.outcome != "passed":
        return session.outcome, _COLOURS["fail" if session.outcome == "failed" else "open"]
    unsure = states["inconclusive"]
    if unsure:
        return f"{unsure} of {count} inconclusive", _COLOURS["open"]
    passed = states["passed"]
    return f"{passed} of {count} pass", _COLOURS["pass" if passed == count else "open"]
