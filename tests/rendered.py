"""Renderers of documents that hold gates of the built-in kinds alone."""

from functools import partial

from pytest_cpg.gates import GATES
from pytest_cpg.render import github
from pytest_cpg.render import html_page as page
from pytest_cpg.render import markdown as comment
from pytest_cpg.report.document import commit_of, judgement_of
from pytest_cpg.report.history import Found, History, Session

shown_of = partial(judgement_of, kinds=GATES)
annotations = partial(github.annotations, shown_of=shown_of)
step_summary = partial(github.step_summary, shown_of=shown_of)


def session_of(document, shown_of):
    """Return a report as a session of a history, of whatever kinds of gate."""
    comparisons = (one for gate in document["gates"] for one in gate["comparisons"])
    shown = {one["name"]: shown_of(one) for one in comparisons}
    judged = {
        name: Found.of(one.ruling, one.card) for name, one in shown.items() if not one.ruling.check
    }
    failed = {
        gate["id"]: Found.nothing(gate["outcome"])
        for gate in document["gates"]
        if gate["outcome"] in ("failed", "error")
        and not (gate["comparisons"] or gate["measurements"])
    }
    return Session(commit=commit_of(document), date="", comparisons=judged | failed)


def html_page(documents, *, shown_of=shown_of):
    """Return the page of the last of these sessions, with all of them as its history."""
    found = {}

    def once(comparison):
        """Return what is shown of a comparison, judged once as a session does it."""
        if id(comparison) not in found:
            found[id(comparison)] = shown_of(comparison)
        return found[id(comparison)]

    history = History(tuple(session_of(one, once) for one in documents))
    return page.html_page(documents[-1], shown_of=once, history=history)


markdown = partial(comment.markdown, shown_of=shown_of)
