"""Diagnosis: why a result is as it is, as lines of a terminal."""

from __future__ import annotations

import textwrap

from pytest_cpg.gates.card import Cause

_WIDTH = 80


def cause_lines(cause: Cause) -> list[str]:
    """Return at most 12 lines of at most 80 columns, unless two causes, or readings, are named."""
    lines = [f"  {cause.heading} ({cause.source})"]
    for name, numbers, text in cause.measures:
        if name in cause.main:
            told = f"{numbers:22s} {text}" if numbers else text
            lines += _wrapped(told, f"    {name:11s}", " " * 15)
    return [*lines, *_wrapped(cause.text, "    ", "    ")]


def _wrapped(text: str, lead: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False
    )
