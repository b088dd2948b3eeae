"""HTML page: the gates of a session in one file that asks nothing of any network.

Its text comes from the template beside this module, its style and script from the two files beside
that; the page's own security policy allows these two by their digest and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from pytest_cpg.contracts import ComponentError
from pytest_cpg.gates.drift import revision
from pytest_cpg.gates.notation import duration, visible
from pytest_cpg.render.axis import FOREST_WIDTH, SPAN_WIDTH, bound_bar
from pytest_cpg.render.figures import LEFT, SPARK_HEIGHT, SPARK_WIDTH
from pytest_cpg.render.film_strip import FRAME_HEIGHT, FRAME_WIDTH
from pytest_cpg.render.first_screen import first_screen
from pytest_cpg.render.page import (
    Page,
    commands_of,
    detail_of,
    reasons_of,
    tone_of,
)
from pytest_cpg.render.words import effect_text, judged, verdict_of
from pytest_cpg.report.session import WORDS, Session, gist

try:
    import jinja2
    from markupsafe import Markup
except ModuleNotFoundError as error:
    if error.name not in ("jinja2", "markupsafe"):
        raise
    raise ComponentError('the HTML page needs jinja2: pip install "pytest-cpg[html]"') from error

# Nobody reads more of a list, and each line costs the page some bytes.
_MOST_LINES = 40


def report(session: Session, *, root: str, **_: str) -> str:
    """Return the page as a file has it."""
    return html_page(session, root=root)


def html_page(session: Session, *, root: str = "") -> str:
    """Return the page of a session, with the history of its gates.

    The same arguments give the same text.

    Parameters
    ----------
    root : str
        The way from the page's folder to the root directory, for links to films: empty or with a
        slash at its end.
    """
    text = _template().render(_shown(Page(session), root=root))
    return visible(text.lstrip())


def comparison_page(session: Session) -> str:
    """Return a session's only comparison as it stands on a page, for a notebook."""
    macros: Any = _template().make_module(_shown(Page(session)))
    (gate,) = session.gates
    (comparison,) = gate.comparisons
    part = macros.comparison(comparison, gate)
    label = verdict_of(comparison.judgement.ruling)
    body = f"{macros.signs()}<p>{macros.chip(tone_of(comparison), label)}</p>{part}"
    return visible(
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{escape(label)}</title>'
        f"<style>{_source('html_page.css')}</style><main>{body}</main></html>"
    )


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_source("html_page.html.jinja"))


def _shown(page: Page, *, root: str = "") -> dict[str, Any]:
    session = page.session
    style, script, has = _source("html_page.css"), _source("html_page.js"), _Has.of(page)
    return {
        "session": session,
        "root": root,
        # A report tells no time; the history does.
        "date": "".join(one.date for one in session.history.sessions[-1:])[:16].replace("T", " "),
        "duration": duration,
        "revision_of": revision,
        "page": page,
        "first": first_screen(page),
        "has": has,
        # Verdict, gate and loss stand in every table.
        "columns": 3 + has.drift + has.history + has.cause,
        "words": WORDS,
        "gist": gist,
        "tone_of": tone_of,
        "verdict_of": verdict_of,
        "reasons_of": reasons_of,
        "commands_of": commands_of,
        "detail_of": detail_of,
        "judged": judged,
        "effect_text": effect_text,
        "bound_bar": bound_bar,
        "left": LEFT,
        "span_width": SPAN_WIDTH,
        "frame_width": FRAME_WIDTH,
        "frame_height": FRAME_HEIGHT,
        "forest_width": FOREST_WIDTH,
        "spark_width": SPARK_WIDTH,
        "spark_height": SPARK_HEIGHT,
        "most_lines": _MOST_LINES,
        "style": Markup(style),  # noqa: S704 - our own file, and it holds no markup
        "style_digest": _digest(style),
        "script": Markup(script),  # noqa: S704 - the same
        "script_digest": _digest(script),
    }


class _Has(NamedTuple):
    """Which columns a table of gates has, and what its heading explains."""

    drift: bool
    history: bool
    cause: bool
    shares: bool
    own: bool
    margin: bool

    @classmethod
    def of(cls, page: Page) -> _Has:
        rows = page.rows
        effects = [row.card.effect for row in rows if row.card.effect is not None]
        return cls(
            drift=any(row.judgement.drift is not None for row in rows),
            history=bool(page.followed),
            cause=any(row.card.cause is not None for row in rows),
            shares=any(effect.is_share for effect in effects),
            own=not all(effect.is_share for effect in effects),
            margin=any(effect.margin is not None for effect in effects),
        )


def _source(name: str) -> str:
    return (files("pytest_cpg.render") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return what a security policy calls this text by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
