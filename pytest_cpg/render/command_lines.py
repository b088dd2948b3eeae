"""Command lines: what is typed, broken between two arguments alone, so that it can be pasted."""

from __future__ import annotations

import shlex

_DEEPER = "    "


def command_lines(text: str, *, lead: str, width: int) -> list[str]:
    r"""Return a command behind ``lead``, in as many lines as it takes.

    What no shell can read is left as it is.

    >>> command_lines("pytest 'a b' --cpg-seed=1", lead="  Rerun  ", width=24)
    ["  Rerun  pytest 'a b' \\", '             --cpg-seed=1']
    """
    try:
        first, *words = map(shlex.quote, shlex.split(text))
    except ValueError:
        return [f"{lead}{text}"]
    lines = [f"{lead}{first}"]
    for number, word in enumerate(words, 1):
        # Behind every word but the last there has to be room for the sign of a break.
        room = width - (2 if number < len(words) else 0)
        if len(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(f"{' ' * len(lead)}{_DEEPER}{word}")
    return lines
