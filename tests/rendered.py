"""Renderers of documents that hold gates of the built-in kinds alone."""

from functools import partial

from pytest_cpg.gates import GATES
from pytest_cpg.render import github
from pytest_cpg.render import html_page as page
from pytest_cpg.render import markdown as comment
from pytest_cpg.report.shown import shown_of as shown_of_any

shown_of = partial(shown_of_any, kinds=GATES)
annotations = partial(github.annotations, shown_of=shown_of)
step_summary = partial(github.step_summary, shown_of=shown_of)
html_page = partial(page.html_page, shown_of=shown_of)
markdown = partial(comment.markdown, shown_of=shown_of)
rows_of = partial(comment.rows_of, shown_of=shown_of)
