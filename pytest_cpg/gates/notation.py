"""Notation: how numbers, names and texts of any origin are written in every report."""

from __future__ import annotations

import math
import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pytest_cpg.stats import Interval

_NARROWEST_NAME = 13
# The longest beginning that ends where a word or a parameter begins.
_BEFORE_A_WORD = re.compile(r"^.*[\[_:/]")
# From here on four digits round to 1.
_NEARLY_ONE = 0.9999
# Nearly every sign of a report is of ASCII, and visible.
_MAY_BE_UNSEEN = re.compile(r"[^\n\t -~]")
# Controls, formats (bidirectional ones among them), lone surrogates, no characters, separators.
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"))
# Of a terminal, and what a reader copies from it; its blanks are held by a sign that no text has.
_COLUMNS = 80
_TYPED = re.compile(r"pip install \S+|git checkout -- \S+|@pytest\.mark\.\w+\([^()]*\)|-m '[^']*'")
_HELD = "\x00"
# Of an indented line, a reason why a call was of no use.
_MAY_FILL = re.compile(r"(  (?=given ))?\S")
# The log's reader skips blanks, and finds the older form, ##[, anywhere.
_COMMAND = re.compile(r"^(\s*)::", re.MULTILINE)


def percentage(level: float) -> str:
    """Return a level of coverage with as many digits as tell it from 100 %."""
    return f"{100 * level:.4g}%" if level < _NEARLY_ONE else f"{100 * level:.12g}%"


def number(value: float, metric: str = "success") -> str:
    """Return a gap in rates with two decimals, or one in returns with three digits."""
    # What is added makes a negative zero a zero.
    return f"{round(value, 2) + 0.0:.2f}" if metric == "success" else f"{value + 0.0:.3g}"


# Of a place, as many numbers as a line has room for.
_MOST_NUMBERS = 6


def place(numbers: Iterable[float]) -> str:
    """Write a place, such as a goal, as far as there is room.

    >>> place([0.51234, -1.0]), place(range(9))
    ('(0.512, -1)', '(0, 1, 2, 3, 4, 5, ... 9 numbers)')
    """
    texts = [f"{value:.3g}" for value in numbers]
    more = [f"... {len(texts)} numbers"] * (len(texts) > _MOST_NUMBERS)
    return f"({', '.join([*texts[:_MOST_NUMBERS], *more])})"


def ends(found: Interval, form: str = ".2f") -> str:
    """Return an interval as text."""
    return f"[{found.low:{form}}, {found.high:{form}}]"


def perturbation_name(name: str) -> str:
    """Return the name of a perturbation, in which a line may end between two of many.

    >>> perturbation_name("kick-0.1,delay-2")
    'kick-0.1, delay-2'
    """
    return name.replace(",", ", ")


def with_ends(found: Interval, form: str = ".2f") -> str:
    """Return an estimate with its interval as text."""
    return f"{found.estimate:{form}} {ends(found, form)}"


def found_drop(drop: float) -> str:
    """Return a drop that a gate finds, rounded up to hundredths: it may miss a smaller one.

    >>> found_drop(0.131)
    '0.14'
    """
    return f"{math.ceil(100 * drop - 1e-9) / 100:.2f}"


def duration(seconds: float | None) -> str:
    """Return a time in words; a question mark where it is not known.

    >>> [duration(seconds) for seconds in (3, 600, 20000, None)]
    ['3 s', '10 min', '5.6 h', '?']
    """
    if seconds is None:
        return "?"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.{int(seconds < 36000)}f} h"


def ranges(numbers: Iterable[int]) -> str:
    """Return increasing whole numbers with runs drawn together.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def one_line(text: str, most: int = sys.maxsize) -> str:
    """Return a text without line breaks and other signs nobody sees, cut in its middle."""
    seen = "".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text).strip()
    half = most // 2 - 1
    return seen if len(seen) <= most else f"{seen[:half]}..{seen[-half:]}"


def visible(text: str) -> str:
    r"""Return a text whose control and bidirectional signs are shown as Python writes them.

    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _MAY_BE_UNSEEN.sub(lambda found: _visible(found[0]), text)


def _visible(sign: str) -> str:
    is_shown = unicodedata.category(sign) not in _UNSEEN
    return sign if is_shown else sign.encode("unicode_escape").decode()


def for_log(text: str) -> str:
    r"""Return a visible text of which the log of a GitHub workflow obeys no line as a command.

    >>> for_log("a\n ::error::b ##[group]c")
    'a\n : :error::b ## [group]c'
    """
    return _COMMAND.sub(r"\1: :", visible(text)).replace("##[", "## [")


def wrapped(text: str) -> str:
    r"""Return a text whose lines fit into 80 columns; what is typed is not broken.

    Lines that are indented stay as they are, but for what came of a call: ``  given ...``.

    >>> wrapped("a b " * 21 + "\n    pytest test_a.py").splitlines()[1:]
    ['a b', '    pytest test_a.py']
    """
    return "\n".join(
        _filled(line) if len(line) > _COLUMNS and _MAY_FILL.match(line) else line
        for line in text.split("\n")
    )


def _filled(line: str) -> str:
    import textwrap

    joined = _TYPED.sub(lambda found: found[0].replace(" ", _HELD), line)
    filled = textwrap.fill(
        joined,
        _COLUMNS,
        subsequent_indent="    " * line.startswith(" "),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(_HELD, " ")


def disarmed(failure: Any) -> Any:
    """Return a failure as pytest shows it; as plain text where a terminal or log would obey it."""
    text = str(failure)
    if for_log(text) == text:
        return failure
    crash = getattr(failure, "reprcrash", None)
    return for_log(f"{crash.message}\n\n{text}" if crash else text)


def fitted_names(gates: tuple[str, ...], room: int, *, shares: bool = True) -> Names:
    """Return the names that a table shows: without the file where they are told apart so.

    None is cut. Where one does not fit, what all begin with is said once, and one that is still
    too long has a line of its own. A table that has no place to say so ``shares`` nothing.
    """
    room, shared = max(_NARROWEST_NAME, room), ""
    short: dict[str, str] = {}
    tests = Counter(gate.partition("[")[0] for gate in gates if "[" in gate)
    test, count = tests.most_common(1)[0] if tests else ("", 0)
    begin = f"{test}["
    if shares and count > 1 and 2 * count >= len(gates):
        # Most are the parameters of one test, in brackets.
        short = {
            gate: one_line(gate if gate.startswith(begin) else _without_file(gate)).removeprefix(
                one_line(test)
            )
            for gate in gates
        }
        shared = f"{one_line(begin)}...]"
    if not shared or len(set(short.values())) < len(gates):
        short = {gate: one_line(_without_file(gate)) for gate in gates}
        shared = ""
        if len(set(short.values())) < len(gates):
            short = {gate: one_line(gate) for gate in gates}
        if shares and max(map(len, short.values()), default=0) > room and len(gates) > 1:
            alike = os.path.commonprefix([*short.values()])  # noqa: RUF071  # of any texts
            begun = _BEFORE_A_WORD.match(alike)
            begin = begun[0] if begun else ""
            end = "]" * begin.endswith("[")
            shared = f"{begin}...{end}" if begin else ""
            short = {gate: _short(name, begin, end) for gate, name in short.items()}
    width = max(len(name) for name in ("gate", *short.values()) if len(name) <= room)
    return Names(of=short, shared=shared, width=width)


def _short(name: str, begin: str, end: str) -> str:
    """Return a name without what all begin with, and what that begins ends with."""
    rest, number, which = name[len(begin) :].partition(f"{end} #") if end else (name, "", "")
    if not end:
        rest = name[len(begin) :]
    return (rest.removesuffix(end) + f" #{which}" * bool(number)) or name


class Names(NamedTuple):
    """What a table calls its gates, by id.

    All names begin with what is ``shared``, and leave it out; those longer than ``width`` do not
    fit.
    """

    of: Mapping[str, str]
    shared: str
    width: int

    def rows(self, lead: str, gate: str, rest: str) -> list[str]:
        """Return a gate's name with what stands before and behind it, in one line or two."""
        name = self.of[gate]
        if len(name) <= self.width:
            return [f"{lead}{name:{self.width}s} {rest}"]
        return [f"{lead}{name}", f"{' ' * (len(lead) + self.width)} {rest}"]


def _without_file(gate: str) -> str:
    """Return the last part of a test's name; its parameters may hold what divides the others."""
    name, bracket, parameters = gate.partition("[")
    return f"{name.rpartition('::')[2]}{bracket}{parameters}" or gate
