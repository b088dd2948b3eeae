"""Renderers of documents that hold gates of the built-in kinds alone."""

from functools import partial

from pytest_cpg.gates import GATES
from pytest_cpg.render import github
from pytest_cpg.render import html_page as page
from pytest_cpg.render import markdown as comment
from pytest_cpg.report.history import History
from pytest_cpg.report.history_file import session_of
from pytest_cpg.report.shown import shown_of as shown_of_any

shown_of = partial(shown_of_any, kinds=GATES)
annotations = partial(github.annotations, shown_of=shown_of)
step_summary = partial(github.step_summary, shown_of=shown_of)


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
