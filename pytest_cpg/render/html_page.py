"""HTML page: the gates of a session in one file that asks nothing of any network.

Its text comes from the template beside this module, its style and script from the two files beside
that; the page's own security policy allows these two by their digest and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from pytest_cpg.contracts import ComponentError
from pytest_cpg.gates.notation import visible
from pytest_cpg.render.figures import CELL, MARKS, PLOT_HEIGHT, PLOT_WIDTH
from pytest_cpg.render.forest import FOREST_WIDTH
from pytest_cpg.render.page_view import STATES, page_view, revision
from pytest_cpg.report.document import commit_of
from pytest_cpg.report.history import NO_HISTORY, History
from pytest_cpg.report.outcomes import besides_gates
from pytest_cpg.report.shown import ShownOf

try:
    import jinja2
    from markupsafe import Markup
except ModuleNotFoundError as error:
    if error.name not in ("jinja2", "markupsafe"):
        raise
    raise ComponentError('the HTML page needs jinja2: pip install "pytest-cpg[html]"') from error


def html_page(
    document: Mapping[str, Any],
    *,
    shown_of: ShownOf,
    history: History = NO_HISTORY,
    root: str = "",
) -> str:
    """Return the page of a session, with the history of its gates.

    The same arguments give the same text. Raises ValueError when a result was written by a newer
    pytest-cpg.

    Parameters
    ----------
    document : mapping
        The session's JSON document.
    history : History
        Its last session is this one.
    root : str
        The way from the page's folder to the root directory, for links to films: empty or with a
        slash at its end.
    """
    shown = page_view(document, shown_of, history)
    counts = Counter(gate.state for gate in shown.gates)
    style, script = _source("html_page.css"), _source("html_page.js")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.from_string(_source("html_page.html.jinja")).render(
        document=document,
        root=root,
        provenance=document["provenance"],
        revision=revision(commit_of(document)),
        revision_of=revision,
        page=shown,
        rows=[one for gate in shown.gates for one in gate.comparisons],
        overall=document["session"]["outcome"],
        besides_gates=besides_gates(document["session"]),
        states=STATES,
        counts=[(state, counts[state]) for state in STATES if counts[state]],
        cell=CELL,
        marks=MARKS,
        forest_width=FOREST_WIDTH,
        plot_width=PLOT_WIDTH,
        plot_height=PLOT_HEIGHT,
        style=Markup(style),  # noqa: S704 - our own file, and it holds no markup
        style_digest=_digest(style),
        script=Markup(script),  # noqa: S704 - the same
        script_digest=_digest(script),
    )
    return visible(text.lstrip())


def _source(name: str) -> str:
    return (files("pytest_cpg.render") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return what a security policy calls this text by."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
