"""Page view: what a page shows of each gate of a session, worked out before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_cpg.render.axis import Axis
from pytest_cpg.render.forest import effect_axis
from pytest_cpg.render.gate_view import (
    ComparisonView,
    GateView,
    Tone,
    folded,
    gate_view,
)
from pytest_cpg.report.session import Session

# So many gates that do not pass are open; of more the first few.
_MOST_OPEN, _FEW_OPEN = 6, 3
# From so many gates on rows are dense, gates with parameters become a matrix, and what passes is a
# row alone.
MANY = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """All gates of one test that has parameters: how many of each tone, and the gates."""

    name: str
    counts: tuple[tuple[Tone, int], ...]
    gates: tuple[GateView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """All gates of a session, the worst first.

    Attributes
    ----------
    axis : Axis
        Of all effects that are shares.
    check : str
        What was run in place of gates, such as a smoke test; empty where models were judged.
    matrix : tuple of MatrixRow
    shared : tuple of (str, str)
        Facts of many gates that are those of each, which none repeats.
    """

    gates: tuple[GateView, ...]
    axis: Axis
    check: str
    matrix: tuple[MatrixRow, ...]
    shared: tuple[tuple[str, str], ...]

    @property
    def rows(self) -> Iterator[ComparisonView]:
        """Every comparison."""
        return (one for gate in self.gates for one in gate.comparisons)

    @property
    def is_dense(self) -> bool:
        """Whether its rows are many."""
        return len(self.gates) >= MANY


def page_view(session: Session) -> PageView:
    """Return what is shown of a session."""
    gates = session.worst_first
    found = [one for gate in gates for one in gate.entry.judgements]
    axis = effect_axis(one.card.effect for one in found if one.card.effect is not None)
    names = [one.name for gate in gates for one in gate.comparisons]
    titles = _titles([*names, *(gate.id for gate in gates)])
    views = [gate_view(gate, titles, axis, session.history) for gate in gates]
    loud = [view for view in views if not view.is_quiet]
    shown = len(loud) if len(loud) <= _MOST_OPEN else _FEW_OPEN
    is_many = len(views) >= MANY
    shared = _shared_facts(views) if is_many else ()
    # All loud ones stand first.
    views = [
        replace(view, is_open=True)
        if place < shown and not view.is_quiet
        else folded(view, is_one_of_many=is_many, said=shared)
        for place, view in enumerate(views)
    ]
    return PageView(
        gates=tuple(views),
        axis=axis,
        check=next((one.ruling.check for one in found if one.ruling.check), ""),
        matrix=tuple(_matrix(views)) if is_many else (),
        shared=shared,
    )


def _shared_facts(views: Sequence[GateView]) -> tuple[tuple[str, str], ...]:
    """Return the facts that all comparisons have, in their order."""
    facts = [one.facts for view in views for one in view.comparisons]
    every = set.intersection(*map(set, facts)) if facts else set()
    return tuple(one for one in facts[0] if one in every) if facts else ()


def _titles(names: Sequence[str]) -> dict[str, str]:
    """Return the shortest name of each id that no other has.

    Its parameters, its test's name with them, or the id from its file on.
    """
    titles: dict[str, str] = {}
    left = list(dict.fromkeys(names))
    for shorten in (_parameters, _name):
        short = {name: shorten(name) for name in left}
        taken = Counter(short.values())
        titles |= {name: title for name, title in short.items() if taken[title] == 1}
        left = [name for name in left if name not in titles]
    return titles | {name: name.rpartition("/")[2] for name in left}


def _parameters(name: str) -> str:
    """Return the parameters of an id, and which comparison it is; without any the test's name."""
    own, bracket, number = name.partition("[")[2].rpartition("]")
    return f"{own}{number}" if bracket else _name(name)


def _name(name: str) -> str:
    test, bracket, parameters = name.partition("[")
    title = test.rpartition("::")[2].removeprefix("test_").replace("_", " ")
    return f"{title}{bracket}{parameters}"


def _matrix(views: Sequence[GateView]) -> Iterator[MatrixRow]:
    """Yield the gates of each test with parameters, in the order of their ids' first parts."""
    tests: dict[str, list[GateView]] = {}
    for view in views:
        test, bracket, _ = view.path.partition("[")
        if bracket:
            tests.setdefault(test, []).append(view)
    for test, gates in tests.items():
        # In the order of collection, in which parameters stand beside their neighbours.
        gates.sort(key=lambda view: int(view.anchor.rpartition("-")[2]))
        counts = Counter(view.tone for view in gates)
        tones: tuple[Tone, ...] = ("bad", "blind", "unsure", "none", "good")
        yield MatrixRow(
            name=test.rpartition("/")[2],
            counts=tuple((tone, counts[tone]) for tone in tones if counts[tone]),
            gates=tuple(gates),
        )
