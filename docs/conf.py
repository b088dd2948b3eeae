"""The site: what Sphinx is told. `make docs` builds it into build/docs."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import from_code

import pytest_cpg

project = "pytest-cpg"
release = version = pytest_cpg.__version__
author = "The pytest-cpg developers"
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc"]
html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_prev_next": True, "secondary_sidebar_items": ["page-toc"]}
html_title = project
html_copy_source = False
html_show_copyright = False
# Links as hosts of repositories make them: to headings, and to files of the repository.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False
# Names of other packages: nothing is asked of a network.
nitpick_ignore_regex = [("py:.*", r"(?!pytest_cpg\.).*")]


def setup(app: Sphinx) -> None:
    """Write the pages that are made from the code before any is read."""
    app.connect("builder-inited", lambda app: from_code.write(Path(app.srcdir)))
