"""Markup: texts of any origin in GitHub's Markdown, of which nothing but text is made.

GitHub looks for mentions, references and links in what Markdown has made of a comment, so that
escaping its signs is not enough.
"""

from __future__ import annotations

import re

from pytest_cpg.gates.notation import one_line

_MOST_IN_NAME, _MOST_IN_TEXT = 200, 1000
_FENCE = re.compile(r"`+")
# Behind or before what makes GitHub see a mention, a reference, an emoji or a link in plain text.
_TRIGGER = re.compile(
    r"(?<=[@#])|(?<=\bgh)(?=-\d)|(?<=\bwww)(?=\.)|(?=://)|(?<=:)(?=[\w+-]+:)", re.IGNORECASE
)
# Underscores within a word are plain.
_SPECIAL = re.compile(r"[\\`*\[\]<&|~]|(?<![^\W_])_|_(?![^\W_])")
# What makes a heading, a list, a quotation or a line of the line that it begins.
_BEGIN = re.compile(r"^(?:[#>=]|[+-](?=\s|$)|-(?=-)|\d+(?=[.)](?:\s|$)))")
# Of which Markdown makes nothing.
_NUMBERS = re.compile(r"[\d\s.,+/%\[\]-]*")
_ZERO_WIDTH_SPACE = "\u200b"


def number(text: str) -> str:
    """Return the text of a cell, which numbers need no signs for."""
    return text if _NUMBERS.fullmatch(text) else prose(text)


def prose(text: str) -> str:
    r"""Return a text of which Markdown and GitHub make nothing but text.

    >>> prose("*a* test_b [c]")
    '\\*a\\* test_b \\[c\\]'
    """
    shown = _TRIGGER.sub(_ZERO_WIDTH_SPACE, one_line(text, _MOST_IN_TEXT))
    # Mathematics is looked for before Markdown is read.
    escaped = _SPECIAL.sub(r"\\\g<0>", shown).replace("$", "&#36;")
    return _BEGIN.sub(_unbegun, escaped)


def code(text: str, most: int = _MOST_IN_NAME) -> str:
    r"""Return a name as code, between more backticks than it has in a row itself.

    In a table a bar has to be escaped even there, and outside of one must not be: `cell`.

    >>> print(code("test_a[x]"), code("a`b"))
    `test_a[x]` `` a`b ``
    """
    shown = one_line(text, most)
    longest = max(map(len, _FENCE.findall(shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " * (longest > 0 or not shown)
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell(text: str) -> str:
    """Return a name as code in a cell of a table."""
    # Before a bar a backslash of the name's own would end the cell.
    return code(text).replace("\\|", "\\ |").replace("|", "\\|")


def plain_html(text: str, most: int = _MOST_IN_TEXT) -> str:
    """Return a text for a line of HTML, in which no Markdown is read."""
    shown = _TRIGGER.sub(_ZERO_WIDTH_SPACE, one_line(text, most))
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        shown = shown.replace(sign, entity)
    return shown


def is_whole(text: str) -> bool:
    """Say whether a text is shown as it is, so that it can be copied."""
    return text == one_line(text, _MOST_IN_TEXT)


def _unbegun(begin: re.Match[str]) -> str:
    return f"{begin[0]}\\" if begin[0].isdigit() else f"\\{begin[0]}"
