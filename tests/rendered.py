"""Renderers of reports that hold gates of the built-in kinds alone."""

from dataclasses import replace

from pytest_cpg.gates import GATES
from pytest_cpg.render import github
from pytest_cpg.render import html_page as page
from pytest_cpg.render import markdown as comment
from pytest_cpg.report.document import found_in, session_in
from pytest_cpg.report.history import History


def session_of(report, kinds=GATES):
    """Return the session of a report, which may be one already."""
    return session_in(report, kinds) if isinstance(report, dict) else report


def past(session):
    """Return a session as one of a history."""
    session = session_of(session)
    return found_in(session, commit=session.commit, date="")


def html_page(reports, *, kinds=GATES):
    """Return the page of the last of these sessions, with all of them as its history."""
    sessions = [session_of(one, kinds) for one in reports]
    history = History(tuple(map(past, sessions)))
    return page.report(replace(sessions[-1], history=history))


def markdown(report, **options):
    return comment.markdown(session_of(report), **options)


def annotations(report, *places, **options):
    return github.annotations(session_of(report), *places, **options)


def step_summary(report, **options):
    return github.step_summary(session_of(report), **options)
